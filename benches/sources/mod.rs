//! Repositories for benches: copies of this crate's own dependencies, so that everyone who builds it has the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Source files of the crates that this one is built from, at most `each` of a crate, in the order of their names.
pub fn dependency_sources(each: usize) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--offline", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let mut sources = Vec::new();
    for package in packages.iter().filter(|it| it["source"].is_string()) {
        let manifest = Path::new(package["manifest_path"].as_str().context("a path")?);
        let mut found = rust_files(&manifest.with_file_name("src"))?;
        found.sort();
        sources.extend(found.into_iter().take(each));
    }
    Ok(sources)
}

fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut folders, mut files) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs" || it == "c") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// A folder with copies of the first `count` files, ten in a directory.
pub fn copy(sources: &[PathBuf], count: usize) -> anyhow::Result<tempfile::TempDir> {
    if sources.len() < count {
        bail!("only {} source files among the dependencies", sources.len());
    }
    let folder = tempfile::tempdir()?;
    for (at, source) in sources.iter().take(count).enumerate() {
        let parent = folder.path().join(format!("crate{}", at / 10));
        std::fs::create_dir_all(&parent)?;
        let name = source.file_name().context("a file name")?.to_string_lossy().into_owned();
        std::fs::copy(source, parent.join(format!("{at}_{name}")))?;
    }
    Ok(folder)
}

/// The name of the processor.
pub fn processor() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or("an unknown processor".to_owned(), |(_, name)| name.to_owned())
}
