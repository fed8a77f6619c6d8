//! A file of 8-bit weights is the model that it was made of.

use std::path::PathBuf;

use safetensors::tensor::TensorView;

use super::*;
use crate::device::Compute;
use crate::encoder::{Encoder, Input, Options, load, quantize as quantize_any};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qwen3_vl").join(name)
}

/// A folder with a model's configuration and tokenizer.
fn folder(model: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(fixture(model).join(name), folder.path().join(name)).expect("a writable folder");
    }
    folder
}

fn vector(encoder: &dyn Encoder) -> Vec<f32> {
    let input = Input {
        text: Some("a checkerboard".to_owned()),
        images: vec![crate::types::IssueImage {
            name: "plain".to_owned(),
            bytes: std::fs::read(fixture("images/plain_130x101.png")).expect("a picture"),
        }],
        ..Input::default()
    };
    encoder.embed_inputs(&[input], &|_, _| ()).remove(0).expect("it can be embedded").vector
}

#[test]
fn what_is_written_is_what_loading_makes() {
    let q8 = Options { compute: Compute::Q8, ..Options::default() };
    for model in ["tiny-a", "untied", "narrow", "appended"] {
        let out = folder(model);
        let heard = std::sync::Mutex::new((0, 0));
        quantize_any(&fixture(model), out.path(), &|done, total| *heard.lock().expect("no panic") = (done, total))
            .expect("a writable folder");
        let (done, total) = heard.into_inner().expect("no panic");
        assert!(done == total && total > 0);
        let (written, made) = (load(out.path(), &q8), load(&fixture(model), &q8));
        assert_eq!(vector(&*written.expect("just made")), vector(&*made.expect("the repository holds it")), "{model}");
        let Err(error) = load(out.path(), &Options::default()) else { panic!("8 bits became 32") };
        check(error, "model_quantised", &["8-bit weights", "model.safetensors", "use `--dtype q8`"]);
        let again = folder(model);
        let error = quantize_any(out.path(), again.path(), &|_, _| ()).expect_err("8 bits of 8 bits");
        check(error, "model_quantised", &["once more", "name the folder that they were made from"]);
        assert!(!again.path().join("model.safetensors").exists());
    }
}

#[track_caller]
fn check(error: EncoderError, code: &str, expected: &[&str]) {
    let message = error.to_string();
    assert_eq!(error.code(), code, "{message}");
    for part in expected {
        assert!(message.contains(part), "`{message}` lacks `{part}`");
    }
}

/// A quantised model with a change to the bytes of its file.
fn changed(change: impl Fn(&mut Vec<u8>)) -> tempfile::TempDir {
    let out = folder("narrow");
    quantize_any(&fixture("narrow"), out.path(), &|_, _| ()).expect("a writable folder");
    let path = out.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("just written");
    change(&mut bytes);
    std::fs::write(&path, bytes).expect("writable");
    out
}

#[track_caller]
fn check_refused(folder: &tempfile::TempDir, code: &str, expected: &[&str]) {
    let Err(error) = load(folder.path(), &Options { compute: Compute::Q8, ..Options::default() }) else {
        panic!("it was read")
    };
    check(error, code, expected);
}

/// Where a tensor begins and ends in a file.
fn place(file: &[u8], name: &str) -> std::ops::Range<usize> {
    let length = u64::from_le_bytes(*file.first_chunk().expect("a length")) as usize;
    let contents: serde_json::Value = serde_json::from_slice(&file[8..8 + length]).expect("a table of contents");
    let offset = |at: usize| contents[name]["data_offsets"][at].as_u64().expect("an offset") as usize;
    8 + length + offset(0)..8 + length + offset(1)
}

