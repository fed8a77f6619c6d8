//! Any bytes as an archive that somebody sent: an error and nothing left, or a folder of plain files within the limits; never a file elsewhere.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use sightline::snapshot::archive::{ArchiveLimits, extract};

/// So little that a run is short.
const LIMITS: ArchiveLimits =
    ArchiveLimits { entries: 100, bytes: 1 << 20, file_bytes: 1 << 14, path_bytes: 200, depth: 8 };

fuzz_target!(|bytes: &[u8]| {
    let place = std::env::temp_dir().join(format!("sightline-fuzz-{}", std::process::id()));
    let (archive, folder) = (place.join("archive"), place.join("in/to"));
    fs::create_dir_all(place.join("in")).expect("a folder");
    fs::write(&archive, bytes).expect("a file");
    match extract(&archive, &folder, &LIMITS, &|| false) {
        Ok(extracted) => assert_eq!(files_below(&folder), extracted.files),
        Err(_) => assert!(!folder.exists()),
    }
    let _ = fs::remove_dir_all(&folder);
    assert_eq!(files_below(&place), 1, "only the archive itself is left");
});

fn files_below(folder: &Path) -> usize {
    let (mut pending, mut files) = (vec![PathBuf::from(folder)], 0);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).expect("readable").map(|it| it.expect("readable")) {
            let kind = entry.file_type().expect("readable");
            assert!(kind.is_file() || kind.is_dir(), "neither file nor folder");
            files += usize::from(kind.is_file());
            pending.extend(kind.is_dir().then(|| entry.path()));
        }
    }
    files
}
