//! A file of 8-bit weights is the model that it was made of.

use std::path::PathBuf;

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
        assert!(error.to_string().contains("8-bit weights"), "{error}");
    }
}

#[test]
fn another_form_is_refused() {
    let out = folder("narrow");
    quantize_any(&fixture("narrow"), out.path(), &|_, _| ()).expect("a writable folder");
    let path = out.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("just written");
    let note = b"\"sightline-q8\":\"1\"";
    let at = bytes.windows(note.len()).position(|it| it == note).expect("it names its form");
    bytes[at + note.len() - 2] = b'2';
    std::fs::write(&path, bytes).expect("writable");
    let Err(error) = load(out.path(), &Options { compute: Compute::Q8, ..Options::default() }) else {
        panic!("it was read")
    };
    assert!(error.to_string().contains("2 format instead of 1: quantise the model again"), "{error}");
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
