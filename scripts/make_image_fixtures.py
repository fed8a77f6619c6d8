#!/usr/bin/env python3
"""Makes tests/fixtures/images: small pictures of unusual kinds, and what Pillow shows of them.

    pip install Pillow==12.0.0 numpy qwen-vl-utils==0.0.14
    scripts/make_image_fixtures.py tests/fixtures/images

`expected.json` has for each file its size and the SHA-256 of its 8-bit RGB by policy. `reference` is `to_rgb` of qwen_vl_utils 0.0.14 on
what Pillow opens. `default` is the picture as it is meant to be seen: turned by Pillow's `exif_transpose`, composited on white by Pillow's
`paste`, 16 bits scaled to 8 by numpy from the values that this script stored. Files that are lossy have `rgb`, the bytes in
hexadecimal, since decoders differ by a few levels. PNG and GIF files of kinds that Pillow does not write are written here.

`sizes.json` has `smart_resize` of qwen_vl_utils, null where it raises or a side becomes zero, and the SHA-256 of what Pillow's bicubic makes of
the picture whose value at (x, y, channel) is (7 x + 13 y + 29 channel + x y) mod 251.
"""

import hashlib
import io
import json
import pathlib
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps
from qwen_vl_utils.vision_process import smart_resize

WIDTH, HEIGHT = 27, 19


def scene(width=WIDTH, height=HEIGHT, channels=3):
    """Gradients with a bright bar and a dark corner, so that no turn and no mirroring leaves it as it is; 16 bits."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = [x / (width - 1), y / (height - 1), (x + 2 * y) / (width + 2 * height - 3), 1 - x * y / ((width - 1) * (height - 1))]
    values = np.stack(planes[:channels], axis=-1)
    values[height // 3, width // 4 :, :3] = 1.0
    values[: height // 4, : width // 5, :3] *= 0.1
    return (values * 65535).astype(np.uint16)


def eight(values):
    """16 bits scaled to 8 and rounded."""
    return np.rint(values / 257.0).astype(np.uint8)


def over_white(rgb, alpha):
    white = Image.new("RGB", (rgb.shape[1], rgb.shape[0]), (255, 255, 255))
    white.paste(Image.fromarray(rgb), mask=Image.fromarray(alpha))
    return np.asarray(white)


# PNG, after the specification.


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def packed(samples, depth):
    """A row of samples [pixels, channels] as bytes."""
    flat = samples.reshape(-1)
    if depth == 16:
        return flat.astype(">u2").tobytes()
    if depth == 8:
        return flat.astype(np.uint8).tobytes()
    bits = "".join(format(int(value), f"0{depth}b") for value in flat)
    return bytes(int(bits[at : at + 8].ljust(8, "0"), 2) for at in range(0, len(bits), 8))


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(samples, depth, colour, before=b"", after=b"", interlaced=False):
    height, width = samples.shape[:2]
    passes = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [samples]
    rows = b"".join(b"\0" + packed(row, depth) for part in passes if part.size for row in part)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    data = chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + data + after + chunk(b"IEND", b"")


# GIF, with codes of one width, which a clear code before each pair keeps.


def gif(screen, frames, palette=None):
    colours = (palette or b"").ljust(12, b"\0")
    out = b"GIF89a" + struct.pack("<HHBBB", *screen, 0xF1 if palette else 0x70, 0, 0) + (colours if palette else b"")
    for left, top, indices, transparent, local in frames:
        height, width = indices.shape
        if transparent is not None:
            out += b"!\xf9\x04" + bytes([1, 10, 0, transparent, 0])
        out += b"," + struct.pack("<HHHHB", left, top, width, height, 0x81 if local else 0)
        out += local.ljust(12, b"\0") if local else b""
        codes = [code for at, index in enumerate(indices.reshape(-1)) for code in ([4] if at % 2 == 0 else []) + [int(index)]]
        bits = "".join(format(code, "03b") for code in reversed(codes + [5]))
        data = int(bits, 2).to_bytes((len(bits) + 7) // 8, "little")
        blocks = [data[at : at + 255] for at in range(0, len(data), 255)]
        out += b"\x02" + b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"
    return out + b";"


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


# What a file shows.


def reference(data):
    """`to_rgb` of qwen_vl_utils."""
    image = Image.open(io.BytesIO(data))
    if image.mode == "RGBA":
        white = Image.new("RGB", image.size, (255, 255, 255))
        white.paste(image, mask=image.split()[3])
        return np.asarray(white)
    return np.asarray(image.convert("RGB"))


def meant(data):
    """A file of up to 8 bits as it is meant to be seen."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    rgba = np.asarray(image.convert("RGBA"))
    return over_white(rgba[..., :3].copy(), rgba[..., 3].copy())


