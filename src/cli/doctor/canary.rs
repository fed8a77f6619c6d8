//! What a model makes of texts and a picture that never change.

use std::path::PathBuf;
use std::time::Instant;

use super::Check;
use crate::cli::terminal;
use crate::encoder::{self, Encoder, EncoderError, Input, ModelInfo};
use crate::types::IssueImage;
use crate::vector;

/// What was found out about a model.
pub struct Examined {
    pub info: ModelInfo,
    pub fingerprint: String,
    /// `None` for the one in the program.
    pub folder: Option<PathBuf>,
    pub load_seconds: f64,
    pub tokens_per_second: Option<f64>,
    /// What a small picture took.
    pub picture_seconds: Option<f64>,
    /// Whether it is known what vector the model gives.
    pub has_known_vector: bool,
}

impl Examined {
    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let ModelInfo { id, dimensions, window_tokens, policy, compute, images, .. } = &self.info;
        let folder = self.folder.as_ref().map_or("in the program".to_owned(), |it| format!("in {}", it.display()));
        let sees = if *images > 0 {
            format!("sees {}", terminal::counted(*images, "picture"))
        } else {
            "reads text only".to_owned()
        };
        let mut lines = vec![
            format!("{id}, {folder}"),
            format!("{dimensions} dimensions, windows of {window_tokens} tokens, {sees}"),
            format!("computes in {}, policy {}, fingerprint {:.12}", compute.name(), policy.name(), self.fingerprint),
            format!("loaded in {:.2} s", self.load_seconds),
        ];
        lines.extend(self.tokens_per_second.map(|it| format!("{it:.0} tokens/s")));
        if !self.has_known_vector {
            lines.push("no vector of it is known here, so that it computes the right ones is not checked".to_owned());
        }
        lines.extend(self.picture_seconds.map(|it| format!("{it:.2} s for a picture of {WIDTH} x {HEIGHT}")));
        lines
    }
}

const WIDTH: u32 = 256;
const HEIGHT: u32 = 192;

/// Two vectors of one input may be so far apart, in each number: what the order of sums makes of 32-bit floats.
const NOISE: f32 = 1e-4;
/// As far as a vector's length may be from 1.
const LENGTH_NOISE: f32 = 1e-3;
/// The least cosine with the vector that a model is known to give.
const LEAST_COSINE: f32 = 0.9999;

const MEND: &str = "copy the model's files again, and try --dtype f32; if that does not help, report it";

/// Lets a model read, and says what is wrong with what it gives.
pub fn examine(encoder: &dyn Encoder, checks: &mut Vec<Check>) -> Examined {
    let mut examined = Examined {
        info: encoder.info().clone(),
        fingerprint: encoder.fingerprint().to_owned(),
        folder: None,
        load_seconds: 0.0,
        tokens_per_second: None,
        picture_seconds: None,
        has_known_vector: encoder::canary_vector(encoder.info()).is_some(),
    };
    let alone = match embed(encoder, &[text(encoder::CANARY)]) {
        Ok(mut vectors) => vectors.remove(0),
        Err(error) => {
            checks.push(Check { name: "a text is embedded", problem: Some(error.to_string()) });
            return examined;
        }
    };
    check_sound("a text is embedded", &alone, checks);
    check_repeated(encoder, &alone, checks);
    if let Some(known) = encoder::canary_vector(encoder.info()) {
        let cosine = vector::dot(&alone, &known);
        checks.push(Check::of("its vector is the one that the model is known to give", cosine >= LEAST_COSINE, || {
            format!(
                "the cosine with it is {cosine}: the weights or the tokenizer are not those of {}; {MEND}",
                examined.info.id
            )
        }));
    }
    if examined.info.images > 0 {
        examined.picture_seconds = check_picture(encoder, &alone, checks);
    }
    examined.tokens_per_second = speed(encoder);
    examined
}

fn text(text: impl Into<String>) -> Input {
    Input { text: Some(text.into()), ..Input::default() }
}

fn embed(encoder: &dyn Encoder, inputs: &[Input]) -> Result<Vec<Vec<f32>>, EncoderError> {
    encoder.embed_inputs(inputs, &|_, _| ()).into_iter().map(|it| Ok(it?.vector)).collect()
}

