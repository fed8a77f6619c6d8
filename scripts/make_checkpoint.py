#!/usr/bin/env python3
"""Writes a checkpoint of random weights in the layout of Qwen3-VL-Embedding: for timing, memory and parity, never for ranking.

    scripts/make_checkpoint.py 2B /tmp/2b --dtype bf16
    scripts/make_checkpoint.py 2B /tmp/2b-l4 --layers 4 --vision-depth 4

Needs Python 3.9 and numpy alone. Tensors are made and written one after the other, so that a 16 GB checkpoint needs the memory of its
largest tensor. Each tensor has a random stream of its own (the seed and the tensor's name), so that the text layers of two
checkpoints with another number of layers agree. Matrices and tables are normal(0, 0.02), weights of norms normal(1, 0.02), which
keeps activations at the scale of a trained model. The tokenizer is the trimmed one of the test fixtures unless one is given;
`vocab_size` stays that of the shape, since the width of the table is what costs memory.
"""

import argparse
import hashlib
import json
import pathlib
import shutil
import struct
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENIZER = ROOT / "tests/fixtures/qwen3_vl/untied/tokenizer.json"
ROWS = 1 << 24  # values made at a time

VISION = {
    "deepstack_visual_indexes": [],
    "hidden_act": "gelu_pytorch_tanh",
    "in_channels": 3,
    "initializer_range": 0.02,
    "model_type": "qwen3_vl",
    "num_position_embeddings": 2304,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
TEXT = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 128,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 262144,
    "model_type": "qwen3_vl_text",
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-6,
    "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
    "rope_theta": 5000000,
    "use_cache": True,
    "vocab_size": 151936,
}
# shape: text (hidden, layers, heads, intermediate), vision (depth, hidden, heads, intermediate, deepstack), tied embeddings
SHAPES = {
    "2B": ((2048, 28, 16, 6144), (24, 1024, 16, 4096, [5, 11, 17]), True),
    "8B": ((4096, 36, 32, 12288), (27, 1152, 16, 4304, [8, 16, 24]), False),
}
SPECIAL = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
PREPROCESSOR = {
    "size": {"longest_edge": 16777216, "shortest_edge": 65536},
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "processor_class": "Qwen3VLProcessor",
    "image_processor_type": "Qwen2VLImageProcessorFast",
}
VIDEO_PREPROCESSOR = {
    **{k: v for k, v in PREPROCESSOR.items() if k != "image_processor_type"},
    "size": {"longest_edge": 25165824, "shortest_edge": 4096},
    "video_processor_type": "Qwen3VLVideoProcessor",
}
CHAT_TEMPLATE = """\
{%- macro part(c) -%}
    {%- if c.type == 'image' or 'image' in c -%}<|vision_start|><|image_pad|><|vision_end|>
    {%- elif c.type == 'video' or 'video' in c -%}<|vision_start|><|video_pad|><|vision_end|>
    {%- elif 'text' in c -%}{{- c.text -}}
    {%- endif -%}
{%- endmacro -%}
{%- for m in messages -%}
    {{- '<|im_start|>' + m.role + '\\n' -}}
    {%- if m.content is string -%}{{- m.content -}}
    {%- else -%}{%- for c in m.content -%}{{- part(c) -}}{%- endfor -%}
    {%- endif -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""


def added_tokens(tokenizer):
    """Content -> id of a tokenizer's added tokens."""
    return {token["content"]: token["id"] for token in tokenizer["added_tokens"]}


