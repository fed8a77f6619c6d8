//! F1: GIF, the first frame. Read with the decoder under `image`, which tells the indices: what a transparent index shows
//! depends on the policy.

use std::io::Cursor;

use gif::{ColorOutput, DecodeOptions, Frame, MemoryLimit};

use super::{Decoded, ImageError, Limits};
use crate::types::Policy;

/// An index of a palette without so many colours is black, as in other readers.
type Palette = [[u8; 3]; 256];

pub(super) fn decode(bytes: &[u8], policy: Policy, limits: &Limits) -> Result<Decoded, ImageError> {
    let mut decoder = options().read_info(Cursor::new(bytes)).map_err(ImageError::damaged)?;
    let screen = (u32::from(decoder.width()), u32::from(decoder.height()));
    let global = decoder.global_palette().map(palette);
    let frame = decoder.next_frame_info().map_err(ImageError::damaged)?;
    let frame = frame.ok_or_else(|| ImageError::damaged("it has no frame"))?.clone();
    if frame.width == 0 || frame.height == 0 {
        return Err(ImageError::damaged("its first frame is empty"));
    }
    let (width, height) = canvas(screen, &frame);
    let rgb_bytes = limits.rgb_bytes(width, height)?;
    let mut indices = vec![0; usize::from(frame.width) * usize::from(frame.height)];
    decoder.read_into_buffer(&mut indices).map_err(ImageError::damaged)?;
    let stored = frame.palette.as_deref().map(palette).or(global).unwrap_or([[0; 3]; 256]);
    let (colours, behind) = shown_colours(stored, frame.transparent, policy);
    let mut rgb = behind.repeat(rgb_bytes / 3);
    draw(&mut rgb, width as usize, &frame, &indices, &colours);
    let animated = matches!(decoder.next_frame_info(), Ok(Some(_)));
    Ok(Decoded { width, height, rgb, orientation: None, animated })
}

fn options() -> DecodeOptions {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    // It would limit metadata, which are no larger than the file, and the frame, whose size is looked at above.
    options.set_memory_limit(MemoryLimit::Unlimited);
    options
}

/// The size of the screen; other readers enlarge it for a first frame that does not fit.
fn canvas((width, height): (u32, u32), frame: &Frame<'_>) -> (u32, u32) {
    let right = u32::from(frame.left) + u32::from(frame.width);
    let bottom = u32::from(frame.top) + u32::from(frame.height);
    (width.max(right), height.max(bottom))
}

fn palette(bytes: &[u8]) -> Palette {
    let mut palette = [[0; 3]; 256];
    palette.iter_mut().zip(bytes.as_chunks().0).for_each(|(colour, stored)| *colour = *stored);
    palette
}

/// What each index shows, and what is seen around the frame. Pillow shows the colour that the transparent index has, and fills with that
/// index or the first one.
fn shown_colours(mut palette: Palette, transparent: Option<u8>, policy: Policy) -> (Palette, [u8; 3]) {
    match policy {
        Policy::Reference => (palette, palette[usize::from(transparent.unwrap_or(0))]),
        Policy::Default => {
            if let Some(index) = transparent {
                palette[usize::from(index)] = [255; 3];
            }
            (palette, [255; 3])
        }
    }
}

fn draw(rgb: &mut [u8], width: usize, frame: &Frame<'_>, indices: &[u8], colours: &Palette) {
    let rows = rgb.chunks_exact_mut(width * 3).skip(usize::from(frame.top));
    for (row, indices) in rows.zip(indices.chunks_exact(usize::from(frame.width))) {
        let pixels = row.as_chunks_mut().0.iter_mut().skip(usize::from(frame.left));
        pixels.zip(indices).for_each(|(pixel, index)| *pixel = colours[usize::from(*index)]);
    }
}
