//! Weights that are in several files, missing, damaged or of another model.

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::encoder::{Options, load};

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qwen3_vl/tiny-a")
}

/// A folder with the model's configuration and tokenizer, and some other files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(model().join(name), folder.path().join(name)).expect("a writable folder");
    }
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("a writable folder");
    }
    folder
}

fn whole() -> Vec<u8> {
    std::fs::read(model().join("model.safetensors")).expect("the repository holds the model")
}

fn parsed(file: &[u8]) -> (serde_json::Map<String, serde_json::Value>, &[u8]) {
    let length = u64::from_le_bytes(*file.first_chunk().expect("a length")) as usize;
    (serde_json::from_slice(&file[8..8 + length]).expect("a table of contents"), &file[8 + length..])
}

/// A file of the tensors whose names pass.
fn part(file: &[u8], is_in: impl Fn(&str) -> bool) -> (Vec<String>, Vec<u8>) {
    let tensors = safetensors::SafeTensors::deserialize(file).expect("a sound file");
    let own: Vec<_> = tensors.iter().filter(|(name, _)| is_in(name)).collect();
    let names = own.iter().map(|(name, _)| (*name).to_owned()).collect();
    (names, safetensors::serialize(own, None).expect("sound tensors"))
}

fn index(parts: &[(&str, &[String])]) -> Vec<u8> {
    let map: BTreeMap<&String, &str> =
        parts.iter().flat_map(|(file, names)| names.iter().map(move |name| (name, *file))).collect();
    serde_json::json!({"metadata": {}, "weight_map": map}).to_string().into_bytes()
}

#[track_caller]
fn check(files: &[(&str, &[u8])], expected: &[&str]) {
    check_of(Compute::F32, files, expected);
}

#[track_caller]
fn check_of(compute: Compute, files: &[(&str, &[u8])], expected: &[&str]) {
    let folder = folder(files);
    let options = Options { compute, ..Options::default() };
    let Err(error) = load(folder.path(), &options) else { panic!("it was accepted") };
    let message = error.to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    for part in expected {
        assert!(message.contains(part), "`{message}` lacks `{part}`");
    }
}

#[test]
fn parts_are_one_model() {
    let whole = whole();
    let (first_names, first) = part(&whole, |name| name.contains("visual"));
    let (second_names, second) = part(&whole, |name| !name.contains("visual"));
    let index = index(&[("a.safetensors", &first_names), ("b.safetensors", &second_names)]);
    let files: &[(&str, &[u8])] =
        &[("model.safetensors.index.json", &index), ("a.safetensors", &first), ("b.safetensors", &second)];
    let folder = folder(files);
    load(folder.path(), &Options::default()).expect("all tensors are there");
    check(&files[..2], &["cannot read", "b.safetensors"]);
}

#[test]
fn an_index_that_leads_astray_is_refused() {
    let named = |name: &str| index(&[(name, &["x".to_owned()])]);
    for name in ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "a\\b"] {
        check(&[("model.safetensors.index.json", &named(name))], &["index.json", "is no file of this folder"]);
    }
    let (names, file) = part(&whole(), |name| name.contains("merger"));
    let twice = index(&[("a.safetensors", &names), ("b.safetensors", &["other".to_owned()])]);
    let files: &[(&str, &[u8])] =
        &[("model.safetensors.index.json", &twice), ("a.safetensors", &file), ("b.safetensors", &file)];
    check(files, &["b.safetensors", "is in another file too"]);
    let missing = index(&[("a.safetensors", &[names, vec!["other".to_owned()]].concat())]);
    let files: &[(&str, &[u8])] = &[("model.safetensors.index.json", &missing), ("a.safetensors", &file)];
    check(files, &["tensor `other` is in none"]);
    for damaged in [&b""[..], b"{}", b"{\"weight_map\": {}}", b"{\"weight_map\": 3}"] {
        check(&[("model.safetensors.index.json", damaged)], &["index.json is damaged"]);
    }
}

#[test]
fn damaged_weights() {
    let whole = whole();
    check(&[], &["cannot read", "model.safetensors"]);
    for content in
        [&b""[..], b"\0\0\0", &[0xff; 64], &whole[..4000], &whole[..whole.len() - 1], &[&whole[..], b"x"].concat()]
    {
        check(&[("model.safetensors", content)], &["model.safetensors is damaged"]);
    }
}

/// The weights with another table of contents.
fn changed(change: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) -> Vec<u8> {
    let whole = whole();
    let (mut contents, data) = parsed(&whole);
    change(&mut contents);
    let contents = serde_json::to_vec(&contents).expect("JSON");
    [&(contents.len() as u64).to_le_bytes()[..], &contents, data].concat()
}

const NORM: &str = "model.language_model.norm.weight";

#[test]
fn tensors_that_overlap_or_lie_outside() {
    for offsets in [[0, 256], [0, u64::MAX], [u64::MAX - 8, u64::MAX], [8, 4]] {
        let file = changed(|contents| contents[NORM]["data_offsets"] = serde_json::json!(offsets));
        check(&[("model.safetensors", &file)], &["model.safetensors is damaged"]);
    }
    let file = changed(|contents| contents[NORM]["shape"] = serde_json::json!([u64::MAX, 64]));
    check(&[("model.safetensors", &file)], &["model.safetensors is damaged"]);
}