def png_files():
    colours, alpha = scene(), scene(channels=4)[..., 3:]
    rgb8, grey16 = eight(colours), colours[..., 1:2]
    grey8 = eight(grey16)
    index = (grey8 // 16).astype(np.uint8)
    palette = b"".join(bytes([at * 15, 255 - at * 13, at * 37 % 256]) for at in range(12))
    alphas = bytes([0, 40, 80, 120, 255, 200])
    turned = struct.pack("<2sHIHHHIHHI", b"II", 42, 8, 1, 0x112, 3, 1, 6, 0, 0)

    yield "grey_1.png", png(grey8 // 128, 1, 0), None
    yield "grey_2.png", png(grey8 // 64, 2, 0), None
    yield "grey_4.png", png(grey8 // 16, 4, 0), None
    # Pillow compares the key with samples that it has scaled.
    yield "grey_4_key.png", png(grey8 // 16, 4, 0, chunk(b"tRNS", b"\0\7")), over_white(
        np.repeat(grey8 // 16 * 17, 3, axis=2), np.where(grey8[..., 0] // 16 == 7, 0, 255).astype(np.uint8)
    )
    yield "grey_8_key.png", png(grey8, 8, 0, chunk(b"tRNS", struct.pack(">H", int(grey8[9, 0, 0])))), None
    yield "grey_16.png", png(grey16 // 200, 16, 0), np.repeat(eight(grey16 // 200), 3, axis=2)
    key = int(grey16[9, 0, 0])
    yield "grey_16_key.png", png(grey16, 16, 0, chunk(b"tRNS", struct.pack(">H", key))), over_white(
        np.repeat(eight(grey16), 3, axis=2), np.where(grey16[..., 0] == key, 0, 255).astype(np.uint8)
    )
    grey_alpha = np.concatenate([grey16, alpha], axis=2)
    yield "grey_alpha_8.png", png(eight(grey_alpha), 8, 4), None
    yield "grey_alpha_16.png", png(grey_alpha, 16, 4), over_white(np.repeat(eight(grey16), 3, axis=2), eight(alpha)[..., 0])
    yield "rgb_8_key.png", png(rgb8, 8, 2, chunk(b"tRNS", b"".join(b"\0" + bytes([value]) for value in rgb8[4, 4]))), None
    yield "rgb_16.png", png(colours, 16, 2), eight(colours)
    yield "rgba_8.png", png(eight(scene(channels=4)), 8, 6), None
    yield "rgba_16.png", png(scene(channels=4), 16, 6), over_white(eight(colours), eight(alpha)[..., 0])
    yield "palette_1.png", png(grey8 // 128, 1, 3, chunk(b"PLTE", palette[:6])), None
    yield "palette_4_key.png", png(index, 4, 3, chunk(b"PLTE", palette) + chunk(b"tRNS", alphas)), None
    yield "palette_8_short.png", png(index, 8, 3, chunk(b"PLTE", palette)), None
    yield "interlaced_rgb.png", png(rgb8, 8, 2, interlaced=True), None
    yield "interlaced_palette_2.png", png(index // 4, 2, 3, chunk(b"PLTE", palette), interlaced=True), None
    yield "interlaced_rgba_16.png", png(scene(channels=4), 16, 6, interlaced=True), over_white(
        eight(colours), eight(alpha)[..., 0]
    )
    yield "exif_6.png", png(rgb8, 8, 2, chunk(b"eXIf", turned)), None
    yield "exif_6_behind.png", png(rgb8, 8, 2, after=chunk(b"eXIf", turned)), None
    frames = [Image.fromarray(np.roll(rgb8, 3 * at, axis=1)) for at in range(4)]
    yield "frames.png", saved(frames[0], "PNG", save_all=True, append_images=frames[1:]), None
    yield "frames_and_other.png", saved(frames[0], "PNG", save_all=True, default_image=True, append_images=frames[1:]), None
    yield "one_pixel.png", png(rgb8[5:6, 5:6], 8, 2), None


def gif_files():
    index = (eight(scene())[..., 0] // 64).astype(np.uint8)
    palette = bytes([200, 30, 40, 20, 180, 60, 10, 20, 230, 250, 240, 90])
    transparent = np.where(index == 2, 2, index)
    yield "plain.gif", gif((WIDTH, HEIGHT), [(0, 0, index, None, None)], palette), None
    yield "transparent.gif", gif((WIDTH, HEIGHT), [(0, 0, transparent, 2, None)], palette), None
    yield "frames.gif", gif((WIDTH, HEIGHT), [(0, 0, np.roll(index, at, 1), 1, None) for at in range(4)], palette), None
    yield "frames_local.gif", gif((WIDTH, HEIGHT), [(0, 0, index, None, palette), (0, 0, index, None, palette[::-1])]), None
    part = index[:9, :11]
    shown = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    shown[4:13, 6:17] = np.frombuffer(palette, np.uint8).reshape(-1, 3)[part]
    # Pillow fills what no frame covers with a colour of the palette; it is transparent.
    yield "part.gif", gif((WIDTH, HEIGHT), [(6, 4, part, None, None)], palette), shown
    yield "larger_frame.gif", gif((WIDTH - 4, HEIGHT - 7), [(0, 0, index, None, None)], palette), None
    yield "interlaced.gif", saved(Image.fromarray(eight(scene())).quantize(16), "GIF", interlace=1), None


def lossless_files():
    rgb = Image.fromarray(eight(scene()))
    rgba = Image.fromarray(eight(scene(channels=4)))
    for mode in ["1", "L", "P", "RGB", "RGBA"]:
        yield f"{mode.lower()}.bmp", saved((rgba if mode == "RGBA" else rgb).convert(mode), "BMP"), None
    yield "rgb.webp", saved(rgb, "WEBP", lossless=True), None
    yield "rgba.webp", saved(rgba, "WEBP", lossless=True, exact=True), None
    exif = Image.Exif()
    exif[0x112] = 6
    yield "exif_6.webp", saved(rgb, "WEBP", lossless=True, exif=exif), None
    frames = [Image.fromarray(np.roll(np.asarray(rgba), 3 * at, axis=1)) for at in range(3)]
    yield "frames.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True, exact=True), None


def lossy_files():
    rgb = Image.fromarray(eight(scene()))
    grey, inks = rgb.convert("L"), Image.fromarray(eight(scene(channels=4)), "CMYK")
    for name, subsampling in [("444", "4:4:4"), ("422", "4:2:2"), ("420", "4:2:0")]:
        yield f"baseline_{name}.jpg", saved(rgb, "JPEG", quality=90, subsampling=subsampling), None
        yield f"progressive_{name}.jpg", saved(rgb, "JPEG", quality=90, subsampling=subsampling, progressive=True), None
    yield "restarts.jpg", saved(rgb, "JPEG", quality=90, restart_marker_blocks=2), None
    yield "stored_rgb.jpg", saved(rgb, "JPEG", quality=90, keep_rgb=True), None
    yield "grey.jpg", saved(grey, "JPEG", quality=90), None
    yield "progressive_grey.jpg", saved(grey, "JPEG", quality=90, progressive=True), None
    cmyk = saved(inks, "JPEG", quality=90)
    adobe = cmyk.index(b"Adobe") + 11
    yield "cmyk.jpg", cmyk, None
    yield "progressive_cmyk.jpg", saved(inks, "JPEG", quality=90, progressive=True), None
    # The same numbers read as luminance and chrominance of inks.
    yield "ycck.jpg", cmyk[:adobe] + b"\2" + cmyk[adobe + 1 :], None
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = orientation
        yield f"exif_{orientation}.jpg", saved(rgb.crop((0, 0, 24, 16)), "JPEG", quality=95, subsampling=0, exif=exif), None
    yield "one_pixel.jpg", saved(rgb.crop((5, 5, 6, 6)), "JPEG", quality=90), None
    yield "lossy.webp", saved(rgb, "WEBP", quality=85), None
    yield "lossy_alpha.webp", saved(Image.fromarray(eight(scene(channels=4))), "WEBP", quality=85), None


def sizes():
    """[height, width, min_pixels, max_pixels, [height, width]]"""
    random = np.random.default_rng(7)
    cases = [(80, 144), (112, 16), (48, 48), (1, 1), (1, 200), (1, 201), (20000, 100), (20001, 100), (100, 22700), (1080, 1920), (2160, 3840)]
    cases += [tuple(int(side) for side in np.exp(random.uniform(0, 9, 2))) for _ in range(60)]
    for height, width in cases:
        for low, high in [(4096, 1843200), (4096, 40960), (65536, 65536)]:
            try:
                found = smart_resize(height, width, 32, low, high)
            except ValueError:
                found = (0, 0)
            yield [height, width, low, high, list(found) if min(found) else None]


def resized():
    """[[width, height], [width, height], SHA-256]"""
    for before, after in [
        ((1, 1), (64, 64)),
        ((1, 200), (32, 192)),
        ((33, 65), (32, 64)),
        ((64, 33), (64, 64)),
        ((33, 64), (64, 64)),
        ((640, 480), (640, 480)),
        ((1023, 767), (1024, 768)),
        ((1366, 768), (1376, 768)),
        ((1500, 17), (320, 32)),
        ((301, 1207), (96, 384)),
        ((7, 5), (96, 64)),
        ((2500, 1900), (64, 96)),
    ]:
        x, y, channel = np.meshgrid(np.arange(before[0]), np.arange(before[1]), np.arange(3), indexing="xy")
        picture = Image.fromarray(((7 * x + 13 * y + 29 * channel + x * y) % 251).astype(np.uint8))
        shown = np.asarray(picture.resize(after, Image.Resampling.BICUBIC))
        yield [before, after, hashlib.sha256(shown.tobytes()).hexdigest()]


def lines(values):
    return ",\n".join(json.dumps(value) for value in values)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for files, lossy in [(png_files, False), (gif_files, False), (lossless_files, False), (lossy_files, True)]:
        for name, data, known in files():
            (folder / name).write_bytes(data)
            record = {"file": name, "animated": getattr(Image.open(io.BytesIO(data)), "is_animated", False)}
            for policy, rgb in [("reference", reference(data)), ("default", meant(data) if known is None else known)]:
                rgb = np.ascontiguousarray(rgb)
                shown = {"width": rgb.shape[1], "height": rgb.shape[0], "sha256": hashlib.sha256(rgb.tobytes()).hexdigest()}
                if lossy and (policy == "reference" or not np.array_equal(rgb, reference(data))):
                    shown["rgb"] = rgb.tobytes().hex()
                record[policy] = shown
            records.append(record)
    (folder / "expected.json").write_text(f"[\n{lines(records)}\n]\n")
    (folder / "sizes.json").write_text(f'{{"sizes": [\n{lines(sizes())}\n], "resized": [\n{lines(resized())}\n]}}\n')


main()
