#!/usr/bin/env python3
"""What the fuzz target `model_files` starts from: the small models of the tests, each as length of config.json, config.json, weights.

    scripts/model_corpus.py fuzz/corpus/model_files
"""

import pathlib
import struct
import sys

FIXTURES = pathlib.Path(__file__).parent.parent / "tests/fixtures/qwen3_vl"


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for weights in sorted(FIXTURES.glob("*/*.safetensors")):
        config = (weights.parent / "config.json").read_bytes()
        name = f"{weights.parent.name}-{weights.stem}"
        (out / name).write_bytes(struct.pack("<H", len(config)) + config + weights.read_bytes())


main()
