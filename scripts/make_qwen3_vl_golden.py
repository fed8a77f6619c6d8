#!/usr/bin/env python3
"""Makes the checkpoints, inputs and vectors that hold the Qwen3-VL encoder to transformers' own model: tests/fixtures/qwen3_vl.

    pip install torch torchvision transformers==4.57.3 qwen-vl-utils==0.0.14 Pillow==12.0.0
    scripts/make_qwen3_vl_golden.py                          all of them again
    scripts/make_qwen3_vl_golden.py --check FOLDER NAME      whether FOLDER/NAME.cases.json comes out of FOLDER/NAME
    scripts/qwen3_vl_mistakes.py                             how far usual mistakes of an implementation move the vectors

A checkpoint is a folder in the layout of the hub with random, seeded weights, as small as it can be; what it covers stands beside it
in CHECKPOINTS. Beside it lie

    <name>.cases.json           the inputs and what they become: prompt, ids, grids, the hash of each resized picture
    <name>.arrays.safetensors   <case>.input_ids i32[N], <case>.position_ids i32[3,N] (time, row, column), <case>.embedding f32[H],
                                <batch>.embedding f32[B,H]

The model is transformers' Qwen3VLModel in f32 on weights widened from the file; the pictures are read and resized by qwen_vl_utils; ids
come from the processor. What is written here is what Qwen's embedding class adds to them: the prompt, truncation at the right end
(template included), the last state that is not padding, and its length brought to one. `--check` proved it on vectors made with that
class itself. The tokenizer is Qwen's, cut down to the merges that the texts need (Apache-2.0, see NOTICE).
"""

import argparse
import copy
import hashlib
import json
import math
import pathlib
import sys
import unicodedata

import numpy
import torch
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file
from transformers import AutoTokenizer, Qwen2VLImageProcessorFast, Qwen3VLConfig, Qwen3VLModel, Qwen3VLProcessor, Qwen3VLVideoProcessor
from qwen_vl_utils.vision_process import process_vision_info

import make_checkpoint

FIXTURES = make_checkpoint.ROOT / "tests/fixtures/qwen3_vl"
FORMAT = 1
INSTRUCTION = "Represent the user's input."
DEFAULTS = {"max_length": 8192, "min_pixels": 4096, "max_pixels": 1800 * 32 * 32}

# What a checkpoint has that the others have not: types and files, the shape of each tower, how config.json words it, the tokenizer.
CHECKPOINTS = {
    # Untied with a head to ignore, two bf16 shards and an index; no width is a multiple of 8; three queries share a key;
    # `tie_word_embeddings` stands outside only.
    "untied": {
        "seed": 11,
        "dtype": "bf16",
        "shards": 2,
        "tied": ("top", False),
        "newer": False,
        "appends": False,
        "text": dict(hidden_size=28, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1, head_dim=16, intermediate_size=60),
        "rope": (10000, [5, 1, 2]),
        "eps": 1e-5,
        "vision": dict(hidden_size=24, depth=3, num_heads=2, intermediate_size=56, num_position_embeddings=400),
        "deepstack": [0, 2],
    },
    # f16; the tokenizer ends every text with <|endoftext|>; `rope_parameters`; tied, said inside only; another grid, deepstack of late
    # blocks.
    "appended": {
        "seed": 12,
        "dtype": "f16",
        "shards": 1,
        "tied": ("text", True),
        "newer": True,
        "appends": True,
        "text": dict(hidden_size=40, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=32, intermediate_size=80),
        "rope": (1000000, [8, 3, 5]),
        "eps": 1e-3,
        "vision": dict(hidden_size=24, depth=4, num_heads=3, intermediate_size=64, num_position_embeddings=576),
        "deepstack": [1, 3],
    },
    # f32; as many keys as queries, heads narrower than the state; more text layers than blocks; one deepstack layer.
    "narrow": {
        "seed": 13,
        "dtype": "f32",
        "shards": 1,
        "tied": ("both", True),
        "newer": False,
        "appends": False,
        "text": dict(hidden_size=20, num_hidden_layers=5, num_attention_heads=2, num_key_value_heads=2, head_dim=8, intermediate_size=48),
        "rope": (500000, [2, 1, 1]),
        "eps": 1e-4,
        "vision": dict(hidden_size=16, depth=2, num_heads=1, intermediate_size=40, num_position_embeddings=144),
        "deepstack": [1],
    },
}
VOCABULARY = 3872
# End of a tensor's name -> how much larger its layer makes a state; see tensor_scale.
GAINS = {"patch_embed.proj.weight": 0.3}
MERGER_GAINS = {"linear_fc1.weight": 1.2, "linear_fc2.weight": 8.0}

