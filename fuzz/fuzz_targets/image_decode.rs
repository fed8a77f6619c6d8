//! Any bytes as a picture: an error or pixels, by both policies, in bounded time and memory, and no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sightline::imaging::{Cut, Limits, PixelRange, Shown, pixels};
use sightline::types::Policy;

/// So few pixels that a run is short; a decoder that takes more than the fuzzer's limit of memory does so whatever it was told.
const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_pixels: 1 << 18 };
const CUT: Cut = Cut { patch: 16, merge: 2, temporal: 2 };
const RANGE: PixelRange = PixelRange { min_pixels: 4096, max_pixels: 1 << 16 };

fuzz_target!(|bytes: &[u8]| {
    for policy in [Policy::Default, Policy::Reference] {
        let Ok(picture) = pixels(bytes, policy, &LIMITS) else { continue };
        assert_eq!(picture.rgb().len(), picture.width() as usize * picture.height() as usize * 3);
        if let Ok(shown) = Shown::new(picture, CUT, RANGE) {
            assert_eq!(shown.patches_once().len(), shown.tokens() * 4 * 768);
        }
    }
});
