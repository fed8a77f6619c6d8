//! F1: pictures that are made to do harm or have come to some: each costs itself, quickly and in little memory.

use proptest::prelude::*;

use super::{Cut, ImageError, Limits, Picture, PixelRange, Shown, decode, pixels, smart_resize};
use crate::types::Policy;

const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_pixels: 1 << 20 };
const CUT: Cut = Cut { patch: 16, merge: 2, temporal: 2 };
const RANGE: PixelRange = PixelRange { min_pixels: 4096, max_pixels: 1_843_200 };

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/images")
}

/// All small pictures: name and bytes.
fn fixtures() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder()).expect("a folder").map(|it| it.expect("an entry").file_name());
    let names = entries.map(|it| it.into_string().expect("a name")).filter(|it| !it.ends_with(".json"));
    names.map(|name| (name.clone(), fixture(&name))).collect()
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&vec![100; (width * height * 3) as usize]).expect("pixels");
    drop(writer);
    bytes
}

fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let named = [name, content].concat();
    [&(content.len() as u32).to_be_bytes()[..], &named, &crc32fast::hash(&named).to_be_bytes()].concat()
}

/// A PNG of 41 bytes and an empty chunk of pixels, whose header claims 16-bit RGBA of a size.
fn header_only_png(width: u32, height: u32) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[16, 6, 0, 0, 0]].concat();
    [b"\x89PNG\r\n\x1a\n", &chunk(b"IHDR", &header)[..], &chunk(b"IDAT", b"")].concat()
}

#[track_caller]
fn check_refused(bytes: &[u8], code: &str, expected: &str) -> ImageError {
    match decode(bytes, &LIMITS) {
        Ok(picture) => panic!("decoded {} x {}", picture.width(), picture.height()),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains('\n'), "`{text}` lacks `{expected}`");
            assert_eq!(error.code(), code, "{text}");
            error
        }
    }
}

#[track_caller]
fn check_shown(picture: Picture, expected: (u32, u32)) {
    let shown = Shown::new(picture, CUT, RANGE).expect("a size");
    assert_eq!((shown.width, shown.height), expected);
    assert_eq!(shown.patches().len(), shown.tokens() * 4 * 1536);
}

