#!/usr/bin/env python3
"""Kills, fills and write-protects: what of an index survives.

    scripts/crash_test.py PROGRAM [--kills N] [--seed N]

PROGRAM is the built `sightline`. Makes a repository of 120 small files and

1. kills (SIGKILL) N runs of `index` that begin from nothing and N that bring an index up to date of which every file has changed, at random
   moments; after each the store opens, the index of before is ready and answers, and the next run embeds what is missing, and of what was
   the store had of it nothing: what is lost is the batch of 128 windows that was under way;
2. as root, indexes onto a file system too small for it and onto one that is then made read-only: an error that says so, and what
   was there before still answers.

Prints what was seen; ends with an error at the first thing that is not as it should be.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = 120
WINDOWS = 2 * FILES


class Place:
    """A data directory and the program that uses it."""

    def __init__(self, program, data):
        self.program, self.data = program, Path(data)

    def start(self, *arguments):
        environment = {"SIGHTLINE_INDEX_DATA_DIR": str(self.data), "PATH": os.environ["PATH"]}
        return subprocess.Popen(
            [self.program, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def json(self, *arguments):
        code, out, err = self.run(*arguments, "--json")
        if code != 0:
            sys.exit(f"{arguments} failed with {code}: {err}")
        return json.loads(out)

    def index(self, root):
        return self.json("index", str(root))["builds"][0]

    def stored(self):
        return sum(model["vectors"] for model in self.json("cache")["models"])


def write(root, by):
    root.mkdir(exist_ok=True)
    for at in range(FILES):
        (root / f"m{at}.py").write_text(f"def function_{at}(a, b):\n    return a * {at} + b * {by}\n")


def require(condition, what):
    if not condition:
        sys.exit(f"not as it should be: {what}")


def answers(place, root, issue):
    located = place.json("locate", "--repo", str(root), "--issue", str(issue), "--refresh=never")
    require(located["index"]["indexed"] and len(located["files"]) == 10, located["index"])


def kill(place, root, whole, chance):
    process = place.start("index", str(root))
    time.sleep(chance.uniform(0, whole))
    process.send_signal(signal.SIGKILL)
    process.communicate()


def kills(program, scratch, count, chance):
    root, issue = scratch / "repository", scratch / "issue.md"
    issue.write_text("function_7 is wrong\n\nIt adds where it should not.\n")
    write(root, 0)
    start = time.monotonic()
    require(Place(program, scratch / "whole").index(root)["embedded"] == WINDOWS, "a first index")
    whole = 1.05 * (time.monotonic() - start)
    for number in range(count):
        place = Place(program, scratch / f"build{number}")
        kill(place, root, whole, chance)
        kept = place.stored()
        build = place.index(root)
        require(build["status"] == "ready" and build["vectors"] == WINDOWS, build)
        require(build["embedded"] <= WINDOWS - kept, f"{build['embedded']} embedded though {kept} were kept")
        answers(place, root, issue)
        shutil.rmtree(place.data)
    print(f"{count} builds killed: the store opened, and the next run embedded what it lacked")
    place = Place(program, scratch / "update")
    place.index(root)
    for number in range(1, count + 1):
        write(root, number)
        before = place.stored()
        kill(place, root, whole, chance)
        kept = place.stored() - before
        status = place.json("status", str(root))["repositories"][0]["builds"]
        require([it["status"] for it in status] == ["ready"] and status[0]["vectors"] == WINDOWS, status)
        answers(place, root, issue)
        build = place.index(root)
        require(build["status"] == "ready" and build["embedded"] <= WINDOWS - kept, build)
        answers(place, root, issue)
    print(f"{count} updates killed: the index of before answered, the next run embedded what was missing")


def mounted(folder, options):
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        folder.rmdir()
        print(f"not tried, as nothing can be mounted here: {done.stderr.strip()}")
    return done.returncode == 0


def full_disk(program, scratch):
    folder, root = scratch / "small", scratch / "repository"
    if not mounted(folder, "size=300k"):
        return
    try:
        place = Place(program, folder / "data")
        code, _, err = place.run("index", str(root))
        require(code == 1 and len(err.strip().splitlines()) == 1, err)
        print(f"full disk: {err.strip()}")
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
        build = place.index(root)
        require(build["status"] == "ready", build)
        print(f"with room again: ready, {build['embedded']} windows embedded, {build['cached']} known")
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def read_only(program, scratch):
    folder, root, issue = scratch / "fixed", scratch / "repository", scratch / "issue.md"
    if not mounted(folder, "size=64m"):
        return
    try:
        place = Place(program, folder / "data")
        place.index(root)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        answers(place, root, issue)
        write(root, 10_000)
        code, _, err = place.run("index", str(root))
        require(code == 1 and len(err.strip().splitlines()) == 1, err)
        print(f"read-only: the index answers; a new one: {err.strip()}")
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    program = str(Path(arguments.program).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        kills(program, scratch, arguments.kills, random.Random(arguments.seed))
        full_disk(program, scratch)
        read_only(program, scratch)


main()
