//! F1: pictures that come with an issue: bytes to pixels, within limits that are checked on the header before anything
//! is allocated. Knows nothing of encoders or of where a picture came from.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder, ImageReader, Limits as DecoderLimits};

/// What a picture may cost.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Size of the file.
    pub max_bytes: u64,
    /// Width times height.
    pub max_pixels: u64,
}

/// A decoded picture; of an animation, its first frame.
pub struct Picture {
    pub pixels: DynamicImage,
}

impl Picture {
    pub fn width(&self) -> u32 {
        self.pixels.width()
    }

    pub fn height(&self) -> u32 {
        self.pixels.height()
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
    #[error(
        "decoding it would take more memory than the limit of {limit} pixels allows: shrink it or raise `images.max_pixels`"
    )]
    TooMuchMemory { limit: u64 },
    #[error("its format is not known: attach a PNG, JPEG, WebP, GIF or BMP file")]
    UnknownFormat,
    #[error("it is damaged or cut short ({source}): attach the original file")]
    Damaged { source: image::ImageError },
}

/// Decodes a picture.
///
/// # Errors
/// [`ImageError`] names the cause and the remedy; nothing larger than the limits is ever allocated.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, ImageError> {
    if bytes.is_empty() {
        return Err(ImageError::Empty);
    }
    if bytes.len() as u64 > limits.max_bytes {
        return Err(ImageError::TooManyBytes { bytes: bytes.len() as u64, limit: limits.max_bytes });
    }
    let damaged = |source| match source {
        image::ImageError::Limits(_) => ImageError::TooMuchMemory { limit: limits.max_pixels },
        source => ImageError::Damaged { source },
    };
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| damaged(image::ImageError::IoError(error)))?;
    if reader.format().is_none() {
        return Err(ImageError::UnknownFormat);
    }
    reader.limits(decoder_limits(limits));
    let decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > limits.max_pixels {
        return Err(ImageError::TooManyPixels { width, height, limit: limits.max_pixels });
    }
    let pixels = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    Ok(Picture { pixels })
}

/// Bytes that a decoder may hold for a pixel: 16-bit RGBA, and once more for what it works in.
const DECODER_BYTES_PER_PIXEL: u64 = 16;

fn decoder_limits(limits: &Limits) -> DecoderLimits {
    let mut decoder = DecoderLimits::default();
    decoder.max_alloc = Some(limits.max_pixels.saturating_mul(DECODER_BYTES_PER_PIXEL));
    decoder
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_pixels: 1 << 20 };

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let pixels = DynamicImage::new_rgb8(width, height);
        pixels.write_to(&mut Cursor::new(&mut bytes), image::ImageFormat::Png).expect("a PNG in memory");
        bytes
    }

    /// A PNG whose header claims a size and that holds no pixels: signature, IHDR with its CRC, an empty IDAT.
    fn header_only_png(width: u32, height: u32) -> Vec<u8> {
        let mut header = b"IHDR".to_vec();
        header.extend(width.to_be_bytes());
        header.extend(height.to_be_bytes());
        header.extend([16, 6, 0, 0, 0]);
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0d".to_vec();
        bytes.extend(&header);
        bytes.extend(crc32(&header).to_be_bytes());
        bytes.extend(b"\0\0\0\0IDAT");
        bytes.extend(crc32(b"IDAT").to_be_bytes());
        bytes
    }

    /// ISO 3309, bit by bit.
    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0u32, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
        })
    }

    #[track_caller]
    fn check_refused(bytes: &[u8], expected: &str) {
        match decode(bytes, &LIMITS) {
            Ok(picture) => panic!("decoded {} x {}", picture.width(), picture.height()),
            Err(error) => assert!(error.to_string().contains(expected), "`{error}` lacks `{expected}`"),
        }
    }

    #[test]
    fn a_picture_is_decoded() {
        let picture = decode(&png(3, 2), &LIMITS).expect("a sound PNG");
        assert_eq!((picture.width(), picture.height()), (3, 2));
    }

    #[test]
    fn sizes_are_refused_on_the_header() {
        check_refused(&header_only_png(100_000, 100_000), "pixels, more than the limit");
        check_refused(&header_only_png(8_000_000, 0x7fff_ffff), "more memory than the limit");
        check_refused(&vec![0; (LIMITS.max_bytes + 1) as usize], "bytes, more than the limit");
    }

    #[test]
    fn damage_is_said() {
        check_refused(b"", "empty");
        check_refused(b"not a picture at all", "format is not known");
        check_refused(&png(64, 64)[..60], "damaged or cut short");
        check_refused(&header_only_png(10, 10), "damaged or cut short");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), at in 0usize..200) {
            let _ = decode(&bytes, &LIMITS);
            let mut damaged = png(8, 8);
            let at = at % damaged.len();
            bytes.truncate(damaged.len() - at);
            damaged.splice(at..at + bytes.len(), bytes);
            let _ = decode(&damaged, &LIMITS);
        }
    }
}
