//! How fast is Qwen3-VL-Embedding on this CPU, and what does it take in memory?
//!
//!     scripts/make_checkpoint.py 2B /tmp/2b
//!     cargo bench --bench qwen3_vl -- /tmp/2b [--dtype f32|q8] [--rounds N] [--json]
//!
//! Loading; eight texts of 256 tokens; a query of 24; a picture of 1024 x 768, which is 3,072 patches and 768 tokens. The picture's time is
//! that of embedding it less that of embedding it again, when the features of the frozen tower are kept: decoding, resizing and the
//! vision tower. `scripts/compare_torch.py` runs it beside transformers on the same weights. With --json there is a line for each figure.

use std::io::Cursor;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use sightline::device::Compute;
use sightline::encoder::{self, Encoder, Input, Options, Window};
use sightline::types::IssueImage;

struct Arguments {
    folder: PathBuf,
    types: Vec<Compute>,
    rounds: usize,
    json: bool,
}

fn arguments() -> Option<Arguments> {
    let mut it = Arguments { folder: PathBuf::new(), types: Compute::ALL.to_vec(), rounds: 3, json: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            // What cargo says to every bench.
            "--bench" => {}
            "--json" => it.json = true,
            "--rounds" => it.rounds = words.next()?.parse().ok()?,
            "--dtype" => {
                let name = words.next()?;
                it.types = vec![Compute::ALL.into_iter().find(|it| it.name() == name)?];
            }
            folder => it.folder = folder.into(),
        }
    }
    Some(it)
}

/// Seconds of the wall and of all threads of this process.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

/// Does the work so often, and says what each time took.
fn rounds(count: usize, mut work: impl FnMut() -> anyhow::Result<Took>) -> anyhow::Result<Vec<Took>> {
    (0..count).map(|_| work()).collect()
}

fn timed<R>(work: impl FnOnce() -> R) -> (R, Took) {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let result = work();
    (result, Took { wall: start.elapsed().as_secs_f64(), cpu: cpu_seconds() - cpu })
}

fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one time to where it is told.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A figure of `/proc/self/status` in MB; none on other systems.
fn memory(field: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}

/// Makes the largest resident set count from here.
fn forget_peak() {
    // Not every system has it: then the peak is that of all the work.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    fn windows(&mut self, count: usize, tokens: usize) -> Vec<Window> {
        let mut window = || Window {
            tokens: (0..tokens).map(|_| self.next() % 3800).collect(),
            body: 0..0,
            header_shortened: false,
        };
        (0..count).map(|_| window()).collect()
    }

    fn picture(&mut self) -> anyhow::Result<IssueImage> {
        let mut bytes = Vec::new();
        let pixels = image::RgbImage::from_fn(1024, 768, |_, _| image::Rgb([self.next() as u8; 3]));
        pixels.write_to(&mut Cursor::new(&mut bytes), image::ImageFormat::Bmp)?;
        Ok(IssueImage { name: "picture".to_owned(), bytes })
    }
}

struct Report<'a> {
    arguments: &'a Arguments,
    compute: Compute,
}

impl Report<'_> {
    fn line(&self, what: &str, took: &[Took], note: &str) {
        let median = |of: fn(&Took) -> f64| {
            let mut values: Vec<f64> = took.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (wall, cpu, peak) = (median(|it| it.wall), median(|it| it.cpu), memory("VmHWM").unwrap_or(f64::NAN));
        let dtype = self.compute.name();
        if self.arguments.json {
            println!(
                r#"{{"what": "{what}", "dtype": "{dtype}", "wall_s": {wall:.4}, "cpu_s": {cpu:.4}, "peak_mb": {peak:.0}}}"#
            );
        } else {
            println!("{dtype:4} {what:16} {wall:8.3} s  {cpu:8.3} CPU-s  peak {peak:6.0} MB  {note}");
        }
    }
}

fn embed(encoder: &dyn Encoder, windows: &[Window]) -> anyhow::Result<()> {
    encoder.embed(&windows.iter().collect::<Vec<_>>(), &|_, _| ())?;
    Ok(())
}

/// Embeds a picture alone.
fn show(encoder: &dyn Encoder, picture: &IssueImage) -> anyhow::Result<Took> {
    let input = Input { images: vec![picture.clone()], ..Input::default() };
    let (mut results, took) = timed(|| encoder.embed_inputs(&[input], &|_, _| ()));
    results.pop().context("an input without a result")??;
    Ok(took)
}

fn run(arguments: &Arguments, compute: Compute) -> anyhow::Result<()> {
    let report = Report { arguments, compute };
    let options = Options { compute, ..Options::default() };
    forget_peak();
    let (encoder, took) = timed(|| encoder::load(&arguments.folder, &options));
    let encoder = &*encoder?;
    report.line("load", &[took], "");
    let mut random = Random(1);
    embed(encoder, &random.windows(1, 16))?;
    for (what, count, tokens) in [("text_8x256", 8, 256), ("text_1x24", 1, 24)] {
        let took = rounds(arguments.rounds, || {
            let windows = random.windows(count, tokens);
            let (done, took) = timed(|| embed(encoder, &windows));
            done.map(|()| took)
        })?;
        let best = took.iter().map(|it| it.wall).fold(f64::INFINITY, f64::min);
        report.line(what, &took, &format!("{:.0} tokens/s at best", (count * tokens) as f64 / best));
    }
    let resident = memory("VmRSS").unwrap_or(f64::NAN);
    forget_peak();
    let took = rounds(arguments.rounds, || {
        let picture = random.picture()?;
        let (whole, again) = (show(encoder, &picture)?, show(encoder, &picture)?);
        Ok(Took { wall: whole.wall - again.wall, cpu: whole.cpu - again.cpu })
    })?;
    let over = memory("VmHWM").unwrap_or(f64::NAN) - resident;
    report.line("vision_1024x768", &took, &format!("{over:.0} MB above what was resident before"));
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let arguments =
        arguments().context("usage: cargo bench --bench qwen3_vl -- FOLDER [--dtype f32|q8] [--rounds N] [--json]")?;
    if arguments.folder.as_os_str().is_empty() {
        println!("(no checkpoint is named, so nothing is measured: see the head of benches/qwen3_vl.rs)");
        return Ok(());
    }
    arguments.types.iter().try_for_each(|&compute| run(&arguments, compute))
}
