#!/usr/bin/env python3
"""What the pictures of issues do to `sightline locate`, by mode, on the same rows.

    scripts/evidence_quality.py EVALSET --modes text,vce,perfect [--sets rendered,harmful,issue,stress] [--texts READ.jsonl] [-- locate flags]

EVALSET is a folder with issue.jsonl, issue_rendered_image.jsonl, harmful_image.jsonl, images/ and repos/. Modes:

    text, image, vce, vce+image   those of the program (a program without --mode does text only)
    perfect                       the text that was drawn into the picture, put back into the body as a fenced block
    texts                         the same with the texts of --texts, lines {"file": name of the picture, "ocr_text" or "text": ...}

Sets: rendered = issue_rendered_image; harmful = harmful_image; issue = the rows of issue.jsonl that have pictures; stress = rows of issue.jsonl,
each with the picture of a rendered row of the same repository whose gold files are all others (perfect: with that wrong text).

Prints a table for each set, wins and losses of each mode against text by row, and what misses its bar (exit 1): rendered: vce within one row of
perfect in file Acc@5 and function Acc@10, above text in file Acc@1, Acc@5 and MRR; harmful: file Hit@5 of vce at most one row under text; issue: no
figure of vce under text. --keep FILE keeps the lists, and rows that are in it are not run again. Give --data-dir after `--` to keep vectors.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import dataset
import measure_locate
from measure_locate import accuracy, reciprocal_rank

FILES = {"rendered": "issue_rendered_image.jsonl", "harmful": "harmful_image.jsonl", "issue": "issue.jsonl"}
OWN_MODES = ("text", "image", "vce", "vce+image")
MARKER = "<image>"
# Pairs in the stress set, and how many issues see the same wrong picture.
PAIRS, EACH = 150, 7
# Between an issue's id and that of the picture it is shown with.
APART = " with "


# Rows.


def rows_of(name, folder):
    if name == "stress":
        return stress(folder)
    return [row for row in dataset.read(folder / FILES[name]) if row["images"]]


def stress(folder):
    """Issues with a picture of another one, the same pairs every time."""
    issues = [row for row in dataset.read(folder / FILES["issue"]) if row["gold_files"]]
    pairs = []
    for rendered in dataset.read(folder / FILES["rendered"]):
        others = [row for row in issues if is_other(row, rendered)]
        others.sort(key=lambda row: hashlib.sha256(f"{row['instance_id']} {rendered['instance_id']}".encode()).digest())
        pairs += [mispaired(row, rendered) for row in others[:EACH]]
    return pairs[:PAIRS]


def is_other(row, rendered):
    same = row["repo"] == rendered["repo"] and row["instance_id"] != rendered["paired_with"]
    return same and not set(row["gold_files"]) & set(rendered["gold_files"])


def mispaired(row, rendered):
    return {
        **row,
        "instance_id": f"{row['instance_id']}{APART}{rendered['instance_id']}",
        "images": rendered["images"],
        "image_meta": rendered["image_meta"],
    }


def with_texts(body, texts):
    """The texts as fenced blocks where pictures stood, the rest at the end."""
    blocks = [f"```\n{text}\n```" for text in texts if text.strip()]
    if not blocks:
        return body
    pieces = re.split(re.escape(MARKER), body)
    filled = pieces[0]
    for number, piece in enumerate(pieces[1:]):
        filled += (blocks[number] if number < len(blocks) else MARKER) + piece
    return "\n\n".join([filled, *blocks[len(pieces) - 1 :]])


# Running.


def query(row, mode, folder, texts, has_modes):
    """The row as the program gets it, and the flags that go with it."""
    body = row.get("body") or ""
    if mode == "perfect":
        body = with_texts(body, [it.get("source_text") or "" for it in row["image_meta"]])
    if mode == "texts":
        body = with_texts(body, [texts[pathlib.Path(it).name] for it in row["images"]])
    flags = ["--mode", mode if mode in OWN_MODES else "text"] if has_modes else []
    if mode in OWN_MODES[1:]:
        flags += [word for it in row["images"] for word in ("--image", folder / it)]
    return {**row, "body": body}, flags


def knows_modes():
    done = subprocess.run([dataset.BINARY, "locate", "--help"], capture_output=True, text=True, check=True)
    return re.search(r"--mode\b", done.stdout) is not None


class Runner:
    """Runs rows once and keeps their lists."""

    def __init__(self, arguments, flags, unpacked):
        self.folder, self.flags, self.unpacked = arguments.evalset, flags, unpacked
        self.texts = read_texts(arguments.texts)
        self.has_modes = knows_modes()
        self.kept_file = arguments.keep
        kept = dataset.read(self.kept_file) if self.kept_file and self.kept_file.exists() else []
        self.kept = {tuple(it["key"]): it for it in kept}
        self.workers = arguments.workers

    def all(self, name, mode, rows):
        if mode in OWN_MODES[1:] and not self.has_modes:
            raise SystemExit(f"{dataset.BINARY} has no --mode: mode {mode} can't be measured")
        for row in rows:
            dataset.repository(self.folder / "repos", row["repo"], self.unpacked)
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(lambda row: self.one(name, mode, row), rows))

    def one(self, name, mode, row):
        asked_for = row["instance_id"].split(APART)[0] if mode == "text" else row["instance_id"]
        key = (name, mode, asked_for, " ".join(map(str, self.flags)))
        if key in self.kept:
            return self.kept[key]
        asked, flags = query(row, mode, self.folder, self.texts, self.has_modes)
        path = dataset.repository(self.folder / "repos", row["repo"], self.unpacked)
        answer = {"key": key, **measure_locate.locate(asked, path, [*flags, *self.flags])}
        if self.kept_file and "error" not in answer:
            with self.kept_file.open("a") as out:
                out.write(json.dumps(answer) + "\n")
        return answer


def read_texts(path):
    lines = dataset.read(path) if path else []
    return {pathlib.Path(it["file"]).name: it.get("ocr_text") or it.get("text") or "" for it in lines}


# Figures. Counts of rows, so that bars can be said in rows; MRR is a mean.


def figures(rows, answers):
    files = [(answer["files"], row["gold_files"]) for row, answer in zip(rows, answers, strict=True) if row["gold_files"]]
    functions = [(answer["functions"], row["gold_functions"]) for row, answer in zip(rows, answers, strict=True) if row["gold_functions"]]
    count = {f"file Acc@{k}": sum(accuracy(ranked, gold, k) for ranked, gold in files) for k in (1, 3, 5)}
    count |= {f"function Acc@{k}": sum(accuracy(ranked, gold, k) for ranked, gold in functions) for k in (5, 10)}
    count["file Hit@5"] = sum(bool(set(gold) & set(ranked[:5])) for ranked, gold in files)
    count["file MRR"] = sum(reciprocal_rank(ranked, gold) for ranked, gold in files) / max(len(files), 1)
    return count, len(files), len(functions)


def cell(name, value, files, functions):
    if name == "file MRR":
        return f"{value:.3f}"
    of = functions if name.startswith("function") else files
    return f"{100 * value / max(of, 1):.1f} ({value}/{of})"


def table(name, rows, results):
    print(f"\n### {name}: {len(rows)} rows\n")
    counts = {}
    for mode, answers in results.items():
        count, files, functions = figures(rows, answers)
        if not counts:
            print("| mode | " + " | ".join(count) + " | failed |\n|" + "---|" * (len(count) + 2))
        counts[mode] = count
        failed = sum("error" in it for it in answers)
        print(f"| {mode} | " + " | ".join(cell(it, value, files, functions) for it, value in count.items()) + f" | {failed} |")
    for mode, answers in results.items():
        for answer in [it for it in answers if "error" in it][:3]:
            print(f"\n{mode}: {answer['instance_id']}: {answer['error']}")
    return counts


def compare(rows, results, names):
    """Wins and losses against text by the rank of the first gold file, then the rows where file Hit@5 changed."""
    for mode in [it for it in results if it != "text"] if "text" in results else []:
        ranks = [[first_rank(answer["files"], row["gold_files"]) for row, answer in zip(rows, results[it], strict=True)] for it in ("text", mode)]
        pairs = list(zip(*ranks, strict=True))
        better, worse = sum(b < a for a, b in pairs), sum(b > a for a, b in pairs)
        into, out = sum(b <= 5 < a for a, b in pairs), sum(a <= 5 < b for a, b in pairs)
        print(f"\n{mode} against text, rank of the first gold file: {better} better, {worse} worse; into the first five {into}, out of them {out}")
        for row, (before, after) in zip(rows, pairs, strict=True) if names else []:
            if before != after:
                print(f"  {row['instance_id']}: {before} -> {after}")


def first_rank(ranked, gold):
    return next((rank for rank, item in enumerate(ranked, 1) if item in set(gold)), len(ranked) + 1)


def bars(name, counts):
    """The bars that are missed."""
    vce, text, perfect = counts.get("vce"), counts.get("text"), counts.get("perfect")
    missed = []
    if name == "rendered" and vce and perfect:
        missed += [f"{it} more than one row from perfect" for it in ("file Acc@5", "function Acc@10") if vce[it] < perfect[it] - 1]
    if name == "rendered" and vce and text:
        missed += [f"{it} not above text" for it in ("file Acc@1", "file Acc@5", "file MRR") if vce[it] <= text[it]]
    if name == "harmful" and vce and text and vce["file Hit@5"] < text["file Hit@5"] - 1:
        missed.append("file Hit@5 more than one row under text")
    if name == "issue" and vce and text:
        missed += [f"{it} under text" for it in vce if vce[it] < text[it]]
    return [f"{name}: vce: {it}" for it in missed]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evalset", type=pathlib.Path)
    parser.add_argument("--modes", default="text,vce,perfect")
    parser.add_argument("--sets", default="rendered,harmful,issue")
    parser.add_argument("--texts", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--binary", type=pathlib.Path, help="default: the release build")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rows", action="store_true", help="name the rows whose ranks change")
    arguments, flags = parser.parse_known_args()
    dataset.BINARY = arguments.binary or dataset.BINARY
    missed = []
    with tempfile.TemporaryDirectory() as unpacked:
        runner = Runner(arguments, [it for it in flags if it != "--"], pathlib.Path(unpacked))
        for name in arguments.sets.split(","):
            rows = rows_of(name, arguments.evalset)
            modes = [it for it in arguments.modes.split(",") if it != "perfect" or any(m.get("source_text") for row in rows for m in row["image_meta"])]
            results = {mode: runner.all(name, mode, rows) for mode in modes}
            counts = table(name, rows, results)
            compare(rows, results, arguments.rows)
            missed += bars(name, counts)
            missed += [f"{name}: {mode}: a row failed" for mode, answers in results.items() if any("error" in it for it in answers)]
    print("\n" + ("\n".join(f"MISSED {it}" for it in missed) or "no bar missed"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