def config_of(shape, layers, vision_depth, dtype, tokenizer):
    """The config.json of a shape; fewer layers or blocks than published keep all else."""
    (hidden, all_layers, heads, intermediate), (depth, v_hidden, v_heads, v_intermediate, deepstack), tied = SHAPES[shape]
    if vision_depth not in (None, depth):
        depth, deepstack = vision_depth, [k * vision_depth // 4 - 1 for k in (1, 2, 3)]
    ids = added_tokens(tokenizer)
    text = {
        **TEXT,
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "dtype": {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[dtype],
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_attention_heads": heads,
        "num_hidden_layers": layers or all_layers,
        "tie_word_embeddings": tied,
    }
    vision = {
        **VISION,
        "deepstack_visual_indexes": deepstack,
        "depth": depth,
        "hidden_size": v_hidden,
        "intermediate_size": v_intermediate,
        "num_heads": v_heads,
        "out_hidden_size": hidden,
    }
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        **{key: ids[content] for key, content in SPECIAL.items()},
        "tie_word_embeddings": tied,
        "transformers_version": "4.57.3",
        "text_config": text,
        "vision_config": vision,
    }


def linear(name, rows, columns, bias=True):
    """The shapes of a linear layer."""
    return {name + ".weight": (rows, columns), **({name + ".bias": (rows,)} if bias else {})}


def layer_norm(name, width):
    """The shapes of a LayerNorm."""
    return {name + ".weight": (width,), name + ".bias": (width,)}


def text_shapes(text):
    """Name -> shape of the tensors of the text tower."""
    hidden, head = text["hidden_size"], text["head_dim"]
    queries, keys = text["num_attention_heads"] * head, text["num_key_value_heads"] * head
    shapes = {"model.language_model.embed_tokens.weight": (text["vocab_size"], hidden)}
    for layer in range(text["num_hidden_layers"]):
        at = f"model.language_model.layers.{layer}."
        shapes[at + "input_layernorm.weight"] = (hidden,)
        for name, rows, columns in (("q", queries, hidden), ("k", keys, hidden), ("v", keys, hidden), ("o", hidden, queries)):
            shapes.update(linear(f"{at}self_attn.{name}_proj", rows, columns, bias=False))
        shapes[at + "self_attn.q_norm.weight"] = shapes[at + "self_attn.k_norm.weight"] = (head,)
        shapes[at + "post_attention_layernorm.weight"] = (hidden,)
        for name in ("gate", "up"):
            shapes.update(linear(f"{at}mlp.{name}_proj", text["intermediate_size"], hidden, bias=False))
        shapes.update(linear(at + "mlp.down_proj", hidden, text["intermediate_size"], bias=False))
    shapes["model.language_model.norm.weight"] = (hidden,)
    return shapes


def vision_shapes(vision):
    """Name -> shape of the tensors of the vision tower."""
    hidden, patch = vision["hidden_size"], vision["patch_size"]
    group = hidden * vision["spatial_merge_size"] ** 2
    root = "model.visual."
    proj = root + "patch_embed.proj"
    shapes = {
        proj + ".weight": (hidden, vision["in_channels"], vision["temporal_patch_size"], patch, patch),
        proj + ".bias": (hidden,),
        root + "pos_embed.weight": (vision["num_position_embeddings"], hidden),
    }
    for block in range(vision["depth"]):
        at = f"{root}blocks.{block}."
        shapes.update({**layer_norm(at + "norm1", hidden), **linear(at + "attn.qkv", 3 * hidden, hidden)})
        shapes.update({**linear(at + "attn.proj", hidden, hidden), **layer_norm(at + "norm2", hidden)})
        shapes.update(linear(at + "mlp.linear_fc1", vision["intermediate_size"], hidden))
        shapes.update(linear(at + "mlp.linear_fc2", hidden, vision["intermediate_size"]))
    mergers = {root + "merger": hidden}
    mergers.update({f"{root}deepstack_merger_list.{k}": group for k in range(len(vision["deepstack_visual_indexes"]))})
    for at, normalised in mergers.items():
        shapes.update({**layer_norm(at + ".norm", normalised), **linear(at + ".linear_fc1", group, group)})
        shapes.update(linear(at + ".linear_fc2", vision["out_hidden_size"], group))
    return shapes


def shapes_of(config):
    """Name -> shape of every tensor of a checkpoint, in the order of the file."""
    shapes = {**text_shapes(config["text_config"]), **vision_shapes(config["vision_config"])}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = shapes["model.language_model.embed_tokens.weight"]
    return shapes


def encode(values, dtype):
    """The little-endian bytes of f32 values as f32, f16 or bf16, rounded to nearest, ties to even."""
    if dtype == "f32":
        return values.astype("<f4").tobytes()
    if dtype == "f16":
        return values.astype("<f2").tobytes()
    bits = values.astype("<f4").view("<u4")
    return ((bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16).astype("<u2").tobytes()


def is_norm(name):
    """Whether a tensor is the weight of a norm, which lies around one."""
    return name.endswith("norm.weight") or name.endswith(("norm1.weight", "norm2.weight"))


def hub_scale(name, _shape):
    """Mean and deviation of a tensor's values."""
    return (1.0 if is_norm(name) else 0.0), 0.02


def random_chunks(name, shape, seed, scale):
    """The values of a tensor, a part at a time."""
    stream = numpy.random.Generator(numpy.random.PCG64(int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "big")))
    mean, deviation = scale(name, shape)
    left = int(numpy.prod(shape))
    while left:
        count = min(left, ROWS)
        values = stream.standard_normal(count, dtype=numpy.float32)
        values *= numpy.float32(deviation)
        values += numpy.float32(mean)
        yield values
        left -= count


def write_file(path, shapes, dtype, chunks):
    """A safetensors file; `chunks(name, shape)` yields the f32 values of a tensor."""
    width, header, at = (4 if dtype == "f32" else 2), {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = width * int(numpy.prod(shape))
        header[name] = {"dtype": dtype.upper(), "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            for values in chunks(name, shape):
                file.write(encode(values, dtype))
    return at


def split(shapes, shards):
    """The shapes in as many groups of about equal size; consecutive, as in published checkpoints."""
    sizes = [int(numpy.prod(shape)) for shape in shapes.values()]
    groups, passed = [{} for _ in range(shards)], 0
    for (name, shape), size in zip(shapes.items(), sizes):
        groups[min(shards - 1, (passed + size // 2) * shards // sum(sizes))][name] = shape
        passed += size
    return groups


def write_weights(folder, shapes, dtype, shards, chunks):
    """model.safetensors, or shards and their index."""
    if shards == 1:
        return write_file(folder / "model.safetensors", shapes, dtype, chunks)
    total, places = 0, {}
    for k, group in enumerate(split(shapes, shards), 1):
        name = f"model-{k:05}-of-{shards:05}.safetensors"
        total += write_file(folder / name, group, dtype, chunks)
        places.update({tensor: name for tensor in group})
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
    write_json(folder / "model.safetensors.index.json", index)
    return total


def write_json(path, value):
    """A JSON file that ends with a newline."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def tokenizer_config(tokenizer):
    """A tokenizer_config.json for transformers."""
    keys = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(token["id"]): {key: token[key] for key in keys} for token in tokenizer["added_tokens"]},
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 262144,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def write_settings(folder, config, tokenizer):
    """Everything of a checkpoint but the weights and tokenizer.json."""
    write_json(folder / "config.json", config)
    write_json(folder / "tokenizer_config.json", tokenizer_config(tokenizer))
    write_json(folder / "preprocessor_config.json", PREPROCESSOR)
    write_json(folder / "video_preprocessor_config.json", VIDEO_PREPROCESSOR)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--dtype", choices=("f32", "f16", "bf16"), default="bf16")
    parser.add_argument("--layers", type=int, help="text layers (default: as published)")
    parser.add_argument("--vision-depth", type=int, help="vision blocks, 4 or more (default: as published)")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokenizer", type=pathlib.Path, default=TOKENIZER, help="a tokenizer.json")
    return parser.parse_args()


def main():
    args = arguments()
    tokenizer = json.loads(args.tokenizer.read_text())
    config = config_of(args.shape, args.layers, args.vision_depth, args.dtype, tokenizer)
    args.out.mkdir(parents=True, exist_ok=True)
    chunks = lambda name, shape: random_chunks(name, shape, args.seed, hub_scale)
    total = write_weights(args.out, shapes_of(config), args.dtype, args.shards, chunks)
    write_settings(args.out, config, tokenizer)
    shutil.copyfile(args.tokenizer, args.out / "tokenizer.json")
    print(f"{args.out}: {total / 1e9:.2f} GB of {args.dtype} weights", file=sys.stderr)


if __name__ == "__main__":
    main()
