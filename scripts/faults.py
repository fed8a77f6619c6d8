#!/usr/bin/env python3
"""Does to a running service what breaks services, and looks at what is left.

    scripts/faults.py PROGRAM [--only NAME,...] [--keep]

PROGRAM is the built `sightline`; Python's standard library does the rest. Each part starts a service of its own on a free port, does one
thing to it, and prints ok or FAILED with what was seen; ends with 1 after a failure. `disk_full` mounts a small tmpfs and so needs root.
"""

import argparse
import asyncio
import base64
import io
import json
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import traceback
import zlib
from contextlib import contextmanager

from serving import Scratch, Server, corpus, wait_for

BATCH = 128


class NotSo(Exception):
    """Something is not as it should be."""


class Stage:
    """What each part has: the program, a folder of its own, and what was seen."""

    def __init__(self, program, folder):
        self.program, self.folder, self.seen, self.servers = program, folder, [], []
        folder.mkdir()

    def start(self, data=None, **more):
        server = Server(self.program, data or self.folder / "data", self.folder, log=self.folder / "log", **more)
        self.servers.append(server)
        return server

    def corpus(self, name, files, seed=0):
        corpus(self.folder / name, files, seed)
        return self.folder / name

    def saw(self, what):
        self.seen.append(what)

    def require(self, holds, what):
        if not holds:
            raise NotSo(what)

    def ready(self, server, name):
        view = server.json("GET", f"/v1/repositories/{name}")
        self.require(view["status"] == "ready" and view["vectors"] == view["windows"] > 0, f"{name} is {view}")
        return view

    def serves(self, server, name, seconds=10):
        """That the service answers all kinds of questions, soon."""
        start = time.monotonic()
        self.require(server.status("GET", "/health", timeout=5) == 200, "/health does not answer 200")
        self.require(server.status("GET", "/ready", timeout=seconds) == 200, "/ready does not answer 200")
        located = server.locate(name, "the account view shows an old value", timeout=30)
        self.require(len(located["files"]) > 0, f"no files are found: {located}")
        took = time.monotonic() - start
        self.require(took < seconds, f"three answers took {took:.1f} s")

    def nothing_left(self, server):
        """That no upload lies about and no request is in flight."""
        left = lambda: [it.name for it in (server.data / "uploads").iterdir()]
        self.require(wait_for(lambda: not left(), 10), f"of uploads there is left: {left()}")
        flying = lambda: server.metric("sightline_requests_in_flight")
        # /metrics itself may count.
        self.require(wait_for(lambda: flying() <= 1, 10), f"{flying()} requests are in flight")


def connect(server, timeout=30):
    return socket.create_connection((server.host, server.port), timeout)


def raw(server, data, timeout=30):
    """What comes back for bytes that are sent as they are, until the service closes or an answer is whole; b"" for nothing."""
    with connect(server, timeout) as sock:
        try:
            sock.sendall(data)
        except OSError:
            pass  # The service may answer and close before it has read all.
        return receive(sock)


def receive(sock):
    text = b""
    try:
        while chunk := sock.recv(65536):
            text += chunk
            head, end, body = text.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            if end and length and len(body) >= int(length[1]):
                break
    except OSError:
        pass
    return text


def status(text):
    return int(text[9:12]) if text.startswith(b"HTTP/1.1 ") else 0


def post(path, body, length=None, kind="application/json", more=""):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    length = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n".encode() + body


def tar(root, most=None):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(root, arcname="source")
    return packed.getvalue()[:most]


def embedding(job):
    progress = job["progress"] or {}
    return progress.get("done", 0) if progress.get("phase") == "embedding" else 0


def begin(server, name, path):
    return server.json("PUT", f"/v1/repositories/{name}", {"source": {"path": str(path)}})["job"]