#[test]
fn sizes_are_refused_on_the_header() {
    check_refused(&vec![0; (LIMITS.max_bytes + 1) as usize], "image_too_large", "bytes, more than the limit");
    let too_many = |bytes: &[u8]| check_refused(bytes, "image_too_large", "pixels, more than the limit of 1048576");
    too_many(&header_only_png(100_000, 100_000));
    too_many(&header_only_png(8_000_000, u32::MAX));
    too_many(&header_only_png(u32::MAX, u32::MAX)[..41]);
    too_many(&png(1025, 1024));
    too_many(b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\x80abcdef\x02\x02\x44\x01\0;");
    too_many(b"GIF89a\x01\0\x01\0\0\0\0,\xff\xff\xff\xff\xff\xff\xff\xff\x80abcdef\x02\x02\x44\x01\0;");
    let mut jpeg = fixture("grey.jpg");
    let frame = jpeg.windows(2).position(|it| it == [0xff, 0xc0]).expect("a frame header");
    jpeg[frame + 5..frame + 9].fill(0xff);
    too_many(&jpeg);
    let mut bitmap = fixture("rgb.bmp");
    bitmap[18..26].copy_from_slice(&[0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0]);
    too_many(&bitmap);
    for (name, at) in [("rgba.webp", 21), ("lossy.webp", 26), ("frames.webp", 24), ("frames.webp", 77)] {
        let mut webp = fixture(name);
        webp[at..at + 4].fill(0xff);
        too_many(&webp);
    }
}

#[test]
fn whatever_the_settings_say_sizes_end() {
    let limits = Limits { max_bytes: u64::MAX, max_pixels: u64::MAX };
    let error = decode(&header_only_png(u32::MAX, u32::MAX), &limits).expect_err("too large");
    assert_eq!(error.code(), "image_too_large");
}

#[test]
fn other_files_are_refused_by_name() {
    check_refused(b"", "image_empty", "empty");
    check_refused(b"not a picture at all", "image_format", "format is not known");
    check_refused(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image_format", "format is not known");
    check_refused(b"II*\0\x08\0\0\0\0\0", "image_format", "Tiff");
    let mut jpeg = fixture("grey.jpg");
    let frame = jpeg.windows(2).position(|it| it == [0xff, 0xc0]).expect("a frame header");
    jpeg[frame + 1] = 0xc9;
    check_refused(&jpeg, "image_format", "arithmetic");
}

#[test]
fn damage_is_said() {
    check_refused(&png(64, 64)[..60], "image_damaged", "damaged or cut short");
    check_refused(&header_only_png(10, 10), "image_damaged", "damaged or cut short");
    check_refused(&header_only_png(0, 10), "image_damaged", "damaged or cut short");
    let whole = fixture("baseline_420.jpg");
    check_refused(&whole[..whole.len() - 128], "image_damaged", "ends before its end marker");
    check_refused(b"\xff\xd8\xff\xd9", "image_damaged", "no frame header");
    check_refused(&[&whole[..60], b"\xff\xd9"].concat(), "image_damaged", "damaged");
    let repeated: Vec<u8> = [&whole[..whole.len() - 2], &whole[2..]].concat();
    check_refused(&repeated, "image_damaged", "two frame headers");
}

/// Files of JPEG: those of baseline, progressive, grey, of four components, with restart markers.
fn jpegs() -> Vec<(String, Vec<u8>)> {
    fixtures().into_iter().filter(|(name, _)| name.ends_with(".jpg")).collect()
}

/// Where the coded data of the first scan begin.
fn first_data(jpeg: &[u8]) -> usize {
    let scan = jpeg.windows(2).position(|it| it == [0xff, 0xda]).expect("a scan");
    scan + 2 + usize::from(u16::from_be_bytes([jpeg[scan + 2], jpeg[scan + 3]]))
}

/// An end marker behind half of the coded data makes no picture of them.
#[test]
fn jpeg_data_that_do_not_suffice_are_damaged() {
    for (name, whole) in jpegs() {
        let scans = whole.windows(2).filter(|it| *it == [0xff, 0xda]).count();
        let first = first_data(&whole);
        let length = whole[first..].windows(2).position(|it| it[0] == 0xff && !matches!(it[1], 0 | 0xd0..=0xd7));
        let length = length.expect("an end");
        // A single block may lose a byte that holds no bit of it.
        for kept in [0, length / 10, length / 2, length.saturating_sub(2)] {
            let cut = [&whole[..first + kept], b"\xff\xd9"].concat();
            let error = decode(&cut, &LIMITS).expect_err(&format!("{name}: {kept} of {length} bytes, {scans} scans"));
            assert_eq!(error.code(), "image_damaged", "{name}: {error}");
        }
        let last = whole.windows(2).rposition(|it| it == [0xff, 0xda]).expect("a scan");
        let header = &whole[..last + 2 + usize::from(whole[last + 3])];
        let error = decode(&[header, b"\xff\xd9"].concat(), &LIMITS).expect_err(&name);
        assert_eq!(error.code(), "image_damaged", "{name}: {error}");
    }
}

#[test]
fn restart_markers_are_counted() {
    let mut whole = fixture("restarts.jpg");
    let marker = whole.windows(2).rposition(|it| it == [0xff, 0xd0]).expect("a marker");
    let without = [&whole[..marker], b"\xff\xd9"].concat();
    check_refused(&without, "image_damaged", "a restart marker is missing or out of order");
    whole[marker + 1] = 0xd1;
    check_refused(&whole, "image_damaged", "a restart marker is missing or out of order");
}

#[test]
fn a_small_scan_fills_no_large_picture() {
    let limits = Limits { max_bytes: 1 << 20, max_pixels: 1 << 26 };
    for (name, mut jpeg) in jpegs() {
        let frame =
            jpeg.windows(2).position(|it| it[0] == 0xff && matches!(it[1], 0xc0..=0xc2)).expect("a frame header");
        jpeg[frame + 5..frame + 9].copy_from_slice(&[7000u16.to_be_bytes(), 7000u16.to_be_bytes()].concat());
        assert_eq!(decode(&jpeg, &limits).expect_err(&name).code(), "image_damaged", "{name}");
    }
}

#[test]
fn a_sampling_factor_of_three_is_not_supported() {
    let mut jpeg = fixture("baseline_420.jpg");
    let frame = jpeg.windows(2).position(|it| it == [0xff, 0xc0]).expect("a frame header");
    jpeg[frame + 11] = 0x31;
    check_refused(&jpeg, "image_format", "sampling factor of 3");
}

#[test]
fn a_wrong_checksum_of_pixels_is_damage() {
    let mut bytes = png(8, 8);
    // The checksum stands before the chunk's own and the last chunk of 12 bytes.
    let data = bytes.windows(4).position(|it| it == b"IDAT").expect("pixels");
    let end = bytes.len() - 16;
    bytes[end - 1] ^= 1;
    let whole = chunk(b"IDAT", &bytes[data + 4..end]);
    bytes.splice(data - 4..end + 4, whole);
    check_refused(&bytes, "image_damaged", "damaged");
}

#[test]
fn long_exif_data_are_passed_over() {
    let (whole, limits) = (png(8, 8), Limits { max_bytes: 20 << 20, max_pixels: 1 << 20 });
    let exif = chunk(b"eXIf", &[b"II*\0\x08\0\0\0\0\0", &vec![0; 15_000_000][..]].concat());
    let with = [&whole[..33], &exif, &whole[33..]].concat();
    assert_eq!(decode(&with, &limits).expect("a picture"), decode(&whole, &limits).expect("a picture"));
}

#[test]
fn a_first_frame_of_nothing_is_damage() {
    for size in [b"\0\0\0\0", b"\x01\0\0\0", b"\0\0\x01\0"] {
        let gif = [b"GIF89a\x02\0\x02\0\0\0\0,\0\0\0\0", &size[..], b"\x80abcdef\x02\x02\x44\x01\0;"].concat();
        check_refused(&gif, "image_damaged", "first frame is empty");
    }
}

/// A cut picture is refused, or it lacks nothing that shows.
#[test]
fn no_cut_picture_is_half_shown() {
    for (name, whole) in fixtures() {
        let stored = |bytes: &[u8]| pixels(bytes, Policy::Reference, &LIMITS);
        let shown = stored(&whole).unwrap_or_else(|error| panic!("{name}: {error}"));
        for length in 0..whole.len() {
            if let Ok(cut) = stored(&whole[..length]) {
                assert_eq!(cut.rgb(), shown.rgb(), "{name} cut to {length} of {} bytes", whole.len());
            }
        }
    }
}

/// Bytes that inflate to 64 MiB.
fn inflating() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 1 << 13, 1 << 13);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&vec![0; 1 << 26]).expect("pixels");
    drop(writer);
    let data = bytes.windows(4).position(|it| it == b"IDAT").expect("pixels");
    bytes[data + 4..bytes.len() - 16].to_vec()
}

