//! How long does a picture take from the bytes of its file to the values a vision tower reads, and which step takes it?
//!
//! `cargo bench --bench picture [-- FILE...]`; without files, those of the encoder's fixtures. The least of seven runs, in milliseconds.

use std::path::{Path, PathBuf};
use std::time::Instant;

use sightline::imaging::{Cut, ImageError, Limits, PixelRange, Shown, pixels};
use sightline::types::Policy;

const LIMITS: Limits = Limits { max_bytes: 1 << 30, max_pixels: 1 << 28 };
const CUT: Cut = Cut { patch: 16, merge: 2, temporal: 2 };
const RANGE: PixelRange = PixelRange { min_pixels: 4096, max_pixels: 1_843_200 };
const RUNS: usize = 7;

fn main() -> anyhow::Result<()> {
    let given: Vec<PathBuf> = std::env::args_os().skip(1).filter(|it| it != "--bench").map(PathBuf::from).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qwen3_vl/images");
    let fixtures = ["large_3000x2000.png", "wide_1610x161.png", "plain_130x101.png"].map(|it| folder.join(it));
    println!("{:>9} {:>9} {:>9}  file", "decode", "resize", "patches");
    for path in if given.is_empty() { fixtures.to_vec() } else { given } {
        let bytes = std::fs::read(&path)?;
        let mut least = [f64::INFINITY; 3];
        for _ in 0..RUNS {
            let run = steps(&bytes)?;
            least = std::array::from_fn(|at| least[at].min(run[at]));
        }
        println!("{:9.2} {:9.2} {:9.2}  {}", least[0], least[1], least[2], path.display());
    }
    Ok(())
}

/// Milliseconds of each step.
fn steps(bytes: &[u8]) -> Result<[f64; 3], ImageError> {
    let (decoding, picture) = timed(|| pixels(bytes, Policy::Reference, &LIMITS));
    let picture = picture?;
    let (resizing, shown) = timed(|| Shown::new(picture, CUT, RANGE));
    let shown = shown?;
    let (cutting, _patches) = timed(|| shown.patches());
    Ok([decoding, resizing, cutting])
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64() * 1e3, result)
}
