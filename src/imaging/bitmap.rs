//! F1: BMP, and what the decoders of `image` give.

use std::io::Cursor;

use image::codecs::bmp::BmpDecoder;
use image::{DynamicImage, ImageDecoder};

use super::colour::flatten;
use super::{Decoded, ImageError, Limits};

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, ImageError> {
    let decoder = BmpDecoder::new(Cursor::new(bytes)).map_err(ImageError::damaged)?;
    read(decoder, limits)
}

/// RGB of what a decoder yields, over white.
pub(super) fn read(decoder: impl ImageDecoder, limits: &Limits) -> Result<Decoded, ImageError> {
    let (width, height) = decoder.dimensions();
    limits.rgb_bytes(width, height)?;
    let rgb = match DynamicImage::from_decoder(decoder).map_err(ImageError::damaged)? {
        DynamicImage::ImageRgb8(pixels) => pixels.into_raw(),
        DynamicImage::ImageRgba8(pixels) => flatten(&pixels),
        other => other.into_rgb8().into_raw(),
    };
    Ok(Decoded { width, height, rgb, orientation: None, animated: false })
}
