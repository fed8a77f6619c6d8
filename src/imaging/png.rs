//! F1: PNG, row by row into RGB. Read with the decoder under `image`, which tells what is stored; `image` itself gives a palette or a key
//! colour as alpha, and inflates profiles and comments of any size.

use std::io::Cursor;

use png::{BitDepth, ColorType, Info, InterlaceInfo, Reader};

use super::colour::{narrow, over_white};
use super::{Decoded, ImageError, Limits, exif_orientation};
use crate::types::Policy;

/// Bytes that the decoder may hold beside rows and EXIF data: palettes and the like.
const SMALL_CHUNKS: usize = 1 << 20;
/// Bytes of a row that the decoder may hold for a pixel: 16-bit RGBA, twice.
const ROW_BYTES_PER_PIXEL: usize = 16;

pub(super) fn decode(bytes: &[u8], policy: Policy, limits: &Limits) -> Result<Decoded, ImageError> {
    let (width, height) = header_size(bytes).ok_or_else(|| ImageError::damaged("it has no header"))?;
    let rgb_bytes = limits.rgb_bytes(width, height)?;
    let mut reader = reader(bytes, width)?;
    let colours = Colours::new(reader.info(), policy)?;
    let rgb = read_rows(&mut reader, &colours, rgb_bytes)?;
    // EXIF data may stand behind the pixels. What is damaged there shows nothing.
    let _ = reader.finish();
    let info = reader.info();
    let orientation = info.exif_metadata.as_deref().and_then(exif_orientation);
    let animated = info.animation_control.is_some_and(|it| it.num_frames > 1);
    Ok(Decoded { width, height, rgb, orientation, animated })
}

/// The size that stands in the first chunk. The decoder calls sizes above 2^31 invalid; here they are too large.
fn header_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let (width, height) = bytes.get(12..24)?.strip_prefix(b"IHDR")?.split_first_chunk()?;
    Some((u32::from_be_bytes(*width), u32::from_be_bytes(*height.first_chunk()?)))
}

/// A reader that stands before the first row.
fn reader(bytes: &[u8], width: u32) -> Result<Reader<Cursor<&[u8]>>, ImageError> {
    let row = (width as usize).saturating_mul(ROW_BYTES_PER_PIXEL);
    let mut options = png::DecodeOptions::default();
    options.set_ignore_adler32(false);
    let mut decoder = png::Decoder::new_with_options(Cursor::new(bytes), options);
    // EXIF data are not compressed, so that a file's size limits them; the decoder doubles the room for them.
    let exif = bytes.len().saturating_mul(2);
    decoder.set_limits(png::Limits { bytes: SMALL_CHUNKS.saturating_add(row).saturating_add(exif) });
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(png::Transformations::IDENTITY);
    let reader = decoder.read_info().map_err(ImageError::damaged)?;
    let size = reader.info().size();
    match reader.info().frame_control {
        Some(frame) if (frame.width, frame.height) != size => {
            Err(ImageError::damaged("its first frame is not its size"))
        }
        _ => Ok(reader),
    }
}

/// Reads all rows; those of an interlaced picture are put in their places pixel by pixel.
fn read_rows(reader: &mut Reader<Cursor<&[u8]>>, colours: &Colours, rgb_bytes: usize) -> Result<Vec<u8>, ImageError> {
    let mut rgb = vec![0; rgb_bytes];
    let stride = reader.info().width as usize * 3;
    let (mut line, mut at) = (vec![0; stride], 0);
    while let Some(row) = reader.next_interlaced_row().map_err(ImageError::damaged)? {
        match row.interlace() {
            InterlaceInfo::Null(_) => {
                colours.convert(row.data(), rgb.get_mut(at..at + stride).unwrap_or_default());
                at += stride;
            }
            InterlaceInfo::Adam7(place) => {
                colours.convert(row.data(), &mut line);
                png::expand_interlaced_row(&mut rgb, stride, &line, place, 24);
            }
        }
    }
    Ok(rgb)
}

/// How samples become RGB.
enum Colours {
    /// A sample of up to 8 bits names a colour: palettes and grey.
    Table { bits: usize, colours: Box<[[u8; 3]; 256]> },
    /// A pixel is 1 to 4 samples of 8 or 16 bits.
    Samples(Samples),
}

impl Colours {
    fn new(info: &Info<'_>, policy: Policy) -> Result<Self, ImageError> {
        let key = key(info).filter(|_| policy == Policy::Default);
        let (bits, wide) = (info.bit_depth as usize, info.bit_depth == BitDepth::Sixteen);
        Ok(match info.color_type {
            ColorType::Indexed => Colours::Table { bits, colours: palette(info, policy)? },
            ColorType::Grayscale if !wide => Colours::Table { bits, colours: greys(bits, key) },
            color => Colours::Samples(Samples { channels: color.samples(), wide, key, policy }),
        })
    }

