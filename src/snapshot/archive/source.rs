//! The bytes of an archive, read within a budget and only as long as the caller wants.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// A file that is read in large pieces; seeking within a piece costs nothing.
pub(super) struct Source<'a> {
    inner: BufReader<File>,
    at: u64,
    length: u64,
    /// What may still be read.
    budget: u64,
    stop: &'a dyn Fn() -> bool,
}

/// Beyond twice its length, a file is read for headers that stand more than once and for what a search for them takes.
const SLACK: u64 = 1 << 22;

impl<'a> Source<'a> {
    pub(super) fn open(path: &Path, stop: &'a dyn Fn() -> bool) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        // Entries of a zip may overlap; each byte is needed once, and once more to skip what is too long.
        let budget = length.saturating_mul(2).saturating_add(SLACK);
        Ok(Source { inner: BufReader::with_capacity(1 << 16, file), at: 0, length, budget, stop })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// So many bytes from here on, or what there is.
    pub(super) fn head(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        self.take(most as u64).read_to_end(&mut head)?;
        Ok(head)
    }
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.inner.buffer().is_empty() {
            if (self.stop)() {
                return Err(io::Error::other("stopped"));
            }
            if self.budget == 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "its entries overlap"));
            }
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.budget = self.budget.saturating_sub(bytes as u64);
        self.inner.consume(bytes);
    }
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let buffered = self.fill_buf()?;
        let bytes = buffered.len().min(into.len());
        into[..bytes].copy_from_slice(&buffered[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }
}

impl Seek for Source<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(to) => Some(to),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
        };
        let to = to.ok_or(io::ErrorKind::InvalidInput)?;
        match i64::try_from(i128::from(to) - i128::from(self.at)) {
            Ok(by) => self.inner.seek_relative(by)?,
            Err(_) => return Err(io::ErrorKind::InvalidInput.into()),
        }
        self.at = to;
        Ok(to)
    }
}
