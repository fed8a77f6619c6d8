//! F0: files that are written whole or not at all, and read back only as they were written.
//!
//! Knows nothing of what stands in them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;

/// Writes a file under a temporary name beside `path`, forces it to disk, and only then gives it its name: after a crash at any
/// moment `path` holds the old bytes or the new ones.
///
/// # Errors
/// Those of the file system; what was written is removed then.
pub fn write_atomically(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let temporary = directory.join(format!("{TEMPORARY_PREFIX}{}.{name}", std::process::id()));
    let written = write_synced(&temporary, write).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What failed is what is reported, not that its traces may be there still.
        let _ = fs::remove_file(&temporary);
    }
    written.and_then(|()| sync_directory(directory))
}

/// Makes a directory, and those above it that are missing, for the user alone: what lies in them are copies of sources.
///
/// # Errors
/// Those of the file system. One that is there already is none.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Names of files that are being written begin with it.
const TEMPORARY_PREFIX: &str = ".writing-";

/// Whether a file of this name is being written, or is left from a writer that was killed.
pub fn is_temporary(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY_PREFIX.as_bytes())
}

fn write_synced(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
    let file = File::create(path)?;
    let mut out = BufWriter::with_capacity(1 << 18, &file);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// Makes a renaming in a directory last. Only Unix has a call for it.
fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// Why a file does not hold what was written to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("the file `{}` can't be read: {message}", path.display())]
    Unreadable { path: PathBuf, message: String },
    #[error("the file `{}` is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("the file `{}` has format {found}, and this program reads format {expected}", path.display())]
    OtherFormat { path: PathBuf, found: u32, expected: u32 },
}

/// What tells a file of sections from any other: its length, and the checksum that all its checksums hang on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Seal {
    pub bytes: u64,
    pub checksum: u32,
}

/// Bytes that share a checksum. Reading one byte costs reading so many.
const BLOCK: usize = 1 << 16;
/// Sections begin at multiples of it.
const ALIGNMENT: usize = 64;
const MAGIC: [u8; 8] = *b"sightfil";
/// Magic, format, length of the table, its checksum, length of the sections, checksum of all these.
const FOOTER: usize = 8 + 4 + 4 + 4 + 8 + 4;
const MOST_SECTIONS: usize = 64;

/// Writes named sections of bytes, with a checksum for each block of them, into one file.
pub struct SectionWriter<W> {
    out: W,
    position: u64,
    sections: Vec<(String, u64, u64)>,
    blocks: Vec<u32>,
    block: crc32fast::Hasher,
}

impl<W: Write> SectionWriter<W> {
    pub fn new(out: W) -> Self {
        SectionWriter { out, position: 0, sections: Vec::new(), blocks: Vec::new(), block: crc32fast::Hasher::new() }
    }

    /// Begins the next section; what is written goes into it.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(&mut self, name: &str) -> io::Result<()> {
        self.close();
        let padding = (self.position as usize).next_multiple_of(ALIGNMENT) - self.position as usize;
        self.write_all(&[0; ALIGNMENT][..padding])?;
        self.sections.push((name.to_owned(), self.position, 0));
        Ok(())
    }

    fn close(&mut self) {
        if let Some((_, start, length)) = self.sections.last_mut() {
            *length = self.position - *start;
        }
    }

    /// Writes the table that the file is read by.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self, format: u32) -> io::Result<()> {
        self.close();
        if !self.position.is_multiple_of(BLOCK as u64) {
            self.blocks.push(self.block.clone().finalize());
        }
        let mut table = Vec::new();
        table.extend((self.sections.len() as u32).to_le_bytes());
        for (name, start, length) in &self.sections {
            table.push(name.len() as u8);
            table.extend(name.as_bytes());
            table.extend(start.to_le_bytes());
            table.extend(length.to_le_bytes());
        }
        self.blocks.iter().for_each(|it| table.extend(it.to_le_bytes()));
        let mut footer = Vec::with_capacity(FOOTER);
        footer.extend(MAGIC);
        footer.extend(format.to_le_bytes());
        footer.extend((table.len() as u32).to_le_bytes());
        footer.extend(crc32fast::hash(&table).to_le_bytes());
        footer.extend(self.position.to_le_bytes());
        footer.extend(crc32fast::hash(&footer).to_le_bytes());
        self.out.write_all(&table)?;
        self.out.write_all(&footer)?;
        self.out.flush()
    }
}