    /// Converts the pixels of a row, as many as `row` holds and `out` takes.
    fn convert(&self, row: &[u8], out: &mut [u8]) {
        let pixels = out.as_chunks_mut().0.iter_mut();
        match self {
            Colours::Table { bits, colours } => {
                pixels.zip(packed(row, *bits)).for_each(|(out, sample)| *out = colours[usize::from(sample)]);
            }
            Colours::Samples(Samples { channels: 3, wide: false, key: None, .. }) => {
                pixels.zip(row.as_chunks().0).for_each(|(out, pixel)| *out = *pixel);
            }
            Colours::Samples(Samples { channels: 4, wide: false, .. }) => pixels
                .zip(row.as_chunks().0)
                .for_each(|(out, &[red, green, blue, alpha])| *out = over_white([red, green, blue], alpha)),
            Colours::Samples(samples) => {
                let pixel_bytes = samples.channels * if samples.wide { 2 } else { 1 };
                pixels.zip(row.chunks_exact(pixel_bytes)).for_each(|(out, pixel)| *out = samples.colour(pixel));
            }
        }
    }
}

struct Samples {
    channels: usize,
    wide: bool,
    /// A pixel of these values is transparent.
    key: Option<[u16; 3]>,
    policy: Policy,
}

impl Samples {
    fn colour(&self, pixel: &[u8]) -> [u8; 3] {
        let sample = |at: usize| match self.wide {
            true => u16::from_be_bytes([pixel[at * 2], pixel[at * 2 + 1]]),
            false => u16::from(pixel[at]),
        };
        let values = if self.channels < 3 { [sample(0); 3] } else { [sample(0), sample(1), sample(2)] };
        if self.key == Some(values) {
            return [255; 3];
        }
        let colour = values.map(|value| self.eight_bits(value));
        match self.channels {
            // Pillow reads 16-bit grey with alpha as RGBA, and drops the alpha of 8-bit grey.
            2 if self.policy == Policy::Default || self.wide => over_white(colour, self.eight_bits(sample(1))),
            4 => over_white(colour, self.eight_bits(sample(3))),
            _ => colour,
        }
    }

    fn eight_bits(&self, value: u16) -> u8 {
        match (self.wide, self.channels, self.policy) {
            (false, ..) => value as u8,
            (true, 1, Policy::Reference) => value.min(255) as u8,
            (true, ..) => narrow(value, self.policy),
        }
    }
}

/// Samples of 1, 2, 4 or 8 bits, the upper bits of a byte first.
fn packed(row: &[u8], bits: usize) -> impl Iterator<Item = u8> {
    let mask = (1u16 << bits).wrapping_sub(1) as u8;
    row.iter().flat_map(move |byte| (0..8 / bits).rev().map(move |at| byte >> (at * bits) & mask))
}

/// The colour that is transparent, for kinds of pictures that name one.
fn key(info: &Info<'_>) -> Option<[u16; 3]> {
    let stored = info.trns.as_deref()?;
    // The decoder keeps the lower byte only of what has no other.
    let values: Vec<u16> = match info.bit_depth {
        BitDepth::Sixteen => stored.as_chunks().0.iter().map(|it| u16::from_be_bytes(*it)).collect(),
        _ => stored.iter().map(|it| u16::from(*it)).collect(),
    };
    match (info.color_type, values.as_slice()) {
        (ColorType::Grayscale, [grey, ..]) => Some([*grey; 3]),
        (ColorType::Rgb, [red, green, blue, ..]) => Some([*red, *green, *blue]),
        _ => None,
    }
}

/// The colours of grey samples of up to 8 bits.
fn greys(bits: usize, key: Option<[u16; 3]>) -> Box<[[u8; 3]; 256]> {
    let most = (1u32 << bits) - 1;
    Box::new(std::array::from_fn(|sample| match key {
        Some([grey, ..]) if usize::from(grey) == sample => [255; 3],
        _ => [(sample as u32 * 255 / most) as u8; 3],
    }))
}

/// The colours of a palette; an index beyond it is black, as in other readers.
fn palette(info: &Info<'_>, policy: Policy) -> Result<Box<[[u8; 3]; 256]>, ImageError> {
    let stored = info.palette.as_deref().ok_or_else(|| ImageError::damaged("it has no palette"))?;
    let alphas = info.trns.as_deref().filter(|_| policy == Policy::Default).unwrap_or_default();
    let mut colours = Box::new([[0; 3]; 256]);
    for (at, (colour, stored)) in colours.iter_mut().zip(stored.as_chunks().0).enumerate() {
        *colour = over_white(*stored, alphas.get(at).copied().unwrap_or(255));
    }
    Ok(colours)
}
