#!/usr/bin/env python3
"""How far usual mistakes of an implementation move the vectors of tests/fixtures/qwen3_vl: whether the fixtures would show them.

    scripts/qwen3_vl_mistakes.py [NAME...]

Needs what make_qwen3_vl_golden.py needs. Each mistake is made in transformers' model; the largest absolute difference on a unit vector
is printed for each checkpoint and case, and the largest of them. A test with a tolerance of 1e-5 shows what moves a vector by more.
"""

import sys

import torch
from torch import nn

from make_qwen3_vl_golden import CASES, CHECKPOINTS, FIXTURES, Reference


def text(**changes):
    """A mistake in the text config."""
    return dict(edit=lambda config: config["text_config"].update(changes))


def sections(config):
    """Every third frequency goes to rows and columns, without an end."""
    config["text_config"]["rope_scaling"]["mrope_section"] = [24, 20, 20]


def activation(find, function):
    """Another GELU in the parts of the vision tower that `find` gives."""

    def patch(model):
        for part in find(model.visual):
            part.act_fn = function

    return dict(patch=patch)


def layer_norm_eps(model):
    for part in model.visual.modules():
        if isinstance(part, nn.LayerNorm):
            part.eps = 1e-5


def no_deepstack(model):
    model.language_model._deepstack_process = lambda states, mask, features: states


def deepstack_reversed(model):
    model.visual.deepstack_merger_list = nn.ModuleList(reversed(model.visual.deepstack_merger_list))


def deepstack_one_block_late(config):
    indices = config["vision_config"]["deepstack_visual_indexes"]
    config["vision_config"]["deepstack_visual_indexes"] = [index - 1 if index else 1 for index in indices]


def not_causal(model):
    for layer in model.language_model.layers:
        layer.self_attn.is_causal = False


def no_head_norm(model):
    for layer in model.language_model.layers:
        layer.self_attn.q_norm = layer.self_attn.k_norm = nn.Identity()


def across_images(model):
    """Patches of a picture attend to those of the next."""

    def one(_, args, kwargs):
        ends = kwargs["cu_seqlens"]
        return args, {**kwargs, "cu_seqlens": ends[[0, -1]]}

    for block in model.visual.blocks:
        block.register_forward_pre_hook(one, with_kwargs=True)


def chunked(model):
    """Sections one after the other instead of interleaved, as in Qwen2-VL."""

    def apply(freqs, counts):
        ends = torch.tensor([0, *counts]).cumsum(0)
        return torch.cat([freqs[axis, ..., ends[axis] : ends[axis + 1]] for axis in range(3)], -1)

    model.language_model.rotary_emb.apply_interleaved_mrope = apply


def vision_theta(model):
    buffer = model.visual.rotary_pos_emb.inv_freq
    buffer.copy_(1.0 / 5e6 ** (torch.arange(len(buffer)) / len(buffer)))