#[test]
fn tensors_of_another_model() {
    let rename = |contents: &mut serde_json::Map<String, serde_json::Value>| {
        let norm = contents.remove(NORM).expect("it has one");
        contents.insert("other".to_owned(), norm);
    };
    check(&[("model.safetensors", &changed(rename))], &["`model.language_model.norm.weight` is missing"]);
    let shape = changed(|contents| contents[NORM]["shape"] = serde_json::json!([8, 8]));
    check(&[("model.safetensors", &shape)], &["[8, 8] instead of [64]"]);
    let kind = changed(|contents| contents[NORM]["dtype"] = serde_json::json!("I32"));
    check(&[("model.safetensors", &kind)], &["holds I32 instead of F16, BF16, F32"]);
    let more = changed(|contents| {
        let name = "model.language_model.layers.3.input_layernorm.weight";
        let norm = contents.remove(name).expect("it has four layers");
        contents.insert(name.replace(".3.", ".4."), norm);
    });
    check(&[("model.safetensors", &more)], &["more layers than the 4"]);
}

/// The weights with a value of a tensor that is not a number.
fn with_nan(name: &str) -> Vec<u8> {
    let mut whole = whole();
    let (contents, data) = parsed(&whole);
    let start = whole.len() - data.len() + contents[name]["data_offsets"][0].as_u64().expect("an offset") as usize;
    whole[start + 4..start + 8].copy_from_slice(&f32::NAN.to_le_bytes());
    whole
}

#[test]
fn values_that_are_not_finite() {
    let up = "model.language_model.layers.2.mlp.up_proj.weight";
    for name in [NORM, up, "model.visual.blocks.0.mlp.linear_fc1.weight", "model.visual.pos_embed.weight"] {
        let quoted = format!("tensor `{name}`");
        for compute in Compute::ALL {
            let expected = ["model.safetensors is damaged", &quoted, "not finite"];
            check_of(compute, &[("model.safetensors", &with_nan(name))], &expected);
        }
    }
}

#[test]
fn of_several_files_the_one_with_the_tensor_is_named() {
    let parts = |whole: &[u8]| [true, false].map(|visual| part(whole, |name| name.contains("visual") == visual));
    let check = |whole: &[u8], expected: &[&str]| {
        let [(first_names, first), (second_names, second)] = parts(whole);
        let index = index(&[("a.safetensors", &first_names), ("b.safetensors", &second_names)]);
        check(
            &[("model.safetensors.index.json", &index), ("a.safetensors", &first), ("b.safetensors", &second)],
            expected,
        );
    };
    check(&with_nan(NORM), &["b.safetensors is damaged", NORM]);
    check(&with_nan("model.visual.pos_embed.weight"), &["a.safetensors is damaged", "pos_embed"]);
    let shape = changed(|contents| contents[NORM]["shape"] = serde_json::json!([8, 8]));
    check(&shape, &["b.safetensors is of a model that", "[8, 8] instead of [64]"]);
    let renamed = changed(|contents| {
        let norm = contents.remove(NORM).expect("it has one");
        contents.insert("other".to_owned(), norm);
    });
    check(&renamed, &["model.safetensors.index.json is of a model that", NORM]);
}

#[test]
fn files_of_text_have_a_limit() {
    for name in ["config.json", "tokenizer.json", "model.safetensors.index.json"] {
        let folder = folder(&[("model.safetensors.index.json", b"{}")]);
        let file = std::fs::File::create(folder.path().join(name)).expect("a writable folder");
        // It has no blocks on the disk.
        file.set_len(MOST_JSON + 1).expect("a file may have holes");
        let Err(error) = load(folder.path(), &Options::default()) else { panic!("it was read") };
        assert_eq!(error.code(), "model_damaged");
        assert!(error.to_string().contains(&format!("{name} is damaged: it has more than")), "{error}");
    }
}

#[test]
fn an_output_layer_is_ignored() {
    let file = changed(|contents| {
        // Nothing has room for one, and an empty one will do.
        contents.insert(
            "lm_head.weight".to_owned(),
            serde_json::json!({"dtype": "F32", "shape": [0, 64], "data_offsets": [0, 0]}),
        );
    });
    load(folder(&[("model.safetensors", &file)]).path(), &Options::default()).expect("it is not asked for");
}

/// A small model with some bytes of its configuration, its table of contents and its values changed.
fn damaged(changes: &[(usize, u8)]) -> (Vec<u8>, Vec<u8>) {
    let folder = model().with_file_name("narrow");
    let read = |name: &str| std::fs::read(folder.join(name)).expect("the repository holds the model");
    let (mut config, mut weights) = (read("config.json"), read("model.safetensors"));
    // Half of the damage is in the configuration or the contents, where it means most.
    let front = config.len() + 8 + u64::from_le_bytes(*weights.first_chunk().expect("a length")) as usize;
    for &(at, byte) in changes {
        let at = if at % 2 == 0 { at / 2 % front } else { at / 2 % (config.len() + weights.len()) };
        let length = config.len();
        *config.get_mut(at).unwrap_or_else(|| &mut weights[at - length]) = byte;
    }
    (config, weights)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn no_damage_panics(changes in proptest::collection::vec((0usize..1 << 22, proptest::num::u8::ANY), 1..4)) {
        let (config, weights) = damaged(&changes);
        if let Err(error) = crate::encoder::qwen3_vl::check_files(&config, &weights) {
            proptest::prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
        }
    }
}

#[test]
fn files_that_are_not_text_are_checked_without_a_folder() {
    use crate::encoder::qwen3_vl::check_files;
    let config = std::fs::read(model().join("config.json")).expect("the repository holds the model");
    check_files(&config, &whole()).expect("they are sound");
    assert_eq!(check_files(b"{}", &whole()).expect_err("no configuration").code(), "model_damaged");
    assert_eq!(check_files(&config, b"").expect_err("no weights").code(), "model_damaged");
}
