"""Starts the service, talks to it, and makes repositories for it. For load.py and faults.py, and with Python's standard library alone."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

OWN = Path(__file__).resolve().parent.parent


class Server:
    """A running `sightline serve` on a free port. `settings` are keys under [server]; all else is as `environment` says."""

    def __init__(self, program, data, root=None, settings=None, environment=None, prepare=None, log=None):
        self.data, self.log = Path(data), Path(log or f"{data}.log")
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.data), "SIGHTLINE_INDEX_DATA_DIR": str(self.data)}
        variables |= {f"SIGHTLINE_SERVER_{key.upper()}": str(value) for key, value in (settings or {}).items()}
        variables |= environment or {}
        command = [str(program), "serve", "--port", "0"] + (["--root", str(root)] if root else [])
        before = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log_file:
            self.process = subprocess.Popen(
                command, env=variables, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, preexec_fn=prepare
            )
        found = wait_for(lambda: self.process.poll() is not None or self._address(before), 60)
        if found is True or not found:
            raise RuntimeError(f"the service did not start: {self.log.read_text()[-2000:]}")
        self.host, self.port = found
        if not wait_for(lambda: self.status("GET", "/ready") == 200, 120):
            raise RuntimeError(f"the service was never ready: {self.log.read_text()[-2000:]}")

    def _address(self, before):
        found = re.search(r"listening on http://([0-9.]+):(\d+)", self.log.read_bytes()[before:].decode(errors="replace"))
        return found and (found[1], int(found[2]))

    def request(self, method, path, body=None, headers=None, timeout=60):
        """The status, the headers with small letters, and the body of an answer. A body that is no bytes is sent as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def status(self, method, path, body=None, **more):
        """The status alone; 0 for a connection that failed."""
        try:
            return self.request(method, path, body, **more)[0]
        except OSError:
            return 0

    def json(self, method, path, body=None, **more):
        status, _, text = self.request(method, path, body, **more)
        if status >= 300:
            raise RuntimeError(f"{method} {path} gave {status}: {text[:500]!r}")
        return json.loads(text) if text else None

    def locate(self, name, title, timeout=60, **more):
        return self.json("POST", f"/v1/repositories/{name}/locate", {"title": title} | more, timeout=timeout)

    def metric(self, name):
        text = self.request("GET", "/metrics")[2].decode()
        found = re.search(rf"^{re.escape(name)} ([0-9.e+]+)$", text, re.MULTILINE)
        return float(found[1]) if found else None

    def index(self, name, path, seconds=900, **more):
        """Adds a repository and waits for the end of its job, which it gives."""
        begun = self.json("PUT", f"/v1/repositories/{name}", {"source": {"path": str(path)}} | more)
        return self.finished(begun["job"], seconds)

    def finished(self, job, seconds=900):
        """A job when it has ended; what it is by then, if it doesn't."""
        ended = wait_for(lambda: (it := self.json("GET", f"/v1/jobs/{job}"))["finished"] and it, seconds, 0.05)
        return ended or self.json("GET", f"/v1/jobs/{job}")

    def resident(self):
        """The bytes of memory it has."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        return self.process.wait()

    def stop(self, seconds=60):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return "killed, because it did not end"


def wait_for(what, seconds, pause=0.02):
    """What a function gives once it gives something true; None after a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(pause)
    return None


class Scratch:
    """A folder that goes when it is left, unless it is to be kept."""

    def __init__(self, keep=False):
        self.keep = keep

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="sightline-"))
        return self.path

    def __exit__(self, *_):
        if not self.keep:
            shutil.rmtree(self.path, ignore_errors=True)


def functions():
    """The functions of 3 to 16 lines of Sightline's own sources, without the tests' attributes."""
    found = []
    for path in sorted((OWN / "src").rglob("*.rs")):
        lines = path.read_text().splitlines()
        for at, line in enumerate(lines):
            head = re.match(r"( *)(?:pub(?:\([a-z]+\))? )?(?:async )?fn (\w+)", line)
            if not head:
                continue
            last = next((i for i in range(at + 1, min(at + 17, len(lines))) if lines[i] == head[1] + "}"), None)
            if last and last - at >= 2:
                text = "\n".join(it[len(head[1]) :] for it in lines[at : last + 1])
                found.append((head[2], path.stem, text))
    return found


WORDS = "account billing cache chart cursor dialog editor export filter gallery import journal layout mailbox report search".split()


def corpus(root, files, seed=0):
    """Writes a repository of Rust files with two real functions each, no two alike, and gives names of them to ask for.

    They are Sightline's own functions, dealt out anew and named with their module, so that names repeat as they do in real code.
    """
    known = functions()
    root.mkdir(parents=True, exist_ok=True)
    names = []
    for at in range(files):
        word, group = WORDS[(at + seed) % len(WORDS)], (at + seed * 7) // len(WORDS)
        folder = root / "crates" / word / "src"
        folder.mkdir(parents=True, exist_ok=True)
        text = [f"//! The {word} module, part {group} of series {seed}.\n"]
        for i in range(2):
            name, stem, body = known[(at * 2 + i + seed * 997) % len(known)]
            own = f"{name}_{word}_{group}"
            text.append(re.sub(rf"\bfn {name}\b", f"fn {own}", body, count=1) + "\n")
            names.append((own, f"{word} {stem}".replace("_", " ")))
        (folder / f"part_{group}.rs").write_text("\n".join(text))
    return names


def issues(names, count=64):
    """Titles and bodies of issues about a corpus."""
    made = []
    for at in range(count):
        name, about = names[at * 31 % len(names)]
        spoken = name.replace("_", " ")
        made.append(
            (
                f"{about.capitalize()} fails: {spoken}",
                f"Since the last update the {about} view shows an old value after {spoken} is used twice. Expected: the new value "
                f"appears at once. Seen: nothing happens, and the log says `{name}` gave an error. Happens with large files only.",
            )
        )
    return made