impl<W: Write> Write for SectionWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BLOCK - (self.position % BLOCK as u64) as usize;
        let written = self.out.write(&bytes[..bytes.len().min(room)])?;
        self.block.update(&bytes[..written]);
        self.position += written as u64;
        if written > 0 && self.position.is_multiple_of(BLOCK as u64) {
            self.blocks.push(std::mem::replace(&mut self.block, crc32fast::Hasher::new()).finalize());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A file of sections, mapped into memory. A block's checksum is compared when a byte of it is first asked for.
pub struct SectionFile {
    path: PathBuf,
    map: Mmap,
    sections: Vec<(String, Range<usize>)>,
    blocks: Vec<u32>,
    /// A bit a block: it is as it was written.
    sound: Vec<AtomicU64>,
}

impl std::fmt::Debug for SectionFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SectionFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SectionFile {
    /// Opens a file that [`SectionWriter`] wrote in this format.
    ///
    /// # Errors
    /// When it can't be read, is of another format or is not whole.
    pub fn open(path: &Path, format: u32) -> Result<Arc<Self>, FileError> {
        let unreadable = |error: io::Error| FileError::Unreadable { path: path.into(), message: error.to_string() };
        let file = File::open(path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(FileError::Unreadable { path: path.into(), message: "it is no file".to_owned() });
        }
        // SAFETY: these files are never changed after they got their name: new content is a new file (`write_atomically`), and an
        // unlinked one stays mapped. Somebody else who cuts the file short meanwhile, or a disk that fails, takes the process down, as with
        // any mapped file.
        let map = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
        let damaged = |what: &str| FileError::Damaged { path: path.into(), what: what.to_owned() };
        let Layout { sections, blocks } = Layout::read(&map, format).map_err(|problem| match problem {
            Problem::Damaged(what) => damaged(what),
            Problem::OtherFormat(found) => FileError::OtherFormat { path: path.into(), found, expected: format },
        })?;
        let sound = (0..blocks.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(SectionFile { path: path.into(), map, sections, blocks, sound }))
    }

    /// What tells this file from any other.
    pub fn seal(&self) -> Seal {
        Seal { bytes: self.map.len() as u64, checksum: u32_at(&self.map, self.map.len() - 4) }
    }

    /// Opens the very file that had this seal.
    ///
    /// # Errors
    /// As for [`Self::open`], and when it is another one.
    pub fn open_sealed(path: &Path, format: u32, seal: Seal) -> Result<Arc<Self>, FileError> {
        let file = Self::open(path, format)?;
        if file.seal() != seal {
            return Err(file.damaged("it is not the file that the index was made with"));
        }
        Ok(file)
    }

    /// The section of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn section(self: &Arc<Self>, name: &str) -> Result<Section, FileError> {
        let found = self.sections.iter().find(|it| it.0 == name);
        let range = found.map(|it| it.1.clone()).ok_or_else(|| self.damaged(format!("it has no part `{name}`")))?;
        Ok(Section(Bytes::Mapped { file: Arc::clone(self), range }))
    }

    /// An error for content that can't be.
    pub fn damaged(&self, what: impl Into<String>) -> FileError {
        FileError::Damaged { path: self.path.clone(), what: what.into() }
    }

    /// Compares all checksums.
    ///
    /// # Errors
    /// When a block is not as it was written.
    pub fn check_all(&self) -> Result<(), FileError> {
        (0..self.blocks.len()).try_for_each(|at| self.check(at))
    }

    fn check(&self, block: usize) -> Result<(), FileError> {
        let (word, bit) = (&self.sound[block / 64], 1 << (block % 64));
        if word.load(Ordering::Relaxed) & bit != 0 {
            return Ok(());
        }
        let payload = self.sections.last().map_or(0, |it| it.1.end);
        let bytes = &self.map[block * BLOCK..payload.min((block + 1) * BLOCK)];
        if crc32fast::hash(bytes) != self.blocks[block] {
            return Err(self.damaged(format!("its bytes from {} on are not those that were written", block * BLOCK)));
        }
        word.fetch_or(bit, Ordering::Relaxed);
        Ok(())
    }

    fn read(&self, range: Range<usize>) -> Result<&[u8], FileError> {
        if !range.is_empty() {
            (range.start / BLOCK..=(range.end - 1) / BLOCK).try_for_each(|at| self.check(at))?;
        }
        Ok(&self.map[range])
    }
}

