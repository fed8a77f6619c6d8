//! F1: pictures against what other programs show of them: Pillow's pixels of unusual files (`scripts/make_image_fixtures.py`), and sizes,
//! pixels and patches of the published encoder's own preparation (`tests/fixtures/qwen3_vl`).

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Cut, Limits, Picture, PixelRange, Shown, pixels, resize, smart_resize};
use crate::types::Policy;

const LIMITS: Limits = Limits { max_bytes: 20 << 20, max_pixels: 50_000_000 };
const CUT: Cut = Cut { patch: 16, merge: 2, temporal: 2 };

fn fixture(path: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&fixture(path)).expect("JSON")
}

fn sha256(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|it| std::str::from_utf8(it).expect("ASCII"));
    digits.map(|it| u8::from_str_radix(it, 16).expect("hexadecimal")).collect()
}

/// What is wrong with a picture, if anything. Lossy files have bytes to be near to.
fn difference(picture: &Picture, expected: &Value) -> Option<String> {
    let size = (u64::from(picture.width()), u64::from(picture.height()));
    let expected_size = (expected["width"].as_u64()?, expected["height"].as_u64()?);
    if size != expected_size {
        return Some(format!("{size:?}, not {expected_size:?}"));
    }
    if expected["sha256"] == sha256(picture.rgb()) {
        return None;
    }
    let Some(rgb) = expected["rgb"].as_str() else { return Some("other pixels".to_owned()) };
    let off: Vec<u8> = picture.rgb().iter().zip(from_hex(rgb)).map(|(one, other)| one.abs_diff(other)).collect();
    let mean = off.iter().map(|it| f64::from(*it)).sum::<f64>() / off.len() as f64;
    let most = *off.iter().max().expect("pixels");
    (most > 8 || mean > 1.0).then(|| format!("levels off: {most} at most, {mean:.3} on average"))
}

#[test]
fn pictures_look_as_in_pillow() {
    let mut wrong = Vec::new();
    for case in json("images/expected.json").as_array().expect("a list") {
        let name = case["file"].as_str().expect("a name");
        for (policy, key) in [(Policy::Reference, "reference"), (Policy::Default, "default")] {
            let expected = match &case[key] {
                // The same pixels as by the other policy.
                it if it["sha256"] == case["reference"]["sha256"] => &case["reference"],
                it => it,
            };
            match pixels(&fixture(&format!("images/{name}")), policy, &LIMITS) {
                Err(error) => wrong.push(format!("{name} {key}: {error}")),
                Ok(picture) => {
                    wrong.extend(difference(&picture, expected).map(|it| format!("{name} {key}: {it}")));
                    if case["animated"] != picture.is_animated() {
                        wrong.push(format!("{name}: animated: {}", picture.is_animated()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The pictures of each golden case, with the case.
fn golden() -> Vec<(Value, Vec<(Value, Shown)>)> {
    let cases = json("qwen3_vl/tiny-a.cases.json")["cases"].as_array().expect("a list").clone();
    let with_pictures = cases.into_iter().filter(|it| it["images"].is_array());
    with_pictures
        .map(|case| {
            let range = PixelRange {
                min_pixels: case["min_pixels"].as_u64().expect("a number"),
                max_pixels: case["max_pixels"].as_u64().expect("a number"),
            };
            let images = case["images"].as_array().expect("a list");
            let shown = images.iter().map(|image| {
                let name = image["file"].as_str().expect("a name");
                let picture = pixels(&fixture(&format!("qwen3_vl/images/{name}")), Policy::Reference, &LIMITS);
                let shown = Shown::new(picture.expect("a picture"), CUT, range).expect("a size");
                (image.clone(), shown)
            });
            let shown = shown.collect();
            (case, shown)
        })
        .collect()
}

#[test]
fn golden_pictures_have_the_reference_s_sizes_and_pixels() {
    for (case, images) in golden() {
        for (at, (image, shown)) in images.iter().enumerate() {
            let name = &image["file"];
            assert_eq!(image["resized_size_wh"], serde_json::json!([shown.width, shown.height]), "{name}");
            let (rows, columns) = shown.grid;
            assert_eq!(case["image_grid_thw"][at], serde_json::json!([1, rows, columns]), "{name}");
            if !name.as_str().expect("a name").ends_with(".jpg") {
                assert_eq!(image["resized_rgb_sha256"], sha256(&shown.pixels), "{name}");
            }
        }
    }
}

#[test]
fn golden_pictures_have_the_reference_s_patches() {
    for (case, images) in golden() {
        let patches: Vec<f32> = images.iter().flat_map(|(_, shown)| shown.patches()).collect();
        let expected = &case["pixel_values"];
        let rows: usize = images.iter().map(|(_, shown)| shown.tokens() * 4).sum();
        assert_eq!(expected["shape"], serde_json::json!([rows, patches.len() / rows]), "{}", case["name"]);
        if case["name"] != "image_exif6_jpeg" {
            let bytes: Vec<u8> = patches.iter().flat_map(|it| it.to_le_bytes()).collect();
            assert_eq!(expected["sha256_f32le"], sha256(bytes), "{}", case["name"]);
        }
    }
}

#[test]
fn one_copy_of_a_patch_is_the_first_of_two() {
    let picture = pixels(&fixture("qwen3_vl/images/plain_130x101.png"), Policy::Default, &LIMITS).expect("a picture");
    let shown = Shown::new(picture, CUT, PixelRange { min_pixels: 4096, max_pixels: 1 << 20 }).expect("a size");
    let (twice, once) = (shown.patches(), shown.patches_once());
    assert_eq!(twice.len(), 2 * once.len());
    for (twice, once) in twice.chunks(2 * 256).zip(once.chunks(256)) {
        assert_eq!((&twice[..256], &twice[256..]), (once, once));
    }
}

#[test]
fn sizes_are_those_of_qwen_vl_utils() {
    for case in json("images/sizes.json")["sizes"].as_array().expect("a list") {
        let (sides, expected): ([u64; 4], Option<(u32, u32)>) = {
            let numbers = [0, 1, 2, 3].map(|at: usize| case[at].as_u64().expect("a number"));
            (numbers, serde_json::from_value(case[4].clone()).expect("a size or null"))
        };
        let [height, width, min_pixels, max_pixels] = sides;
        let found = smart_resize(height as u32, width as u32, 32, PixelRange { min_pixels, max_pixels });
        assert_eq!(found.ok(), expected, "{case}");
    }
}

#[test]
fn resampling_is_pillow_s_to_the_byte() {
    for case in json("images/sizes.json")["resized"].as_array().expect("a list") {
        let (from, to, expected): ((u32, u32), (u32, u32), String) =
            serde_json::from_value(case.clone()).expect("two sizes and a hash");
        let values =
            (0..from.1).flat_map(|y| (0..from.0).flat_map(move |x| (0..3).map(move |channel| (x, y, channel))));
        let picture = values.map(|(x, y, channel)| ((7 * x + 13 * y + 29 * channel + x * y) % 251) as u8).collect();
        assert_eq!(sha256(resize(picture, from, to)), expected, "{from:?} to {to:?}");
    }
}