#[test]
fn metadata_that_inflate_are_passed_over() {
    let (whole, bomb) = (png(8, 8), inflating());
    let shown = decode(&whole, &LIMITS).expect("a picture");
    for (name, head) in [(b"iCCP", &b"p\0\0"[..]), (b"zTXt", b"k\0\0"), (b"iTXt", b"k\0\x01\0\0\0"), (b"tEXt", b"k\0")]
    {
        let metadata = chunk(name, &[head, &bomb].concat());
        let with = [&whole[..33], &metadata, &whole[33..]].concat();
        assert_eq!(decode(&with, &LIMITS).expect("a picture"), shown, "{}", String::from_utf8_lossy(name));
    }
}

#[test]
fn many_scans_are_refused() {
    let whole = fixture("progressive_444.jpg");
    let scan = whole.windows(2).position(|it| it == [0xff, 0xda]).expect("a scan");
    let data = first_data(&whole);
    let end = data + whole[data..].windows(2).position(|it| it[0] == 0xff && it[1] != 0).expect("an end");
    let (head, scan) = (&whole[..scan], &whole[scan..end]);
    check_refused(&[head, &scan.repeat(200), &[0xff, 0xd9]].concat(), "image_damaged", "more than 100 scans");
}

#[test]
fn a_picture_of_one_pixel_is_shown() {
    for name in ["one_pixel.png", "one_pixel.jpg"] {
        check_shown(decode(&fixture(name), &LIMITS).expect("a picture"), (64, 64));
    }
}

