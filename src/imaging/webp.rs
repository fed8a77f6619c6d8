//! F1: WebP, the first frame. The decoder of `image` allocates what headers inside the file claim, so that they are looked at before.

use std::io::Cursor;

use image::codecs::webp::WebPDecoder;

use super::{Decoded, ImageError, Limits, bitmap, exif_orientation};

/// Bytes of a frame chunk before the chunks in it.
const FRAME_HEADER: usize = 16;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, ImageError> {
    let parts = bytes.get(12..).unwrap_or_default();
    check_sizes(parts, limits)?;
    let decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(ImageError::damaged)?;
    let decoded = bitmap::read(decoder, limits)?;
    let exif = chunks(parts).find(|(name, _)| name == b"EXIF").and_then(|(_, exif)| exif_orientation(exif));
    let animated = chunks(parts).filter(|(name, _)| name == b"ANMF").nth(1).is_some();
    Ok(Decoded { orientation: exif, animated, ..decoded })
}

/// Checks the sizes of the canvas and of the first frame.
fn check_sizes(parts: &[u8], limits: &Limits) -> Result<(), ImageError> {
    let frame = chunks(parts).find(|(name, _)| name == b"ANMF").and_then(|(_, frame)| frame.get(FRAME_HEADER..));
    for (name, chunk) in chunks(parts).chain(chunks(frame.unwrap_or_default())) {
        if let Some((width, height)) = size(&name, chunk) {
            limits.rgb_bytes(width, height)?;
        }
    }
    Ok(())
}

/// The size that a chunk's header claims.
fn size(name: &[u8; 4], chunk: &[u8]) -> Option<(u32, u32)> {
    let short = |at: usize| Some(u32::from(u16::from_le_bytes(*chunk.get(at..)?.first_chunk()?)));
    let triple = |at: usize| Some(short(at)? | u32::from(*chunk.get(at + 2)?) << 16);
    match name {
        b"VP8 " => Some((short(6)? & 0x3fff, short(8)? & 0x3fff)),
        b"VP8L" => {
            let sides = u32::from_le_bytes(*chunk.get(1..)?.first_chunk()?);
            Some(((sides & 0x3fff) + 1, (sides >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((triple(4)? + 1, triple(7)? + 1)),
        _ => None,
    }
}

/// Names and contents of the chunks that lie one after the other, the last one as far as it goes.
fn chunks(mut rest: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (name, after) = rest.split_first_chunk()?;
        let (length, content) = after.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        rest = content.get(length.saturating_add(length % 2)..).unwrap_or_default();
        Some((*name, &content[..length.min(content.len())]))
    })
}