fn check_sound(name: &'static str, found: &[f32], checks: &mut Vec<Check>) {
    let length = vector::dot(found, found).sqrt();
    let is_finite = found.iter().all(|it| it.is_finite());
    checks.push(Check::of(name, is_finite && (length - 1.0).abs() <= LENGTH_NOISE, || {
        format!("the vector has the length {length} instead of 1; {MEND}")
    }));
}

/// The same text again, among others that are shorter and longer.
fn check_repeated(encoder: &dyn Encoder, alone: &[f32], checks: &mut Vec<Check>) {
    let batch = [text("x"), text(encoder::CANARY), text(encoder::CANARY.repeat(5)), text(encoder::CANARY)];
    let problem = match embed(encoder, &batch) {
        Err(error) => Some(error.to_string()),
        Ok(vectors) => {
            let difference = [1, 3].map(|at| difference(&vectors[at], alone)).into_iter().fold(0.0, f32::max);
            // A difference that is no number is none that is small.
            (difference.is_nan() || difference > NOISE)
                .then(|| format!("in a batch the vector is another, by {difference}; {MEND}"))
        }
    };
    checks.push(Check { name: "the same text has the same vector in a batch", problem });
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |most, it| if it.is_nan() { it } else { most.max(it) })
}

fn check_picture(encoder: &dyn Encoder, of_text: &[f32], checks: &mut Vec<Check>) -> Option<f64> {
    let name = "a picture is seen";
    let image = IssueImage { name: "canary.png".to_owned(), bytes: picture() };
    let input = Input { images: vec![image], ..text(encoder::CANARY) };
    let start = Instant::now();
    match embed(encoder, &[input]) {
        Err(error) => {
            checks.push(Check { name, problem: Some(error.to_string()) });
            None
        }
        Ok(vectors) => {
            let seconds = start.elapsed().as_secs_f64();
            check_sound(name, &vectors[0], checks);
            let is_other = difference(&vectors[0], of_text) > NOISE;
            checks.push(Check::of("a picture makes a difference", is_other, || {
                format!("the vector with a picture is the one without; {MEND}")
            }));
            Some(seconds)
        }
    }
}

/// A red disc on a slope from black to white, as a PNG.
fn picture() -> Vec<u8> {
    let pixel = |at: u32| {
        let (x, y) = (at % WIDTH, at / WIDTH);
        let (dx, dy) = (i64::from(x) - i64::from(WIDTH / 2), i64::from(y) - i64::from(HEIGHT / 2));
        if dx * dx + dy * dy < 2500 { [200, 0, 0] } else { [(x * 255 / WIDTH) as u8; 3] }
    };
    let pixels: Vec<u8> = (0..WIDTH * HEIGHT).flat_map(pixel).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH, HEIGHT);
    encoder.set_color(png::ColorType::Rgb);
    // Into memory, which takes it; of a picture that is none the model says so.
    let _ = encoder.write_header().and_then(|mut it| it.write_image_data(&pixels));
    bytes
}

/// Tokens a second, over more and more texts until it takes long enough to tell.
fn speed(encoder: &dyn Encoder) -> Option<f64> {
    let lines = |number: usize| {
        (0..24).map(|at| format!("value_{at} = compute({number}, offset + {at})\n")).collect::<String>()
    };
    let mut count = 1;
    loop {
        let inputs: Vec<Input> = (0..count).map(|at| text(lines(count * 100 + at))).collect();
        let start = Instant::now();
        let found = encoder.embed_inputs(&inputs, &|_, _| ());
        let seconds = start.elapsed().as_secs_f64();
        let tokens: usize = found.iter().flatten().map(|it| it.tokens).sum();
        if seconds >= LONG_ENOUGH || count >= MOST_TEXTS {
            return (tokens > 0 && seconds > 0.0).then(|| tokens as f64 / seconds);
        }
        count *= 2;
    }
}

const LONG_ENOUGH: f64 = 0.5;
const MOST_TEXTS: usize = 64;
