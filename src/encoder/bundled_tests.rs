//! Model files that are missing, damaged or of another model: one line that names the file, and no panic.

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::encoder::{Encoder, load as load_any};

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/all-MiniLM-L6-v2")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(model().join(name)).expect("the repository holds the model")
}

/// A copy of the model in which one file is replaced, or missing.
fn folder(name: &str, content: Option<&[u8]>) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let path = folder.path().join(file);
        match content {
            _ if file != name => drop(
                std::fs::hard_link(model().join(file), &path)
                    .or_else(|_| std::fs::copy(model().join(file), &path).map(drop)),
            ),
            Some(content) => std::fs::write(&path, content).expect("a writable folder"),
            None => {}
        }
    }
    folder
}

/// Loading the model with one file replaced fails with a line that holds all `parts`.
fn check(name: &str, content: Option<&[u8]>, parts: &[&str]) {
    let folder = folder(name, content);
    let Err(error) = load(folder.path()) else { panic!("{name} was accepted") };
    let message = error.to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains(&folder.path().join(name).display().to_string()), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

fn config(from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(read("config.json")).expect("JSON is UTF-8");
    assert!(text.contains(from));
    text.replace(from, to).into_bytes()
}

/// The weights with the first of some bytes in their header replaced by as many others.
fn weights(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut weights = read("model.safetensors");
    let at = weights.windows(from.len()).position(|bytes| bytes == from.as_bytes()).expect("the header has it");
    weights[at..at + to.len()].copy_from_slice(to.as_bytes());
    weights
}

#[test]
fn missing_files() {
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        check(name, None, &["cannot read", "name a folder"]);
    }
}

#[test]
fn damaged_json() {
    for name in ["config.json", "tokenizer.json"] {
        let whole = read(name);
        for content in [&b""[..], b"{", b"[]", b"\xff\xfe", &whole[..whole.len() / 2]] {
            check(name, Some(content), &["is damaged", "copy it again"]);
        }
    }
}

#[test]
fn damaged_weights() {
    let whole = read("model.safetensors");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    for content in [
        &b""[..],
        b"\0\0\0",
        &[0xff; 64],
        pointer,
        &whole[..4000],
        &whole[..whole.len() - 1],
        &[&whole[..], b"x"].concat(),
    ] {
        check("model.safetensors", Some(content), &["is damaged"]);
    }
}

#[test]
fn weights_that_are_not_finite() {
    let whole = read("model.safetensors");
    // The body begins with the vocabulary, or with a layer, and ends with another tensor: all kinds are hit.
    for at in [whole.len() / 10, whole.len() / 3, whole.len() / 2, whole.len() - 1024] {
        let mut damaged = whole.clone();
        damaged[at..at + 1024].fill(0xff);
        check("model.safetensors", Some(&damaged), &["is damaged", "tensor `", "not finite"]);
    }
}

#[test]
fn weights_of_more_layers_than_the_configuration_says() {
    let folder = folder("config.json", Some(&config(r#""num_hidden_layers": 6"#, r#""num_hidden_layers": 5"#)));
    let Err(error) = load(folder.path()) else { panic!("a layer was left out") };
    assert!(error.to_string().contains("more layers than the 5"), "{error}");
}

#[test]
fn weights_of_another_model() {
    check(
        "model.safetensors",
        Some(&weights("embeddings.LayerNorm.bias", "embeddings.LayerNorm.bios")),
        &["`embeddings.LayerNorm.bias` is missing"],
    );
    check("model.safetensors", Some(&weights("[1536,384]", "[384,1536]")), &["[384, 1536]", "[1536, 384]"]);
    check("model.safetensors", Some(&weights(r#""F16""#, r#""I16""#)), &["I16"]);
}

#[test]
fn configuration_of_another_model() {
    check("config.json", Some(&config(r#""hidden_size": 384"#, r#""hidden_size": 768"#)), &["768 dimensions"]);
    check("config.json", Some(&config(r#""gelu""#, r#""relu""#)), &["`relu`"]);
    check("config.json", Some(&config(r#""absolute""#, r#""rotary""#)), &["`rotary`"]);
    for (key, value) in [
        ("num_attention_heads", 12),
        ("num_hidden_layers", 6),
        ("intermediate_size", 1536),
        ("vocab_size", 30522),
        ("type_vocab_size", 2),
        ("max_position_embeddings", 512),
    ] {
        for absurd in ["0", "18446744073709551615"] {
            let content = config(&format!("\"{key}\": {value}"), &format!("\"{key}\": {absurd}"));
            check("config.json", Some(&content), &[&format!("`{key}` is {absurd}")]);
        }
    }
    for absurd in ["0", "-1e-12", "1e-60", "2"] {
        let content = config("1e-12", absurd);
        check("config.json", Some(&content), &["`layer_norm_eps` is"]);
    }
    check("config.json", Some(&config(r#""num_attention_heads": 12"#, r#""num_attention_heads": 5"#)), &["5 heads"]);
    check(
        "config.json",
        Some(&config(r#""max_position_embeddings": 512"#, r#""max_position_embeddings": 128"#)),
        &["128 positions"],
    );
}

#[test]
fn tokenizer_of_another_model() {
    let text = String::from_utf8(read("tokenizer.json")).expect("JSON is UTF-8");
    let larger = text.replace("\"##～\":30521", "\"##～\":30522");
    assert_ne!(text, larger);
    check("tokenizer.json", Some(larger.as_bytes()), &["30522"]);
    check("tokenizer.json", Some(text.replace("[SEP]", "<sep>").as_bytes()), &["[SEP]"]);
}

fn load(folder: &Path) -> Result<Box<dyn Encoder>, EncoderError> {
    load_any(folder, &Options::default())
}

#[test]
fn options_that_do_not_fit_are_refused() {
    for (options, expected) in [
        (Options { dimensions: Some(128), ..Options::default() }, "`dimensions` = 128 does not fit all-MiniLM-L6-v2"),
        (Options { window: Some(8), ..Options::default() }, "`window` = 8 does not fit all-MiniLM-L6-v2"),
        (Options { window: Some(257), ..Options::default() }, "from 16 to 256 tokens"),
    ] {
        let Err(error) = load_any(&model(), &options) else { panic!("{expected} was accepted") };
        assert!(error.to_string().contains(expected), "{error}");
    }
    let narrow = Options { window: Some(64), dimensions: Some(384), ..Options::default() };
    assert_eq!(load_any(&model(), &narrow).expect("it fits").info().window_tokens, 64);
}

#[cfg(feature = "bundled-models")]
#[test]
fn the_bundled_model_is_the_one_in_the_repository() {
    let loaded = load(&model()).expect("the repository holds the model");
    let bundled = bundled().expect("this build carries it");
    assert_eq!(bundled.info(), loaded.info());
    assert_eq!(bundled.fingerprint(), loaded.fingerprint());
    assert_eq!(loaded.info().id, "all-MiniLM-L6-v2");
}

#[test]
fn the_sums_are_those_of_the_files() {
    let sums = String::from_utf8(read("SHA256SUMS")).expect("text");
    let names = ["model.safetensors", "tokenizer.json", "config.json", "LICENSE", "NOTICE"];
    let expected: String = names.iter().map(|name| format!("{}  {name}\n", sha256(&read(name)))).collect();
    assert_eq!(sums, expected);
}
