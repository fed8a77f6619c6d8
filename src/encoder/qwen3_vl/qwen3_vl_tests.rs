//! A small checkpoint of random weights (`tests/fixtures/qwen3_vl/tiny-a`): what must not change a vector, and what must cost nothing else.
//! Whether vectors are right, `tests/integration/encoder_golden.rs` says.

use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::encoder::registry;
use crate::types::{IssueImage, Policy};
use crate::vector::dot;

static MODEL: LazyLock<Qwen3Vl> = LazyLock::new(|| model(&Options::default()));

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qwen3_vl")
}

fn try_model(options: &Options) -> Result<Qwen3Vl, EncoderError> {
    let row = registry::find("qwen3_vl", options.id.as_deref()).expect("the registry is sound").expect("it has a row");
    Qwen3Vl::load(&fixtures().join("tiny-a"), row, options)
}

fn model(options: &Options) -> Qwen3Vl {
    try_model(options).unwrap_or_else(|error| panic!("{error}"))
}

fn image(name: &str) -> IssueImage {
    IssueImage { name: name.to_owned(), bytes: std::fs::read(fixtures().join("images").join(name)).expect("a picture") }
}

fn text(text: &str) -> Input {
    Input { text: Some(text.to_owned()), ..Input::default() }
}

fn shown(name: &str, text: &str) -> Input {
    Input { text: Some(text.to_owned()), images: vec![image(name)], ..Input::default() }
}

fn embed(model: &Qwen3Vl, inputs: &[Input]) -> Vec<Result<InputEmbedding, EncoderError>> {
    model.embed_inputs(inputs, &|_, _| ())
}

