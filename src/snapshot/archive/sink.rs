//! The folder that an archive is unpacked into, and what may get there.
//!
//! Knows nothing of formats.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{ArchiveError, ArchiveLimits, EntryReason, Extracted, Format, SkippedEntry, names};
use crate::fsio;

/// What was made at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    File,
    Folder,
}

pub(super) struct Sink<'a> {
    folder: &'a Path,
    limits: &'a ArchiveLimits,
    made: HashMap<Vec<u8>, Made>,
    files: usize,
    entries: usize,
    bytes: u64,
    names_bytes: usize,
    skipped: Vec<SkippedEntry>,
    notes: Vec<String>,
}

/// A file that is being written.
pub(super) struct Writing {
    file: File,
    path: Vec<u8>,
    /// As it stands in the archive.
    raw: Vec<u8>,
    bytes: u64,
}

impl<'a> Sink<'a> {
    /// Makes the folder, for the user alone.
    pub(super) fn new(folder: &'a Path, limits: &'a ArchiveLimits) -> Result<Self, ArchiveError> {
        let sink = Sink {
            folder,
            limits,
            made: HashMap::new(),
            files: 0,
            entries: 0,
            bytes: 0,
            names_bytes: 0,
            skipped: Vec::new(),
            notes: Vec::new(),
        };
        fsio::create_private_directory(folder).map_err(|error| sink.unwritable(b"", error))?;
        // A link in its place would lead all of it elsewhere.
        let is_folder = folder.symlink_metadata().is_ok_and(|it| it.is_dir());
        let mut inside = fs::read_dir(folder).map_err(|error| sink.unwritable(b"", error))?;
        if !is_folder || inside.next().is_some() {
            return Err(sink.unwritable(b"", io::ErrorKind::AlreadyExists.into()));
        }
        Ok(sink)
    }

    /// Counts an entry, whatever becomes of it.
    pub(super) fn entry(&mut self, raw: &[u8]) -> Result<(), ArchiveError> {
        self.entries += 1;
        self.check_entries(self.entries as u64)?;
        self.count_name(raw)
    }

    fn count_name(&mut self, name: &[u8]) -> Result<(), ArchiveError> {
        self.names_bytes += name.len();
        let limit = ArchiveLimits::NAMES_BYTES;
        if self.names_bytes > limit {
            return Err(ArchiveError::TooLarge { limit: limit as u64, unit: "bytes of paths" });
        }
        Ok(())
    }

    /// Refuses so many entries before they are read.
    pub(super) fn check_entries(&self, entries: u64) -> Result<(), ArchiveError> {
        let limit = self.limits.entries as u64;
        if entries > limit { Err(ArchiveError::TooLarge { limit, unit: "entries" }) } else { Ok(()) }
    }

    /// Counts unpacked bytes.
    pub(super) fn count(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = self.limits.bytes;
        if self.bytes > limit { Err(ArchiveError::TooLarge { limit, unit: "bytes" }) } else { Ok(()) }
    }

    pub(super) fn is_oversized(&self, bytes: u64) -> bool {
        bytes > self.limits.file_bytes
    }

    pub(super) fn oversized(&self) -> EntryReason {
        EntryReason::Oversized { limit: self.limits.file_bytes }
    }

    pub(super) fn skip(&mut self, raw: &[u8], reason: EntryReason) {
        self.skipped.push(SkippedEntry { path: String::from_utf8_lossy(raw).into_owned(), reason });
    }

    pub(super) fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    /// Makes a folder and those above it.
    pub(super) fn folder(&mut self, raw: &[u8]) -> Result<(), ArchiveError> {
        let made = names::below(raw, self.limits).map_err(Refusal::Entry).and_then(|path| self.make_folders(&path));
        self.settle(raw, made).map(drop)
    }

    /// Opens a file; `None` if the entry is skipped.
    pub(super) fn file(&mut self, raw: &[u8]) -> Result<Option<Writing>, ArchiveError> {
        let opened = self.open(raw);
        self.settle(raw, opened)
    }

    fn settle<T>(&mut self, raw: &[u8], made: Result<T, Refusal>) -> Result<Option<T>, ArchiveError> {
        match made {
            Ok(made) => Ok(Some(made)),
            Err(Refusal::Archive(error)) => Err(error),
            Err(Refusal::Entry(reason)) => {
                self.skip(raw, reason);
                Ok(None)
            }
        }
    }

    fn open(&mut self, raw: &[u8]) -> Result<Writing, Refusal> {
        let path = names::below(raw, self.limits)?;
        let above = match path.iter().rposition(|it| *it == b'/') {
            _ if path.is_empty() => return Err(EntryReason::Nameless.into()),
            Some(slash) => &path[..slash],
            None => b"",
        };
        self.make_folders(above)?;
        match self.made.get(&path) {
            Some(Made::Folder) => return Err(EntryReason::IsFolder.into()),
            Some(Made::File) => self.replace(&path)?,
            None => {}
        }
        let file = create_new(&self.place(&path)).map_err(|error| self.refused(&path, error))?;
        self.made.insert(path.clone(), Made::File);
        self.files += 1;
        Ok(Writing { file, path, raw: raw.to_owned(), bytes: 0 })
    }

    /// Removes an earlier file of the same path: the later one wins, as when a tar is unpacked by tar.
    fn replace(&mut self, path: &[u8]) -> Result<(), Refusal> {
        self.remove(path)?;
        self.skip(path, EntryReason::Replaced);
        Ok(())
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), ArchiveError> {
        fs::remove_file(self.place(path)).map_err(|error| self.unwritable(path, error))?;
        self.made.remove(path);
        self.files -= 1;
        Ok(())
    }