LONG = " ".join(f"Step {i}: open panel {i * 7 % 10}, drag the slider to {i * 13 % 100} and look at the tooltip." for i in range(10))
QUERY = "Given a GitHub issue report and its screenshots, retrieve the source files and functions that must be changed to resolve it."
CASES = {
    "text": {"text": "Tooltip is cut off at the right edge\n\nHover the last bar: it should flip to the left."},
    "instruction_text": {"instruction": QUERY, "text": "where is the config file parsed?"},
    "image_text": {"text": "a checkerboard with shapes", "image": ["plain_130x101.png"]},
    "two_images_text": {
        "instruction": " Compare the pictures ",
        "text": "before and after",
        "image": ["tall_201x250.png", "gray_119x77.png"],
    },
    "image_only": {"image": ["rgba_120x90.png"]},
    "text_truncated": {"text": LONG, "max_length": 60},
    "image_text_truncated": {"text": LONG, "image": ["exact_96x64.png"], "max_length": 48},
    "text_long": {"text": LONG},
}
BATCHES = {"batch": ["text", "image_text", "text_long", "two_images_text", "instruction_text"]}


def tensor_scale(name, shape):
    """Mean and deviation of a tensor, so that every part of the model moves the vector: small states where a norm's epsilon must show,
    deepstack features that count beside the states they are added to, and mergers whose GELU sees the values where its forms differ."""
    if make_checkpoint.is_norm(name):
        return 1.0, 0.3
    if name.endswith(".bias"):
        return 0.0, 0.1
    if name.endswith(("embed_tokens.weight", "pos_embed.weight")):
        return 0.0, 0.1
    gains = MERGER_GAINS if "merger" in name else GAINS
    gain = next((gain for part, gain in gains.items() if name.endswith(part)), 1.5)
    return 0.0, gain / math.sqrt(numpy.prod(shape[1:]))


def config_of(parts, ids):
    """config.json of a checkpoint of CHECKPOINTS."""
    (theta, sections), (place, tied) = parts["rope"], parts["tied"]
    text = {
        **{key: value for key, value in make_checkpoint.TEXT.items() if key not in ("rope_scaling", "rope_theta")},
        **parts["text"],
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "dtype": {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[parts["dtype"]],
        "rms_norm_eps": parts["eps"],
        "vocab_size": VOCABULARY,
    }
    rope = {"mrope_interleaved": True, "mrope_section": sections, "rope_type": "default"}
    text.update({"rope_parameters": {**rope, "rope_theta": theta}} if parts["newer"] else {"rope_scaling": rope, "rope_theta": theta})
    text.update({"tie_word_embeddings": tied} if place in ("text", "both") else {})
    vision = {**make_checkpoint.VISION, **parts["vision"], "out_hidden_size": parts["text"]["hidden_size"]}
    vision["deepstack_visual_indexes"] = parts["deepstack"]
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        **{key: ids[content] for key, content in make_checkpoint.SPECIAL.items()},
        **({"tie_word_embeddings": tied} if place in ("top", "both") else {}),
        "text_config": text,
        "vision_config": vision,
    }


def older(config):
    """A config in the words of transformers 4.57, which knows no `rope_parameters`; without `dtype`, so that the model is f32."""
    config = copy.deepcopy(config)
    config["text_config"].pop("dtype", None)
    rope = config["text_config"].pop("rope_parameters", None)
    if rope is not None:
        config["text_config"].update({"rope_theta": rope.pop("rope_theta"), "rope_scaling": rope})
    return config


def appending(tokenizer):
    """A tokenizer.json whose post-processor ends every text with <|endoftext|>."""
    end = "<|endoftext|>"
    template = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}],
        "pair": [{"Sequence": {"id": side, "type_id": 0}} for side in "AB"],
        "special_tokens": {end: {"id": end, "ids": [make_checkpoint.added_tokens(tokenizer)[end]], "tokens": [end]}},
    }
    return {**tokenizer, "post_processor": {"type": "Sequence", "processors": [tokenizer["post_processor"], template]}}


def write_checkpoint(folder, parts, tokenizer):
    """The folder of a checkpoint; `tokenizer` is the trimmed one, with nothing appended."""
    folder.mkdir(parents=True, exist_ok=True)
    config = config_of(parts, make_checkpoint.added_tokens(tokenizer))
    shapes = make_checkpoint.shapes_of({"tie_word_embeddings": parts["tied"][1], **config})
    chunks = lambda name, shape: make_checkpoint.random_chunks(name, shape, parts["seed"], tensor_scale)
    make_checkpoint.write_weights(folder, shapes, parts["dtype"], parts["shards"], chunks)
    make_checkpoint.write_settings(folder, config, tokenizer)
    tokenizer = appending(tokenizer) if parts["appends"] else tokenizer
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text + "\n")