/// On a model that nothing was read with before.
fn alone(input: &Input) -> Vec<f32> {
    embed(&model(&Options::default()), std::slice::from_ref(input)).remove(0).expect("it can be embedded").vector
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

#[track_caller]
fn check_same(a: &[f32], b: &[f32]) {
    assert!(difference(a, b) <= 1e-5, "off by {}", difference(a, b));
}

/// Short and long, with and without pictures, of two instructions, and one that begins with a line end and so shares less.
fn inputs() -> Vec<Input> {
    let other = Input { instruction: Some("Find code".to_owned()), ..text("binary search") };
    vec![
        text("short"),
        text("\n\nindented"),
        text(&"a long text of many words ".repeat(100)),
        shown("plain_130x101.png", "a checkerboard"),
        other.clone(),
        text(""),
        shown("small_20x20.png", ""),
        Input { images: vec![image("plain_130x101.png"), image("gray_119x77.png")], ..text("two") },
        Input { instruction: Some("Find code".to_owned()), ..text("quick sort") },
        text("short"),
        Input::default(),
    ]
}

#[test]
fn a_vector_does_not_depend_on_what_else_is_embedded() {
    let inputs = inputs();
    let expected: Vec<Vec<f32>> = inputs.iter().map(alone).collect();
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    for turn in 0..inputs.len() {
        order.rotate_left(1);
        order.swap(0, turn);
        let some = &order[..inputs.len() - turn];
        let shuffled: Vec<Input> = some.iter().map(|&at| inputs[at].clone()).collect();
        for (&at, found) in some.iter().zip(embed(&MODEL, &shuffled)) {
            let vector = found.expect("it can be embedded").vector;
            check_same(&vector, &expected[at]);
            assert!((dot(&vector, &vector) - 1.0).abs() < 1e-5);
        }
    }
}

#[test]
fn texts_of_one_length_in_one_batch_are_as_alone() {
    let [first, second] = ["one two three four", "four three two one"].map(text);
    let together = embed(&MODEL, &[first.clone(), second.clone()]);
    let vectors: Vec<Vec<f32>> = together.into_iter().map(|it| it.expect("it can be embedded").vector).collect();
    check_same(&vectors[0], &alone(&first));
    check_same(&vectors[1], &alone(&second));
    assert!(difference(&vectors[0], &vectors[1]) > 1e-3);
}

#[test]
fn long_texts_that_differ_at_their_ends_are_cut_and_said_to_be() {
    let long = "some words of a log\n".repeat(9000);
    let [first, second] = ["first", "second"].map(|end| text(&format!("{long}{end}")));
    let narrow = model(&Options { max_tokens: 512, ..Options::default() });
    let found: Vec<InputEmbedding> = [first, second]
        .iter()
        .map(|input| embed(&narrow, std::slice::from_ref(input)).remove(0).expect("it is cut"))
        .collect();
    for it in &found {
        assert_eq!(it.tokens, 512);
        assert!(it.truncated_from.is_some_and(|whole| whole > 9000), "{:?}", it.truncated_from);
    }
    check_same(&found[0].vector, &found[1].vector);
}

#[test]
fn one_bad_picture_costs_its_input_alone() {
    let bad =
        Input { images: vec![IssueImage { name: "bad.png".to_owned(), bytes: b"no picture".to_vec() }], ..text("x") };
    let inputs = [text("one"), bad, shown("small_20x20.png", "three"), text("four")];
    let found = embed(&MODEL, &inputs);
    let error = found[1].as_ref().expect_err("it is no picture");
    assert!(error.to_string().contains("`bad.png`"), "{error}");
    assert_eq!(error.code(), "image_format");
    for at in [0, 2, 3] {
        check_same(&found[at].as_ref().expect("it is sound").vector, &alone(&inputs[at]));
    }
}

#[test]
fn a_picture_of_more_tokens_than_there_are_is_refused_before_it_is_made() {
    let huge = Input { min_pixels: Some(u32::MAX - 1), max_pixels: Some(u32::MAX), ..shown("small_20x20.png", "") };
    let error = embed(&MODEL, &[huge]).remove(0).expect_err("four million tokens");
    assert_eq!(error.code(), "input_too_long");
}

#[test]
fn a_text_that_names_the_place_of_a_picture_moves_none() {
    let [plain, named] = ["see it", "see <|image_pad|> it"].map(|text| shown("plain_130x101.png", text));
    let found = embed(&MODEL, &[plain, named]);
    let tokens: Vec<usize> = found.iter().map(|it| it.as_ref().expect("it is sound").image_tokens).collect();
    assert_eq!(tokens, [12, 12]);
}

#[test]
fn progress_reaches_the_end() {
    let heard = std::sync::Mutex::new(Vec::new());
    MODEL.embed_inputs(&inputs(), &|done, total| heard.lock().expect("no panic").push((done, total)));
    let heard = heard.into_inner().expect("no panic");
    assert_eq!(heard.last(), Some(&(11, 11)));
    assert!(heard.is_sorted());
}

#[test]
fn windows_are_embedded_as_the_text_that_they_are() {
    let windows = MODEL.windows("File: src/a.py", "def a():\n    return 1\n").expect("a text");
    let found = MODEL.embed(&windows.iter().collect::<Vec<_>>(), &|_, _| ()).expect("it is of this model");
    let as_text = text("File: src/a.py\ndef a():\n    return 1\n");
    check_same(&found[0], &alone(&as_text));
    let foreign = Window { tokens: vec![1, 1_000_000], body: 0..0, header_shortened: false };
    let error = MODEL.embed(&[&foreign], &|_, _| ()).expect_err("no such token").to_string();
    assert!(error.contains("token 1000000"), "{error}");
    let empty = Window { tokens: Vec::new(), body: 0..0, header_shortened: false };
    assert!(MODEL.embed(&[&empty], &|_, _| ()).is_err());
}

fn issue(images: &[&str]) -> IssueReport {
    let images = images.iter().map(|name| image(name)).collect();
    IssueReport { title: "Total is wrong".to_owned(), body: "It shows 3.\n".to_owned(), images, evidence: Vec::new() }
}

#[test]
fn an_issue_is_read_with_its_instruction_and_its_first_two_pictures() {
    let mut report = issue(&["plain_130x101.png", "small_20x20.png", "gray_119x77.png"]);
    report.images.insert(1, IssueImage { name: "bad.png".to_owned(), bytes: vec![] });
    let found = MODEL.query(&report).expect("it can be read");
    let reasons: Vec<Option<&str>> = found.images.iter().map(|it| it.unused.as_deref()).collect();
    assert_eq!(reasons[0], None);
    assert!(reasons[1].is_some_and(|it| it.contains("it is empty")), "{reasons:?}");
    assert_eq!(reasons[2], None);
    assert!(reasons[3].is_some_and(|it| it.contains("reads the first 2")), "{reasons:?}");
    assert_eq!(found.images[0].size, Some((130, 101)));
    assert_eq!(found.image_tokens, 12 + 4);
    assert_eq!(found.tokens, found.tokens_used);
    let instruction = "Given a GitHub issue report and its screenshots, retrieve the source files and functions that must be changed to \
                       resolve it.";
    let same = Input {
        instruction: Some(instruction.to_owned()),
        text: Some("Total is wrong\n\nIt shows 3.\n".to_owned()),
        images: vec![image("plain_130x101.png"), image("small_20x20.png")],
        ..Input::default()
    };
    check_same(&found.vector, &alone(&same));
}

#[test]
fn a_title_alone_is_an_issue() {
    let report = IssueReport { title: "Total is wrong".to_owned(), ..IssueReport::default() };
    let found = MODEL.query(&report).expect("it can be read");
    let titled = Input { instruction: Some(MODEL.row.query_instruction.clone()), ..text("Total is wrong") };
    check_same(&found.vector, &alone(&titled));
    MODEL.query(&IssueReport::default()).expect("even nothing has a vector");
}

#[test]
fn a_long_issue_says_how_much_of_it_was_read() {
    let narrow = model(&Options { max_tokens: 256, ..Options::default() });
    let report = IssueReport { body: "many words of a log\n".repeat(200), ..issue(&["small_20x20.png"]) };
    let found = narrow.query(&report).expect("it is cut");
    assert!(found.tokens > 1000 && found.tokens_used < 256 && found.image_tokens == 4, "{found:?}");
}

#[test]
fn a_picture_that_leaves_no_room_is_left_out() {
    let narrow = model(&Options { max_tokens: 128, ..Options::default() });
    let found = narrow.query(&issue(&["tall_201x250.png", "tall_201x250.png"])).expect("it can be read without");
    assert_eq!(found.images[0].unused, None);
    assert!(found.images[1].unused.as_deref().is_some_and(|it| it.contains("limit of 128")), "{:?}", found.images);
}

#[test]
fn features_are_kept_within_a_limit_and_found_again() {
    let inputs = [shown("plain_130x101.png", "one"), shown("plain_130x101.png", "two")];
    let model = model(&Options::default());
    let first = model.item(&inputs[0]).expect("a picture");
    assert!(first.bytes() > 0);
    let features = model.pictures.features(&first.pictures[0], &model.network.vision).expect("features");
    let second = model.item(&inputs[1]).expect("a picture");
    assert_eq!(second.bytes(), 0, "it was decoded again");
    let again = model.pictures.features(&second.pictures[0], &model.network.vision).expect("features");
    assert!(std::sync::Arc::ptr_eq(&features, &again));
    // Another size is another picture.
    let smaller = Input { max_pixels: Some(8192), ..inputs[0].clone() };
    assert!(model.item(&smaller).expect("a picture").bytes() > 0);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let refused = |options: Options| try_model(&options).map(drop).expect_err("it does not fit").to_string();
    let usual = Options::default;
    assert!(refused(Options { dimensions: Some(65), ..usual() }).contains("`dimensions` = 65"));
    assert!(refused(Options { dimensions: Some(0), ..usual() }).contains("`dimensions` = 0"));
    assert!(refused(Options { window: Some(100), ..usual() }).contains("`window` = 100"));
    assert!(refused(Options { window: Some(8193), ..usual() }).contains("`window` = 8193"));
    assert!(refused(Options { max_tokens: 9000, ..usual() }).contains("`max_tokens` = 9000"));
    let named = Options { id: Some("Qwen/Qwen3-VL-Embedding-2B".to_owned()), ..usual() };
    assert!(refused(named).contains("64 dimensions instead of the 2048"));
}

#[test]
fn the_fingerprint_is_that_of_every_file_and_option() {
    let own = MODEL.fingerprint();
    assert_eq!(own, model(&Options::default()).fingerprint());
    let usual = Options::default;
    for options in [
        Options { policy: Policy::Reference, ..usual() },
        Options { compute: Compute::Q8, ..usual() },
        Options { dimensions: Some(32), ..usual() },
        Options { window: Some(1024), ..usual() },
    ] {
        assert_ne!(model(&options).fingerprint(), own, "{options:?}");
    }
    let mut others = model(&usual());
    others.files[1] = b"{}".to_vec().into();
    assert_ne!(others.fingerprint(), own);
    let mut others = model(&usual());
    others.row.query_instruction.push('q');
    assert_ne!(others.fingerprint(), own);
    assert_ne!(MODEL.fingerprint_by("q8 1"), MODEL.fingerprint_by("q8 2"));
}

/// A file of tensors whose bytes are all 7 but where `change` says otherwise.
fn weights(tensors: &[(&str, usize)], change: Option<(&str, std::ops::Range<usize>)>) -> Bytes {
    let values = |name: &str, length: usize| {
        let mut bytes = vec![7u8; length];
        if let Some((_, range)) = change.as_ref().filter(|it| it.0 == name) {
            bytes[range.clone()].fill(8);
        }
        bytes
    };
    let all: Vec<(&str, Vec<u8>)> = tensors.iter().map(|&(name, length)| (name, values(name, length))).collect();
    let views = all.iter().map(|(name, bytes)| {
        let view = safetensors::tensor::TensorView::new(crate::device::tensors::Dtype::U8, vec![bytes.len()], bytes);
        (*name, view.expect("a vector of bytes"))
    });
    safetensors::serialize(views.collect::<Vec<_>>(), None).expect("sound tensors").into()
}

#[test]
fn files_of_weights_are_told_apart_by_every_tensor() {
    let names: Vec<String> = (0..100).map(|at| format!("layers.{at}.weight")).collect();
    let mut tensors: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 70_000)).collect();
    tensors.push(("norm", 64 << 10));
    let own = digest(&weights(&tensors, None));
    assert_eq!(digest(&weights(&tensors, None)), own);
    for name in &names {
        assert_ne!(digest(&weights(&tensors, Some((name, 0..70_000)))), own, "{name}");
    }
    // Of a large tensor the beginning, the middle and the end count, of a small one every byte.
    for (name, at) in [(&*names[40], 0), (&names[40], 36_000), (&names[40], 69_999), ("norm", 20_000)] {
        assert_ne!(digest(&weights(&tensors, Some((name, at..at + 1)))), own, "byte {at} of {name}");
    }
    tensors[0].0 = "other";
    assert_ne!(digest(&weights(&tensors, None)), own);
    let odd = [&b""[..], b"123", &[0xff; 20]].map(|it| digest(&it.to_vec().into()));
    assert!(odd[0] != odd[1] && odd[1] != odd[2]);
}

