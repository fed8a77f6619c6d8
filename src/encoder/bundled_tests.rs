//! Model files that are missing, damaged or of another model: one line that names the file, and no panic.

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::encoder::Encoder;

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
    check("config.json", Some(&config(r#""num_attention_heads": 12"#, r#""num_attention_heads": 0"#)), &["0 heads"]);
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

#[cfg(feature = "bundled-models")]
#[test]
fn the_bundled_model_is_the_one_in_the_repository() {
    let loaded = load(&model()).expect("the repository holds the model");
    assert_eq!(bundled().expect("this build carries it").info(), loaded.info());
    assert_eq!(loaded.info().id, "all-MiniLM-L6-v2");
}

#[test]
fn provenance_names_the_files_as_they_are() {
    use sha2::{Digest, Sha256};
    let provenance = String::from_utf8(read("PROVENANCE")).expect("text");
    for name in ["model.safetensors", "tokenizer.json", "config.json", "LICENSE", "NOTICE"] {
        let sum: String = Sha256::digest(read(name)).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(provenance.contains(&format!("{sum}  {name}")), "PROVENANCE has another sha256 for {name}");
    }
}
