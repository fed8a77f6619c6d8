//! tar: the old form, ustar, pax and GNU's.
//!
//! The `tar` crate reads the fields of a header. Its own way through an archive reads long names and extended headers into memory
//! whatever their size, and doesn't say where it stopped.

use std::io::{self, Read};

use tar::Header;

use super::sink::Sink;
use super::{ArchiveError, EntryReason, Trouble, hash, shown};

/// Everything in a tar comes in pieces of so many bytes.
pub(super) const BLOCK: usize = 512;

/// Where the first header ends.
const FIRST: u64 = BLOCK as u64;

const OTHER_GZIP: ArchiveError = ArchiveError::NotAnArchive { found: "a gzip file of something other than a tar" };

/// A longer extended header is not one that a program wrote.
const EXTENDED_BYTES: u64 = 1 << 20;

/// Whether this may be the beginning of a tar: a header, or the end of one without entries.
pub(super) fn is_header(block: &[u8]) -> bool {
    let block: Option<&[u8; BLOCK]> = block.try_into().ok();
    block.is_some_and(|it| it[257..262] == *b"ustar" || has_checksum(it) || it.iter().all(|it| *it == 0))
}

/// Whether a header's checksum is right: a sum of its bytes, which some old programs took to be signed.
fn has_checksum(block: &[u8; BLOCK]) -> bool {
    let Ok(expected) = Header::from_byte_slice(block).cksum() else { return false };
    let others = || block[..148].iter().chain(&block[156..]);
    let blanks = 8 * i64::from(b' ');
    let unsigned: i64 = others().map(|it| i64::from(*it)).sum::<i64>() + blanks;
    let signed: i64 = others().map(|it| i64::from(*it as i8)).sum::<i64>() + blanks;
    [unsigned, signed].contains(&i64::from(expected))
}

/// Unpacks a tar. Gives the commit that it names.
pub(super) fn unpack(input: impl Read, sink: &mut Sink) -> Result<Option<String>, Trouble> {
    let mut tape = Tape { input, sink, at: 0, buffer: vec![0; 1 << 16], next: Extended::default(), commit: None };
    while let Some(header) = tape.header()? {
        tape.member(&header)?;
    }
    tape.rest()?;
    Ok(tape.commit)
}

struct Tape<'s, 'a, R> {
    input: R,
    sink: &'s mut Sink<'a>,
    /// Bytes read.
    at: u64,
    buffer: Vec<u8>,
    /// What headers before it say of the next member.
    next: Extended,
    commit: Option<String>,
}

#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
    /// There was such a header.
    is_there: bool,
}

impl<R: Read> Tape<'_, '_, R> {
    /// The next header; `None` at the end.
    fn header(&mut self) -> Result<Option<Header>, Trouble> {
        let mut header = Header::new_old();
        if self.fill(header.as_mut_bytes(), "")? < BLOCK {
            return Err(match self.at {
                0 => ArchiveError::Empty,
                1..FIRST => OTHER_GZIP,
                _ => ArchiveError::CutOff { place: self.place("before its end mark") },
            }
            .into());
        }
        let block = *header.as_bytes();
        if block.iter().all(|it| *it == 0) {
            return if self.next.is_there { Err(self.damaged("nothing follows an extended header")) } else { Ok(None) };
        }
        match has_checksum(&block) {
            true => Ok(Some(header)),
            // What was in a gzip stream is looked at here first.
            false if self.at == FIRST && block[257..262] != *b"ustar" => Err(OTHER_GZIP.into()),
            false => Err(self.damaged("the checksum of a header is wrong")),
        }
    }

    fn member(&mut self, header: &Header) -> Result<(), Trouble> {
        let kind = header.as_old().linkflag[0];
        let size = self.size(header)?;
        match kind {
            b'L' => {
                let name = self.extended(size)?;
                let end = name.iter().position(|it| *it == 0).unwrap_or(name.len());
                self.next.path.get_or_insert(name[..end].to_vec());
                self.next.is_there = true;
                Ok(())
            }
            b'K' => self.extended(size).map(drop),
            b'x' | b'X' => {
                let records = self.extended(size)?;
                self.next.is_there = true;
                self.records(&records, false)
            }
            b'g' => {
                let records = self.extended(size)?;
                self.records(&records, true)
            }
            kind => self.entry(header, kind, size),
        }
    }

    /// The bytes that belong to a header, as it says.
    fn size(&self, header: &Header) -> Result<u64, Trouble> {
        let field = &header.as_old().size;
        match header.entry_size() {
            Ok(size) => Ok(size),
            Err(_) if field.iter().all(|it| matches!(it, 0 | b' ')) => Ok(0),
            Err(_) => Err(self.damaged("the size of an entry is no number")),
        }
    }

    fn entry(&mut self, header: &Header, kind: u8, size: u64) -> Result<(), Trouble> {
        let next = std::mem::take(&mut self.next);
        let path = next.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let size = next.size.unwrap_or(size);
        self.sink.entry(&path)?;
        // Links, devices, folders and pipes have none, whatever stands there.
        let has_content = !(b'1'..=b'6').contains(&kind);
        let size = if has_content { size } else { 0 };
        match kind {
            _ if next.is_sparse => self.skip(&path, EntryReason::Sparse, size),
            b'5' => Ok(self.sink.folder(&path)?),
            0 if path.ends_with(b"/") => {
                self.sink.folder(&path)?;
                self.pass(size, &path)
            }
            0 | b'0' | b'7' => self.file(&path, size),
            b'1' | b'2' => self.skip(&path, EntryReason::Link, size),
            b'S' => {
                self.pass_sparse_headers(header)?;
                self.skip(&path, EntryReason::Sparse, size)
            }
            _ => self.skip(&path, EntryReason::Special, size),
        }
    }

