//! F2: the pictures of an input: read, measured, and turned into features once each.
//!
//! Knows nothing of text. The vision tower is frozen, so that the features of a picture are kept by what it was made of: the bytes of
//! its file and the sizes that it may be shown in. Policy and weights are the encoder's own, and so is what is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::vision::{Features, VisionTower};
use crate::encoder::EncoderError;
use crate::imaging::{self, Cut, ImageError, Limits, PixelRange, Shown, smart_resize};
use crate::types::{IssueImage, Policy};

/// The sizes in which Qwen shows pictures, whatever a checkpoint's `preprocessor_config.json` says: 4 and 1,800 tokens.
pub(super) const USUAL_PIXELS: PixelRange = PixelRange { min_pixels: 4 * 32 * 32, max_pixels: 1800 * 32 * 32 };

/// Bytes of features that are kept; those of a large screenshot have 60 MB in the 2B model.
const KEPT_BYTES: usize = 256 << 20;

/// What a picture's features depend on besides the encoder.
type Key = [u8; 32];

/// A picture that can be shown.
pub(super) struct Picture<'a> {
    pub key: Key,
    image: &'a IssueImage,
    range: PixelRange,
    /// Rows and columns of patches.
    grid: (usize, usize),
    /// Rows and columns of tokens.
    pub tokens: (usize, usize),
    /// Width and height as it came.
    pub size: (u32, u32),
    /// Ready to be looked at, unless its features were kept.
    shown: Option<Shown>,
}

impl Picture<'_> {
    /// What it holds in memory.
    pub(super) fn bytes(&self) -> usize {
        self.shown.as_ref().map_or(0, |it| it.pixels.len())
    }
}

/// Reads pictures, and keeps what became of them.
pub(super) struct Pictures {
    policy: Policy,
    limits: Limits,
    cut: Cut,
    kept: Mutex<Kept>,
}

/// The latest used last.
#[derive(Default)]
struct Kept {
    entries: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Clone)]
struct Entry {
    key: Key,
    grid: (usize, usize),
    size: (u32, u32),
    features: Arc<Features>,
}

impl Pictures {
    pub(super) fn new(policy: Policy, limits: Limits, cut: Cut) -> Self {
        Pictures { policy, limits, cut, kept: Mutex::default() }
    }

    /// Decodes a picture and brings it to its size, unless its features are there already.
    ///
    /// # Errors
    /// What is wrong with the picture; more tokens than `limit`, before it is brought to such a size.
    pub(super) fn read<'a>(
        &self,
        image: &'a IssueImage,
        range: PixelRange,
        limit: usize,
    ) -> Result<Picture<'a>, EncoderError> {
        let mut hasher = Sha256::new();
        hasher.update(range.min_pixels.to_le_bytes());
        hasher.update(range.max_pixels.to_le_bytes());
        hasher.update(&image.bytes);
        let key: Key = hasher.finalize().into();
        if let Some(Entry { grid, size, .. }) = self.kept(&key) {
            return Ok(Picture { key, image, range, grid, tokens: self.tokens(grid), size, shown: None });
        }
        let (shown, size) = self.shown(image, range, limit)?;
        let grid = shown.grid;
        Ok(Picture { key, image, range, grid, tokens: self.tokens(grid), size, shown: Some(shown) })
    }

    fn tokens(&self, (rows, columns): (usize, usize)) -> (usize, usize) {
        let merge = self.cut.merge as usize;
        (rows / merge, columns / merge)
    }

    fn shown(&self, image: &IssueImage, range: PixelRange, limit: usize) -> Result<(Shown, (u32, u32)), EncoderError> {
        let unusable = |error: ImageError| EncoderError::Image {
            name: image.name.clone(),
            cause: error.to_string(),
            code: error.code(),
        };
        let picture = imaging::pixels(&image.bytes, self.policy, &self.limits).map_err(unusable)?;
        let size = (picture.width(), picture.height());
        let (height, width) = smart_resize(size.1, size.0, self.cut.factor(), range).map_err(unusable)?;
        let of = |side: u32| (side / self.cut.factor()) as usize;
        let tokens = of(height).saturating_mul(of(width));
        if tokens > limit {
            return Err(EncoderError::TooLong { template: 0, images: tokens, limit });
        }
        Ok((Shown::new(picture, self.cut, range).map_err(unusable)?, size))
    }

    /// The features of a picture that was read.
    ///
    /// # Errors
    /// Those of [`Pictures::read`] and of the tower.
    pub(super) fn features(&self, picture: &Picture, tower: &VisionTower) -> Result<Arc<Features>, EncoderError> {
        if let Some(entry) = self.kept(&picture.key) {
            return Ok(entry.features);
        }
        // What was kept when the picture was read may be gone since.
        let again = match &picture.shown {
            Some(_) => None,
            None => Some(self.shown(picture.image, picture.range, usize::MAX)?.0),
        };
        let patches = picture.shown.as_ref().or(again.as_ref()).map(Shown::patches).unwrap_or_default();
        let failed = |error: candle_core::Error| EncoderError::Compute {
            sequences: 1,
            cause: crate::encoder::one_line(&error.to_string()),
        };
        let features = Arc::new(tower.features(patches, picture.grid).map_err(failed)?);
        self.keep(Entry { key: picture.key, grid: picture.grid, size: picture.size, features: Arc::clone(&features) });
        Ok(features)
    }

    fn kept(&self, key: &Key) -> Option<Entry> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.entries.iter().position(|it| it.key == *key)?;
        let entry = kept.entries.remove(at)?;
        kept.entries.push_back(entry.clone());
        Some(entry)
    }

    fn keep(&self, entry: Entry) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.entries.iter().any(|it| it.key == entry.key) {
            return;
        }
        kept.bytes += entry.features.bytes();
        kept.entries.push_back(entry);
        while kept.bytes > KEPT_BYTES
            && let Some(oldest) = kept.entries.pop_front()
        {
            kept.bytes -= oldest.features.bytes();
        }
    }
}