def until_embedded(stage, server, job, windows, seconds=300):
    done = wait_for(lambda: embedding(it := server.json("GET", f"/v1/jobs/{job}")) >= windows and it, seconds)
    stage.require(done, f"the job never embedded {windows} windows: {server.json('GET', f'/v1/jobs/{job}')}")
    return embedding(done)


def kill_indexing(stage):
    """kill -9 while a repository is indexed: the job goes on, and what was embedded is not embedded again."""
    source, server = stage.corpus("source", 130), stage.start()
    job = begin(server, "r", source)
    done = until_embedded(stage, server, job, BATCH + 40)
    server.kill()
    server = stage.start()
    ended = server.finished(job)
    stage.require(ended["status"] == "done", f"the job is {ended}")
    cached, embedded = ended["result"]["cached"], ended["result"]["embedded"]
    view = stage.ready(server, "r")
    stage.saw(f"killed at window {done} of {view['windows']}; afterwards {cached} were there and {embedded} embedded")
    stage.require(cached + BATCH >= done, "more than the batch under way was lost")
    stage.serves(server, "r")
    stage.require(begin(server, "r", source), "no new job")


def kill_upload(stage):
    """kill -9 while an archive arrives, and while one is unpacked and indexed."""
    source, server = stage.corpus("source", 40), stage.start()
    whole = tar(source)
    with connect(server) as sock:
        sock.sendall(post("/v1/repositories/r/snapshot", whole[: len(whole) // 2], len(whole), "application/x-tar"))
        arrived = lambda: sum(it.stat().st_size for it in (server.data / "uploads").rglob("*") if it.is_file())
        stage.require(wait_for(lambda: arrived() > 1000, 10), "nothing of the upload lies on disk")
        stage.saw(f"{arrived()} bytes had arrived")
        server.kill()
    server = stage.start()
    stage.nothing_left(server)
    stage.require(server.status("GET", "/v1/repositories/r") == 404, "half an upload made a repository")
    begun = server.json("POST", "/v1/repositories/r/snapshot", whole, headers={"Content-Type": "application/x-tar"})
    server.kill()
    server = stage.start()
    ended = server.finished(begun["job"])
    stage.require(ended["status"] == "done", f"the job of a whole upload is {ended}")
    stage.ready(server, "r")
    stage.serves(server, "r")
    left = len(list((server.data / "uploads").iterdir()))
    stage.require(left == 1, f"{left} uploads lie there, not the one that serves")
    server.json("DELETE", "/v1/repositories/r")
    stage.nothing_left(server)


def gone_in_body(stage):
    """Clients that go in the middle of a body."""
    source, server = stage.corpus("source", 20), stage.start()
    server.index("r", source)
    half = b'{"title": "' + b"x" * 50_000
    for at in range(100):
        with connect(server) as sock:
            if at % 2:
                sock.sendall(post("/v1/repositories/r/locate", half, 100_000))
            else:
                sock.sendall(post("/v1/repositories/u/snapshot", half, 100_000, "application/x-tar"))
            if at % 4 > 1:  # With a reset.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stage.nothing_left(server)
    stage.require(server.status("GET", "/v1/repositories/u") == 404, "half an upload made a repository")
    stage.serves(server, "r")
    stage.saw("100 bodies cut off, half of them uploads")


def gone_in_queue(stage):
    """Clients that go while their work waits: it is not done."""
    source, server = stage.corpus("source", 20), stage.start()
    server.index("r", source)
    text = "the cursor jumps to the end of the label when it is edited again "
    before = server.metric("sightline_queue_abandoned_total")
    socks = [connect(server) for _ in range(40)]
    for at, sock in enumerate(socks):
        sock.sendall(post("/v1/embeddings", {"model": "all-MiniLM-L6-v2", "input": [f"{at} {i} {text * 12}" for i in range(20)]}))
    waiting = lambda: server.metric("sightline_queue_tokens")
    stage.require(wait_for(lambda: waiting() > 20_000, 20), f"only {waiting()} tokens wait")
    most = waiting()
    for sock in socks:
        sock.close()
    start = time.monotonic()
    server.locate("r", "the account view shows an old value")
    took = time.monotonic() - start
    abandoned = server.metric("sightline_queue_abandoned_total") - before
    stage.saw(f"{most:.0f} tokens waited, {abandoned:.0f} of 40 requests were not computed, the next answer took {took:.2f} s")
    stage.require(abandoned >= 20, "they were not abandoned")
    stage.require(took < 5, "the next request had to wait for them")
    stage.require(wait_for(lambda: waiting() == 0, 10), f"{waiting()} tokens still wait")
    stage.nothing_left(server)


def storm(stage):
    """5,000 posts at once where 16 are let in."""
    source, server = stage.corpus("source", 40), stage.start(settings={"max_requests": 16})
    server.index("r", source)
    request = post("/v1/repositories/r/locate", {"title": "the cursor jumps to the end of the label"})
    before = server.resident()
    start = time.monotonic()
    answers = asyncio.run(all_at_once(server, request, 5000))
    took = time.monotonic() - start
    statuses = {it: sum(status(answer) == it for answer in answers) for it in sorted({status(answer) for answer in answers})}
    stage.saw(f"statuses {statuses} in {took:.1f} s; memory {before >> 20} -> {server.resident() >> 20} MiB")
    stage.require(set(statuses) == {200, 429}, "every socket gets 200 or 429")
    stage.require(all(b"retry-after: " in it.lower() for it in answers if status(it) == 429), "a 429 without Retry-After")
    stage.require(statuses[200] >= 16, "fewer were let in than could be")
    log = (stage.folder / "log").read_text(errors="replace")
    stage.require("panicked" not in log, "there was a panic")
    stage.nothing_left(server)
    stage.serves(server, "r")


async def all_at_once(server, request, count):
    gate = asyncio.Event()

    async def one():
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(server.host, server.port), 60)
            await gate.wait()
            writer.write(request)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
            text = head + await asyncio.wait_for(reader.readexactly(length), 60)
            writer.close()
            return text
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            return repr(error).encode()

    tasks = [asyncio.create_task(one()) for _ in range(count)]
    await asyncio.sleep(2)
    gate.set()
    return await asyncio.gather(*tasks)


def slow_loris(stage):
    """Heads and bodies that come a byte at a time, more of them than places: they are ended in time, and others are served meanwhile."""
    settings = {"header_seconds": 2, "body_seconds": 4, "max_requests": 16}
    source, server = stage.corpus("source", 20), stage.start(settings=settings)
    server.index("r", source)
    for kind, limit, expected in (("head", 2, {0, 408}), ("body", 4, {408}), ("silent", 2, {0, 408})):
        begun, ends, statuses = time.monotonic(), [], []
        threads = [threading.Thread(target=drip, args=(server, kind, ends, statuses)) for _ in range(32)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        answered = []
        for _ in range(3):
            start = time.monotonic()
            answered.append((server.status("GET", "/health"), server.status("POST", "/v1/repositories/r/locate", {"title": "label"}), time.monotonic() - start))
        for thread in threads:
            thread.join()
        longest = max(ends) - begun
        stage.saw(f"slow {kind}: ended after at most {longest:.1f} s with {sorted(set(statuses))}; meanwhile {answered[0][:2]} in {answered[0][2]:.2f} s")
        stage.require(longest < limit + 3, f"a slow {kind} was not ended in time")
        stage.require(set(statuses) <= expected, f"a slow {kind} got {set(statuses)}")
        stage.require(all(it[0] == 200 for it in answered), f"/health gave {answered}")
        stage.require(all(it[1] == 200 for it in answered), f"others were not served beside a slow {kind}: {answered}")
    stage.nothing_left(server)
    stage.serves(server, "r")


def drip(server, kind, ends, statuses):
    whole = post("/v1/repositories/r/locate", {"title": "x" * 100})
    at = {"head": 20, "body": whole.index(b"\r\n\r\n") + 6, "silent": len(whole)}[kind]
    with connect(server, 60) as sock:
        try:
            # `silent` sends nothing at all.
            sock.sendall(whole[:at] if kind != "silent" else b"")
            sock.settimeout(0.3)
            end = time.monotonic() + 60
            while time.monotonic() < end:
                try:
                    text = sock.recv(65536)
                    statuses.append(status(text))
                    break
                except TimeoutError:
                    if kind != "silent":
                        sock.sendall(whole[at : at + 1])
                        at += 1
        except OSError:
            statuses.append(0)
    ends.append(time.monotonic())


def png(width, height, data=b""):
    chunk = lambda kind, it: struct.pack(">I", len(it)) + kind + it + struct.pack(">I", zlib.crc32(kind + it))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def poisons():
    """Name, bytes, and the statuses that are right; 0 is a closed connection."""
    locate = "/v1/repositories/r/locate"
    text = lambda body, length=None: post(locate, body, length)
    picture = lambda data: text({"title": "t", "images": [{"data": base64.b64encode(data).decode()}]})
    head = lambda line, more="": f"{line} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()
    deep = lambda opening, closing: opening * 100_000 + closing * 100_000
    yield "bad JSON", text(b'{"title": '), {400}
    yield "no JSON", text(b"\xff" * 100), {400}
    yield "invalid UTF-8 in a string", text(b'{"title": "\xff\xfe"}'), {400}
    yield "a lone surrogate", text(b'{"title": "\\ud800"}'), {400}
    yield "an empty body", text(b""), {400}
    yield "an empty question", text({"title": " \n"}), {400}
    yield "100,000 brackets", text(deep(b"[", b"]")), {400, 422}
    yield "100,000 brackets in a field", text(b'{"title": ' + deep(b"[", b"]") + b"}"), {400, 422}
    yield "100,000 objects", text(deep(b'{"a":', b"}")), {400, 422}
    yield "100,000 brackets for /v1/embeddings", post("/v1/embeddings", b'{"input": ' + deep(b"[", b"]") + b"}"), {400, 422}
    yield "100,000 brackets in an unknown field", text(b'{"title": "t", "x": ' + deep(b"[", b"]") + b"}"), {400, 422}
    yield "k of 2^63", text({"title": "t", "k": 2**63}), {200}
    yield "k of 2^64", text({"title": "t", "k": 2**64}), {400, 422}
    yield "k of -1", text({"title": "t", "k": -1}), {422}
    yield "k of 0", text({"title": "t", "k": 0}), {422}
    yield "k of 1e400", text(b'{"title": "t", "k": 1e400}'), {400, 422}
    yield "an unknown field", text({"title": "t", "image": "x"}), {422}
    yield "a field twice", text(b'{"title": "t", "title": "u"}'), {400, 422}
    yield "a picture that is none", picture(b"no picture"), {400}
    yield "a picture of 8,000,000 x 2,000,000,000", picture(png(8_000_000, 2_000_000_000)), {400, 413}
    yield "a picture cut off", picture(png(64, 64, zlib.compress(b"\0" * 100))), {400}
    yield "a picture of nothing", picture(b""), {400}
    yield "1,000 pictures", text({"title": "t", "images": [{"data": "AAAA"}] * 1000}), {413}
    yield "a NUL in a name", head("GET /v1/repositories/a%00b"), {404, 422}
    yield "a NUL in a new name", b"PUT /v1/repositories/a%00b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", {422}
    yield "dots as a name", head("GET /v1/repositories/%2e%2e"), {404, 422}
    yield "a path as a name", head("GET /v1/repositories/..%2F..%2Fetc%2Fpasswd"), {404, 422}
    yield "invalid UTF-8 in a name", head("GET /v1/repositories/%ff%fe"), {400, 404, 422}
    yield "a name of 10,000 letters", head("GET /v1/repositories/" + "a" * 10_000), {404, 414, 422}
    yield "a target of 100,000 letters", head("GET /" + "a" * 100_000), {0, 404, 414, 431}
    yield "a header of 1 MB", head("GET /health", f"X-Long: {'a' * 1_000_000}\r\n"), {0, 400, 431}
    yield "10,000 headers", head("GET /health", "".join(f"X-{i}: a\r\n" for i in range(10_000))), {0, 400, 431}
    yield "a NUL in a header", head("GET /health", "X-A: a\0b\r\n"), {0, 400}
    yield "two lengths", b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", {0, 400}
    yield "a length and chunks", b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {0, 400}
    yield "a negative length", b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n{}", {0, 400}
    yield "a length of 10^30", b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"1" + b"0" * 30 + b"\r\n\r\n{}", {0, 400, 413}
    yield "a length of 10^15", text(b"{}", 10**15), {413}
    yield "a bad chunk", b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", {0, 400}
    yield "no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200, {0, 400}
    yield "HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {0, 400, 404, 505}
    yield "CONNECT", b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", {400, 403, 404, 405}
    yield "an odd method", head("BREW /v1/repositories"), {405, 404}
    yield "60 MB of one text", text({"title": "t", "body": "the label " * 6_000_000}), {200, 413, 422}
    yield "60 MB of embeddings", post("/v1/embeddings", {"model": "all-MiniLM-L6-v2", "input": ["word " * 250_000] * 48}), {200, 413, 422}
    yield "80 MB", text({"title": "t", "body": "x" * 80_000_000}), {413, 0}
    yield "257 inputs", post("/v1/embeddings", {"model": "all-MiniLM-L6-v2", "input": ["a"] * 257}), {413}
    yield "empty inputs", post("/v1/embeddings", {"model": "all-MiniLM-L6-v2", "input": ["a", ""]}), {400}
    yield "token ids that there are not", post("/v1/embeddings", {"model": "all-MiniLM-L6-v2", "input": [[4294967295]]}), {400, 422}
    yield "a pattern of 100,000 stars", text({"title": "t", "filter": {"paths": ["*" * 100_000]}}), {200, 413, 422}
    yield "a pattern of braces", text({"title": "t", "filter": {"paths": ["{a," * 5000]}}), {200, 422}
    yield "10,000 patterns", text({"title": "t", "filter": {"paths": [f"**/a{i}/**/*b*{i}" for i in range(10_000)]}}), {200, 413, 422}
    yield "a form without end", post(locate, b"--b\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nx", None, "multipart/form-data; boundary=b"), {400}
    yield "a form without boundary", post(locate, b"--b--", None, "multipart/form-data"), {400}
    yield "100,000 parts", post(locate, b"--b\r\nContent-Disposition: form-data; name=\"image\"\r\n\r\n\r\n" * 100_000 + b"--b--", None, "multipart/form-data; boundary=b"), {400, 413, 422}
    yield "an archive that is none", post("/v1/repositories/u/snapshot", b"\x1f\x8b" + b"\xff" * 1000, None, "application/gzip"), {400}
    yield "a query of control characters", text({"title": "\u0000\u0001\u202e\ufeff" * 100}), {200, 400}
    yield "a word of 1 MB", text({"title": "a" * 1_000_000}), {200, 413, 422}
    yield "100,000 paths in a text", text({"title": "t", "body": " ".join(f"src/a{i}.rs:{i}" for i in range(100_000))}), {200, 413, 422}


def has_shape(text):
    """Whether an error is in the one shape. What no HTTP can be read of is answered before that."""
    head, _, body = text.partition(b"\r\n\r\n")
    return re.match(rb'\{"error":\{"message":"[^"].*"type":".*"code":', body) or (not body and status(head) in (400, 414, 431))


def poison(stage):
    """What no client should send, between good requests."""
    source, server = stage.corpus("source", 20), stage.start()
    server.index("r", source)
    bad, slow = [], []
    beside = connect(server)
    for name, data, expected in poisons():
        start = time.monotonic()
        found = raw(server, data, 120)
        took = time.monotonic() - start
        if status(found) not in expected:
            bad.append(f"{name}: {status(found)} in {took:.1f} s, not {sorted(expected)}: {found[-300:]!r}")
        if took > 10:
            slow.append(f"{name}: {took:.1f} s")
        if status(found) >= 400 and not has_shape(found):
            bad.append(f"{name}: the error has another shape: {found[-300:]!r}")
        if str(stage.folder).encode() in found:
            bad.append(f"{name}: the answer has a path of the server: {found[-300:]!r}")
        if took > 5:  # An idle connection is closed by then.
            beside = connect(server)
        for retriever in ("bm25", "hybrid"):
            # A connection that was open before goes on.
            start = time.monotonic()
            beside.sendall(post("/v1/repositories/r/locate", {"title": "label", "retriever": retriever}))
            good = receive(beside)
            if status(good) != 200 or time.monotonic() - start > 5:
                took = time.monotonic() - start
                bad.append(f"after {name} a good request ({retriever}) gave {status(good)} in {took:.1f} s: {good[-200:]!r}")
                beside = connect(server)
    stage.saw(f"{len(list(poisons()))} kinds")
    stage.require(not bad, "\n    ".join(bad))
    stage.require(not slow, "slow: " + "; ".join(slow))
    log = (stage.folder / "log").read_text(errors="replace")
    stage.require("panicked" not in log, f"there was a panic: {log[log.index('panicked') - 300 :][:600] if 'panicked' in log else ''}")
    stage.serves(server, "r")
    stage.nothing_left(server)


@contextmanager
def small_disk(folder, size):
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(disk, leave):
    filler = disk / "filler"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with open(filler, "wb") as out:
        out.write(b"\0" * max(0, free - leave))
    return filler


def disk_full(stage):
    """A disk without room: builds and uploads say so, all else goes on, and with room all is as before."""
    if os.geteuid() != 0:
        stage.saw("skipped: needs root")
        return
    first, second = stage.corpus("first", 30), stage.corpus("second", 120, seed=3)
    with small_disk(stage.folder / "disk", "64m") as disk:
        server = stage.start(data=disk / "data")
        stage.require(server.index("first", first)["status"] == "done", "the first index was not made")
        old = server.json("GET", "/v1/repositories/first")
        for leave in (0, 8 << 10, 64 << 10, 256 << 10):
            filler = fill(disk, leave)
            begun = server.request("PUT", "/v1/repositories/second", {"source": {"path": str(second)}})
            if begun[0] == 202:
                ended = server.finished(json.loads(begun[2])["job"])
                told = f"job {ended['status']} {ended['error'] and ended['error']['code']}"
                stage.require(ended["status"] == "failed" and ended["error"]["code"] == "storage_full", f"with {leave} bytes free: {ended}")
            else:
                told = f"{begun[0]} {json.loads(begun[2])['error']['code']}"
                stage.require(begun[0] in (503, 507) and b"storage_full" in begun[2], f"with {leave} bytes free: {begun}")
            sent = server.request("POST", "/v1/repositories/up/snapshot", tar(second), {"Content-Type": "application/x-tar"})
            if sent[0] == 202:
                ended = server.finished(json.loads(sent[2])["job"])
                stage.require(ended["status"] == "failed" and ended["error"]["code"] == "storage_full", f"upload with {leave} bytes free: {ended}")
            else:
                stage.require(b"storage_full" in sent[2] and sent[0] in (503, 507), f"upload with {leave} bytes free: {sent}")
            stage.saw(f"{leave} bytes free: {told}; upload {sent[0]} {'storage_full' if b'storage_full' in sent[2] else ''}")
            stage.serves(server, "first")
            view = server.json("GET", "/v1/repositories/first")
            stage.require((view["status"], view["vectors"]) == ("ready", old["vectors"]), f"the first is {view}")
            filler.unlink()
        ended = server.index("second", second)
        stage.require(ended["status"] == "done", f"with room again: {ended}")
        stage.ready(server, "second")
        # And through a restart without room.
        filler = fill(disk, 0)
        stage.require(server.stop() == 0, "it did not end with 0")
        server = stage.start(data=disk / "data")
        stage.serves(server, "second")
        filler.unlink()
        for name in ("up", "second", "first"):
            server.status("DELETE", f"/v1/repositories/{name}")
        stage.nothing_left(server)
        server.stop()


def deleted(stage):
    """A repository that is deleted while it is built, changed while it is built, deleted twice."""
    source, server = stage.corpus("source", 100), stage.start()
    server.index("other", stage.corpus("other", 20, seed=3))
    job = begin(server, "r", source)
    until_embedded(stage, server, job, 20)
    again = server.request("PUT", "/v1/repositories/r", {"source": {"path": str(source)}})
    stage.require(again[0] == 409 and b"build_running" in again[2], f"a PUT while it is built: {again}")
    sent = server.request("POST", "/v1/repositories/r/snapshot", tar(source, 20_480), {"Content-Type": "application/x-tar"})
    stage.require(sent[0] == 409, f"an upload while it is built: {sent}")
    asked = server.request("POST", "/v1/repositories/r/locate", {"title": "label"})
    stage.require(asked[0] == 503 and "retry-after" in asked[1], f"a question before there is an index: {asked}")
    start = time.monotonic()
    first, second = (server.status("DELETE", "/v1/repositories/r") for _ in range(2))
    took = time.monotonic() - start
    ended = server.finished(job, 30)
    stage.saw(f"DELETE {first} and {second} in {took:.1f} s, the job is {ended['status']}")
    stage.require((first, second) == (204, 404), "they should be 204 and 404")
    stage.require(ended["status"] == "cancelled", f"the job is {ended}")
    stage.require(server.status("GET", "/v1/repositories/r") == 404, "it is still there")
    stage.require(not list((server.data / "repositories").glob("r*")), f"there is left {list((server.data / 'repositories').iterdir())}")
    stage.serves(server, "other")
    stage.require(server.index("r", source)["status"] == "done", "it can't be built again")
    stage.ready(server, "r")
    # Again and again, at every moment of a build.
    for at in range(12):
        begun = server.request("PUT", "/v1/repositories/s", {"source": {"path": str(source)}, "exclude": [f"*{at}.rs"]})
        stage.require(begun[0] == 202, f"after {at} deletions a PUT gave {begun}")
        time.sleep(at * 0.05)
        gone = server.request("DELETE", "/v1/repositories/s")
        stage.require(gone[0] == 204, f"DELETE after {at * 50} ms gave {gone}")
        ended = server.finished(json.loads(begun[2])["job"], 30)
        stage.require(ended["status"] in ("cancelled", "done"), f"a deleted one's job is {ended}")
    stage.require(server.status("GET", "/v1/repositories/s") == 404, "it came back")
    server.kill()
    server = stage.start()
    names = [it["repository"] for it in server.json("GET", "/v1/repositories")["repositories"]]
    stage.require(sorted(names) == ["other", "r"], f"after a restart there are {names}")
    stage.serves(server, "r")


def ended_in_flight(stage):
    """SIGTERM with requests in flight: all are answered, and the service ends with 0 in time."""
    source, server = stage.corpus("source", 20), stage.start(settings={"drain_seconds": 60})
    server.index("r", source)
    text = "the cursor jumps to the end of the label when it is edited again " * 8
    answers, socks = [], [connect(server, 120) for _ in range(12)]
    for at, sock in enumerate(socks):
        sock.sendall(post("/v1/embeddings", {"model": "all-MiniLM-L6-v2", "input": [f"{at} {text}"] * 16}))
    threads = [threading.Thread(target=lambda sock=sock: answers.append(status(receive(sock)))) for sock in socks]
    for thread in threads:
        thread.start()
    waiting = lambda: server.metric("sightline_queue_tokens")
    stage.require(wait_for(lambda: waiting() > 10_000, 10), f"only {waiting()} tokens wait")
    idle = connect(server)
    start = time.monotonic()
    code = server.stop(90)
    took = time.monotonic() - start
    for thread in threads:
        thread.join()
    idle.close()
    stage.saw(f"ended with {code} after {took:.1f} s; statuses {sorted(set(answers))} of {len(answers)}")
    for sock in socks:
        sock.close()
    stage.require(answers == [200] * 12, f"answers {answers}")
    stage.require(code == 0, f"it ended with {code}")


def ended_indexing(stage):
    """SIGTERM while a repository is indexed and others wait: the jobs go on at the next start."""
    source, server = stage.corpus("source", 130), stage.start()
    other = stage.corpus("other", 10, seed=4)
    job, waits = begin(server, "r", source), begin(server, "other", other)
    done = until_embedded(stage, server, job, BATCH + 40)
    listener = connect(server)
    listener.sendall(f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    start = time.monotonic()
    code = server.stop()
    took = time.monotonic() - start
    stage.require(code == 0, f"it ended with {code}")
    heard = receive(listener)
    listener.close()
    server = stage.start()
    ended = [server.finished(it) for it in (job, waits)]
    stage.require([it["status"] for it in ended] == ["done", "done"], f"the jobs are {ended}")
    cached, embedded = ended[0]["result"]["cached"], ended[0]["result"]["embedded"]
    stage.saw(f"ended with {code} after {took:.1f} s at window {done}; afterwards {cached} were there and {embedded} embedded; a listener heard {heard.count(b'event:')} events")
    stage.require(took < 15, "it took too long to end")
    stage.require(cached + BATCH >= done, "more than the batch under way was lost")
    stage.ready(server, "r")
    stage.ready(server, "other")
    stage.serves(server, "r")


PARTS = [
    kill_indexing, kill_upload, gone_in_body, gone_in_queue, storm, slow_loris, poison, disk_full, deleted, ended_in_flight, ended_indexing,
]  # fmt: skip


def play(part, program, folder):
    stage, start = Stage(program, folder), time.monotonic()
    try:
        part(stage)
        failure = None
    except NotSo as error:
        failure = str(error)
    except Exception:  # Whatever it was, the other parts are played.
        failure = traceback.format_exc().replace("\n", "\n    ")
    finally:
        for server in stage.servers:
            server.stop()
    word = "FAILED" if failure else "ok"
    print(f"{word:6} {part.__name__} ({time.monotonic() - start:.0f} s): {'; '.join(stage.seen)}", flush=True)
    if failure:
        print(f"    {failure[:6000]}\n    log: {folder / 'log'}", flush=True)
    return failure is None


def main():
    names = [it.__name__ for it in PARTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=f"parts: {', '.join(names)}")
    parser.add_argument("program")
    parser.add_argument("--only", default=",".join(names))
    parser.add_argument("--keep", action="store_true", help="keep the data directories and logs")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"there are no parts {unknown}")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if "storm" in wanted and most != resource.RLIM_INFINITY and most < 6000:
        sys.exit(f"the system gives {most} descriptors, and `storm` needs 6000: raise ulimit -Hn, or leave it out by --only")
    with Scratch(options.keep) as scratch:
        results = [play(it, options.program, scratch / it.__name__) for it in PARTS if it.__name__ in wanted]
        if options.keep:
            print(f"kept in {scratch}")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