def instruction_of(given):
    """The system turn: trimmed, ended by a full stop unless by punctuation; the default if blank."""
    text = (given or "").strip()
    if not text:
        return INSTRUCTION
    return text if unicodedata.category(text[-1]).startswith("P") else text + "."


def conversation(case, images):
    """The turns of an input, in the form that processors take; pictures come before text."""
    texts = case.get("text")
    texts = [] if texts is None else [texts] if isinstance(texts, str) else texts
    pixels = {key: case.get(key, DEFAULTS[key]) for key in ("min_pixels", "max_pixels")}
    content = [{"type": "image", "image": str(images / name), **pixels} for name in case.get("image") or []]
    content += [{"type": "text", "text": text} for text in texts]
    return [
        {"role": "system", "content": [{"type": "text", "text": instruction_of(case.get("instruction"))}]},
        {"role": "user", "content": content or [{"type": "text", "text": "NULL"}]},
    ]


class Reference:
    """The embedding model of a checkpoint, out of transformers' own parts."""

    def __init__(self, folder, edit=lambda config: None):
        described = older(json.loads((folder / "config.json").read_text()))
        edit(described)
        config = Qwen3VLConfig.from_dict(described)
        config._attn_implementation = "sdpa"
        self.model = Qwen3VLModel(config).eval()
        tensors = {}
        for path in sorted(folder.glob("*.safetensors")):
            tensors.update(load_file(path))
        tensors = {name.removeprefix("model."): tensor.float() for name, tensor in tensors.items() if name != "lm_head.weight"}
        self.model.load_state_dict(tensors, strict=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="right")
        self.processor = Qwen3VLProcessor(
            image_processor=Qwen2VLImageProcessorFast.from_pretrained(folder),
            tokenizer=tokenizer,
            video_processor=Qwen3VLVideoProcessor.from_pretrained(folder),
            chat_template=(folder / "chat_template.jinja").read_text(),
        )

    def inputs(self, cases, images):
        """Prompts, resized pictures, and the tensors for the model."""
        turns = [conversation(case, images) for case in cases]
        prompts = [self.processor.apply_chat_template(turn, add_generation_prompt=True, tokenize=False) for turn in turns]
        pictures, _ = process_vision_info(turns, image_patch_size=16)
        tensors = self.processor(
            text=prompts,
            images=pictures,
            truncation=True,
            max_length=max(case.get("max_length", DEFAULTS["max_length"]) for case in cases),
            padding=True,
            do_resize=False,
            return_tensors="pt",
        )
        return prompts, pictures or [], tensors

    def positions(self, tensors):
        """[3, batch, length]: time, row, column."""
        grids = tensors.get("image_grid_thw")
        return self.model.get_rope_index(tensors["input_ids"], grids, None, attention_mask=tensors["attention_mask"])[0]

    def embed(self, tensors, **given):
        """The unit vector of each row: its last state that is not padding."""
        with torch.inference_mode():
            states = self.model(**tensors, **given).last_hidden_state
        mask = tensors["attention_mask"]
        last = mask.shape[1] - 1 - mask.flip(1).argmax(1)
        assert states.dtype == torch.float32
        return torch.nn.functional.normalize(states[torch.arange(len(states)), last], dim=-1).numpy()


def picture_record(path, picture):
    """How a picture was read and resized."""
    from PIL import Image

    source = Image.open(path)
    return {
        "file": path.name,
        "source_mode": source.mode,
        "source_size_wh": list(source.size),
        "resized_size_wh": list(picture.size),
        "resized_rgb_sha256": hashlib.sha256(picture.tobytes()).hexdigest(),
    }


def run_case(reference, name, case, images):
    """The record of a case and its arrays."""
    record = {"name": name, "input": {key: case.get(key) for key in ("instruction", "text", "image")}}
    record.update({key: case.get(key, value) for key, value in DEFAULTS.items()})
    try:
        prompts, pictures, tensors = reference.inputs([case], images)
    except ValueError as error:
        return {**record, "expect_error": str(error)}, {}
    ids = tensors["input_ids"][0].tolist()
    record.update({"prompt": prompts[0], "token_ids": ids if len(ids) <= 400 else None, "num_tokens": len(ids)})
    record.update({"pooled_index": len(ids) - 1, "last_token_id": ids[-1]})
    if pictures:
        pixels = tensors["pixel_values"].numpy()
        digest = hashlib.sha256(pixels.astype("<f4").tobytes()).hexdigest()
        record["image_grid_thw"] = tensors["image_grid_thw"].tolist()
        record["images"] = [picture_record(images / file, picture) for file, picture in zip(case["image"], pictures)]
        record["pixel_values"] = {"shape": list(pixels.shape), "sha256_f32le": digest}
    arrays = {
        "input_ids": numpy.array(ids, "<i4"),
        "position_ids": reference.positions(tensors)[:, 0].numpy().astype("<i4"),
        "embedding": reference.embed(tensors)[0],
    }
    return record, {f"{name}.{key}": numpy.ascontiguousarray(value) for key, value in arrays.items()}


