//! F1: pictures that come with an issue: bytes to pixels within limits, pixels to what a vision tower reads.
//! Knows nothing of encoders or of where a picture came from.
//!
//! [`pixels`] decodes, [`Shown::new`] brings to a size, [`Shown::patches`] cuts. Sizes are checked on the header before anything is
//! allocated, and nothing of a file is read that shows nothing: a profile or a comment in it can inflate to gigabytes.

mod bitmap;
mod coded;
mod colour;
mod gif;
mod jpeg;
mod png;
mod resize;
mod shown;
mod webp;

#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod hostile_tests;

use image::metadata::Orientation;
use image::{DynamicImage, ImageFormat, RgbImage};

use crate::types::Policy;

pub use resize::{PixelRange, resize, smart_resize};
pub use shown::{Cut, Shown};

/// What a picture may cost.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Size of the file.
    pub max_bytes: u64,
    /// Width times height.
    pub max_pixels: u64,
}

impl Limits {
    /// The number of bytes of so many pixels in 8-bit RGB, if they are within the limit.
    fn rgb_bytes(&self, width: u32, height: u32) -> Result<usize, ImageError> {
        let pixels = u64::from(width) * u64::from(height);
        if pixels > self.max_pixels.min(MOST_PIXELS) {
            return Err(ImageError::TooManyPixels { width, height, limit: self.max_pixels.min(MOST_PIXELS) });
        }
        Ok(pixels as usize * 3)
    }
}

/// Whatever the settings say: some decoders count the bytes of a picture in 32 bits.
const MOST_PIXELS: u64 = 1 << 28;

/// A decoded picture; of an animation, its first frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
    animated: bool,
}

impl Picture {
    pub fn width(&self) -> u32 {
        self.width
    }

    pub fn height(&self) -> u32 {
        self.height
    }

    /// Red, green and blue of each pixel, row by row from the top.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Whether the file holds more frames than the one that is shown.
    pub fn is_animated(&self) -> bool {
        self.animated
    }
}

/// Why a picture can't be used. The messages leave out its name, which the caller knows.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("it is empty: attach a PNG, JPEG, WebP, GIF or BMP file")]
    Empty,
    #[error("it has {bytes} bytes, more than the limit of {limit}: attach a smaller file or raise `images.max_bytes`")]
    TooManyBytes { bytes: u64, limit: u64 },
    #[error("it has {width} x {height} pixels, more than the limit of {limit}: shrink it or raise `images.max_pixels`")]
    TooManyPixels { width: u32, height: u32, limit: u64 },
    #[error("its format is not known: attach a PNG, JPEG, WebP, GIF or BMP file")]
    UnknownFormat,
    #[error("it is {kind}, which is not read: attach a PNG, JPEG, WebP, GIF or BMP file")]
    Unsupported { kind: String },
    #[error("it is damaged or cut short ({}): attach the original file", one_line(source.as_ref()))]
    Damaged { source: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "one of its sides is {ratio:.0} times as long as the other ({width} x {height}), more than the limit of {limit}: crop it"
    )]
    AspectRatio { width: u32, height: u32, ratio: f64, limit: u32 },
    #[error("its {width} x {height} pixels can't be shown in at most {max_pixels} pixels: crop it or raise max_pixels")]
    TooNarrow { width: u32, height: u32, max_pixels: u64 },
    #[error("min_pixels is {min_pixels} and max_pixels {max_pixels}: make max_pixels at least as large as min_pixels")]
    PixelRange { min_pixels: u64, max_pixels: u64 },
}

impl ImageError {
    /// The error's stable name, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ImageError::Empty => "image_empty",
            ImageError::TooManyBytes { .. } | ImageError::TooManyPixels { .. } => "image_too_large",
            ImageError::UnknownFormat | ImageError::Unsupported { .. } => "image_format",
            ImageError::Damaged { .. } => "image_damaged",
            ImageError::AspectRatio { .. } | ImageError::TooNarrow { .. } => "image_aspect_ratio",
            ImageError::PixelRange { .. } => "image_pixel_range",
        }
    }

    fn damaged(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ImageError::Damaged { source: source.into() }
    }
}

/// Decoders' messages may have several lines.
fn one_line(error: &(dyn std::error::Error + Send + Sync)) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a decoder makes of a file, before it is turned upright.
struct Decoded {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
    orientation: Option<Orientation>,
    animated: bool,
}

/// Decodes a picture as it is meant to be seen: [`pixels`] by the default policy.
///
/// # Errors
/// Those of [`pixels`].
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, ImageError> {
    pixels(bytes, Policy::Default, limits)
}

/// Decodes a picture to 8-bit RGB; of an animation, the first frame on its canvas.
///
/// By the default policy the picture is turned as its EXIF data says, whatever is transparent shows white, and 16 bits are scaled to 8. The
/// reference policy is what Pillow 12 gives `qwen_vl_utils`: pixels as they are stored, transparency dropped unless each
/// pixel has its own beside a colour, 16-bit grey cut off at 255 and the upper byte of 16-bit colour.
///
/// # Errors
/// [`ImageError`] names the cause and the remedy; nothing larger than the limits is ever allocated.
pub fn pixels(bytes: &[u8], policy: Policy, limits: &Limits) -> Result<Picture, ImageError> {
    if bytes.is_empty() {
        return Err(ImageError::Empty);
    }
    if bytes.len() as u64 > limits.max_bytes {
        return Err(ImageError::TooManyBytes { bytes: bytes.len() as u64, limit: limits.max_bytes });
    }
    let decoded = match image::guess_format(bytes) {
        Ok(ImageFormat::Png) => png::decode(bytes, policy, limits),
        Ok(ImageFormat::Jpeg) => jpeg::decode(bytes, limits),
        Ok(ImageFormat::Gif) => gif::decode(bytes, policy, limits),
        Ok(ImageFormat::WebP) => webp::decode(bytes, limits),
        Ok(ImageFormat::Bmp) => bitmap::decode(bytes, limits),
        Ok(other) => Err(ImageError::Unsupported { kind: format!("of the format {other:?}") }),
        Err(_) => Err(ImageError::UnknownFormat),
    }?;
    Ok(match policy {
        Policy::Default => upright(decoded),
        Policy::Reference => as_stored(decoded),
    })
}

fn as_stored(Decoded { width, height, rgb, animated, .. }: Decoded) -> Picture {
    Picture { width, height, rgb, animated }
}

/// Turns a picture as its EXIF data says.
fn upright(decoded: Decoded) -> Picture {
    let orientation = decoded.orientation.unwrap_or(Orientation::NoTransforms);
    if orientation == Orientation::NoTransforms {
        return as_stored(decoded);
    }
    let (width, height, animated) = (decoded.width, decoded.height, decoded.animated);
    // `rgb` always has three bytes a pixel, so that there is a picture.
    let mut turned = DynamicImage::from(RgbImage::from_raw(width, height, decoded.rgb).unwrap_or_default());
    turned.apply_orientation(orientation);
    Picture { width: turned.width(), height: turned.height(), rgb: turned.into_bytes(), animated }
}

/// The orientation that EXIF data names; some writers put a JPEG segment's name before it in other files too.
fn exif_orientation(exif: &[u8]) -> Option<Orientation> {
    Orientation::from_exif_chunk(exif.strip_prefix(b"Exif\0\0").unwrap_or(exif))
}
