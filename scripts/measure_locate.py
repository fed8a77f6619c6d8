#!/usr/bin/env python3
"""Strict Acc@K, Hit@5 and MRR of `sightline locate` over a dataset of issues with gold files and functions.

    scripts/measure_locate.py DATASET.jsonl REPOSITORIES [-- locate flags]

DATASET has rows with instance_id, repo, base_commit, title, body, gold_files, gold_functions; REPOSITORIES holds a git
repository `owner+name.git` (bare or not, or a `.git.tar` of one, which is unpacked beside it into a temporary folder) for
each. Flags after `--` go to `sightline locate`. Per-instance lists are written to --out. Needs a release build.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import dataset

DEPTH = "100"


def locate(row, path, flags):
    command = [dataset.BINARY, "locate", "--repo", path, "--rev", row["base_commit"], "--issue", "-", "--json", "-k", DEPTH, *flags]
    issue = f"{row['title']}\n\n{row.get('body') or ''}"
    start = time.time()
    done = subprocess.run(command, input=issue, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"instance_id": row["instance_id"], "error": done.stderr.strip(), "files": [], "functions": [], "seconds": 0}
    answer = json.loads(done.stdout)
    functions = []
    for hit in answer["functions"]:
        name = f"{hit['path']}:{hit['function']}"
        if name not in functions:
            functions.append(name)
    return {
        "instance_id": row["instance_id"],
        "files": [hit["path"] for hit in answer["files"]],
        "functions": functions,
        "seconds": time.time() - start,
        "timings_ms": answer["timings_ms"],
        "windows": answer["index"]["embedded_windows"],
    }


def accuracy(ranked, gold, k):
    return set(gold) <= set(ranked[:k])


def reciprocal_rank(ranked, gold):
    return next((1 / rank for rank, item in enumerate(ranked, 1) if item in set(gold)), 0.0)


def report(rows, results):
    pairs = [(results[row["instance_id"]]["files"], row["gold_files"]) for row in rows if row["gold_files"]]
    share = lambda values: 100 * sum(values) / max(len(values), 1)
    files = [share([accuracy(r, g, k) for r, g in pairs]) for k in (1, 3, 5, 10)]
    hit = share([bool(set(g) & set(r[:5])) for r, g in pairs])
    mrr = sum(reciprocal_rank(r, g) for r, g in pairs) / max(len(pairs), 1)
    print(f"files      n={len(pairs)}  Acc@1/3/5/10 " + " / ".join(f"{it:.1f}" for it in files) + f"  Hit@5 {hit:.1f}  MRR {mrr:.3f}")
    pairs = [(results[row["instance_id"]]["functions"], row["gold_functions"]) for row in rows if row["gold_functions"]]
    functions = [share([accuracy(r, g, k) for r, g in pairs]) for k in (5, 10)]
    mrr = sum(reciprocal_rank(r, g) for r, g in pairs) / max(len(pairs), 1)
    print(f"functions  n={len(pairs)}  Acc@5/10 " + " / ".join(f"{it:.1f}" for it in functions) + f"  MRR {mrr:.3f}")
    seconds = sorted(it["seconds"] for it in results.values())
    failed = [it for it in results.values() if "error" in it]
    print(f"seconds    median {seconds[len(seconds) // 2]:.2f}  most {seconds[-1]:.2f}  failed {len(failed)}")
    for it in failed[:5]:
        print(f"           {it['instance_id']}: {it['error']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=pathlib.Path)
    parser.add_argument("repositories", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=1)
    arguments, flags = parser.parse_known_args()
    flags = [it for it in flags if it != "--"]
    rows = dataset.read(arguments.dataset)
    with tempfile.TemporaryDirectory() as unpacked:
        paths = {row["repo"]: dataset.repository(arguments.repositories, row["repo"], pathlib.Path(unpacked)) for row in rows}
        with concurrent.futures.ThreadPoolExecutor(arguments.workers) as pool:
            answers = pool.map(lambda row: locate(row, paths[row["repo"]], flags), rows)
            results = {answer["instance_id"]: answer for answer in answers}
    if arguments.out:
        arguments.out.write_text("".join(json.dumps(it) + "\n" for it in results.values()))
    report(rows, results)
    return 1 if any("error" in it for it in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
