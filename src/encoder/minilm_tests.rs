//! The bundled model against transformers' BERT (golden file), and the rules for candidates and queries with its real tokenizer.

use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;
use safetensors::SafeTensors;
use serde::Deserialize;

use super::*;
use crate::device::tensors::Bytes;
use crate::encoder::{Options, bundled};
use crate::vector::dot;

static MODEL: LazyLock<MiniLm> = LazyLock::new(|| {
    let folder = root().join("models/all-MiniLM-L6-v2");
    bundled::load_minilm(&folder, &Options::default()).expect("the repository holds the model")
});

/// The tokenizer as its crate reads it.
static REFERENCE: LazyLock<tokenizers::Tokenizer> = LazyLock::new(|| {
    let file = root().join("models/all-MiniLM-L6-v2/tokenizer.json");
    let mut reference = tokenizers::Tokenizer::from_file(file).expect("the repository holds the model");
    reference.with_truncation(None).expect("no truncation is always right");
    reference.with_padding(None);
    reference.set_encode_special_tokens(true);
    reference
});

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A row of `tests/fixtures/minilm_golden.json`; `scripts/make_golden.py` says how it is made.
#[derive(Deserialize)]
struct Golden {
    name: String,
    text: String,
    sequences: Vec<Vec<u32>>,
    f16: Vec<Vec<f32>>,
    f32: Vec<Vec<f32>>,
}

fn golden() -> Vec<Golden> {
    let text = std::fs::read_to_string(root().join("tests/fixtures/minilm_golden.json"))
        .expect("the repository holds the golden file");
    serde_json::from_str(&text).expect("the golden file is JSON")
}

fn window(tokens: &[u32]) -> Window {
    Window { tokens: tokens.to_vec(), body: 0..0, header_shortened: false }
}

fn embed(windows: &[Window]) -> Vec<Vec<f32>> {
    MODEL.embed(&windows.iter().collect::<Vec<_>>(), &|_, _| ()).expect("the windows are of this model")
}

fn cut(header: &str, body: &str) -> Vec<Window> {
    MODEL.windows(header, body).expect("any text can be tokenized")
}

fn query(title: &str, body: &str) -> QueryEmbedding {
    let issue = IssueReport { title: title.to_owned(), body: body.to_owned(), ..IssueReport::default() };
    MODEL.query(&issue).expect("any issue can be embedded")
}

/// In f64: the inner product of two f32 unit vectors is too coarse to tell 0.99999 apart.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

#[test]
fn token_ids_are_those_of_the_reference() {
    for case in golden() {
        let expected: Vec<u32> = case.sequences.iter().flat_map(|ids| ids[1..ids.len() - 1].to_vec()).collect();
        assert_eq!(MODEL.tokens(&case.text).expect("any text can be tokenized").ids, expected, "{}", case.name);
    }
}

#[test]
fn vectors_are_those_of_the_reference() {
    for case in golden() {
        let found = embed(&case.sequences.iter().map(|ids| window(ids)).collect::<Vec<_>>());
        for ((found, same), original) in found.iter().zip(&case.f16).zip(&case.f32) {
            assert!(difference(found, same) <= 5e-6, "{}: off by {}", case.name, difference(found, same));
            assert!(
                cosine(found, same) >= 0.999_999,
                "{}: cosine {} on the same weights",
                case.name,
                cosine(found, same)
            );
            assert!(
                cosine(found, original) >= 0.99999,
                "{}: cosine {} to the original weights",
                case.name,
                cosine(found, original)
            );
        }
    }
}

#[test]
fn a_vector_does_not_depend_on_its_batch() {
    let windows: Vec<Window> =
        golden().iter().flat_map(|case| case.sequences.iter().map(|ids| window(ids)).collect::<Vec<_>>()).collect();
    let together = embed(&windows);
    for (window, vector) in windows.iter().zip(&together) {
        let alone = embed(std::slice::from_ref(window));
        assert!(difference(&alone[0], vector) <= 1e-5);
        assert!((dot(vector, vector) - 1.0).abs() <= 1e-6);
    }
}

