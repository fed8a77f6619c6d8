#!/usr/bin/env python3
"""How well and at what cost a program reads screenshots, beside RapidOCR.

    pip install rapidocr onnxruntime rapidfuzz
    scripts/make_screenshots.py SHOTS
    scripts/ocr_check.py SHOTS [--cost] [--hard] [-- target/release/sightline evidence --json]

The command after `--` gets names of pictures and prints a JSON object for each, in that order, one a line or in an array, bare or in `evidence`, with
its text in `ocr_text` or `text`. RapidOCR has its default models and settings, but for the classifier of upside-down lines, which turns many upright lines of
code and logs over (--turned measures that too).

Recall: the share of the words of the truth (between white space, case counts, a word that stands twice counts twice) that are in what was read.
Similarity: 1 - Levenshtein / length of the longer text, white space as one space. Lines: the same without regard to the order, the best match of each
line of the truth anywhere in what was read, by length. An editor's line numbers may stand before each line, all first, or be left out. Exits 1
if the command's averages over the main kinds are under the bar.

--cost: CPU seconds of a 1024x768 screenshot. Each program runs over one picture and over that and several more, by turns; the difference has no
start and no loading in it. The median of the rounds counts, and their ratio.
--hard: the pictures of hard.jsonl one by one: no crash, memory bounded, an error that names the file, text that is there.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

RECALL, SIMILARITY = 0.95, 0.98
MAIN = ("terminal", "editor", "dialog", "console", "log")
# A panic of a Rust program.
PANIC = 101
# Seconds that one hard picture may take.
PATIENCE = 300


# Running a reader.


@dataclasses.dataclass
class Run:
    code: int
    output: str
    errors: str
    cpu: float
    wall: float
    memory_mb: float


def run(command, threads, timeout=3600):
    """Runs a reader with caches of its own, so that no run has what another one read."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        environment = {**os.environ, "XDG_DATA_HOME": scratch, "XDG_CACHE_HOME": scratch}
        environment |= {name: str(threads) for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "RTEN_NUM_THREADS", "OCR_CHECK_THREADS")}
        start = time.monotonic()
        child = subprocess.Popen([str(it) for it in command], stdout=out, stderr=err, env=environment)
        code, usage = wait(child, start + timeout)
        out.seek(0), err.seek(0)
        wall = time.monotonic() - start
        return Run(code, out.read(), err.read(), usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def wait(child, deadline):
    while True:
        done, status, usage = os.wait4(child.pid, os.WNOHANG)
        if done:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, usage
        if time.monotonic() > deadline:
            child.kill()
        time.sleep(0.02)


def objects(output):
    """What was read: JSON objects, one a line or in one array."""
    try:
        found = json.loads(output)
        found = found.get("evidence", [found]) if isinstance(found, dict) else found
        return found if isinstance(found, list) else [found]
    except json.JSONDecodeError:
        return [json.loads(line) for line in output.splitlines() if line.strip()]


def text_of(answer):
    return answer.get("ocr_text") or answer.get("text") or ""


def read(command, pictures, threads):
    """The texts of pictures."""
    done = run([*command, *pictures], threads)
    answers = objects(done.output) if done.code == 0 else []
    if len(answers) != len(pictures):
        raise SystemExit(f"{command[0]}: exit code {done.code}, {len(answers)} of {len(pictures)} pictures read\n{done.errors[-2000:]}")
    return [text_of(it) for it in answers]


def rapidocr_child(pictures):
    """What `run` starts to measure RapidOCR."""
    from rapidocr import RapidOCR

    threads = int(os.environ["OCR_CHECK_THREADS"])
    params = {"EngineConfig.onnxruntime.intra_op_num_threads": threads, "Global.log_level": "error", "Global.use_cls": "--turned" in pictures}
    pictures = [it for it in pictures if it != "--turned"]
    engine = RapidOCR(params=params)
    for picture in pictures:
        print(json.dumps({"file": picture, "text": "\n".join(engine(picture).txts or ())}))


# Accuracy.


def readings(row):
    """The orders in which a reader may give the text."""
    lines, gutter = row["lines"], row.get("gutter")
    if gutter is None:
        return [lines]
    return [[f"{number} {line}" for number, line in zip(gutter, lines, strict=True)], lines, gutter + lines]


def flat(lines):
    return " ".join(" ".join(lines).split())


def missed(truth, text):
    return collections.Counter(truth.split()) - collections.Counter(text.split())


def recall(truth, text):
    words = len(truth.split())
    return 1 - sum(missed(truth, text).values()) / words if words else 1.0


def line_similarity(lines, text):
    """How well each line is found anywhere, by its length."""
    from rapidfuzz import fuzz

    pairs = [(len(line), fuzz.partial_ratio(line, text) / 100) for line in map(flat, ([it] for it in lines)) if line]
    return sum(length * score for length, score in pairs) / max(sum(length for length, _ in pairs), 1)


def score(row, text):
    """Recall, similarity, similarity of lines, and the words that were not read, by the order that fits best."""
    from rapidfuzz.distance import Levenshtein

    shown = flat([text])
    truth = max(map(flat, readings(row)), key=lambda it: Levenshtein.normalized_similarity(it, shown))
    return recall(truth, shown), Levenshtein.normalized_similarity(truth, shown), line_similarity(row["lines"], shown), missed(truth, shown)


def mean(values):
    return statistics.fmean(values) if values else float("nan")


def table(rows, scores):
    """A line for each kind and for each side of the main ones; gives the averages of the main ones."""
    groups = [(kind, lambda it, kind=kind: it["kind"] == kind) for kind in dict.fromkeys(it["kind"] for it in rows)]
    for field in ("theme", "format", "lcd"):
        values = sorted({str(it[field]) for it in rows if it["kind"] in MAIN})
        groups += [(f"main, {field} {value}", lambda it, f=field, v=value: it["kind"] in MAIN and str(it[f]) == v) for value in values]
    groups.append(("main, all", lambda it: it["kind"] in MAIN))
    readers = list(scores)
    print("| pictures | n | " + " | ".join(f"{name}: recall | similarity | lines" for name in readers) + " |")
    print("|---|---|" + "---|---|---|" * len(readers))
    means = {}
    for label, belongs in groups:
        picked = [it for it, row in enumerate(rows) if belongs(row)]
        means = {name: [mean([scores[name][it][part] for it in picked]) for part in range(3)] for name in readers}
        if picked:
            print(f"| {label} | {len(picked)} | " + " | ".join(" | ".join(f"{value:.3f}" for value in means[name]) for name in readers) + " |")
    return means


def show_missed(rows, texts, scores, count):
    """The words that were missed most often, with the most similar word that was read."""
    from rapidfuzz import process

    pairs = collections.Counter()
    for row, text, (_, _, _, words) in zip(rows, texts, scores, strict=True):
        if row["kind"] in MAIN:
            for word, times in words.items():
                near = process.extractOne(word, set(text.split()))
                pairs[word, near[0] if near else ""] += times
    print("\nmissed words (times, word, nearest word read):")
    for (word, near), times in pairs.most_common(count):
        print(f"  {times:3}  {word}  ->  {near}")


def accuracy(readers, folder, rows, threads, wrong):
    pictures = [folder / row["file"] for row in rows]
    found = {name: read(command, pictures, threads) for name, command in readers.items()}
    scores = {name: [score(row, text) for row, text in zip(rows, texts, strict=True)] for name, texts in found.items()}
    means = table(rows, scores)
    for name in readers if wrong else []:
        print(f"\n{name}", end="")
        show_missed(rows, found[name], scores[name], wrong)
    return means


# Cost.


def cost(readers, folder, rows, threads, rounds):
    """CPU and wall seconds of one screenshot; a light and a dark one of each kind."""
    picked = {(row["kind"], row["theme"]): folder / row["file"] for row in rows if row["kind"] in MAIN and row["format"] == "png"}
    first, *rest = picked.values()
    seconds = {name: [] for name in readers}
    for number in range(rounds):
        order = list(readers.items())
        for name, command in order if number % 2 == 0 else order[::-1]:
            one, all_of_them = run([*command, first], threads), run([*command, first, *rest], threads)
            if one.code or all_of_them.code:
                raise SystemExit(f"{name}: {one.errors[-1000:]}{all_of_them.errors[-1000:]}")
            seconds[name].append(((all_of_them.cpu - one.cpu) / len(rest), (all_of_them.wall - one.wall) / len(rest), one.cpu, all_of_them.memory_mb))
    print(f"\n{len(rest)} pictures of 1024x768, {threads} threads, {rounds} rounds by turns; medians (least to most)")
    print("| reader | CPU s a picture | wall s a picture | CPU s of start and first picture | peak memory MB |\n|---|---|---|---|---|")
    for name, values in seconds.items():
        cells = [f"{statistics.median(it):.2f} ({min(it):.2f} to {max(it):.2f})" for it in zip(*values, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |")
    if len(readers) > 1:
        mine, theirs = ([it[0] for it in values] for values in list(seconds.values())[:2])
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        print(f"CPU ratio {' / '.join(list(seconds)[:2])}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


# Hard pictures.


def verdict(row, done, limit_mb):
    """What was not as it should be."""
    if done.wall >= PATIENCE:
        return f"still at work after {PATIENCE} s"
    if done.code < 0 or done.code == PANIC or "panicked at" in done.errors:
        return "crash"
    if done.memory_mb > limit_mb:
        return f"{done.memory_mb:.0f} MB"
    if done.code != 0:
        named = row["file"] in done.errors
        allowed = row["expect"] not in ("text", "no_text", "turned") or row["file"].startswith(("1x", "8x", "227x"))
        return "" if named and allowed else "unexpected error" if named else "the error does not name the picture"
    answer = objects(done.output)[0]
    text, got = text_of(answer), recall(flat(row["lines"]), flat([text_of(answer)]))
    notes = answer.get("notes") or answer.get("error")
    bad = {
        "error": not answer.get("error"),
        "text": got < 0.9,
        "no_text": bool(text.strip()),
        "turned": not notes and (got < 0.9 or not row["lines"]),
        "any": False,
    }
    return f"expected {row['expect']}, got {text[:40]!r}" if bad[row["expect"]] else ""


def hard(command, folder, threads, limit_mb):
    """Each hard picture in a process of its own; gives the number of failures."""
    failures = 0
    print("\n| picture | expected | exit | s | MB | recall | said | verdict |\n|---|---|---|---|---|---|---|---|")
    for row in map(json.loads, (folder / "hard.jsonl").read_text().splitlines()):
        done = run([*command, folder / row["file"]], threads, timeout=PATIENCE)
        wrong = verdict(row, done, limit_mb)
        failures += bool(wrong)
        answer = objects(done.output)[0] if done.code == 0 and done.output.strip() else {}
        said = str(answer.get("error") or answer.get("notes") or "") or done.errors.strip().split("\n")[-1]
        got = f"{recall(flat(row['lines']), flat([text_of(answer)])):.2f}" if row["lines"] and answer else ""
        cells = [row["file"], row["expect"], done.code, f"{done.wall:.1f}", f"{done.memory_mb:.0f}", got, said[:90].replace("|", "/"), wrong or "ok"]
        print("| " + " | ".join(map(str, cells)) + " |")
    return failures


def split(words):
    """What stands before `--` and what after it."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def main():
    if sys.argv[1:2] == ["--rapidocr-child"]:
        return rapidocr_child(sys.argv[2:])
    own, command = split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--no-accuracy", action="store_true")
    parser.add_argument("--no-rapidocr", action="store_true", help="measure only the command")
    parser.add_argument("--turned", action="store_true", help="also RapidOCR with its classifier of upside-down lines, as it is by default")
    parser.add_argument("--kind", action="append", help="only these kinds; may be repeated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wrong", type=int, default=0, help="show so many of the missed words")
    parser.add_argument("--memory-limit", type=float, default=2000, help="MB that a hard picture may take")
    arguments = parser.parse_args(own)
    readers = {pathlib.Path(command[0]).name: command} if command else {}
    if not arguments.no_rapidocr:
        readers["rapidocr"] = [sys.executable, __file__, "--rapidocr-child"]
    if arguments.turned:
        readers["rapidocr, all defaults"] = [sys.executable, __file__, "--rapidocr-child", "--turned"]
    rows = [json.loads(line) for line in (arguments.folder / "truth.jsonl").read_text().splitlines()]
    rows = [row for row in rows if not arguments.kind or row["kind"] in arguments.kind]
    passed = True
    if not arguments.no_accuracy:
        means = accuracy(readers, arguments.folder, rows, arguments.threads, arguments.wrong)[next(iter(readers))]
        passed = means[0] >= RECALL and means[1] >= SIMILARITY
        print(f"bar: recall {RECALL}, similarity {SIMILARITY}: {'passed' if passed else 'FAILED'} by {next(iter(readers))}")
    if arguments.cost:
        cost(readers, arguments.folder, rows, arguments.threads, arguments.rounds)
    if arguments.hard:
        passed = hard(next(iter(readers.values())), arguments.folder, arguments.threads, arguments.memory_limit) == 0 and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
