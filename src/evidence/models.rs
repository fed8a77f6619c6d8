//! The networks that read text, as they are compiled into this binary.

use super::ocr::Ocr;

/// Names what reads text here, and of which version: what another reads may differ.
pub const FINGERPRINT: &str = concat!("PP-OCRv6-small 2 ", env!("CARGO_PKG_VERSION"));

/// Loads the networks.
///
/// # Errors
/// In a build without them: what to do about it.
#[cfg(feature = "bundled-models")]
pub fn load() -> Result<Ocr, super::ocr::OcrError> {
    const DETECTION: &[u8] = include_bytes!("../../models/PP-OCRv6-small/detection.rten");
    const RECOGNITION: &[u8] = include_bytes!("../../models/PP-OCRv6-small/recognition.rten");
    const DICTIONARY: &str = include_str!("../../models/PP-OCRv6-small/dictionary.txt");
    Ocr::load(DETECTION.into(), RECOGNITION.into(), DICTIONARY)
}

/// Loads the networks.
///
/// # Errors
/// In a build without them: what to do about it.
#[cfg(not(feature = "bundled-models"))]
pub fn load() -> Result<Ocr, &'static str> {
    Err(
        "this program was built without the models for it: build it with the feature `bundled-models`, or set `evidence.endpoint`",
    )
}