#[test]
fn a_window_of_another_model_is_an_error() {
    for tokens in [vec![], vec![101, 40_000, 102], vec![101; 513]] {
        let error = MODEL.embed(&[&window(&tokens)], &|_, _| ()).expect_err("this model can't embed it");
        assert!(matches!(&error, EncoderError::Compute { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn a_window_is_the_tokens_of_header_and_body_as_one_text() {
    let golden = golden();
    let case = golden.iter().find(|case| case.name == "python").expect("the golden file has it");
    let (header, body) = case.text.split_once('\n').expect("its first line is the header");
    assert_eq!(cut(header, body)[0].tokens, case.sequences[0]);
}

#[test]
fn a_window_holds_256_tokens_and_no_more() {
    // 252 words and the two tokens of the header, [CLS] and [SEP].
    assert_eq!(cut("File", &"word ".repeat(253)).len(), 1);
    assert_eq!(cut("File", &"word ".repeat(254)).len(), 2);
}

#[test]
fn a_query_that_fits_is_the_text_itself() {
    let golden = golden();
    let case = golden.iter().find(|case| case.name == "issue").expect("the golden file has it");
    let (title, body) = case.text.split_once("\n\n").expect("its first line is the title");
    let found = query(title, body);
    assert!(difference(&found.vector, &case.f16[0]) <= 5e-6);
    assert_eq!((found.tokens, found.tokens_used), (52, 52));
}

#[test]
fn an_empty_query_is_the_empty_text() {
    let golden = golden();
    let case = golden.iter().find(|case| case.name == "empty").expect("the golden file has it");
    let found = query("", "");
    assert!(difference(&found.vector, &case.f16[0]) <= 5e-6);
    assert_eq!((found.tokens, found.tokens_used), (0, 0));
}

#[test]
fn a_long_query_is_the_mean_of_its_windows() {
    let body: String = (0..60).map(|line| format!("line {line} says that the chart is wrong\n")).collect();
    let found = query("chart is wrong", &body);
    let parts = embed(&cut("chart is wrong", &body));
    assert!((2..=8).contains(&parts.len()));
    let expected: Vec<f64> = (0..384).map(|at| parts.iter().map(|part| f64::from(part[at])).sum()).collect();
    let length = expected.iter().map(|value| value * value).sum::<f64>().sqrt();
    let expected: Vec<f32> = expected.iter().map(|value| (value / length) as f32).collect();
    assert!(difference(&found.vector, &expected) <= 1e-6);
    assert_eq!(found.tokens_used, found.tokens);
}

#[test]
fn a_query_of_more_than_eight_windows_says_what_it_used() {
    // One token a word; eight windows hold at most 8 * 253 of them and, each being at least half full, not less than 8 * 100.
    let found = query("crash", &"word\n".repeat(5000));
    assert_eq!(found.tokens, 5001);
    assert!((800..=8 * 253).contains(&found.tokens_used), "{}", found.tokens_used);
}

#[test]
fn a_title_longer_than_half_a_window_is_not_lost() {
    let found = query(&"word ".repeat(400), "end");
    assert_eq!((found.tokens, found.tokens_used), (401, 401));
}

/// The model's files with one byte of one of them changed.
fn changed(pick: fn(&mut Files) -> &mut Bytes) -> Files {
    let mut files = MODEL.files.clone();
    let bytes = pick(&mut files);
    let mut other = bytes.to_vec();
    other[bytes.len() / 2] ^= 1;
    *bytes = other.into();
    files
}

#[test]
fn the_fingerprint_is_that_of_every_byte_and_rule() {
    let own = MODEL.fingerprint();
    assert_eq!(own.len(), 64);
    let checkpoint = &MODEL.checkpoint;
    assert_eq!(fingerprint(checkpoint, &MODEL.files), own);
    assert_ne!(fingerprint(checkpoint, &changed(|files| &mut files.config)), own);
    assert_ne!(fingerprint(checkpoint, &changed(|files| &mut files.tokenizer)), own);
    assert_ne!(fingerprint(checkpoint, &changed(|files| &mut files.weights)), own);
    for change in [
        |it: &mut Checkpoint| it.window = 128,
        |it: &mut Checkpoint| it.query_instruction.push('q'),
        |it: &mut Checkpoint| it.candidate_instruction.push('q'),
    ] {
        let mut other = checkpoint.clone();
        change(&mut other);
        assert_ne!(fingerprint(&other, &MODEL.files), own);
    }
}

#[test]
fn weights_that_leave_a_vector_without_direction_are_an_error() {
    let mut files = MODEL.files.clone();
    let mut weights = files.weights.to_vec();
    for name in ["encoder.layer.5.output.LayerNorm.weight", "encoder.layer.5.output.LayerNorm.bias"] {
        let tensors = SafeTensors::deserialize(&MODEL.files.weights).expect("loaded before");
        let data = tensors.tensor(name).expect("the last step of the network").data().to_vec();
        let at = weights.windows(data.len()).position(|bytes| bytes == data).expect("it is in the file");
        weights[at..at + data.len()].fill(0);
    }
    files.weights = weights.into();
    let model = MiniLm::new(MODEL.checkpoint.clone(), files).expect("zeros are numbers");
    let error = model.query(&IssueReport::default()).expect_err("all vectors are zero").to_string();
    assert!(error.contains("not of length 1") && error.contains("copy the model's files again"), "{error}");
}

const CONFIG_KEYS: &[&str] = &[
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "hidden_act",
    "position_embedding_type",
];

/// What a network of the bundled weights and another `config.json` does with a text: a vector or an error of one line.
fn outcome(config: Vec<u8>) -> Result<Vec<Vec<f32>>, String> {
    let files = Files { origin: "changed".to_owned(), config: config.into(), ..MODEL.files.clone() };
    let one_line = |error: EncoderError| error.to_string();
    let config = read_config(&MODEL.checkpoint, &files).map_err(one_line)?;
    let network = read_network(&MODEL.checkpoint, &files, &config).map_err(one_line)?;
    network.embed(&[&[101, 2000, 102]]).map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_changed_configuration_gives_a_vector_or_an_error(
        key in prop::sample::select(CONFIG_KEYS),
        value in prop::sample::select(&["0", "1", "-1", "2", "7", "1e-30", "1e-46", "1e400", "0.5", "1048577",
            "18446744073709551615", "9223372036854775808", "null", "\"gelu\"", "[]", "{}", "true"][..]),
    ) {
        let mut config: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(&MODEL.files.config).expect("an object");
        config.insert(key.to_owned(), serde_json::Value::Null);
        let text = serde_json::to_string(&config).expect("an object").replace(
            &format!("\"{key}\":null"), &format!("\"{key}\":{value}"));
        match outcome(text.into_bytes()) {
            Ok(vectors) => prop_assert!((dot(&vectors[0], &vectors[0]) - 1.0).abs() < 1e-3),
            Err(message) => prop_assert_eq!(message.lines().count(), 1),
        }
    }

    #[test]
    fn a_configuration_with_a_flipped_byte_gives_a_vector_or_an_error(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut config = MODEL.files.config.to_vec();
        let at = at.index(config.len());
        config[at] = to;
        let _ = outcome(config);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn tokens_of_any_text_are_those_of_the_tokenizers_crate(text in prop::collection::vec(any::<char>(), 0..80), words in "[a-zA-Z_ .#é-]{0,80}") {
        let text = text.into_iter().collect::<String>() + &words;
        let expected = REFERENCE.encode(&text[..], false).expect("any text can be tokenized");
        let own = MODEL.tokenizer.encode(&text[..], false).expect("any text can be tokenized");
        prop_assert_eq!(own.get_ids(), expected.get_ids());
        prop_assert_eq!(own.get_offsets(), expected.get_offsets());
    }

    #[test]
    fn windows_of_any_text_cover_it_and_fit(body in prop::collection::vec(any::<char>(), 0..1500), header in "\\PC{0,300}") {
        let body: String = body.into_iter().collect();
        let mut covered = 0;
        for part in cut(&header, &body) {
            prop_assert!(part.tokens.len() <= 256);
            prop_assert_eq!((part.tokens[0], part.tokens[part.tokens.len() - 1]), (101, 102));
            prop_assert!(part.body.start <= covered && part.body.end >= covered);
            prop_assert!(body.get(part.body.clone()).is_some());
            covered = part.body.end;
        }
        prop_assert_eq!(covered, body.len());
    }
}