def run_batch(reference, name, members, images):
    """The record of a batch, padded on the right as the reference does, and its vectors."""
    _, _, tensors = reference.inputs([CASES[member] for member in members], images)
    lengths = tensors["attention_mask"].sum(1).tolist()
    record = {"name": name, "members": members, "padded_length": tensors["input_ids"].shape[1], "lengths": lengths}
    return record, {name + ".embedding": reference.embed(tensors)}


def versions():
    """The versions that the figures come from."""
    import PIL
    import qwen_vl_utils
    import tokenizers
    import transformers
    from importlib.metadata import version

    named = {module.__name__: module.__version__ for module in (torch, transformers, tokenizers, numpy, PIL)}
    return {**named, "qwen_vl_utils": getattr(qwen_vl_utils, "__version__", None) or version("qwen-vl-utils")}


def make(name, parts, tokenizer):
    """A checkpoint, its cases and its arrays."""
    write_checkpoint(FIXTURES / name, parts, tokenizer)
    reference, images = Reference(FIXTURES / name), FIXTURES / "images"
    cases, batches, arrays = [], [], {}
    for case, given in CASES.items():
        record, found = run_case(reference, case, given, images)
        cases.append(record)
        arrays.update(found)
    for batch, members in BATCHES.items():
        record, found = run_batch(reference, batch, members, images)
        single = numpy.stack([arrays[member + ".embedding"] for member in members])
        record["max_abs_to_single"] = float(numpy.abs(found[batch + ".embedding"] - single).max())
        batches.append(record)
        arrays.update(found)
    whole = {"format": FORMAT, "model": name, "mrl_dims": [], "versions": versions(), "cases": cases, "batches": batches}
    make_checkpoint.write_json(FIXTURES / f"{name}.cases.json", whole)
    save_arrays(arrays, FIXTURES / f"{name}.arrays.safetensors")


def check(root, name):
    """Compares the recorded cases of a checkpoint with what comes out of it here."""
    recorded = json.loads((root / f"{name}.cases.json").read_text())
    arrays = load_arrays(root / f"{name}.arrays.safetensors")
    reference, worst, wrong = Reference(root / name), 0.0, 0
    for case in recorded["cases"]:
        given = {**case["input"], **{key: case[key] for key in DEFAULTS}}
        record, found = run_case(reference, case["name"], given, root / "images")
        unequal = [key for key in record if key != "pixel_values" and record[key] != case.get(key)]
        hashes = [side.get("pixel_values", {}).get("sha256_f32le") for side in (record, case)]
        unequal += ["pixel_values"] if hashes[0] != hashes[1] else []
        for key, value in found.items():
            if key.endswith(".embedding"):
                worst = max(worst, difference := float(numpy.abs(value - arrays[key]).max()))
                unequal += [f"embedding by {difference:.1e}"] if difference > 2e-6 else []
            elif not numpy.array_equal(value, arrays[key]):
                unequal.append(key)
        wrong += bool(unequal)
        print(f"{case['name']:32} {'differs: ' + ', '.join(unequal) if unequal else 'equal'}")
    print(f"{len(recorded['cases'])} cases, {wrong} differ; vectors within {worst:.1e}")
    return wrong == 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help=f"which, of {', '.join(CHECKPOINTS)} (default: all)")
    parser.add_argument("--check", nargs=2, metavar=("FOLDER", "NAME"))
    parser.add_argument("--tokenizer", type=pathlib.Path, default=FIXTURES / "untied/tokenizer.json", help="the trimmed tokenizer.json")
    return parser.parse_args()


def main():
    args = arguments()
    torch.set_num_threads(1)
    if args.check:
        sys.exit(not check(pathlib.Path(args.check[0]), args.check[1]))
    tokenizer = json.loads(args.tokenizer.read_text())
    for name in args.names or CHECKPOINTS:
        make(name, CHECKPOINTS[name], tokenizer)


if __name__ == "__main__":
    main()
