#!/usr/bin/env python3
"""Sightline beside transformers on the CPU: the same weights, the same work, one run, rounds in turn.

    pip install torch transformers==4.57.3
    scripts/make_checkpoint.py 2B /tmp/2b-l4 --layers 4 --vision-depth 4
    scripts/compare_torch.py /tmp/2b-l4 --sightline "cargo bench --bench qwen3_vl -- /tmp/2b-l4 --json"

The work: `text_8x256` (eight texts of 256 tokens), `text_1x24` (a query), `vision_1024x768` (a picture of 3,072 patches through patches,
blocks and mergers; `vision_layer` is a block of it). Each of torch's types runs in a process of its own that loads, warms up once, and
then does a round when told to; between them the command given with --sightline runs, and prints a JSON line for each work and type:

    {"what": "text_8x256", "dtype": "q8", "wall_s": 1.23, "cpu_s": 2.41}

Medians of the rounds are compared. CPU-seconds count both threads, so they stand up to a busy machine better than the wall does; but a
thread that spins while it waits for a neighbour is counted too. `bf16_avx512` is bf16 with oneDNN held to AVX-512, which matters where
the CPU has AMX. Peak memory is the largest resident set of a process (VmHWM), pages of a mapped file included.

    scripts/compare_torch.py --inputs rows.jsonl
    sightline embed --model /tmp/2b-l4 --policy reference --inputs rows.jsonl --dtype f32 > f32.jsonl     (and q8 alike)
    scripts/compare_torch.py --quality f32.jsonl q8.jsonl

writes 30 queries and 300 short candidates out of this repository's own sources, and compares two outputs on them: the cosine of each
pair, and how many of the ten nearest of each query the two agree on. `--torch-vectors KIND OUT` embeds the rows of --inputs by torch.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUERIES, CANDIDATES = 30, 300
KINDS = {
    "f32": {},
    "bf16": {},
    "bf16_avx512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "int8": {},
}


def load(folder, kind):
    """The model of a checkpoint without its head, in a type of torch's; `int8` quantises the linear layers of the text tower."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    dtype = torch.bfloat16 if kind.startswith("bf16") else torch.float32
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").eval().model
    if kind == "int8":
        torch.ao.quantization.quantize_dynamic(model.language_model, {torch.nn.Linear}, dtype=torch.qint8, inplace=True)
    return model


class Clock:
    """Wall and CPU time since it was made."""

    def __init__(self):
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self):
        return {"wall_s": time.perf_counter() - self.wall, "cpu_s": time.process_time() - self.cpu}


def text_work(model, rows, columns):
    """A function that runs texts of equal length through the text tower."""
    import torch

    ids = torch.randint(0, 3800, (rows, columns), generator=torch.Generator().manual_seed(1))

    def run():
        clock = Clock()
        model.language_model(input_ids=ids, use_cache=False)
        return {"": clock.read()}

    return run


def vision_work(model, rows=48, columns=64):
    """A function that runs a picture through the vision tower; its blocks are timed apart, for each of them."""
    import torch

    visual = model.visual
    pixels = torch.rand(rows * columns, 1536, generator=torch.Generator().manual_seed(1)).to(visual.dtype) * 2 - 1
    grid, seen = torch.tensor([[1, rows, columns]]), {}
    visual.blocks[0].register_forward_pre_hook(lambda *_: seen.update(start=Clock()))
    visual.blocks[-1].register_forward_hook(lambda *_: seen.update(blocks=seen["start"].read()))

    def run():
        clock = Clock()
        visual(pixels, grid_thw=grid)
        whole = clock.read()
        return {"": whole, "layer": {key: value / len(visual.blocks) for key, value in seen["blocks"].items()}}

    return run