/// What the end of a file says of it.
struct Layout {
    sections: Vec<(String, Range<usize>)>,
    blocks: Vec<u32>,
}

enum Problem {
    Damaged(&'static str),
    OtherFormat(u32),
}

impl Layout {
    fn read(bytes: &[u8], format: u32) -> Result<Self, Problem> {
        let cut = || Problem::Damaged("its end is missing");
        let footer = bytes.len().checked_sub(FOOTER).map(|start| &bytes[start..]).ok_or_else(cut)?;
        if footer[..8] != MAGIC || crc32fast::hash(&footer[..FOOTER - 4]) != u32_at(footer, FOOTER - 4) {
            return Err(cut());
        }
        if u32_at(footer, 8) != format {
            return Err(Problem::OtherFormat(u32_at(footer, 8)));
        }
        let (table_length, payload) = (u32_at(footer, 12) as usize, u64_at(footer, 20) as usize);
        if payload.checked_add(table_length).and_then(|it| it.checked_add(FOOTER)) != Some(bytes.len()) {
            return Err(Problem::Damaged("it is not as long as its end says"));
        }
        let table = &bytes[payload..payload + table_length];
        if crc32fast::hash(table) != u32_at(footer, 16) {
            return Err(Problem::Damaged("its table of contents is not the one that was written"));
        }
        Layout::parse(table, payload).ok_or(Problem::Damaged("its table of contents makes no sense"))
    }

    fn parse(table: &[u8], payload: usize) -> Option<Self> {
        let mut rest = table;
        let mut take = |length: usize| {
            let (taken, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(taken)
        };
        let count = u32_at(take(4)?, 0) as usize;
        let mut sections = Vec::new();
        for _ in 0..(count <= MOST_SECTIONS).then_some(count)? {
            let length = usize::from(take(1)?[0]);
            let name = std::str::from_utf8(take(length)?).ok()?.to_owned();
            let (start, length) = (u64_at(take(8)?, 0) as usize, u64_at(take(8)?, 0) as usize);
            let end = start.checked_add(length).filter(|end| *end <= payload)?;
            sections.push((name, start..end));
        }
        let blocks: Vec<u32> = rest.chunks_exact(4).map(|it| u32_at(it, 0)).collect();
        let is_whole = rest.len().is_multiple_of(4) && blocks.len() == payload.div_ceil(BLOCK);
        let ends_with_it = sections.last().map_or(0, |it| it.1.end) == payload;
        (is_whole && ends_with_it).then_some(Layout { sections, blocks })
    }
}

/// The 32-bit number at a byte. The caller knows that it is there.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// The 64-bit number at a byte. The caller knows that it is there.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// Bytes in memory, or a part of a file whose checksums are compared as it is read.
#[derive(Debug, Clone)]
pub struct Section(Bytes);

#[derive(Debug, Clone)]
enum Bytes {
    Held(Arc<[u8]>),
    Mapped { file: Arc<SectionFile>, range: Range<usize> },
}

impl From<Vec<u8>> for Section {
    fn from(bytes: Vec<u8>) -> Self {
        Section(Bytes::Held(bytes.into()))
    }
}

impl Section {
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::Held(bytes) => bytes.len(),
            Bytes::Mapped { range, .. } => range.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of the bytes.
    ///
    /// # Errors
    /// When they are not those that were written, or the section has no such bytes (which only other bytes of a damaged file can
    /// lead to).
    pub fn read(&self, range: Range<usize>) -> Result<&[u8], FileError> {
        if range.start > range.end || range.end > self.len() {
            return Err(self.damaged("a part points outside another"));
        }
        match &self.0 {
            Bytes::Held(bytes) => Ok(&bytes[range]),
            Bytes::Mapped { file, range: own } => file.read(own.start + range.start..own.start + range.end),
        }
    }

