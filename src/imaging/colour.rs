//! F1: arithmetic on single colours.

use crate::types::Policy;

/// An 8-bit colour over white, rounded as Pillow's `paste` rounds.
pub(super) fn over_white(colour: [u8; 3], alpha: u8) -> [u8; 3] {
    let (alpha, white) = (u32::from(alpha), 255 * (255 - u32::from(alpha)));
    colour.map(|value| {
        let sum = u32::from(value) * alpha + white + 128;
        ((sum + (sum >> 8)) >> 8) as u8
    })
}

/// A 16-bit value in 8 bits: scaled and rounded, or its upper byte, which is what Pillow reads of colours.
pub(super) fn narrow(value: u16, policy: Policy) -> u8 {
    match policy {
        Policy::Default => ((u32::from(value) + 128) / 257) as u8,
        Policy::Reference => (value >> 8) as u8,
    }
}

/// RGB of RGBA, over white.
pub(super) fn flatten(rgba: &[u8]) -> Vec<u8> {
    let mut rgb = vec![0; rgba.len() / 4 * 3];
    for (out, pixel) in rgb.as_chunks_mut().0.iter_mut().zip(rgba.as_chunks().0) {
        let [red, green, blue, alpha]: [u8; 4] = *pixel;
        *out = over_white([red, green, blue], alpha);
    }
    rgb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transparency_shows_white() {
        assert_eq!(over_white([10, 20, 30], 255), [10, 20, 30]);
        assert_eq!(over_white([10, 20, 30], 0), [255; 3]);
        // (10 * 128 + 255 * 127) / 255 = 132.02
        assert_eq!(over_white([10, 0, 255], 128), [132, 127, 255]);
        assert_eq!(flatten(&[1, 2, 3, 255, 1, 2, 3, 0]), [1, 2, 3, 255, 255, 255]);
    }

    #[test]
    fn sixteen_bits_become_eight() {
        for (value, scaled, upper) in [(0, 0, 0), (128, 0, 0), (129, 1, 0), (0x80ff, 128, 128), (65535, 255, 255)] {
            assert_eq!((narrow(value, Policy::Default), narrow(value, Policy::Reference)), (scaled, upper), "{value}");
        }
    }
}