def peak_memory():
    """The largest resident set of this process so far, in MB."""
    status = pathlib.Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def worker(folder, kind, threads):
    """Does the work named on each line of standard input; answers with JSON lines."""
    import torch

    torch.set_num_threads(threads)
    model = load(folder, kind)
    work = {"text_8x256": text_work(model, 8, 256), "text_1x24": text_work(model, 1, 24)}
    if kind != "int8":
        work["vision_1024x768"] = vision_work(model)
    with torch.inference_mode():
        for run in work.values():
            run()
        print(json.dumps({"what": sorted(work), "peak_mb": peak_memory()}), flush=True)
        for line in sys.stdin:
            for part, figures in work[line.strip()]().items():
                what = "vision_layer" if part else line.strip()
                print(json.dumps({"what": what, **figures, "peak_mb": peak_memory()}), flush=True)
            print(json.dumps(None), flush=True)


class Torch:
    """A process with one of torch's types loaded."""

    def __init__(self, folder, kind, threads):
        env = {**os.environ, **KINDS[kind], "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, __file__, folder, "--worker", kind, "--threads", str(threads)]
        self.name = "torch " + kind
        self.process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.known = self.answer()["what"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: the process ended with {self.process.wait()}; its messages are above")
        return json.loads(line)

    def round(self):
        for what in self.known:
            self.process.stdin.write(what + "\n")
            self.process.stdin.flush()
            while (figures := self.answer()) is not None:
                yield {**figures, "side": self.name}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Sightline:
    """A command that runs all the work once and prints its figures as JSON lines among others."""

    def __init__(self, command):
        self.command = command

    def round(self):
        process = subprocess.Popen(shlex.split(self.command), stdout=subprocess.PIPE, text=True)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{self.command}: ended with {process.returncode}; its messages are above")
        for line in out.splitlines():
            if line.startswith('{"'):
                # Without a figure of its own, a row has the peak of the whole command, whatever else it ran.
                figures = {"peak_mb": usage.ru_maxrss / 1024, **json.loads(line)}
                yield {**figures, "side": "sightline " + figures["dtype"]}

    def close(self):
        pass


def measure(sides, rounds):
    """All figures, (side, what) -> list; every side does a round before any does the next."""
    figures = {}
    for number in range(rounds):
        for side in sides:
            for found in side.round():
                figures.setdefault((found["side"], found["what"]), []).append(found)
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return figures


def median(rows, key):
    values = [row[key] for row in rows if key in row]
    return statistics.median(values) if values else float("nan")


def row(what, side, rows, base):
    """A line of the table; `base` is the CPU time of torch's types at the same work."""
    cpu, wall = median(rows, "cpu_s"), median(rows, "wall_s")
    least = [min(found[key] for found in rows) for key in ("cpu_s", "wall_s")]
    times = f"{cpu:.3f} | {least[0]:.3f} | {wall:.3f} | {least[1]:.3f}"
    ratios = " | ".join(f"{other / cpu:.2f}" for other in base)
    return f"| {what} | {side} | {times} | {ratios} | {median(rows, 'peak_mb'):.0f} |"


def table(figures):
    """Medians and least, with the ratio of torch's f32 and bf16 to each: above one means quicker than it."""
    lines = ["| work | side | CPU s | min | wall s | min | torch f32 / it | torch bf16 / it | peak MB |"]
    lines.append("|---|---|" + "--:|" * 7)
    for what in dict.fromkeys(what for _, what in figures):
        base = [median(figures.get(("torch " + kind, what), []), "cpu_s") for kind in ("f32", "bf16")]
        lines += [row(what, side, rows, base) for (side, other), rows in figures.items() if other == what]
    return "\n".join(lines)


def vectors(path):
    """id -> unit vector of an output of `sightline embed`."""
    import numpy

    rows = (json.loads(line) for line in open(path, encoding="utf-8") if line.strip())
    found = {row["id"]: numpy.array(row["embedding"], numpy.float64) for row in rows if "embedding" in row}
    return {key: value / numpy.linalg.norm(value) for key, value in found.items()}


def quality(exact, quick, queries=QUERIES):
    """Cosines and overlap of the ten nearest, of two outputs on the same inputs."""
    import numpy

    a, b = vectors(exact), vectors(quick)
    ids = [key for key in a if key in b]
    if len(ids) < len(a) or len(ids) <= queries + 10:
        sys.exit(f"{quick}: {len(ids)} of the {len(a)} vectors of {exact} are in it; both need the same rows, more than {queries + 10}")
    a, b = (numpy.stack([side[key] for key in ids]) for side in (a, b))
    cosines = (a * b).sum(1)
    nearest = [numpy.argsort(-(side[:queries] @ side[queries:].T), axis=1)[:, :10] for side in (a, b)]
    overlap = [len(set(x) & set(y)) / 10 for x, y in zip(*nearest)]
    spread = a[queries:] @ a[queries:].T
    print(f"cosine: least {cosines.min():.6f}, median {numpy.median(cosines):.6f} over {len(ids)} vectors")
    sizes = f"{queries} queries, {len(ids) - queries} candidates"
    print(f"top 10 overlap: mean {numpy.mean(overlap):.3f}, least {min(overlap):.1f} over {sizes}")
    print(f"candidates among themselves: median cosine {numpy.median(spread):.4f}")


def pieces(marker, lines):
    """Parts of the repository's sources that begin with a line of the given start: (path, text)."""
    for path in sorted(ROOT.glob("src/**/*.rs")):
        source = path.read_text().splitlines()
        for number, line in enumerate(source):
            if line.strip().startswith(marker):
                yield path.relative_to(ROOT), "\n".join(source[number : number + lines]).strip()


def spread(found, count):
    """So many of a list, evenly from all of it."""
    found = list(found)
    return [found[k * len(found) // count] for k in range(count)]


def input_rows():
    """Rows for `sightline embed`: queries first."""
    for k, (_, text) in enumerate(spread(pieces("/// ", 1), QUERIES)):
        yield {"id": f"q{k}", "instruction": "Retrieve the code that is described.", "text": text.removeprefix("///").strip()}
    for k, (path, text) in enumerate(spread(pieces(("fn ", "pub fn ", "pub(crate) fn "), 10), CANDIDATES)):
        yield {"id": f"c{k}", "text": f"File: {path}\n{text}"}


def torch_vectors(folder, kind, inputs, out, threads):
    """Embeds rows of text one by one with torch, as `sightline embed` would."""
    import torch
    from transformers import AutoTokenizer

    torch.set_num_threads(threads)
    model, tokenizer = load(folder, kind), AutoTokenizer.from_pretrained(folder)
    prompt = "<|im_start|>system\n{}<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    with open(out, "w") as file, torch.inference_mode():
        for row in map(json.loads, open(inputs)):
            text = prompt.format(row.get("instruction", "Represent the user's input."), row["text"])
            states = model.language_model(input_ids=tokenizer(text, return_tensors="pt")["input_ids"], use_cache=False)[0]
            vector = torch.nn.functional.normalize(states[0, -1].float(), dim=-1)
            file.write(json.dumps({"id": row["id"], "embedding": vector.tolist()}) + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", nargs="?")
    parser.add_argument("--sightline", help="a command that prints JSON lines; torch alone is measured without it")
    parser.add_argument("--kinds", default="f32,bf16,int8", help=f"torch's types, of {', '.join(KINDS)}; may be empty")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quality", nargs=2, metavar=("F32", "OTHER"))
    parser.add_argument("--inputs", help="rows for `sightline embed`")
    parser.add_argument("--torch-vectors", nargs=2, metavar=("KIND", "OUT"))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = arguments()
    if args.quality:
        return quality(*args.quality)
    if args.inputs and not args.torch_vectors:
        return pathlib.Path(args.inputs).write_text("".join(json.dumps(row) + "\n" for row in input_rows()))
    if args.checkpoint is None:
        sys.exit("a checkpoint is needed; scripts/make_checkpoint.py writes one")
    if args.torch_vectors:
        kind, out = args.torch_vectors
        return torch_vectors(args.checkpoint, kind, args.inputs, out, args.threads)
    if args.worker:
        return worker(args.checkpoint, args.worker, args.threads)
    sides = [Torch(args.checkpoint, kind, args.threads) for kind in args.kinds.split(",") if kind]
    sides += [Sightline(args.sightline)] if args.sightline else []
    print(table(measure(sides, args.rounds)))
    for side in sides:
        side.close()


if __name__ == "__main__":
    main()
