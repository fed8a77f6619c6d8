//! Qwen3-VL-Embedding against its published reference, on small checkpoints of random weights: vectors, counts and errors, alone and in
//! batches. `scripts/make_qwen3_vl_golden.py` says how the fixtures are made; token ids and positions are compared inside of the library.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde::Deserialize;
use sightline::encoder::{Encoder, EncoderError, Input, InputEmbedding, Options, load};
use sightline::types::{IssueImage, Policy};

const MODELS: &[&str] = &["tiny-a", "appended", "narrow", "untied"];

/// Largest difference of a value of a unit vector. The noise of the reference itself is below 2e-6, and a mix-up of the two forms of GELU
/// costs 4e-5.
const TOLERANCE: f32 = 1e-5;

#[derive(Deserialize)]
struct Golden {
    mrl_dims: Vec<usize>,
    cases: Vec<Case>,
    batches: Vec<Batch>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    input: CaseInput,
    max_length: usize,
    min_pixels: u32,
    max_pixels: u32,
    #[serde(default)]
    num_tokens: usize,
    #[serde(default)]
    image_grid_thw: Vec<[usize; 3]>,
    expect_error: Option<String>,
}

#[derive(Deserialize)]
struct CaseInput {
    instruction: Option<String>,
    text: Option<OneOrMore>,
    image: Option<OneOrMore>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn all(&self) -> &[String] {
        match self {
            OneOrMore::One(one) => std::slice::from_ref(one),
            OneOrMore::More(all) => all,
        }
    }
}

#[derive(Deserialize)]
struct Batch {
    name: String,
    members: Vec<String>,
}

impl Case {
    fn input(&self) -> Input {
        let image = |name: &String| {
            let bytes = std::fs::read(fixtures().join("images").join(name)).expect("a picture");
            IssueImage { name: name.clone(), bytes }
        };
        let texts = self.input.text.as_ref().map(OneOrMore::all);
        Input {
            instruction: self.input.instruction.clone(),
            // Texts follow each other without anything in between.
            text: texts.map(|it| it.concat()),
            images: self.input.image.iter().flat_map(OneOrMore::all).map(image).collect(),
            max_length: Some(self.max_length),
            whole: false,
            min_pixels: Some(self.min_pixels),
            max_pixels: Some(self.max_pixels),
        }
    }

    /// Decoders of JPEG differ by some levels.
    fn is_lossy(&self) -> bool {
        self.input.image.iter().flat_map(OneOrMore::all).any(|it| it.ends_with(".jpg"))
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qwen3_vl")
}

/// A checkpoint, what it must give, and the vectors of that by name.
struct Model {
    name: &'static str,
    golden: Golden,
    arrays: HashMap<String, Vec<f32>>,
}

impl Model {
    fn of(name: &'static str) -> Self {
        let text = std::fs::read_to_string(fixtures().join(format!("{name}.cases.json"))).expect("cases");
        let file = std::fs::read(fixtures().join(format!("{name}.arrays.safetensors"))).expect("arrays");
        let tensors = SafeTensors::deserialize(&file).expect("a file of tensors");
        let floats = |data: &[u8]| data.as_chunks().0.iter().map(|&it| f32::from_le_bytes(it)).collect();
        let arrays = tensors
            .iter()
            .filter(|(_, tensor)| tensor.dtype() == safetensors::Dtype::F32)
            .map(|(name, tensor)| (name.to_owned(), floats(tensor.data())))
            .collect();
        Model { name, golden: serde_json::from_str(&text).expect("cases are JSON"), arrays }
    }

    fn load(&self, options: &Options) -> Box<dyn Encoder> {
        load(&fixtures().join(self.name), options).expect("the repository holds the model")
    }

    /// The cases that have a vector.
    fn cases(&self) -> impl Iterator<Item = &Case> {
        self.golden.cases.iter().filter(|it| it.expect_error.is_none())
    }

