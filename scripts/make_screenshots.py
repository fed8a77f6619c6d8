#!/usr/bin/env python3
"""Makes screenshots with known text, as `ocr_check.py` measures reading on them, and pictures that are hard to read at all.

    apt-get install chromium fonts-dejavu fonts-liberation fonts-noto-mono
    pip install pillow numpy
    scripts/make_screenshots.py FOLDER [--only KIND]

FOLDER/truth.jsonl has a row for each screenshot: file, kind, text (which of the kind's texts), theme, format, width, height, scale, font, font_px,
lcd (subpixel rendering), lines in reading order, and gutter: the line numbers of an editor, which a reader may give before each line, all first,
or not at all. FOLDER/hard.jsonl has a row for each hard picture: file, expect (`text`, `no_text`, `turned`, `error`, `any`), lines.

Chromium draws the pages, half of them with subpixel rendering; the same Chromium and fonts give the same pixels.
"""

import argparse
import html
import io
import json
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import screenshot_texts as texts

MONO = ["DejaVu Sans Mono", "Liberation Mono", "Noto Sans Mono"]
SANS = ["DejaVu Sans", "Liberation Sans"]
MONO_FILE = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf"
# background, text, quiet text, line, panel, error, warning, link, string, keyword, comment, number
THEMES = {
    "dark": "#1e1e1e #d4d4d4 #9a9a9a #3c3c3c #2b2b2b #f48771 #e5c07b #6cb6ff #ce9178 #569cd6 #6a9955 #b5cea8".split(),
    "light": "#ffffff #24292f #6e7781 #d0d7de #f3f3f3 #c4161c #8a5a00 #0550ae #0a6b2d #8250df #6a737d #0550ae".split(),
}
NAMES = "back text quiet line panel error warn link string keyword comment number".split()
KEYWORDS = set(
    """and as async await break case chan class const def default elif else enum export extends false fn for from fun func if impl import in
    interface lambda len let match mut new nil None not null or pub raise readonly return select self Self struct switch this True type
    val var while""".split()
)
TOKENS = re.compile(r"(//.*|(?<!\S)# .*)|(\"[^\"]*\"|'[^']*'|\"\"\".*)|(\b\d[\w.]*\b)|([A-Za-z_]\w*)|(\s+|.)")
FONTS_CONF = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>/usr/share/fonts</dir><cachedir>{cache}</cachedir>
<match target="font"><edit name="antialias" mode="assign"><bool>true</bool></edit><edit name="hinting" mode="assign"><bool>true</bool></edit>
<edit name="hintstyle" mode="assign"><const>hintslight</const></edit><edit name="rgba" mode="assign"><const>{rgba}</const></edit></match></fontconfig>"""


# Pages. Each maker gives (HTML of the body, lines, further fields of the row).


def theme(name):
    return dict(zip(NAMES, THEMES[name], strict=True))


def style(colours, font, px, line=1.3):
    rules = "".join(f".{name}{{color:{value}}}" for name, value in colours.items())
    return (
        f"<style>*{{box-sizing:border-box}}body{{margin:0;background:{colours['back']};color:{colours['text']};font:{px}px/{line} '{font}'}}"
        f"pre{{font:inherit;margin:0;tab-size:4}}.row{{display:flex;align-items:center}}{rules}</style>"
    )


def listing(text, tab):
    """The lines as they look, without empty ones."""
    return [line.expandtabs(tab).rstrip() for line in text.split("\n") if line.strip()]


def terminal(index, colours, px):
    text = texts.TERMINALS[index]
    rows = []
    for line in text.split("\n"):
        kind = "link" if line.startswith("$") else "error" if re.search(r"Error|FAIL|panic|error", line) else "warn" if "warn" in line else "text"
        rows.append(f'<span class="{kind}">{html.escape(line)}</span>')
    shown = "\n".join(rows)
    return f'<pre style="padding:8px 10px;tab-size:8">{shown}</pre>', listing(text, 8), {}


def coloured(line):
    parts = []
    for comment, string, number, word, rest in TOKENS.findall(line):
        kind = "comment" if comment else "string" if string else "number" if number else "keyword" if word in KEYWORDS else "text"
        parts.append(f'<span class="{kind}">{html.escape(comment or string or number or word or rest)}</span>')
    return "".join(parts)


def editor(index, colours, px):
    language, first, text = texts.EDITORS[index]
    lines = text.split("\n")
    numbers = [str(first + it) for it, line in enumerate(lines)]
    name = f"{language}_sample.txt"
    tab = f'<div class="row" style="background:{colours["panel"]};height:30px;padding:0 14px">{name}</div>'
    gutter = "\n".join(numbers)
    code = "\n".join(coloured(line) for line in lines)
    body = f'{tab}<div style="display:flex"><pre class="quiet" style="padding:6px 18px;text-align:right">{gutter}</pre><pre style="padding:6px 0">{code}</pre></div>'
    return body, [name, *[line.expandtabs(4).rstrip() for line in lines]], {"gutter": ["", *numbers]}


def console(index, colours, px):
    tabs = ["Elements", "Console", "Sources", "Network"]
    body = f'<div class="row" style="background:{colours["panel"]};height:28px;padding:0 8px;gap:22px">{"".join(f"<span>{it}</span>" for it in tabs)}</div>'
    lines = [" ".join(tabs)]
    for level, message, source in texts.CONSOLES[index]:
        colour = {"error": "error", "warn": "warn"}.get(level, "error" if level == "stack" else "text")
        indent = 52 if level == "stack" else 30
        link = f'<span class="link" style="margin-left:auto;text-decoration:underline">{html.escape(source)}</span>'
        border = "" if level == "stack" else f"border-top:1px solid {colours['line']};"
        body += f'<div class="row {colour}" style="{border}padding:3px 12px 3px {indent}px"><span style="white-space:pre">{html.escape(message)}</span>{link}</div>'
        lines.append(f"{message} {source}".strip())
    return body, lines, {}


def log(index, colours, px):
    text = texts.LOGS[index]
    bar = ["Log Viewer", "All", "Errors", "Warnings", "Follow"]
    chips = "".join(f'<span style="border:1px solid {colours["line"]};border-radius:4px;padding:2px 10px">{it}</span>' for it in bar[1:])
    body = f'<div class="row" style="background:{colours["panel"]};height:36px;padding:0 10px;gap:12px;font-family:DejaVu Sans"><b>{bar[0]}</b>{chips}</div>'
    for number, line in enumerate(text.split("\n")):
        kind = "error" if re.search(r"ERR|error\]|segfault|Exception:", line) else "warn" if re.search(r"WA?RN|warn", line) else "text"
        stripe = f"background:{colours['panel']};" if number % 2 else ""
        body += f'<pre class="{kind}" style="{stripe}padding:2px 10px;tab-size:8">{html.escape(line)}</pre>'
    return body, [" ".join(bar), *listing(text, 8)], {}


def dialog(index, colours, px):
    parts, lines = [], []
    for kind, strings in texts.DIALOGS[index]:
        shown = [html.escape(it) for it in strings]
        lines.append(" ".join(strings))
        parts.append(DIALOG_PARTS[kind](shown, colours))
    frame = f"width:560px;margin:70px auto;border:1px solid {colours['line']};background:{colours['panel']};box-shadow:0 6px 24px #0006"
    return f'<div style="{frame}">{"".join(parts)}</div>', lines, {}


def boxed(text, colours, more=""):
    return f'<span style="border:1px solid {colours["quiet"]};background:{colours["back"]};padding:3px 14px;{more}">{text}</span>'


DIALOG_PARTS = {
    "title": lambda it, c: f'<div style="background:{c["line"]};padding:6px 10px;font-weight:bold">{it[0]}</div>',
    "menu": lambda it, c: f'<div class="row" style="gap:20px;padding:5px 10px">{"".join(f"<span>{x}</span>" for x in it)}</div>',
    "heading": lambda it, c: f'<div style="padding:10px 18px 4px;font-weight:bold">{it[0]}</div>',
    "text": lambda it, c: f'<div style="padding:3px 18px">{it[0]}</div>',
    "field": lambda it, c: f'<div class="row" style="padding:4px 18px"><span style="width:130px">{it[0]}</span>{boxed(it[1], c, "flex:1")}</div>',
    "check": lambda it, c: f'<div class="row" style="padding:4px 18px;gap:8px"><i style="width:12px;height:12px;border:1px solid {c["quiet"]}"></i>{it[0]}</div>',
    "buttons": lambda it, c: f'<div class="row" style="justify-content:flex-end;gap:8px;padding:14px">{"".join(boxed(x, c, "border-radius:3px") for x in it)}</div>',
}


def columns(index, colours, px):
    title, *sides = texts.COLUMNS[index]
    shown = "".join(f"<pre>{html.escape(side)}</pre>" for side in sides)
    body = f'<div style="padding:30px 50px"><h1 style="font-size:22px;margin:0 0 18px">{title}</h1><div style="display:flex;gap:70px">{shown}</div></div>'
    return body, [title, *[line for side in sides for line in listing(side, 8)]], {}


def tall(index, colours, px):
    order = [*texts.LOGS, *texts.TERMINALS, *texts.LOGS, *texts.TERMINALS]
    lines = "\n".join(order[index:] + order[:index]).split("\n")[: 3960 // 18]
    body = f'<pre style="padding:8px 10px;tab-size:8;line-height:18px">{html.escape(chr(10).join(lines))}</pre>'
    return body, listing("\n".join(lines), 8), {}


# kind: maker, font size, fonts, number of texts, (width, height), scale, formats
KINDS = {
    "terminal": (terminal, 14, MONO, len(texts.TERMINALS), (1024, 768), 1, ("png", "jpeg")),
    "editor": (editor, 13, MONO, len(texts.EDITORS), (1024, 768), 1, ("png", "jpeg")),
    "dialog": (dialog, 11, SANS, len(texts.DIALOGS), (1024, 768), 1, ("png", "jpeg")),
    "console": (console, 12, MONO[:1] + SANS, len(texts.CONSOLES), (1024, 768), 1, ("png", "jpeg")),
    "log": (log, 13, MONO, len(texts.LOGS), (1024, 768), 1, ("png", "jpeg")),
    "columns": (columns, 15, SANS, len(texts.COLUMNS), (900, 640), 1, ("png",)),
    "highdpi": (editor, 13, MONO, 2, (1024, 768), 2, ("png",)),
    "tall": (tall, 13, MONO, 2, (1024, 4000), 1, ("png",)),
    "small": (terminal, 10, MONO, 3, (800, 600), 1, ("png",)),
}
# What the bar of the five main kinds does not cover.
EXTRA = ("columns", "highdpi", "tall", "small")


def shoot(page, size, scale, lcd, scratch):
    """The page as a picture."""
    (scratch / "page.html").write_text(f"<!doctype html><meta charset=utf-8>{page}")
    conf = scratch / f"fonts-{lcd}.conf"
    conf.write_text(FONTS_CONF.format(cache=scratch / f"cache-{lcd}", rgba="rgb" if lcd else "none"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={scratch / 'profile'}", "--force-color-profile=srgb"]
    flags += [f"--window-size={size[0]},{size[1]}", f"--force-device-scale-factor={scale}", f"--screenshot={scratch / 'shot.png'}"]
    flags += ["--enable-lcd-text" if lcd else "--disable-lcd-text", (scratch / "page.html").as_uri()]
    environment = {**os.environ, "FONTCONFIG_FILE": str(conf), "LC_ALL": "C"}
    done = subprocess.run(["chromium", *flags], env=environment, capture_output=True, text=True, check=False, timeout=120)
    picture = Image.open(scratch / "shot.png").convert("RGB") if done.returncode == 0 else None
    if picture is None or picture.size != (size[0] * scale, size[1] * scale):
        raise SystemExit(f"chromium did not draw the page: {done.stderr[-500:]}")
    return picture


def screenshots(folder, only, scratch):
    for kind, (maker, px, fonts, count, size, scale, formats) in KINDS.items():
        if only and kind not in only:
            continue
        for index in range(count):
            for name in THEMES:
                font, lcd = fonts[index % len(fonts)], index % 2 == 0
                colours = theme(name)
                body, lines, more = maker(index, colours, px)
                picture = shoot(style(colours, font, px) + body, size, scale, lcd, scratch)
                check_margin(picture, f"{kind} {index}")
                for form in formats:
                    file = f"{kind}-{index}-{name}.{'png' if form == 'png' else 'jpg'}"
                    picture.save(folder / file, **({"quality": 80, "subsampling": "4:2:0"} if form == "jpeg" else {}))
                    row = {"file": file, "kind": kind, "text": index, "theme": name, "format": form, "width": picture.width, "height": picture.height}
                    yield {**row, "scale": scale, "font": font, "font_px": px, "lcd": lcd, "lines": lines, **more}


def check_margin(picture, what):
    """Text that runs out of the picture would make the truth wrong: some rows at the foot must be of few colours, and the right edge too."""
    right = np.asarray(picture)[:, -3:].reshape(-1, 3)
    if len(np.unique(right, axis=0)) > 8 or np.asarray(picture)[-6:].std(axis=1).max() > 1:
        raise SystemExit(f"{what} does not fit in its picture")


# Hard pictures.


def noise(width, height):
    """Something like a photograph: soft shapes and grain."""
    random = np.random.default_rng(7)
    coarse = Image.fromarray(random.integers(0, 256, (9, 12, 3), dtype=np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    grain = random.normal(0, 9, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(coarse) + grain, 0, 255).astype(np.uint8))


def gradient(width, height):
    y, x = np.mgrid[0:height, 0:width]
    return Image.fromarray(np.stack([x * 255 // width, y * 255 // height, (x + y) % 256], axis=-1).astype(np.uint8))


def drawn(size, lines, px, at=(20, 20), mode="L", ink=0, back=255):
    picture = Image.new(mode, size, back)
    write(picture, lines, px, at, ink)
    return picture


def write(picture, lines, px, at, ink=0):
    ImageDraw.Draw(picture).multiline_text(at, "\n".join(lines), fill=ink, font=ImageFont.truetype(MONO_FILE, px), spacing=px // 3)


def encoded(picture, form, **options):
    data = io.BytesIO()
    picture.save(data, form, **options)
    return data.getvalue()


LINES = ["IndexError: list index out of range", "  File \"report/table.py\", line 88, in cell", "    return self.rows[row][column]"]


def frames(lines):
    """An animated GIF whose first frame has other text than the rest."""
    pages = [drawn((640, 200), [f"frame {number}", *lines], 16) for number in range(12)]
    return encoded(pages[0], "GIF", save_all=True, append_images=pages[1:], duration=80, loop=0)


def sixteen_bit():
    values = np.asarray(drawn((640, 160), LINES, 16), dtype=np.uint16) * 257
    return encoded(Image.fromarray(values), "PNG")


def transparent(ink):
    """Text whose background is fully transparent, and black below that."""
    shape = np.asarray(drawn((640, 160), LINES, 16, ink=255, back=0))
    return encoded(Image.fromarray(np.dstack([np.full((*shape.shape, 3), ink, np.uint8) * (shape > 0)[..., None], shape])), "PNG")


def vertical():
    return drawn((400, 900), list("LATERAL") + [""] + list("SIDEBAR"), 32, at=(180, 20))


def huge():
    """12,000 x 9,000 with a block of text in each corner and in the middle."""
    picture = Image.new("L", (12_000, 9_000), 255)
    places = [(100, 100), (9_000, 150), (5_000, 4_400), (200, 8_600), (9_200, 8_500)]
    for number, at in enumerate(places):
        write(picture, [f"Block {number} of five", *LINES], 28, at)
    return picture


def words_of(lines):
    return [line.strip() for line in lines]


def hard_pictures(shot):
    """Name, bytes, what to expect, the text."""
    png, jpeg = encoded(shot, "PNG"), encoded(shot, "JPEG", quality=80)
    lines = listing(texts.TERMINALS[0], 8)
    angle = shot.rotate(15, Image.Resampling.BICUBIC, expand=True, fillcolor=(255, 255, 255))
    yield "blank-white.png", encoded(Image.new("RGB", (1024, 768), "white"), "PNG"), "no_text", []
    yield "blank-black.png", encoded(Image.new("RGB", (1024, 768), "black"), "PNG"), "no_text", []
    yield "1x1.png", encoded(Image.new("RGB", (1, 1), "red"), "PNG"), "no_text", []
    yield "8x8.png", encoded(gradient(8, 8), "PNG"), "no_text", []
    yield "227x1.png", encoded(gradient(227, 1), "PNG"), "no_text", []
    yield "1x227.png", encoded(gradient(1, 227), "PNG"), "no_text", []
    yield "4540x20.png", encoded(drawn((4540, 20), [LINES[0]], 12, at=(10, 2)), "PNG"), "any", [LINES[0]]
    yield "photo.jpg", encoded(noise(1200, 900), "JPEG", quality=85), "no_text", []
    yield "gradient.png", encoded(gradient(1200, 900), "PNG"), "no_text", []
    for turn in (90, 180, 270):
        yield f"turned-{turn}.png", encoded(shot.rotate(turn, expand=True), "PNG"), "turned", lines
    yield "turned-15.png", encoded(angle, "PNG"), "turned", lines
    yield "turned-2.png", encoded(shot.rotate(2, Image.Resampling.BICUBIC, expand=True, fillcolor=(255, 255, 255)), "PNG"), "any", lines
    yield "vertical.png", encoded(vertical(), "PNG"), "any", []
    yield "animated.gif", frames(LINES), "text", ["frame 0", *words_of(LINES)]
    yield "truncated.png", png[: len(png) * 2 // 3], "error", []
    yield "truncated.jpg", jpeg[: len(jpeg) * 2 // 3], "error", []
    yield "jpeg-less-128.jpg", jpeg[:-128], "error", []
    yield "head-only.png", png[:41], "error", []
    yield "empty.png", b"", "error", []
    yield "text-file.png", b"this is no picture\n", "error", []
    yield "sixteen-bit.png", sixteen_bit(), "text", words_of(LINES)
    yield "transparent-dark-ink.png", transparent(20), "text", words_of(LINES)
    yield "transparent-white-ink.png", transparent(255), "any", words_of(LINES)
    yield "100-megapixel.png", encoded(Image.new("L", (10_000, 10_000), 255), "PNG"), "any", []
    yield "12000x9000.png", encoded(huge(), "PNG"), "any", [line for number in range(5) for line in [f"Block {number} of five", *words_of(LINES)]]


def write_hard(folder, scratch):
    colours = theme("light")
    shot = shoot(style(colours, MONO[0], 14) + terminal(0, colours, 14)[0], (900, 560), 1, False, scratch)
    with (folder / "hard.jsonl").open("w") as rows:
        for name, data, expect, lines in hard_pictures(shot):
            (folder / name).write_bytes(data)
            rows.write(json.dumps({"file": name, "kind": "hard", "expect": expect, "lines": lines}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=[*KINDS, "hard"], help="may be repeated")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        if not arguments.only or set(arguments.only) - {"hard"}:
            with (arguments.folder / "truth.jsonl").open("w") as rows:
                for row in screenshots(arguments.folder, arguments.only, pathlib.Path(scratch)):
                    rows.write(json.dumps(row) + "\n")
        if not arguments.only or "hard" in arguments.only:
            write_hard(arguments.folder, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