def raster_positions(model):
    """The position table in the order of rows, where patches lie in the order of merging."""
    inside = model.visual.fast_pos_embed_interpolate

    def apply(grids):
        parts = inside(grids).split((grids[:, 1] * grids[:, 2]).tolist())
        shaped = (part.view(h // 2, w // 2, 2, 2, -1) for part, (_, h, w) in zip(parts, grids.tolist()))
        return torch.cat([part.permute(0, 2, 1, 3, 4).flatten(0, 3) for part in shaped])

    model.visual.fast_pos_embed_interpolate = apply


def half_pixel_positions(model):
    """The position table resized with the corners of its cells aligned, not their centres."""

    def apply(grids):
        side = model.visual.num_grid_per_side
        table, found = model.visual.pos_embed.weight.view(1, side, side, -1).permute(0, 3, 1, 2), []
        for _, h, w in grids.tolist():
            resized = nn.functional.interpolate(table, (h, w), mode="bilinear", align_corners=False)[0]
            found.append(resized.view(-1, h // 2, 2, w // 2, 2).permute(1, 3, 2, 4, 0).flatten(0, 3))
        return torch.cat(found)

    model.visual.fast_pos_embed_interpolate = apply


def plain_positions(reference, tensors):
    """Tokens counted one by one, pictures included."""
    return dict(position_ids=torch.arange(tensors["input_ids"].shape[1]).expand(3, 1, -1))


def late_positions(reference, tensors):
    """The text after a picture counts all its tokens, not its longer side."""
    ids, positions = tensors["input_ids"][0], reference.positions(tensors).clone()
    image = reference.model.config.image_token_id
    for place in range(1, len(ids)):
        if ids[place] != image and ids[place - 1] == image:
            start = max(k for k in range(place) if ids[k] != image)
            positions[:, :, place:] += positions[0, 0, start] + place - start - positions[0, 0, place]
    return dict(position_ids=positions)


MERGERS = lambda visual: [visual.merger, *visual.deepstack_merger_list]
MISTAKES = {
    "erf GELU in vision blocks": activation(lambda visual: [block.mlp for block in visual.blocks], nn.GELU()),
    "tanh GELU in all mergers": activation(MERGERS, nn.GELU(approximate="tanh")),
    "tanh GELU in the main merger": activation(lambda visual: [visual.merger], nn.GELU(approximate="tanh")),
    "tanh GELU in deepstack mergers": activation(lambda visual: visual.deepstack_merger_list, nn.GELU(approximate="tanh")),
    "rms_norm_eps 1e-6": text(rms_norm_eps=1e-6),
    "LayerNorm eps 1e-5": dict(patch=layer_norm_eps),
    "rope theta 5e6": text(rope_theta=5e6),
    "rope theta 1e6": text(rope_theta=1e6),
    "vision rope theta 5e6": dict(patch=vision_theta),
    "sections 24, 20, 20": dict(edit=sections),
    "sections in chunks": dict(patch=chunked),
    "positions without axes": dict(given=plain_positions),
    "positions after a picture too late": dict(given=late_positions),
    "position table in row order": dict(patch=raster_positions),
    "position table by half pixels": dict(patch=half_pixel_positions),
    "no deepstack": dict(patch=no_deepstack),
    "deepstack of other blocks": dict(edit=deepstack_one_block_late),
    "deepstack in reverse": dict(patch=deepstack_reversed),
    "no causal mask": dict(patch=not_causal),
    "no norm of queries and keys": dict(patch=no_head_norm),
    "attention across pictures": dict(patch=across_images),
    "last token missing": dict(shorter=1),
}


def shorten(tensors, count):
    """Inputs without their last tokens."""
    cut = {key: tensors[key][:, : tensors[key].shape[1] - count] for key in ("input_ids", "attention_mask")}
    return {**tensors, **cut}


def vectors(name, inputs, edit=lambda config: None, patch=None, given=lambda *_: {}, shorter=0):
    """Case -> vector, with a mistake."""
    reference = Reference(FIXTURES / name, edit)
    with torch.inference_mode():
        if patch:
            patch(reference.model)
    cut = {case: shorten(tensors, shorter) for case, tensors in inputs.items()}
    return {case: reference.embed(tensors, **given(reference, tensors)) for case, tensors in cut.items()}


def main():
    torch.set_num_threads(1)
    names = sys.argv[1:] or list(CHECKPOINTS)
    rows = {mistake: [] for mistake in MISTAKES}
    for name in names:
        reference = Reference(FIXTURES / name)
        inputs = {case: reference.inputs([given], FIXTURES / "images")[2] for case, given in CASES.items()}
        right = vectors(name, inputs)
        for mistake, parts in MISTAKES.items():
            wrong = vectors(name, inputs, **parts)
            moved = {case: float(abs(wrong[case] - right[case]).max()) for case in CASES}
            rows[mistake].append(moved)
    print(f"{'mistake':36}" + "".join(f"{name:>12}" for name in names) + "   case that shows it best")
    for mistake, found in rows.items():
        best = max(CASES, key=lambda case: max(moved[case] for moved in found))
        print(f"{mistake:36}" + "".join(f"{max(moved.values()):12.1e}" for moved in found) + "   " + best)


if __name__ == "__main__":
    main()
