#!/usr/bin/env python3
"""Puts the service under load from a second process, and says whether it holds.

    scripts/load.py PROGRAM [--seconds N] [--files N] [--requests N] [--keep] [--only locate,mixed,memory]

PROGRAM is the built `sightline`; Python's standard library does the rest. Makes a repository of 1,000 files of real functions (Sightline's
own, dealt out anew: scripts/serving.py), starts `sightline serve` with a fresh data directory on a free port, indexes it, and measures
over keep-alive connections from a process of its own:

1. locate (embedded default, hybrid, k 10), no two questions alike, at 1, 8 and 64 connections: p50, p99, throughput, statuses, and the
   server's own time for the question's vector apart;
2. the same at 1 connection while another repository is indexed;
3. the service's memory over 20,000 questions, one in 20 of them hybrid and the rest bm25.

A third connection asks for /health every 200 ms throughout. Bars: at 1 connection the p50 less the p50 of the question's vector is under
30 ms; only 200 and 429 at 64; health within 50 ms; memory grows by less than 5 % and 16 MiB after the first 2,000. Exits with 1 when one
is missed. A busy machine misses them by itself: see the load that is printed.
"""

import argparse
import asyncio
import collections
import http.client
import json
import multiprocessing
import os
import re
import statistics
import sys
import threading
import time
from pathlib import Path

from serving import Scratch, Server, corpus, issues

MIB = 1 << 20
TIMINGS = re.compile(rb'"timings_ms":\{[^}]*"query":(\d+)[^}]*"total":(\d+)')

Answer = collections.namedtuple("Answer", "status seconds query total")


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("nan")


class Client:
    """Asks over a number of connections that are kept open, until a time or a number of requests."""

    def __init__(self, address, path, bodies, connections, seconds=None, requests=None, offset=0):
        self.address, self.path, self.bodies, self.connections = address, path, bodies, connections
        self.seconds, self.requests, self.offset = seconds, requests, offset

    def run(self):
        self.answers, self.asked = [], 0
        asyncio.run(self._all())
        return self.answers

    async def _all(self):
        self.end = time.monotonic() + (self.seconds or 1e9)
        await asyncio.gather(*(self._one() for _ in range(self.connections)))

    def _next(self):
        if time.monotonic() >= self.end or (self.requests and self.asked >= self.requests):
            return None
        self.asked += 1
        body = self.bodies[self.asked % len(self.bodies)] | {}
        # No two questions alike: nothing can be remembered.
        body["body"] += f" Seen in build {self.offset + self.asked}."
        text = json.dumps(body).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: {self.address[0]}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        return head.encode() + text

    async def _one(self):
        reader = writer = None
        while request := self._next():
            start = time.monotonic()
            try:
                if not writer:
                    reader, writer = await asyncio.open_connection(*self.address)
                writer.write(request)
                status, text = await read(reader)
            except (OSError, asyncio.IncompleteReadError):
                status, text, writer = 0, b"", None
            found = TIMINGS.search(text)
            query, total = (int(found[1]), int(found[2])) if found else (None, None)
            self.answers.append(Answer(status, time.monotonic() - start, query, total))
            if status != 200:
                await asyncio.sleep(0.1)