#[test]
fn damage_beside_the_tiles_is_seen() {
    for end in [SCALES, SUMS] {
        for matrix in ["model.visual.blocks.0.attn.qkv", "model.language_model.layers.0.mlp.down_proj"] {
            let damaged = changed(|bytes| {
                let place = place(bytes, &format!("{matrix}.weight{end}"));
                bytes[place].fill(0);
            });
            check_refused(&damaged, "model_damaged", &["model.safetensors is damaged", "scales and sums"]);
        }
    }
}

/// The weights of a small model with a tensor of another type or shape.
fn source(change: impl Fn(&str, &TensorView) -> Option<(Dtype, Vec<usize>, Vec<u8>)>) -> tempfile::TempDir {
    let folder = folder("narrow");
    let file = std::fs::read(fixture("narrow").join("model.safetensors")).expect("the repository holds it");
    let tensors = safetensors::SafeTensors::deserialize(&file).expect("a sound file");
    let all: Vec<_> = tensors
        .iter()
        .map(|(name, view)| {
            let own = || (view.dtype(), view.shape().to_vec(), view.data().to_vec());
            (name, change(name, &view).unwrap_or_else(own))
        })
        .collect();
    let views = all.iter().map(|(name, (kind, shape, bytes))| {
        (*name, TensorView::new(*kind, shape.clone(), bytes).expect("bytes of this shape"))
    });
    let file = safetensors::serialize(views.collect::<Vec<_>>(), None).expect("sound tensors");
    std::fs::write(folder.path().join("model.safetensors"), file).expect("writable");
    folder
}

#[test]
fn what_can_not_be_loaded_is_not_quantised() {
    const MATRIX: &str = "model.language_model.layers.0.mlp.down_proj.weight";
    let check_source = |folder: tempfile::TempDir, code: &str, expected: &[&str]| {
        let out = tempfile::tempdir().expect("a temporary folder");
        let error = quantize_any(folder.path(), out.path(), &|_, _| ()).expect_err("it can't be loaded");
        check(error, code, &[&["model.safetensors", MATRIX], expected].concat());
        assert_eq!(std::fs::read_dir(out.path()).expect("it is there").count(), 0);
    };
    for kind in [Dtype::F64, Dtype::I8, Dtype::F8_E4M3, Dtype::I64] {
        let of_kind = |name: &str, view: &TensorView| {
            let count: usize = view.shape().iter().product();
            (name == MATRIX).then(|| (kind, view.shape().to_vec(), vec![1; count * kind.bitsize() / 8]))
        };
        check_source(source(of_kind), "model_unsupported", &[&format!("holds {kind:?} instead of F16")]);
    }
    let turned = |name: &str, view: &TensorView| {
        let shape = view.shape().iter().rev().copied().collect();
        (name == MATRIX).then(|| (view.dtype(), shape, view.data().to_vec()))
    };
    check_source(source(turned), "model_unsupported", &["has shape"]);
    let infinite = |name: &str, view: &TensorView| {
        let count: usize = view.shape().iter().product();
        (name == MATRIX).then(|| (Dtype::BF16, view.shape().to_vec(), [0x80, 0x7f].repeat(count)))
    };
    check_source(source(infinite), "model_damaged", &["not finite"]);
}

#[test]
fn another_form_is_refused() {
    let other = changed(|bytes| {
        let note = b"\"sightline-q8\":\"2\"";
        let at = bytes.windows(note.len()).position(|it| it == note).expect("it names its form");
        bytes[at + note.len() - 2] = b'1';
    });
    check_refused(&other, "model_quantised", &["format is 1 instead of 2; quantise the model again"]);
}

#[test]
fn what_can_not_be_written_is_said() {
    let error = quantize_any(&fixture("narrow"), &fixture("none"), &|_, _| ()).expect_err("no such folder");
    assert_eq!(error.code(), "model_unwritable");
    let error = quantize_any(&fixture("../../../models/all-MiniLM-L6-v2"), &fixture("none"), &|_, _| ())
        .expect_err("of another type")
        .to_string();
    assert!(error.contains("`bert`"), "{error}");
}