#[track_caller]
fn check_aspect(width: u32, height: u32, refused: Option<&str>) {
    let found = Shown::new(decode(&png(width, height), &LIMITS).expect("a picture"), CUT, RANGE);
    match refused {
        None => assert!(found.is_ok()),
        Some(expected) => {
            let error = found.expect_err("a strip");
            assert_eq!(error.code(), "image_aspect_ratio");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}

#[test]
fn strips_are_refused_with_the_limit() {
    check_aspect(227, 1, Some("227 times as long as the other (227 x 1), more than the limit of 200"));
    check_aspect(1, 201, Some("the limit of 200"));
    check_aspect(200, 1, None);
    let strip = smart_resize(100, 20_000, 32, PixelRange { min_pixels: 0, max_pixels: 4096 }).expect_err("no height");
    assert_eq!(strip.code(), "image_aspect_ratio");
    let swapped = smart_resize(100, 100, 32, PixelRange { min_pixels: 2, max_pixels: 1 }).expect_err("no range");
    assert_eq!(swapped.code(), "image_pixel_range");
}

#[test]
fn a_turned_picture_is_the_upright_one() {
    let upright = decode(&fixture("exif_1.jpg"), &LIMITS).expect("a picture");
    for (orientation, size) in [(2, (24, 16)), (3, (24, 16)), (5, (16, 24)), (6, (16, 24)), (8, (16, 24))] {
        let bytes = fixture(&format!("exif_{orientation}.jpg"));
        let turned = decode(&bytes, &LIMITS).expect("a picture");
        assert_eq!((turned.width(), turned.height()), size);
        assert_ne!(turned.rgb(), upright.rgb(), "{orientation}");
        let stored = pixels(&bytes, Policy::Reference, &LIMITS).expect("a picture");
        assert_eq!(stored.rgb(), upright.rgb(), "{orientation}");
    }
}

/// A GIF of so many frames that each are one red pixel.
fn long_gif(frames: usize) -> Vec<u8> {
    let frame = b",\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0".repeat(frames);
    [b"GIF89a\x01\0\x01\0\x80\0\0\xff\0\0\0\0\0", &frame[..], b";"].concat()
}

#[test]
fn of_many_frames_the_first_is_shown() {
    for (frames, animated) in [(1, false), (2, true), (20_000, true)] {
        let picture = decode(&long_gif(frames), &LIMITS).expect("a picture");
        assert_eq!((picture.rgb(), picture.is_animated()), (&[255, 0, 0][..], animated), "{frames}");
    }
    let webp = fixture("frames.webp");
    let last = webp.windows(4).rposition(|it| it == b"ANMF").expect("a frame");
    let mut long = [&webp[..last], &webp[last..].repeat(500)].concat();
    let length = (long.len() - 8) as u32;
    long[4..8].copy_from_slice(&length.to_le_bytes());
    assert_eq!(decode(&long, &LIMITS).expect("a picture"), decode(&webp, &LIMITS).expect("a picture"));
    let mut long = fixture("frames.png");
    let control = long.windows(4).position(|it| it == b"acTL").expect("an animation");
    let claimed = chunk(b"acTL", &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    long.splice(control - 4..control + 16, claimed);
    assert!(decode(&long, &LIMITS).expect("a picture").is_animated());
}

proptest! {
    #[test]
    fn sizes_are_multiples_in_range(
        height in 1u32..40_000, width in 1u32..40_000, most in 40_000u64..10_000_000, least in 0u64..40_000,
    ) {
        let range = PixelRange { min_pixels: least, max_pixels: most };
        match smart_resize(height, width, 32, range) {
            Err(error) => prop_assert!(height.max(width) > 200 * height.min(width) || error.code() == "image_aspect_ratio"),
            Ok((high, wide)) => {
                prop_assert!(high % 32 == 0 && wide % 32 == 0 && high > 0 && wide > 0);
                let area = u64::from(high) * u64::from(wide);
                // A side that is brought down to the multiple of 32 below may lose half of itself.
                prop_assert!(area <= most && (area >= least || 4 * least > most), "{high} x {wide}");
                let turned = smart_resize(width, height, 32, range).expect("the same, turned");
                prop_assert_eq!(turned, (wide, high));
            }
        }
    }

    #[test]
    fn no_bytes_panic(
        which in 0usize..1000, at in 0usize..10_000, length in 0usize..40,
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let _ = decode(&bytes, &LIMITS);
        let all = fixtures();
        let (_, mut damaged) = all[which % all.len()].clone();
        let at = at % damaged.len();
        damaged.splice(at..(at + length).min(damaged.len()), bytes);
        for policy in [Policy::Default, Policy::Reference] {
            let _ = pixels(&damaged, policy, &LIMITS);
        }
    }
}