async def read(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    return int(head[9:12]), await reader.readexactly(length)


def in_child(client):
    """Runs a client in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(client.run)


class Health:
    """Asks for /health every 200 ms while it lasts."""

    def __init__(self, server):
        self.server, self.times, self.bad = server, [], 0

    def __enter__(self):
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def _ask(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=10)
        while not self.ended.wait(0.2):
            start = time.monotonic()
            try:
                connection.request("GET", "/health")
                answer = connection.getresponse()
                answer.read()
                self.bad += answer.status != 200
            except (OSError, http.client.HTTPException):
                connection.close()
                self.bad += 1
            self.times.append(time.monotonic() - start)


class Table:
    """The rows that are printed at the end, and the bars that were missed."""

    def __init__(self):
        self.rows, self.missed = [], []

    def require(self, holds, what):
        if not holds:
            self.missed.append(what)

    def add(self, name, answers, seconds, health):
        good = [it for it in answers if it.status == 200]
        statuses = collections.Counter(it.status for it in answers)
        times = [it.seconds * 1000 for it in good]
        query = statistics.median([it.query for it in good]) if good else float("nan")
        row = {
            "what": name,
            "asked": len(answers),
            "a second": f"{len(good) / seconds:.1f}",
            "p50 ms": f"{quantile(times, 0.5):.1f}",
            "p99 ms": f"{quantile(times, 0.99):.1f}",
            "query p50": f"{query:.0f}",
            "rest p50": f"{quantile(times, 0.5) - query:.1f}",
            "statuses": " ".join(f"{status}:{count}" for status, count in sorted(statuses.items())),
            "health p50/p99/max": "/".join(f"{it * 1000:.1f}" for it in (quantile(health.times, 0.5), quantile(health.times, 0.99), max(health.times))),
        }
        self.rows.append(row)
        print(" ".join(f"{key} {value};" for key, value in row.items()), flush=True)
        self.require(health.bad == 0, f"{name}: {health.bad} answers of /health were not 200")
        self.require(max(health.times) < 0.05, f"{name}: /health took {max(health.times) * 1000:.0f} ms once (p99 {quantile(health.times, 0.99) * 1000:.0f})")
        self.require(set(statuses) <= {200, 429}, f"{name}: statuses {dict(statuses)}")
        return quantile(times, 0.5), query

    def print(self):
        print()
        columns = list(self.rows[0]) if self.rows else []
        print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
        for row in self.rows:
            print("| " + " | ".join(str(row[it]) for it in columns) + " |")
        for what in self.missed:
            print(f"MISSED {what}")
        print("every bar was met" if not self.missed else f"{len(self.missed)} bars were missed")


class Load:
    def __init__(self, options, server, names):
        self.options, self.server, self.table = options, server, Table()
        self.bodies = [{"title": title, "body": body, "k": 10} for title, body in issues(names)]

    def client(self, connections, bodies=None, offset=0, **end):
        address = (self.server.host, self.server.port)
        return Client(address, "/v1/repositories/loaded/locate", bodies or self.bodies, connections, offset=offset, **end)

    def measured(self, name, connections):
        offset = 1_000_000 * (len(self.table.rows) + 1)
        with Health(self.server) as health:
            start = time.monotonic()
            answers = in_child(self.client(connections, offset=offset, seconds=self.options.seconds))
            seconds = time.monotonic() - start
        return self.table.add(name, answers, min(seconds, self.options.seconds), health)

    def locate(self):
        for connections in (1, 8, 64):
            p50, query = self.measured(f"locate, {connections} connections", connections)
            if connections == 1:
                self.table.require(p50 - query < 30, f"locate at 1 connection: p50 {p50:.1f} ms, {p50 - query:.1f} of it not the question's vector")

    def mixed(self):
        other = Path(self.options.scratch) / "other"
        corpus(other, self.options.files, seed=5)
        before, _ = self.measured("locate, 1 connection, alone", 1)
        begun = self.server.json("PUT", "/v1/repositories/other", {"source": {"path": str(other)}})
        embedding = lambda: self.server.json("GET", f"/v1/jobs/{begun['job']}")["progress"]
        while (embedding() or {}).get("phase") != "embedding":
            time.sleep(0.1)
        first, start = embedding()["done"], time.monotonic()
        beside, _ = self.measured("locate, 1 connection, beside indexing", 1)
        last = (embedding() or {"done": "all"})["done"]
        print(f"indexing went from window {first} to {last} in {time.monotonic() - start:.0f} s; p50 {before:.1f} ms alone, {beside:.1f} ms beside it")
        self.server.json("DELETE", "/v1/repositories/other")

    def memory(self):
        step = max(1, self.options.requests // 10)
        bodies = [it | {"retriever": "hybrid" if at % 20 == 0 else "bm25"} for at, it in enumerate(self.bodies[:60])]
        seen, statuses = [], collections.Counter()
        with Health(self.server) as health:
            start = time.monotonic()
            for at in range(0, self.options.requests, step):
                answers = in_child(self.client(8, bodies, offset=50_000_000 + at, requests=step))
                statuses.update(it.status for it in answers)
                seen.append(self.server.resident())
                print(f"{at + step} requests in {time.monotonic() - start:.0f} s: {seen[-1] / MIB:.1f} MiB, {self.server.descriptors()} descriptors", flush=True)
        print(f"statuses {dict(statuses)}; health max {max(health.times) * 1000:.1f} ms")
        grown = max(seen[1:], default=0) - seen[0]
        self.table.require(set(statuses) <= {200, 429}, f"memory: statuses {dict(statuses)}")
        self.table.require(grown < max(16 * MIB, seen[0] // 20), f"memory grew by {grown / MIB:.1f} MiB after the first {step} requests")
        self.table.require(max(health.times) < 0.05, f"memory: /health took {max(health.times) * 1000:.0f} ms once")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--only", default="locate,mixed,memory")
    parser.add_argument("--keep", action="store_true", help="keep the data directory")
    options = parser.parse_args()
    with Scratch(options.keep) as scratch:
        options.scratch = scratch
        names = corpus(scratch / "loaded", options.files)
        server = Server(options.program, scratch / "data", scratch)
        try:
            print(f"load of the machine {os.getloadavg()}, {os.cpu_count()} processors; data in {scratch}", flush=True)
            start, before = time.monotonic(), server.resident()
            job = server.index("loaded", scratch / "loaded", seconds=3600)
            view = server.json("GET", "/v1/repositories/loaded")
            print(
                f"indexed {view['files']} files, {view['functions']} functions, {view['windows']} windows in {time.monotonic() - start:.0f} s "
                f"(job {job['status']}); memory {before / MIB:.0f} -> {server.resident() / MIB:.0f} MiB", flush=True
            )
            load = Load(options, server, names)
            in_child(load.client(2, requests=20))
            for name in options.only.split(","):
                getattr(load, name)()
            print(f"memory at the end {server.resident() / MIB:.0f} MiB; load of the machine {os.getloadavg()}")
            code = server.stop()
            load.table.require(code == 0, f"the service ended with {code}")
        finally:
            server.stop()
        load.table.print()
    sys.exit(bool(load.table.missed))


if __name__ == "__main__":
    main()
