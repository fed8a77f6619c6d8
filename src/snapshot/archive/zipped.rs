//! zip: stored and deflated entries.
//!
//! What the directory at the end says of places counts; what is said of sizes is held against what comes.

use std::io::Read;

use zip::read::{ArchiveOffset, Config, ZipFileEntry};
use zip::result::ZipError;
use zip::unstable::read::ZipIterable;
use zip::{CompressionMethod, System, ZipReadOptions};

use super::sink::Sink;
use super::source::Source;
use super::{EntryReason, Open, Trouble, hash, shown};

/// Unpacks a zip. Gives the commit that it names.
pub(super) fn unpack(source: Open, sink: &mut Sink) -> Result<Option<String>, Trouble> {
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let at_end = |error| trouble("in its directory", error);
    let mut archive = ZipIterable::try_new(source()?, config).map_err(at_end)?;
    sink.check_entries(archive.len() as u64)?;
    let mut body = source()?;
    for entry in archive.files().map_err(at_end)? {
        unpack_entry(entry.map_err(at_end)?, &mut body, sink)?;
    }
    commit(&mut body)
}

fn unpack_entry(entry: ZipFileEntry, body: &mut Source, sink: &mut Sink) -> Result<(), Trouble> {
    let path = path_of(&entry);
    sink.entry(&path)?;
    match refusal(&entry) {
        Some(reason) => sink.skip(&path, reason),
        None if is_folder(&entry, &path) => sink.folder(&path)?,
        None => unpack_file(entry, &path, body, sink)?,
    }
    Ok(())
}

/// Programs on Windows have written backslashes; everybody takes those for slashes.
fn path_of(entry: &ZipFileEntry) -> Vec<u8> {
    let raw = entry.name_raw();
    let is_from_windows = matches!(entry.system(), System::Dos | System::WindowsNTFS);
    match is_from_windows && !raw.contains(&b'/') {
        true => raw.iter().map(|it| if *it == b'\\' { b'/' } else { *it }).collect(),
        false => raw.to_vec(),
    }
}

const KIND: u32 = 0o170_000;

fn is_folder(entry: &ZipFileEntry, path: &[u8]) -> bool {
    path.ends_with(b"/") || entry.unix_mode().is_some_and(|it| it & KIND == 0o040_000)
}

fn refusal(entry: &ZipFileEntry) -> Option<EntryReason> {
    match entry.unix_mode().unwrap_or_default() & KIND {
        0o120_000 => return Some(EntryReason::Link),
        0 | 0o100_000 | 0o040_000 => {}
        _ => return Some(EntryReason::Special),
    }
    match entry.compression() {
        _ if entry.encrypted() => Some(EntryReason::Encrypted),
        CompressionMethod::Stored | CompressionMethod::Deflated => None,
        _ => Some(EntryReason::Method),
    }
}

fn unpack_file(entry: ZipFileEntry, path: &[u8], body: &mut Source, sink: &mut Sink) -> Result<(), Trouble> {
    let place = || format!("in `{}`", shown(path));
    let Some(mut writing) = sink.file(path)? else { return Ok(()) };
    let mut file = entry.with_reader(body, ZipReadOptions::new()).map_err(|error| trouble(&place(), error))?;
    let mut buffer = [0; 1 << 14];
    loop {
        let bytes = match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => &buffer[..bytes],
            Err(error) => return Err(Trouble::Read { place: place(), error }),
        };
        sink.count(bytes.len() as u64)?;
        if !sink.write(&mut writing, bytes)? {
            return Ok(());
        }
    }
}

fn trouble(place: &str, error: ZipError) -> Trouble {
    let place = place.to_owned();
    let error = match error {
        ZipError::Io(error) => error,
        ZipError::InvalidArchive(what) => std::io::Error::new(std::io::ErrorKind::InvalidData, what.into_owned()),
        other => std::io::Error::new(std::io::ErrorKind::InvalidData, other.to_string()),
    };
    Trouble::Read { place, error }
}

/// `git archive` writes the commit into the archive's comment, which stands at its very end, after its length.
fn commit(source: &mut Source) -> Result<Option<String>, Trouble> {
    use std::io::{Seek, SeekFrom};
    let failed = |error| Trouble::Read { place: "at its end".to_owned(), error };
    for length in [40_u16, 64] {
        let Some(start) = source.length().checked_sub(u64::from(length) + 2) else { continue };
        source.seek(SeekFrom::Start(start)).map_err(failed)?;
        let tail = source.head(usize::from(length) + 2).map_err(failed)?;
        if let Some(comment) = tail.strip_prefix(&length.to_le_bytes()) {
            return Ok(hash(comment));
        }
    }
    Ok(None)
}