    /// All bytes.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn all(&self) -> Result<&[u8], FileError> {
        self.read(0..self.len())
    }

    /// An error for content that can't be.
    pub fn damaged(&self, what: &str) -> FileError {
        match &self.0 {
            Bytes::Held(_) => FileError::Damaged { path: PathBuf::from("memory"), what: what.to_owned() },
            Bytes::Mapped { file, .. } => file.damaged(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: u32 = 7;

    fn write(path: &Path, sections: &[(&str, Vec<u8>)]) {
        let written = write_atomically(path, |out| {
            let mut writer = SectionWriter::new(out);
            for (name, bytes) in sections {
                writer.begin(name)?;
                writer.write_all(bytes)?;
            }
            writer.finish(FORMAT)
        });
        written.expect("a writable folder");
    }

    /// Sections that end within, at and after a block's end.
    fn sections() -> Vec<(&'static str, Vec<u8>)> {
        let bytes = |length: usize| (0..length).map(|at| (at * 31 % 251) as u8).collect();
        vec![("empty", Vec::new()), ("short", bytes(5)), ("block", bytes(BLOCK - 64)), ("long", bytes(3 * BLOCK + 1))]
    }

    fn read_all(path: &Path) -> Result<Vec<Vec<u8>>, FileError> {
        let file = SectionFile::open(path, FORMAT)?;
        sections().iter().map(|(name, _)| Ok(file.section(name)?.all()?.to_vec())).collect()
    }

    #[test]
    fn sections_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        write(&path, &sections());
        assert_eq!(read_all(&path).expect("sound"), sections().into_iter().map(|it| it.1).collect::<Vec<_>>());
        let file = SectionFile::open(&path, FORMAT).expect("sound");
        assert_eq!(file.section("long").and_then(|it| Ok(it.read(1..3)?.to_vec())).expect("sound"), [31, 62]);
        let section = file.section("short").expect("there");
        assert!(section.read(4..6).is_err() && file.section("other").is_err());
        write(&path, &[]);
        SectionFile::open(&path, FORMAT).expect("an empty file is one").check_all().expect("sound");
    }

    #[test]
    fn no_cut_and_no_flipped_bit_goes_unseen() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        write(&path, &sections());
        let whole = fs::read(&path).expect("there");
        for at in (0..whole.len()).step_by(997).chain(whole.len() - 200..whole.len()) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).expect("writable");
            read_all(&path).expect_err("a flipped bit");
            fs::write(&path, &whole[..at]).expect("writable");
            read_all(&path).expect_err("a cut");
        }
        fs::write(&path, [&whole[..], b"x"].concat()).expect("writable");
        read_all(&path).expect_err("something behind it");
    }

    #[test]
    fn another_format_is_refused_by_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        write(&path, &sections());
        let error = SectionFile::open(&path, FORMAT + 1).expect_err("another format").to_string();
        assert!(error.contains("has format 7, and this program reads format 8"), "{error}");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "old").expect("writable");
        write_atomically(&path, |out| {
            out.write_all(b"new")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .expect_err("full");
        assert_eq!(fs::read(&path).expect("there"), b"old");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
    }
}
