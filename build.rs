//! Gives the code that decides what a source file yields a name of its own, so that an index made by other code is made again.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

/// What reads, parses and counts; the grammars come in by their versions.
const CODE: &[&str] =
    &["src/snapshot", "src/index", "src/retriever/ingest", "src/types.rs", "src/fsio.rs", "Cargo.toml", "Cargo.lock"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut hasher = DefaultHasher::new();
    for path in CODE {
        println!("cargo::rerun-if-changed={path}");
        hash(&root.join(path), &mut hasher);
    }
    // Which grammars there are.
    hasher.write_u8(u8::from(cfg!(feature = "heavy-grammars")));
    // Cargo hands it to what it runs as well, so that it must not look like a setting.
    println!("cargo::rustc-env=PARSING_RULES={:016x}", hasher.finish());
}

/// A file's content, or that of all files below a directory by name; a file that is not there (a lock file) counts as empty.
fn hash(path: &Path, hasher: &mut DefaultHasher) {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut below: Vec<PathBuf> = entries.map(|it| it.path()).collect();
        below.sort();
        below.iter().for_each(|it| hash(it, hasher));
    } else {
        hasher.write(path.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.write(&std::fs::read(path).unwrap_or_default());
    }
}