    /// Writes to a file. One that turns out to be too long is taken back; gives whether it may go on.
    pub(super) fn write(&mut self, writing: &mut Writing, bytes: &[u8]) -> Result<bool, ArchiveError> {
        writing.bytes += bytes.len() as u64;
        if self.is_oversized(writing.bytes) {
            self.remove(&writing.path)?;
            self.skip(&writing.raw, self.oversized());
            return Ok(false);
        }
        writing.file.write_all(bytes).map_err(|error| self.unwritable(&writing.path, error))?;
        Ok(true)
    }

    fn make_folders(&mut self, path: &[u8]) -> Result<(), Refusal> {
        let ends = path.iter().enumerate().filter(|(_, it)| **it == b'/').map(|(at, _)| at);
        for end in ends.chain((!path.is_empty()).then_some(path.len())) {
            match self.made.get(&path[..end]) {
                Some(Made::Folder) => {}
                Some(Made::File) => return Err(EntryReason::BelowFile.into()),
                None => self.make_folder(&path[..end])?,
            }
        }
        Ok(())
    }

    fn make_folder(&mut self, path: &[u8]) -> Result<(), Refusal> {
        self.check_entries(self.made.len() as u64 + 1)?;
        self.count_name(path)?;
        let place = self.place(path);
        match create_folder(&place) {
            Ok(()) => {}
            // The file system takes it for one that we made: its letters differ in case alone, say.
            Err(_) if place.symlink_metadata().is_ok_and(|it| it.is_dir()) => {}
            Err(error) => return Err(self.refused(path, error)),
        }
        self.made.insert(path.to_owned(), Made::Folder);
        Ok(())
    }

    fn place(&self, path: &[u8]) -> PathBuf {
        self.folder.join(native(path))
    }

    /// What a failure to make something is about: its path, or the disk.
    fn refused(&self, path: &[u8], error: io::Error) -> Refusal {
        match error.kind() {
            io::ErrorKind::AlreadyExists => EntryReason::Indistinct.into(),
            io::ErrorKind::InvalidFilename => EntryReason::TooLong { limit: self.limits.path_bytes }.into(),
            _ if error.raw_os_error() == Some(libc::EILSEQ) => EntryReason::NotUtf8.into(),
            _ => self.unwritable(path, error).into(),
        }
    }

    fn unwritable(&self, path: &[u8], source: io::Error) -> ArchiveError {
        let path = if path.is_empty() { self.folder.to_owned() } else { self.place(path) };
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ArchiveError::Full { path, source },
            _ => ArchiveError::Unwritable { path, source },
        }
    }

    /// Takes off the one folder that all lies in, and tells what there is.
    pub(super) fn finish(mut self, format: Format, commit: Option<String>) -> Result<Extracted, ArchiveError> {
        if self.entries == 0 {
            return Err(ArchiveError::Empty);
        }
        let top = self.only_folder();
        if let Some(top) = &top {
            self.strip(top).map_err(|error| self.unwritable(top, error))?;
        }
        let stripped = top.map(|it| String::from_utf8_lossy(&it).into_owned());
        if let Some(top) = &stripped {
            self.skipped.iter_mut().for_each(|it| it.path = without(&it.path, top).to_owned());
        }
        self.skipped.sort();
        let Sink { files, bytes, skipped, notes, .. } = self;
        Ok(Extracted { format, files, bytes, skipped, commit, stripped, notes })
    }

    /// The only thing at the top, if it is a folder.
    fn only_folder(&self) -> Option<Vec<u8>> {
        let mut tops = self.made.iter().filter(|(path, _)| !path.contains(&b'/'));
        match (tops.next(), tops.next()) {
            (Some((path, Made::Folder)), None) => Some(path.clone()),
            _ => None,
        }
    }

    /// Moves what is in a folder to its place. The folder gets another name first, since something in it may have its own.
    fn strip(&self, top: &[u8]) -> io::Result<()> {
        let inside = |it: &&Vec<u8>| it.starts_with(top) && it.get(top.len()) == Some(&b'/');
        let children: Vec<&[u8]> = self.made.keys().filter(inside).map(|it| &it[top.len() + 1..]).collect();
        let children: Vec<&[u8]> = children.into_iter().filter(|it| !it.contains(&b'/')).collect();
        let mut aside = b"aside".to_vec();
        while children.contains(&aside.as_slice()) || aside == top {
            aside.push(b'_');
        }
        fs::rename(self.place(top), self.place(&aside))?;
        for child in children {
            fs::rename(self.place(&aside).join(native(child)), self.place(child))?;
        }
        fs::remove_dir(self.place(&aside))
    }
}

/// What keeps an entry from being written.
enum Refusal {
    Entry(EntryReason),
    Archive(ArchiveError),
}

impl From<EntryReason> for Refusal {
    fn from(reason: EntryReason) -> Self {
        Refusal::Entry(reason)
    }
}

impl From<ArchiveError> for Refusal {
    fn from(error: ArchiveError) -> Self {
        Refusal::Archive(error)
    }
}

/// A path as it stands in an archive, without its first folder.
fn without<'a>(path: &'a str, top: &str) -> &'a str {
    let path = path.trim_start_matches("./");
    path.strip_prefix(top).and_then(|it| it.strip_prefix('/')).unwrap_or(path)
}

/// Opens a file that was not there. A link in its place is not followed.
fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}

fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn native(path: &[u8]) -> &Path {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path))
}

#[cfg(not(unix))]
fn native(path: &[u8]) -> PathBuf {
    // Other bytes were refused before.
    PathBuf::from(String::from_utf8_lossy(path).into_owned())
}
