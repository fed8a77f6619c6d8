#!/usr/bin/env python3
"""Whether clients of other services get right answers from `sightline serve`; `clients_check.sh` runs it.

    clients_check.py BINARY

Serves the model in the program, and a small one that sees, each on a free port. Every vector is held against that of `sightline embed`, to
1e-5 in each number, which is what batches make of it.
"""

import base64
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import huggingface_hub
import numpy as np
import openai

TESTS = Path(__file__).resolve().parent.parent / "tests"
SEEING = TESTS / "fixtures/qwen3_vl/tiny-a"
PICTURE = TESTS / "fixtures/checkout.png"
TEXTS = ["The quick brown fox jumps over the lazy dog.", "def add(a, b): return a + b", "naïve café 修复 🚀"]
KEY = "a-key-of-this-check-only"


class Served:
    """A service of its own, and the program's own vectors."""

    def __init__(self, binary, *model):
        self.binary, self.model = binary, model
        self.folder = tempfile.TemporaryDirectory()
        home = {"HOME": self.folder.name, "PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1"}
        self.environment = {**home, "SIGHTLINE_SERVER_KEYS": KEY}
        arguments = ["serve", "--port", "0", "--data-dir", self.folder.name, "--log", "error", *model]
        self.process = subprocess.Popen(
            [binary, *arguments], env=self.environment, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stderr.readline()
        assert "listening on " in line, line
        self.url = line.split("listening on ")[1].strip()
        self.wait()

    def wait(self):
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{self.url}/ready", timeout=10):
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        raise AssertionError("not ready after a minute")

    def vectors(self, rows):
        lines = "".join(json.dumps({"id": at, **row}) + "\n" for at, row in enumerate(rows))
        command = [self.binary, "embed", "--inputs", "-", *self.model]
        done = subprocess.run(command, env=self.environment, input=lines, capture_output=True, text=True, check=True)
        return [json.loads(line)["embedding"] for line in done.stdout.splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.folder.cleanup()


def check(what, found, expected):
    found, expected = np.asarray(found, dtype="float32"), np.asarray(expected, dtype="float32")
    assert found.shape == expected.shape, f"{what}: {found.shape} instead of {expected.shape}"
    worst = np.abs(found - expected).max()
    assert worst < 1e-5, f"{what}: {worst} apart"
    print(f"{what}: {'x'.join(map(str, found.shape))}, {worst:.1e} apart")


def refused(what, status, code, param, call):
    try:
        call()
    except openai.APIStatusError as error:
        found = (error.status_code, error.code, error.param)
        assert found == (status, code, param), f"{what}: {found}"
        print(f"{what}: {status} {code} {param}")
    else:
        raise AssertionError(f"{what}: not refused")


def check_openai(served, expected):
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0)
    model = client.models.list().data[0].id
    assert client.models.retrieve(model).id == model

    def create(**rest):
        return client.embeddings.create(model=model, **rest)

    def embeddings(**rest):
        answer = create(**rest)
        assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0
        assert [it.index for it in answer.data] == list(range(len(answer.data)))
        return [it.embedding for it in answer.data]

    # It asks for base64 unless it is told not to.
    check("openai, a list", embeddings(input=TEXTS), expected)
    check("openai, a text", embeddings(input=TEXTS[0], user="u"), expected[:1])
    check("openai, float", embeddings(input=TEXTS, encoding_format="float"), expected)
    text = create(input=TEXTS[:1], encoding_format="base64").data[0].embedding
    decoded = np.frombuffer(base64.b64decode(text), dtype="<f4") if isinstance(text, str) else text
    check("openai, base64 as it comes", [decoded], expected[:1])
    refused("openai, an empty text", 400, "input_empty", "input[1]", lambda: create(input=["a", ""]))
    refused("openai, a long text", 422, "input_too_long", "input", lambda: create(input="long " * 9000))
    other = lambda: client.embeddings.create(model="text-embedding-3-small", input="a")
    refused("openai, another model", 404, "model_not_found", "model", other)
    wrong = openai.OpenAI(base_url=f"{served.url}/v1", api_key="wrong-key-of-this-check", max_retries=0)
    try:
        wrong.embeddings.create(model=model, input="a")
        raise AssertionError("a wrong key is let in")
    except openai.AuthenticationError as error:
        print(f"openai, a wrong key: {error.status_code} {error.code}")
    return client, create


def check_huggingface(served, expected):
    def client(route):
        return huggingface_hub.InferenceClient(model=f"{served.url}/{route}", token=KEY)

    embed = client("embed").feature_extraction
    check("huggingface_hub, a text", embed(TEXTS[0]), expected[:1])
    check("huggingface_hub, a list", embed(TEXTS), expected)
    options = embed(TEXTS[0], normalize=True, truncate=True, truncation_direction="right")
    check("huggingface_hub, with options", options, expected[:1])
    if "encoding_format" in inspect.signature(embed).parameters:
        check("huggingface_hub, float", embed(TEXTS[0], encoding_format="float"), expected[:1])
    cosines = client("similarity").sentence_similarity(TEXTS[0], other_sentences=TEXTS[1:])
    check("huggingface_hub, sentence_similarity", cosines, np.asarray(expected[1:]) @ np.asarray(expected[0]))


def check_sight(served, client, create):
    """As vLLM's example for such a model asks."""
    text, url = "a tooltip", "data:image/png;base64," + base64.b64encode(PICTURE.read_bytes()).decode()
    instruction = "Find the code."
    row = {"text": text, "images": [str(PICTURE)], "instruction": instruction}
    (expected,) = served.vectors([row])
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text}]
    messages = [{"role": "system", "content": instruction}, {"role": "user", "content": content}]
    body = {"model": SEEING.name, "messages": messages, "encoding_format": "float"}
    answer = client.post("/embeddings", cast_to=openai.types.CreateEmbeddingResponse, body=body)
    check("openai, messages with a picture", [answer.data[0].embedding], [expected])

    whole = np.asarray(served.vectors([{"text": text}])[0], dtype="float32")
    short = whole[:16] / np.linalg.norm(whole[:16])
    check("openai, dimensions", [create(input=text, dimensions=16).data[0].embedding], [short])
    most = len(whole) + 1
    refused("openai, too many dimensions", 422, "dimensions_unsupported", "dimensions", lambda: create(input=text, dimensions=most))


def main():
    (binary,) = sys.argv[1:]
    print(f"openai {openai.__version__}, huggingface_hub {huggingface_hub.__version__}")
    with Served(binary) as served:
        print(f"all-MiniLM-L6-v2 at {served.url}")
        expected = served.vectors([{"text": text} for text in TEXTS])
        _, create = check_openai(served, expected)
        refused("openai, dimensions", 422, "dimensions_unsupported", "dimensions", lambda: create(input="a", dimensions=64))
        check_huggingface(served, expected)
    with Served(binary, "--model", str(SEEING)) as served:
        print(f"{SEEING.name} at {served.url}")
        expected = served.vectors([{"text": text} for text in TEXTS])
        client, create = check_openai(served, expected)
        check_huggingface(served, expected)
        check_sight(served, client, create)


if __name__ == "__main__":
    main()
