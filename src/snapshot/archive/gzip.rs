//! A gzip stream: its members, one after the other, as one.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// Each member costs a decoder, and none needs as few bytes as this many would have in the longest archive.
const MOST_MEMBERS: usize = 1_000_000;

pub(super) struct Members<R> {
    member: Option<GzDecoder<R>>,
    count: usize,
    has_rest: bool,
}

impl<R: BufRead> Members<R> {
    pub(super) fn new(input: R) -> Self {
        Members { member: Some(GzDecoder::new(input)), count: 1, has_rest: false }
    }

    /// Whether something other than zeros stands after the last member. `gzip` leaves it unread as well.
    pub(super) fn has_rest(&self) -> bool {
        self.has_rest
    }

    /// Goes to the member after one that has ended, if there is one.
    fn go_on(&mut self, mut input: R) -> io::Result<()> {
        while let [0, ..] = input.fill_buf()? {
            let zeros = input.fill_buf()?.iter().take_while(|it| **it == 0).count();
            input.consume(zeros);
        }
        match input.fill_buf()? {
            [] => {}
            [0x1f] | [0x1f, 0x8b, ..] if self.count == MOST_MEMBERS => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "its gzip stream has too many parts"));
            }
            [0x1f] | [0x1f, 0x8b, ..] => {
                self.count += 1;
                self.member = Some(GzDecoder::new(input));
            }
            _ => self.has_rest = true,
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let bytes = member.read(into)?;
            if bytes > 0 || into.is_empty() {
                return Ok(bytes);
            }
            if let Some(member) = self.member.take() {
                self.go_on(member.into_inner())?;
            }
        }
        Ok(0)
    }
}
