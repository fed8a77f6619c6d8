#!/usr/bin/env python3
"""How many gold files and functions of data sets are among the candidates at their base commits.

    scripts/measure_candidates.py REPOSITORIES DATASET.jsonl...

"by name": a candidate of that path has exactly that name. "by span": a function of that path starts within two lines of the
gold span's start. Misses are listed. Needs a release build; `measure_locate.py` documents the inputs.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import dataset


def candidates(repository, commit):
    command = [dataset.BINARY, "candidates", repository, "--rev", commit, "--json"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {"file": set(), "name": set(), "starts": {}, "skipped": {}}
    for line in map(json.loads, lines):
        if line["kind"] == "file":
            found["file"].add(line["path"])
        elif line["kind"] == "function":
            found["name"].add(f"{line['path']}:{line['function']}")
            found["starts"].setdefault(line["path"], []).append(line["start_line"])
        elif line["kind"] == "skipped":
            found["skipped"][line["path"]] = line["reason"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", type=pathlib.Path)
    parser.add_argument("datasets", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    rows = [row for path in arguments.datasets for row in dataset.read(path)]
    counts = {"files": [0, 0], "functions by name": [0, 0], "functions by span": [0, 0]}
    seen = {}

    def count(what, found, label):
        counts[what][1] += 1
        counts[what][0] += found
        if not found:
            print(f"missing {what}: {label}")

    with tempfile.TemporaryDirectory() as unpacked:
        for row in rows:
            key = (row["repo"], row["base_commit"])
            if key not in seen:
                repository = dataset.repository(arguments.repositories, row["repo"], pathlib.Path(unpacked))
                seen[key] = candidates(repository, row["base_commit"])
            found, instance = seen[key], row["instance_id"]
            for path in row["gold_files"]:
                count("files", path in found["file"], f"{instance} {path} {found['skipped'].get(path, '')}")
            for name in row["gold_functions"]:
                count("functions by name", name in found["name"], f"{instance} {name}")
            for span in row.get("gold_function_spans", []):
                starts = found["starts"].get(span["path"], [])
                near = any(abs(start - span["start"]) <= 2 for start in starts)
                count("functions by span", near, f"{instance} {span['path']}:{span['start']} {span['name']}")
    for what, (found, total) in counts.items():
        print(f"{what}: {found} of {total} ({100 * found / max(total, 1):.1f}%)")


if __name__ == "__main__":
    main()
