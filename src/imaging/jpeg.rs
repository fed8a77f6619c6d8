//! F1: JPEG. The decoder gets what it needs of a file and no more: it keeps profiles and metadata, and with a file that ends early it would
//! be content.

use image::metadata::Orientation;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::coded::Coded;
use super::{Decoded, ImageError, Limits, exif_orientation};

// Markers, the bytes that follow 0xff (ITU-T T.81, table B.1).
const START: u8 = 0xd8;
const END: u8 = 0xd9;
const PROGRESSIVE: u8 = 0xc2;
const SCAN: u8 = 0xda;
const HUFFMAN_TABLES: u8 = 0xc4;
const QUANTISATION_TABLES: u8 = 0xdb;
const RESTART_INTERVAL: u8 = 0xdd;
const JFIF: u8 = 0xe0;
const EXIF: u8 = 0xe1;
const ADOBE: u8 = 0xee;

/// Scans of a picture; each goes over all pixels, however few its bytes are. Encoders write about ten.
const MOST_SCANS: usize = 100;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, ImageError> {
    let needed = Needed::of(bytes, limits)?;
    let (width, height) = needed.size.ok_or_else(|| ImageError::damaged("it has no frame header"))?;
    let mut rgb = vec![0; limits.rgb_bytes(width, height)?];
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX)
        .jpeg_set_max_scans(MOST_SCANS)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&needed.bytes), options);
    decoder.decode_into(&mut rgb).map_err(ImageError::damaged)?;
    Ok(Decoded { width, height, rgb, orientation: needed.orientation, animated: false })
}

/// The parts of a file that show something.
#[derive(Default)]
struct Needed {
    bytes: Vec<u8>,
    size: Option<(u32, u32)>,
    orientation: Option<Orientation>,
    scans: usize,
    coded: Coded,
}

impl Needed {
    /// Walks over the segments. Bytes between them and after the end are left out, as other readers pass over them.
    fn of(bytes: &[u8], limits: &Limits) -> Result<Self, ImageError> {
        let cut_short = || ImageError::damaged("it ends before its end marker");
        let mut needed = Needed { bytes: vec![0xff, START], ..Needed::default() };
        let mut at = 2;
        loop {
            let (marker, after) = next_marker(bytes, at).ok_or_else(cut_short)?;
            at = after;
            match marker {
                END => break,
                // Markers without a segment, and zeros that follow no coded data.
                0x00 | 0x01 | 0xd0..=START => continue,
                _ => {}
            }
            let segment = segment(bytes, after).ok_or_else(cut_short)?;
            at += segment.len();
            needed.take(marker, segment, limits)?;
            if marker == SCAN {
                let end = coded_data_end(bytes, at).ok_or_else(cut_short)?;
                needed.coded.scan(segment, &bytes[at..end])?;
                needed.bytes.extend(&bytes[at..end]);
                at = end;
            }
        }
        needed.coded.complete()?;
        needed.bytes.extend([0xff, END]);
        Ok(needed)
    }

    fn take(&mut self, marker: u8, segment: &[u8], limits: &Limits) -> Result<(), ImageError> {
        match marker {
            0xc0..=0xc2 if self.size.is_some() => return Err(ImageError::damaged("it has two frame headers")),
            0xc0..=0xc2 => self.frame(marker, segment, limits)?,
            HUFFMAN_TABLES => self.coded.codes(segment),
            RESTART_INTERVAL => self.coded.interval(segment),
            QUANTISATION_TABLES | JFIF | ADOBE => {}
            SCAN => self.scans += 1,
            0xc3 | 0xc5..=0xcf => return Err(unsupported("JPEG with lossless or arithmetic coding")),
            EXIF => {
                let found = segment.get(2..).filter(|it| it.starts_with(b"Exif\0\0")).and_then(exif_orientation);
                self.orientation = self.orientation.or(found);
                return Ok(());
            }
            _ => return Ok(()),
        }
        if self.scans > MOST_SCANS {
            return Err(ImageError::damaged("it has more than 100 scans"));
        }
        self.bytes.extend([0xff, marker]);
        self.bytes.extend(segment);
        Ok(())
    }

    fn frame(&mut self, marker: u8, segment: &[u8], limits: &Limits) -> Result<(), ImageError> {
        let (width, height) = frame_size(segment)?;
        limits.rgb_bytes(width, height)?;
        let mut components = segment.get(8..).unwrap_or_default().chunks_exact(3);
        // Nothing wrong with it; the decoder takes powers of two only.
        if components.any(|it| it[1] >> 4 == 3) {
            return Err(unsupported("JPEG with a sampling factor of 3"));
        }
        self.size = Some((width, height));
        self.coded.frame(marker == PROGRESSIVE, segment);
        Ok(())
    }
}

fn unsupported(kind: &str) -> ImageError {
    ImageError::Unsupported { kind: kind.to_owned() }
}

/// The next marker from `at` on, and where its segment begins.
fn next_marker(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let first = at + bytes.get(at..)?.iter().position(|byte| *byte == 0xff)?;
    let fill = bytes[first..].iter().position(|byte| *byte != 0xff)?;
    Some((bytes[first + fill], first + fill + 1))
}

/// A segment with the two bytes that say how long it is.
fn segment(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    rest.get(..usize::from(u16::from_be_bytes(*rest.first_chunk()?)).max(2))
}

/// Where coded data ends that begins at `from`: at the next marker that is no restart.
fn coded_data_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == 0xff)?;
        match bytes.get(at + 1)? {
            0x00 | 0xd0..=0xd7 => at += 2,
            0xff => at += 1,
            _ => return Some(at),
        }
    }
}

/// Width and height of a frame header: length, precision, height, width, components.
fn frame_size(segment: &[u8]) -> Result<(u32, u32), ImageError> {
    let &[_, _, precision, height_1, height_0, width_1, width_0, ..] = segment else {
        return Err(ImageError::damaged("its frame header is too short"));
    };
    if precision != 8 {
        return Err(unsupported("JPEG of more than 8 bits"));
    }
    let side = |upper, lower| u32::from(u16::from_be_bytes([upper, lower]));
    Ok((side(width_1, width_0), side(height_1, height_0)))
}
