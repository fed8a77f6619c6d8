//! F2: picture to page, on this machine: PP-OCRv6 through `rten`, with this crate's own steps before, between and after the two networks.

mod boxes;
mod detection;
mod layout;
mod network;
mod pixels;
mod recognition;
mod turned;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use rten::ThreadPool;

use crate::evidence::page::{Note, Page};
use boxes::Quad;
use layout::Piece;
use network::Network;
use recognition::Alphabet;

pub use pixels::Pixels;

/// A reader of text in pictures.
pub struct Ocr {
    detection: Network,
    recognition: Network,
    alphabet: Alphabet,
    pool: Arc<ThreadPool>,
}

/// Why a picture could not be read.
#[derive(Debug, thiserror::Error)]
pub enum OcrError {
    #[error("the {name} network can't be loaded ({source}): restore the files of its folder")]
    Load { name: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the {name} network failed ({source}): restore the files of its folder")]
    Run { name: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the {name} network gives another shape than its kind: restore the files of its folder")]
    Shape { name: &'static str },
    #[error("the recognition network knows {classes} classes, the dictionary {characters}: take both from one release")]
    Classes { classes: usize, characters: usize },
}

/// Shorter sides hold no letter.
const LEAST_SIDE: usize = 6;
/// Lines that are read at most.
const MOST_LINES: usize = 1000;
/// Lines with a lower mean probability were no text, or none that can be read.
const LEAST_CONFIDENCE: f32 = 0.5;
/// The same for lines of few letters: an icon passes for one of those more easily.
const LEAST_CONFIDENCE_SHORT: f32 = 0.7;
const SHORT: usize = 3;
/// Pixels that are looked at for text; a larger picture is shrunk to this, in the mind of the detector alone.
const MOST_PIXELS: f32 = 24e6;
/// Pixels above which a coarse look comes first.
const COARSE_PIXELS: f32 = 2e6;
/// Pixels of the median line, in the coarse picture, that are enough.
const COARSE_HEIGHT: f32 = 14.0;

impl Ocr {
    /// From the two networks and the dictionary of the second, a character a line.
    ///
    /// # Errors
    /// Bytes that are no network.
    pub fn load(
        detection: Cow<'static, [u8]>,
        recognition: Cow<'static, [u8]>,
        dictionary: &str,
    ) -> Result<Self, OcrError> {
        let pool = Arc::new(ThreadPool::with_num_threads(rayon::current_num_threads()));
        Ok(Ocr {
            detection: Network::load("detection", detection, Arc::clone(&pool))?,
            recognition: Network::load("recognition", recognition, Arc::clone(&pool))?,
            alphabet: Alphabet::new(dictionary),
            pool,
        })
    }

    /// Reads a picture.
    ///
    /// # Errors
    /// Networks that are not those of text detection and recognition. A picture without text is no error.
    pub fn read(&self, picture: &Pixels) -> Result<Page, OcrError> {
        let mut page = Page { width: picture.width() as u32, height: picture.height() as u32, ..Page::default() };
        if picture.width().min(picture.height()) < LEAST_SIDE {
            page.notes.push(Note::TooSmall);
            return Ok(page);
        }
        self.pool.run(|| self.fill(&mut page, picture))?;
        Ok(page)
    }

    fn fill(&self, page: &mut Page, picture: &Pixels) -> Result<(), OcrError> {
        let (mut quads, aside) = turned::split(self.detect(picture)?);
        let beyond = quads.len().saturating_sub(MOST_LINES);
        quads.truncate(MOST_LINES);
        let pieces = self.pieces(picture, &quads)?;
        let mut turned = turned::count(&aside, |it| self.pieces(picture, it))?;
        let (mut readable, unreadable): (Vec<Piece>, Vec<Piece>) = pieces.into_iter().partition(is_readable);
        if turned::is_upside_down(&readable, |it| self.pieces(picture, it))? {
            turned += readable.len();
            readable.clear();
        }
        page.blocks = layout::blocks(readable);
        turned += turned::take_stacked(&mut page.blocks);
        let places = unreadable.len();
        let notes = [
            page.blocks.is_empty().then_some(Note::NoText),
            (turned > 0).then_some(Note::Turned { lines: turned }),
            (places > 0).then_some(Note::Unreadable { places }),
            (beyond > 0).then_some(Note::TooMuch { lines: beyond }),
        ];
        page.notes.extend(notes.into_iter().flatten());
        Ok(())
    }

    fn pieces(&self, picture: &Pixels, quads: &[Quad]) -> Result<Vec<Piece>, OcrError> {
        let read = recognition::recognise(&self.recognition, &self.alphabet, picture, quads)?;
        Ok(quads.iter().zip(read).map(|(quad, characters)| Piece { quad: *quad, characters }).collect())
    }

    /// Large pictures are first looked at coarsely: if their letters are large too, as on screens of high density, that does, at a quarter
    /// of the cost.
    fn detect(&self, picture: &Pixels) -> Result<Vec<Quad>, OcrError> {
        let pixels = (picture.width() * picture.height()) as f32;
        let finest = (MOST_PIXELS / pixels).sqrt().min(1.0);
        if pixels > COARSE_PIXELS {
            let coarse = boxes::boxes(&detection::detect(&self.detection, picture, finest / 2.0)?);
            if median_height(&coarse) * finest / 2.0 >= COARSE_HEIGHT {
                return Ok(coarse);
            }
        }
        Ok(boxes::boxes(&detection::detect(&self.detection, picture, finest)?))
    }
}

/// The median, or 0 without any.
fn median_height(quads: &[Quad]) -> f32 {
    let mut heights: Vec<f32> = quads.iter().map(Quad::height).collect();
    heights.sort_by(f32::total_cmp);
    heights.get(heights.len() / 2).copied().unwrap_or(0.0)
}

fn is_readable(piece: &Piece) -> bool {
    let least = if piece.characters.len() < SHORT { LEAST_CONFIDENCE_SHORT } else { LEAST_CONFIDENCE };
    piece.confidence() >= least
}