    fn skip(&mut self, path: &[u8], reason: EntryReason, size: u64) -> Result<(), Trouble> {
        self.sink.skip(path, reason);
        self.pass(size, path)
    }

    fn file(&mut self, path: &[u8], size: u64) -> Result<(), Trouble> {
        if self.sink.is_oversized(size) {
            return self.skip(path, self.sink.oversized(), size);
        }
        let mut writing = self.sink.file(path)?;
        self.content(size, path, |sink, bytes| match &mut writing {
            Some(writing) => sink.write(writing, bytes).map(drop),
            None => Ok(()),
        })
    }

    fn pass(&mut self, size: u64, path: &[u8]) -> Result<(), Trouble> {
        self.content(size, path, |_, _| Ok(()))
    }

    /// Reads an entry's content, and what fills up its last block.
    fn content(
        &mut self,
        size: u64,
        path: &[u8],
        mut take: impl FnMut(&mut Sink, &[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), Trouble> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut left = size;
        while left > 0 {
            let wanted = left.min(buffer.len() as u64) as usize;
            self.fill_whole(&mut buffer[..wanted], path)?;
            take(self.sink, &buffer[..wanted])?;
            left -= wanted as u64;
        }
        let padding = (size.wrapping_neg() % BLOCK as u64) as usize;
        self.fill_whole(&mut buffer[..padding], path)?;
        self.buffer = buffer;
        Ok(())
    }

    /// The content of a header that describes the next one.
    fn extended(&mut self, size: u64) -> Result<Vec<u8>, Trouble> {
        if size > EXTENDED_BYTES {
            return Err(self.damaged("an extended header is too long"));
        }
        // Each costs the reader as much as an entry.
        self.sink.entry(b"")?;
        let mut bytes = Vec::with_capacity(size as usize);
        self.content(size, b"", |_, piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Takes what counts of pax records; those of a global header say which commit it is.
    fn records(&mut self, mut records: &[u8], is_global: bool) -> Result<(), Trouble> {
        while !records.is_empty() {
            let Some((key, value, rest)) = record(records) else {
                return Err(self.damaged("an extended header can't be read"));
            };
            records = rest;
            match (is_global, key) {
                (true, b"comment") => self.commit = hash(value),
                (false, b"path") => self.next.path = Some(value.to_vec()),
                (false, b"size") => {
                    let size = std::str::from_utf8(value).ok().and_then(|it| it.parse().ok());
                    self.next.size = Some(size.ok_or_else(|| self.damaged("the size of an entry is no number"))?);
                }
                (false, key) if key.starts_with(b"GNU.sparse.") => self.next.is_sparse = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// GNU's sparse files may have a long map of their parts between header and content.
    fn pass_sparse_headers(&mut self, header: &Header) -> Result<(), Trouble> {
        const MORE_IN_HEADER: usize = 482;
        const MORE: usize = 504;
        let mut more = header.as_bytes()[MORE_IN_HEADER] != 0;
        while more {
            let mut block = [0; BLOCK];
            self.fill_whole(&mut block, b"")?;
            more = block[MORE] != 0;
        }
        Ok(())
    }

    /// Reads to the end, so that a checksum that stands there is compared.
    fn rest(&mut self) -> Result<(), Trouble> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut is_noted = false;
        loop {
            let bytes = self.fill(&mut buffer, "after its end mark")?;
            if !is_noted && buffer[..bytes].iter().any(|it| *it != 0) {
                is_noted = true;
                self.sink.note("bytes after its end mark are not read");
            }
            if bytes < buffer.len() {
                return Ok(());
            }
        }
    }

    fn fill_whole(&mut self, into: &mut [u8], path: &[u8]) -> Result<(), Trouble> {
        let place = || format!("in `{}`", shown(path));
        if self.fill(into, &place())? < into.len() {
            return Err(ArchiveError::CutOff { place: self.place(&place()) }.into());
        }
        Ok(())
    }

    /// Reads as many bytes as there are, at most so many; counts them.
    fn fill(&mut self, into: &mut [u8], place: &str) -> Result<usize, Trouble> {
        let mut filled = 0;
        while filled < into.len() {
            match self.input.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.at += filled as u64;
                    return Err(Trouble::Read { place: self.place(place), error });
                }
            }
        }
        self.at += filled as u64;
        self.sink.count(filled as u64)?;
        Ok(filled)
    }

    fn place(&self, place: &str) -> String {
        let at = self.at;
        if place.is_empty() { format!("after {at} bytes of tar") } else { format!("{place}, after {at} bytes of tar") }
    }

    fn damaged(&self, what: &str) -> Trouble {
        ArchiveError::Damaged { place: self.place(""), what: what.to_owned() }.into()
    }
}

/// The first of pax records, `length key=value` and a line end, and what follows it.
fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = records.iter().take(20).position(|it| *it == b' ')?;
    let length: usize = std::str::from_utf8(&records[..blank]).ok()?.parse().ok()?;
    let (record, rest) = records.split_at_checked(length)?;
    let pair = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|it| *it == b'=')?;
    Some((&pair[..equals], &pair[equals + 1..], rest))
}