#[test]
fn a_folder_without_a_name_is_no_published_model() {
    assert_eq!(name(Path::new("models/my-model")), "my-model");
    assert_eq!(name(Path::new("models/my-model/.")), "my-model");
    let above = fixtures().join("../../..").canonicalize().expect("it is there");
    assert_eq!(name(&fixtures().join("../../..")), above.file_name().expect("it is no root").to_string_lossy());
    let here = std::env::current_dir().expect("there is one");
    assert_eq!(name(Path::new(".")), here.file_name().expect("it is no root").to_string_lossy());
    assert_eq!(name(Path::new("/")), "/");
}

#[test]
fn shorter_vectors_are_beginnings() {
    let short = model(&Options { dimensions: Some(16), ..Options::default() });
    let found = embed(&short, &[text("short")]).remove(0).expect("it can be embedded").vector;
    let mut expected = alone(&text("short"))[..16].to_vec();
    crate::vector::normalise(&mut expected);
    check_same(&found, &expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_text_has_a_vector(words in "\\PC{0,200}", special in prop::sample::select(vec!["", "<|im_end|>", "<|image_pad|>", "<think>"])) {
        let found = embed(&MODEL, &[text(&format!("{words}{special}"))]).remove(0);
        prop_assert!(found.is_ok_and(|it| it.truncated_from.is_none()));
    }
}

#[test]
fn pictures_that_the_model_cant_read_together_are_refused_before_they_are_all_decoded() {
    let one = image("plain_130x101.png");
    let mut images = vec![one; 2000];
    // It would be complained of if it were looked at.
    images.push(IssueImage { name: "damaged".to_owned(), bytes: b"no picture".to_vec() });
    let many = Input { images, ..text("many") };
    let results = embed(&MODEL, &[text("short"), many, text("short")]);
    assert_eq!(results[1].as_ref().expect_err("it is too much").code(), "input_too_long");
    check_same(&results[0].as_ref().expect("sound").vector, &results[2].as_ref().expect("sound").vector);
}

#[test]
fn a_text_that_is_too_large_to_count_is_refused() {
    let huge = "word ".repeat(1_000_000);
    for input in [text(&huge), Input { instruction: Some(huge.clone()), ..text("short") }] {
        let error = embed(&MODEL, &[input]).remove(0).expect_err("it is too much");
        assert_eq!(error.code(), "text_too_large", "{error}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(fixtures().join("tiny-a").join(name), folder.path().join(name)).expect("it can be copied");
    }
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let path = folder.path().join(name);
        let kept = path.with_extension("kept");
        std::fs::rename(&path, &kept).expect("it can be renamed");
        std::os::unix::fs::symlink("/dev/zero", &path).expect("a link");
        let error = crate::encoder::load(folder.path(), &Options::default()).err().expect("it is no model");
        assert!(error.to_string().contains("no regular file") && error.to_string().contains(name), "{error}");
        std::fs::remove_file(&path).and_then(|()| std::fs::rename(&kept, &path)).expect("it can be put back");
    }
}