    fn vector(&self, case: &str, array: &str) -> &[f32] {
        &self.arrays[&format!("{case}.{array}")]
    }
}

fn reference() -> Options {
    Options { policy: Policy::Reference, ..Options::default() }
}

fn embed(encoder: &dyn Encoder, inputs: &[Input]) -> Vec<Result<InputEmbedding, EncoderError>> {
    encoder.embed_inputs(inputs, &|_, _| ())
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

#[track_caller]
fn check(what: &str, found: &[f32], expected: &[f32], is_lossy: bool) {
    let difference = difference(found, expected);
    if is_lossy {
        let cosine: f32 = found.iter().zip(expected).map(|(x, y)| x * y).sum();
        assert!(cosine >= 0.99, "{what}: cosine {cosine}");
    } else {
        assert!(difference <= TOLERANCE, "{what}: off by {difference}");
    }
}

#[test]
fn each_case_alone() {
    for model in MODELS.iter().copied().map(Model::of) {
        let encoder = model.load(&reference());
        for case in model.cases() {
            let what = format!("{}/{}", model.name, case.name);
            let found = embed(&*encoder, &[case.input()]).remove(0);
            let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(found.tokens, case.num_tokens, "{what}");
            let image_tokens: usize = case.image_grid_thw.iter().map(|grid| grid[1] * grid[2] / 4).sum();
            assert_eq!(found.image_tokens, image_tokens, "{what}");
            assert_eq!(found.truncated_from.is_some(), case.name.contains("truncated"), "{what}");
            check(&what, &found.vector, model.vector(&case.name, "embedding"), case.is_lossy());
        }
    }
}

#[test]
fn all_cases_at_once_in_any_order() {
    for model in MODELS.iter().copied().map(Model::of) {
        let encoder = model.load(&reference());
        // The largest picture takes longer than all the rest, and is a batch of its own.
        let mut cases: Vec<&Case> = model.cases().filter(|it| it.num_tokens < 1000).collect();
        for _ in 0..2 {
            let inputs: Vec<Input> = cases.iter().map(|it| it.input()).collect();
            for (case, found) in cases.iter().zip(embed(&*encoder, &inputs)) {
                let what = format!("{}/{}", model.name, case.name);
                let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                check(&what, &found.vector, model.vector(&case.name, "embedding"), case.is_lossy());
            }
            cases.reverse();
        }
    }
}

#[test]
fn batches_of_the_reference() {
    for model in MODELS.iter().copied().map(Model::of) {
        let encoder = model.load(&reference());
        for batch in &model.golden.batches {
            let case = |name: &String| model.cases().find(|it| it.name == *name).expect("a member is a case");
            let inputs: Vec<Input> = batch.members.iter().map(|name| case(name).input()).collect();
            let found = embed(&*encoder, &inputs);
            let expected = model.vector(&batch.name, "embedding");
            for (row, (found, name)) in
                expected.chunks_exact(expected.len() / found.len()).zip(found.iter().zip(&batch.members))
            {
                let what = format!("{}/{}/{name}", model.name, batch.name);
                check(&what, &found.as_ref().expect("it can be embedded").vector, row, case(name).is_lossy());
            }
        }
    }
}

#[test]
fn shorter_vectors() {
    for model in MODELS.iter().copied().map(Model::of) {
        for &dimensions in &model.golden.mrl_dims {
            let encoder = model.load(&Options { dimensions: Some(dimensions), ..reference() });
            assert_eq!(encoder.info().dimensions, dimensions);
            let cases: Vec<&Case> = model.cases().filter(|it| it.input.image.is_none()).collect();
            let inputs: Vec<Input> = cases.iter().map(|it| it.input()).collect();
            for (case, found) in cases.iter().zip(embed(&*encoder, &inputs)) {
                let Some(expected) = model.arrays.get(&format!("{}.mrl_{dimensions}", case.name)) else { continue };
                let what = format!("{}/{} in {dimensions}", model.name, case.name);
                check(&what, &found.expect("it can be embedded").vector, expected, false);
            }
        }
    }
}

#[test]
fn what_the_reference_refuses() {
    for model in MODELS.iter().copied().map(Model::of) {
        let encoder = model.load(&reference());
        for case in model.golden.cases.iter().filter(|it| it.expect_error.is_some()) {
            let error = embed(&*encoder, &[case.input()]).remove(0).expect_err(&case.name);
            assert_eq!(error.code(), "image_tokens_misplaced", "{}: {error}", case.name);
        }
    }
}
