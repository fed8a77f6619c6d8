//! The routes that embed, as clients of OpenAI, vLLM and text-embeddings-inference use them: right vectors, and for every bad input its
//! status, its code and the name of what is wrong.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::http::Request;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use sightline::encoder::{
    self, Encoder, EncoderError, Input, InputEmbedding, ModelInfo, Progress, QueryEmbedding, Window,
};
use sightline::types::{IssueImage, IssueReport};
use sightline::vector;

use super::served::{Served, Setup, fixtures, request};

const MAX_BATCH: usize = 20;

/// The routes over an encoder.
struct App {
    served: Served,
    _data: tempfile::TempDir,
}

impl App {
    fn new(encoder: Box<dyn Encoder>, hosts: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let mut setup = Setup { encoder, ..Setup::on(data.path()) };
        setup.settings.allow_image_hosts = hosts.iter().map(|it| (*it).to_owned()).collect();
        setup.settings.max_batch = MAX_BATCH;
        App { served: setup.start(), _data: data }
    }

    fn send(&self, request: Request<Body>) -> (u16, Value) {
        let answer = self.served.send(request);
        (answer.status, answer.json())
    }

    fn post(&self, path: &str, body: impl ToString) -> (u16, Value) {
        self.send(request("POST", path, Some("application/json"), Body::from(body.to_string())))
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.send(request("GET", path, None, Body::empty()))
    }

    /// The answer to a request that can be answered.
    #[track_caller]
    fn answer(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body);
        assert_eq!(status, 200, "{body}: {answer}");
        answer
    }

    /// The vectors of a body of /v1/embeddings.
    #[track_caller]
    fn vectors(&self, body: &Value) -> Vec<Vec<f32>> {
        let answer = self.answer("/v1/embeddings", body);
        let data = answer["data"].as_array().expect("a list");
        for (at, row) in data.iter().enumerate() {
            assert_eq!((&row["index"], &row["object"]), (&json!(at), &json!("embedding")));
        }
        data.iter().map(|row| floats(&row["embedding"])).collect()
    }
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().expect("a vector").iter().map(|it| it.as_f64().expect("a number") as f32).collect()
}

/// The model in the program, which reads text only.
static TEXT: LazyLock<App> = LazyLock::new(|| App::new(Box::new(encoder::bundled().expect("the model")), &[]));

const SEEING: &str = "qwen3_vl/tiny-a";

fn seeing() -> Box<dyn Encoder> {
    encoder::load(&fixtures().join(SEEING), &encoder::Options::default()).expect("a small model")
}

/// A small one of random weights, which sees two pictures.
static SIGHT: LazyLock<App> = LazyLock::new(|| App::new(seeing(), &[]));

fn picture(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(name)).expect("a picture")
}

fn data_url(name: &str) -> String {
    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(picture(name)))
}

const SHOT: &str = "checkout.png";
const GREY: &str = "images/grey_16.png";

#[track_caller]
fn check_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= 1e-5, "{worst}");
}

#[track_caller]
fn check_all_close(found: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).for_each(|(found, expected)| check_close(found, expected));
}

/// Texts that fit a window, with their tokens and the vectors that Hugging Face's implementation gives them.
fn golden() -> Vec<(String, Vec<u32>, Vec<f32>)> {
    let rows: Vec<Value> = serde_json::from_slice(&picture("minilm_golden.json")).expect("JSON");
    let fits = |row: &&Value| {
        let text = row["text"].as_str().expect("a text");
        row["sequences"].as_array().expect("sequences").len() == 1 && !text.trim().is_empty()
    };
    let row = |row: &Value| {
        let tokens = serde_json::from_value(row["sequences"][0].clone()).expect("tokens");
        (row["text"].as_str().expect("a text").to_owned(), tokens, floats(&row["f16"][0]))
    };
    rows.iter().filter(fits).map(row).collect()
}

#[test]
fn vectors_are_those_of_the_reference_in_every_form_and_order() {
    let golden = golden();
    let texts: Vec<&str> = golden.iter().map(|it| it.0.as_str()).collect();
    let expected: Vec<Vec<f32>> = golden.iter().map(|it| it.2.clone()).collect();
    check_all_close(&TEXT.vectors(&json!({"model": "all-MiniLM-L6-v2", "input": texts})), &expected);
    let items: Vec<Value> = texts.iter().map(|it| json!({"text": it})).collect();
    check_all_close(&TEXT.vectors(&json!({"inputs": items})), &expected);
    let embedded = TEXT.answer("/embed", &json!({"inputs": texts}));
    let embedded: Vec<_> = embedded.as_array().expect("a list").iter().map(floats).collect();
    check_all_close(&embedded, &expected);

    for (text, _, expected) in &golden[..3] {
        for content in [json!(text), json!([{"type": "text", "text": text}])] {
            let messages = json!([{"role": "user", "content": content}]);
            check_all_close(&TEXT.vectors(&json!({"messages": messages})), std::slice::from_ref(expected));
        }
        check_all_close(&TEXT.vectors(&json!({"input": text, "user": "u"})), std::slice::from_ref(expected));
        let one = TEXT.answer("/embed", &json!({"inputs": text}));
        check_close(&floats(&one[0]), expected);
    }
}

#[test]
fn an_answer_has_the_shape_that_clients_read() {
    let (text, tokens, _) = golden().remove(0);
    let mut answer = TEXT.answer("/v1/embeddings", &json!({"input": [text, "x"], "encoding_format": "float"}));
    for row in answer["data"].as_array_mut().expect("a list") {
        assert_eq!(floats(&row["embedding"].take()).len(), 384);
    }
    let row = |index, tokens| {
        json!({"object": "embedding", "index": index, "embedding": null, "tokens": tokens, "image_tokens": 0,
               "truncated": false, "total_tokens": tokens})
    };
    let all = tokens.len() + 3;
    let usage = json!({"prompt_tokens": all, "total_tokens": all, "image_tokens": 0});
    let data = json!([row(0, tokens.len()), row(1, 3)]);
    assert_eq!(answer, json!({"object": "list", "data": data, "model": "all-MiniLM-L6-v2", "usage": usage}));
}

#[test]
fn base64_holds_the_same_floats() {
    let body = |format: &str| json!({"input": "x", "encoding_format": format});
    let answer = TEXT.answer("/v1/embeddings", &body("base64"));
    let bytes = BASE64_STANDARD.decode(answer["data"][0]["embedding"].as_str().expect("a text")).expect("base64");
    let numbers: Vec<f32> = bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().expect("four"))).collect();
    assert_eq!(numbers, TEXT.vectors(&body("float"))[0]);
    let embedded = TEXT.answer("/embed", &json!({"inputs": "x", "encoding_format": "base64"}));
    assert_eq!(embedded, json!([answer["data"][0]["embedding"]]));
}

#[test]
fn tokens_are_the_text_they_stand_for() {
    let (_, tokens, expected) = golden().remove(0);
    let own = &tokens[1..tokens.len() - 1];
    check_close(&TEXT.vectors(&json!({"input": own}))[0], &expected);
    check_all_close(&TEXT.vectors(&json!({"input": [own, own]})), &[expected.clone(), expected.clone()]);
    check_close(&floats(&TEXT.answer("/embed", &json!({"inputs": [own]}))[0]), &expected);
}

/// Of one length, so that nothing but a mask keeps them apart.
#[test]
fn texts_of_a_batch_do_not_see_each_other() {
    let texts = ["the red cat sat", "a blue dog ran", "one old fox hid"];
    for app in [&*TEXT, &*SIGHT] {
        let together = app.vectors(&json!({"input": texts}));
        let alone: Vec<_> = texts.iter().map(|it| app.vectors(&json!({"input": it})).remove(0)).collect();
        check_all_close(&together, &alone);
    }
}

#[test]
fn a_long_text_between_short_ones_keeps_their_order() {
    let mut texts: Vec<String> = (0..15).map(|at| format!("text number {at}")).collect();
    texts.insert(7, "word ".repeat(8190));
    let together = SIGHT.vectors(&json!({"input": texts, "truncate": true}));
    let alone = |at: usize| SIGHT.vectors(&json!({"input": texts[at], "truncate": true})).remove(0);
    for at in [0, 6, 8, 15] {
        check_close(&together[at], &alone(at));
    }
    assert!(together.iter().all(|it| (vector::dot(it, it) - 1.0).abs() < 1e-3));
}

/// Two texts that differ only where neither is read.
#[test]
fn a_text_that_is_too_long_is_cut_only_if_it_may_be() {
    let long = |end: &str| format!("{}{end}", "long ".repeat(36_000));
    for (app, limit) in [(&*TEXT, 256), (&*SIGHT, 8192)] {
        for path in ["/v1/embeddings", "/embed"] {
            let field = if path == "/embed" { "inputs" } else { "input" };
            for truncate in [Value::Null, json!(false)] {
                let body = json!({field: ["short", long("one end")], "truncate": truncate});
                check(app, path, &body, 422, "input_too_long", Some(&format!("{field}[1]")));
                let (_, answer) = app.post(path, &body);
                let message = answer["error"]["message"].as_str().expect("a message").to_owned();
                assert!(message.contains(&limit.to_string()) && message.contains("360"), "{message}");
            }
        }
        let answer = app.answer("/v1/embeddings", &json!({"input": ["short", long("one end")], "truncate": true}));
        let (short, cut) = (&answer["data"][0], &answer["data"][1]);
        assert_eq!((&short["truncated"], &short["tokens"]), (&json!(false), &short["total_tokens"]));
        assert_eq!((&cut["truncated"], &cut["tokens"]), (&json!(true), &json!(limit)));
        assert!(cut["total_tokens"].as_u64().is_some_and(|it| it > 36_000));
        let other = app.answer("/v1/embeddings", &json!({"input": long("another end"), "truncate": true}));
        check_close(&floats(&other["data"][0]["embedding"]), &floats(&cut["embedding"]));
    }
    assert_eq!(TEXT.post("/embed", json!({"inputs": long("end"), "truncate": true})).0, 200);
}

/// An error, by its status, its code and its param.
#[track_caller]
fn check(app: &App, path: &str, body: &Value, status: u16, code: &str, param: Option<&str>) {
    check_raw(app, path, &body.to_string(), status, code, param);
}

#[track_caller]
fn check_raw(app: &App, path: &str, body: &str, status: u16, code: &str, param: Option<&str>) {
    let (found, answer) = app.post(path, body);
    let shown: String = body.chars().take(200).collect();
    let error = &answer["error"];
    assert_eq!(
        (found, error["code"].as_str(), error["param"].as_str()),
        (status, Some(code), param),
        "{shown}: {answer}"
    );
    let message = error["message"].as_str().expect("a message");
    assert!(!message.is_empty() && !message.contains('\n') && message.len() < 600, "{message}");
    assert_eq!(error.as_object().expect("an object").len(), 4, "{answer}");
}

#[track_caller]
fn check_v1(body: Value, status: u16, code: &str, param: &str) {
    check(&TEXT, "/v1/embeddings", &body, status, code, Some(param));
}

#[test]
fn an_empty_input_is_named() {
    for blank in ["", " ", "\n\n", "\t\u{a0}\u{3000}", "\u{200b}\0\u{feff}"] {
        check_v1(json!({"input": blank}), 400, "input_empty", "input");
        check_v1(json!({"input": ["a", blank]}), 400, "input_empty", "input[1]");
        check_v1(json!({"inputs": [{"text": "a"}, {"text": blank}]}), 400, "input_empty", "inputs[1]");
        check_v1(json!({"messages": [{"role": "user", "content": blank}]}), 400, "input_empty", "messages[0].content");
        check(&TEXT, "/embed", &json!({"inputs": blank}), 400, "input_empty", Some("inputs"));
        check(&TEXT, "/embed", &json!({"inputs": ["a", "b", blank]}), 400, "input_empty", Some("inputs[2]"));
        let similar = |source: &str, other: &str| json!({"inputs": {"source_sentence": source, "sentences": [other]}});
        check(&TEXT, "/similarity", &similar(blank, "a"), 400, "input_empty", Some("inputs.source_sentence"));
        check(&TEXT, "/similarity", &similar("a", blank), 400, "input_empty", Some("inputs.sentences[0]"));
        check(&TEXT, "/rerank", &json!({"query": blank, "texts": ["a"]}), 400, "input_empty", Some("query"));
        check(&TEXT, "/rerank", &json!({"query": "a", "texts": ["a", blank]}), 400, "input_empty", Some("texts[1]"));
    }
    check_v1(json!({"input": []}), 400, "input_empty", "input");
    check_v1(json!({"input": [[]]}), 400, "input_empty", "input[0]");
    check_v1(json!({"inputs": []}), 400, "input_empty", "inputs");
    check_v1(json!({"inputs": [{}]}), 400, "input_empty", "inputs[0]");
    check_v1(json!({"inputs": [{"images": []}]}), 400, "input_empty", "inputs[0]");
    check_v1(json!({"messages": []}), 400, "input_empty", "messages");
    check_v1(json!({"messages": [{"role": "user", "content": []}]}), 400, "input_empty", "messages[0].content");
    check(&TEXT, "/embed", &json!({"inputs": []}), 400, "input_empty", Some("inputs"));
    let none = json!({"inputs": {"source_sentence": "a", "sentences": []}});
    check(&TEXT, "/similarity", &none, 400, "input_empty", Some("inputs.sentences"));
    check(&TEXT, "/rerank", &json!({"query": "a", "texts": []}), 400, "input_empty", Some("texts"));
}

#[test]
fn a_body_that_is_none_is_refused() {
    for path in ["/v1/embeddings", "/embed", "/similarity", "/rerank"] {
        check_raw(&TEXT, path, "", 400, "empty", None);
        check_raw(&TEXT, path, "{", 400, "invalid_json", None);
        check_raw(&TEXT, path, "[]", 422, "invalid_field", None);
        check(&TEXT, path, &json!({"input_": "a"}), 422, "unknown_field", Some("input_"));
        let unmarked = request("POST", path, None, Body::from("{}"));
        assert_eq!(TEXT.send(unmarked).0, 415, "{path}");
        assert_eq!(TEXT.get(path).0, 405, "{path}");
    }
}

#[test]
fn exactly_one_form_is_taken() {
    check_v1(json!({}), 422, "missing_field", "input");
    check_v1(json!({"model": "all-MiniLM-L6-v2"}), 422, "missing_field", "input");
    check_v1(json!({"input": null}), 422, "missing_field", "input");
    check_v1(json!({"input": "a", "inputs": [{"text": "a"}]}), 422, "conflicting_fields", "inputs");
    let messages = json!([{"role": "user", "content": "a"}]);
    check_v1(json!({"input": "a", "messages": messages}), 422, "conflicting_fields", "messages");
    check_v1(json!({"inputs": [{"text": "a"}], "messages": messages}), 422, "conflicting_fields", "inputs");
    assert_eq!(TEXT.vectors(&json!({"input": null, "inputs": [{"text": "a"}]})).len(), 1);
}

#[test]
fn a_list_of_parts_is_no_list_of_texts() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": data_url(SHOT)}}]);
    for app in [&*TEXT, &*SIGHT] {
        check(app, "/v1/embeddings", &json!({"input": parts}), 422, "invalid_field", Some("input[0]"));
        check(app, "/embed", &json!({"inputs": parts}), 422, "invalid_field", Some("inputs[0]"));
        let (_, answer) = app.post("/v1/embeddings", json!({"input": parts}));
        let message = answer["error"]["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("`inputs`") && message.contains("`messages`"), "{message}");
        check(app, "/v1/embeddings", &json!({"inputs": parts}), 422, "unknown_field", Some("inputs[0].type"));
    }
    check_v1(json!({"input": {"text": "a"}}), 422, "invalid_field", "input");
    check_v1(json!({"input": ["a", 5]}), 422, "invalid_field", "input[1]");
    check_v1(json!({"input": ["a", null]}), 422, "invalid_field", "input[1]");
    check_v1(json!({"input": 5}), 422, "invalid_field", "input");
}

#[test]
fn a_token_that_is_none_is_named() {
    check_v1(json!({"input": [101, 4_000_000]}), 422, "token_unknown", "input[1]");
    check_v1(json!({"input": [[101], [7592, 4_000_000]]}), 422, "token_unknown", "input[1][1]");
    check_v1(json!({"input": [-1]}), 422, "invalid_field", "input[0]");
    check_v1(json!({"input": [1.5]}), 422, "invalid_field", "input[0]");
    check_v1(json!({"input": [5_000_000_000u64]}), 422, "invalid_field", "input[0]");
    check(&TEXT, "/embed", &json!({"inputs": [[4_000_000]]}), 422, "token_unknown", Some("inputs[0][0]"));
    let many = vec![7592; (1 << 17) + 1];
    check_v1(json!({"input": [many, many]}), 413, "text_too_large", "input");
    check(&TEXT, "/embed", &json!({"inputs": [many, many]}), 413, "text_too_large", Some("inputs"));
}

#[test]
fn options_are_done_or_refused() {
    let with = |field: &str, value: Value| json!({"input": "a", field: value});
    check_v1(with("model", json!("text-embedding-3-small")), 404, "model_not_found", "model");
    check_v1(with("model", json!("")), 404, "model_not_found", "model");
    check_v1(with("model", json!(5)), 422, "invalid_field", "model");
    check_v1(with("encoding_format", json!("int8")), 422, "invalid_field", "encoding_format");
    check_v1(with("truncate", json!("yes")), 422, "invalid_field", "truncate");
    for dimensions in [0u64, 1, 383, 385, 1 << 40] {
        check_v1(with("dimensions", json!(dimensions)), 422, "dimensions_unsupported", "dimensions");
    }
    check_v1(with("dimensions", json!(-1)), 422, "invalid_field", "dimensions");
    check_v1(with("dimensions", json!(1.5)), 422, "invalid_field", "dimensions");
    check_v1(with("dimensions", json!("64")), 422, "invalid_field", "dimensions");
    check_v1(with("continue_final_message", json!(true)), 422, "option_unsupported", "continue_final_message");
    check_v1(with("truncate_prompt_tokens", json!(5)), 422, "unknown_field", "truncate_prompt_tokens");
    for (field, value) in [("dimensions", json!(384)), ("user", json!("u")), ("model", Value::Null)] {
        assert_eq!(TEXT.vectors(&with(field, value)).len(), 1);
    }
    let (_, answer) = TEXT.post("/v1/embeddings", with("model", json!("other")));
    assert!(answer["error"]["message"].as_str().is_some_and(|it| it.contains("all-MiniLM-L6-v2")), "{answer}");
}

#[test]
fn options_of_text_embeddings_inference_are_done_or_refused() {
    let refused = |path: &str, body: Value, param: &str| {
        check(&TEXT, path, &body, 422, "option_unsupported", Some(param));
    };
    refused("/embed", json!({"inputs": "a", "normalize": false}), "normalize");
    refused("/embed", json!({"inputs": "a", "prompt_name": "query"}), "prompt_name");
    for left in ["left", "Left"] {
        refused("/embed", json!({"inputs": "a", "truncation_direction": left}), "truncation_direction");
        let parameters = json!({"truncation_direction": left});
        let inputs = json!({"source_sentence": "a", "sentences": ["b"]});
        let param = "parameters.truncation_direction";
        refused("/similarity", json!({"inputs": inputs, "parameters": parameters}), param);
        refused("/rerank", json!({"query": "a", "texts": ["b"], "truncation_direction": left}), "truncation_direction");
    }
    check(&TEXT, "/embed", &json!({"inputs": "a", "dimensions": 5}), 422, "dimensions_unsupported", Some("dimensions"));
    check(
        &TEXT,
        "/embed",
        &json!({"inputs": "a", "truncation_direction": "up"}),
        422,
        "invalid_field",
        Some("truncation_direction"),
    );
    let all = json!({"inputs": "a", "truncate": null, "truncation_direction": "right", "normalize": true,
                     "dimensions": 384, "prompt_name": null});
    assert_eq!(TEXT.answer("/embed", &all).as_array().expect("a list").len(), 1);
    // What `huggingface_hub` sends.
    let capital = json!({"inputs": "a", "truncate": true, "truncation_direction": "Right", "normalize": true});
    assert_eq!(TEXT.answer("/embed", &capital).as_array().expect("a list").len(), 1);
}

#[test]
fn a_batch_has_a_limit() {
    let texts = |count: usize| vec!["a"; count];
    assert_eq!(TEXT.vectors(&json!({"input": texts(MAX_BATCH)})).len(), MAX_BATCH);
    let too_many = texts(MAX_BATCH + 1);
    check_v1(json!({"input": too_many}), 413, "batch_too_large", "input[20]");
    let items = vec![json!({"text": "a"}); MAX_BATCH + 1];
    check_v1(json!({"inputs": items}), 413, "batch_too_large", "inputs[20]");
    check(&TEXT, "/embed", &json!({"inputs": too_many}), 413, "batch_too_large", Some("inputs[20]"));
    assert_eq!(TEXT.post("/rerank", json!({"query": "a", "texts": texts(MAX_BATCH)})).0, 200);
    check(&TEXT, "/rerank", &json!({"query": "a", "texts": too_many}), 413, "batch_too_large", Some("texts[20]"));
    let similar = json!({"inputs": {"source_sentence": "a", "sentences": too_many}});
    check(&TEXT, "/similarity", &similar, 413, "batch_too_large", Some("inputs.sentences[20]"));
}

#[test]
fn similarity_is_the_cosine() {
    let texts = ["a red car", "the red automobile", "how to bake bread", "a red car"];
    let vectors = TEXT.vectors(&json!({"input": texts}));
    let expected: Vec<f32> = vectors[1..].iter().map(|it| vector::dot(&vectors[0], it)).collect();
    let inputs = json!({"source_sentence": texts[0], "sentences": texts[1..]});
    for body in [
        json!({"inputs": inputs}),
        json!({"inputs": inputs, "parameters": {}}),
        json!({"inputs": inputs, "parameters": {"truncate": true, "truncation_direction": "Right", "prompt_name": null}}),
        json!({"inputs": inputs, "parameters": null}),
    ] {
        check_close(&floats(&TEXT.answer("/similarity", &body)), &expected);
    }
    assert!(expected[0] > expected[1] && (expected[2] - 1.0).abs() < 1e-5, "{expected:?}");
    check(
        &TEXT,
        "/similarity",
        &json!({"inputs": {"sentences": ["a"]}}),
        422,
        "missing_field",
        Some("inputs.source_sentence"),
    );
    check(&TEXT, "/similarity", &json!({"inputs": ["a"]}), 422, "invalid_field", Some("inputs"));
    let long = json!({"inputs": {"source_sentence": "a", "sentences": ["b", "long ".repeat(300)]}});
    check(&TEXT, "/similarity", &long, 422, "input_too_long", Some("inputs.sentences[1]"));
}

#[test]
fn rerank_gives_all_texts_by_their_cosine() {
    let texts = ["how to bake bread", "the red automobile", "a red car", "the red automobile"];
    let vectors = TEXT.vectors(&json!({"input": ["a red car", texts[0], texts[1], texts[2], texts[3]]}));
    for raw_scores in [Value::Null, json!(true), json!(false)] {
        let body = json!({"query": "a red car", "texts": texts, "raw_scores": raw_scores});
        let ranked = TEXT.answer("/rerank", &body);
        let ranked = ranked.as_array().expect("a list");
        // Equal ones in the order of the request.
        let order: Vec<_> = ranked.iter().map(|it| it["index"].as_u64().expect("a number")).collect();
        assert_eq!(order, [2, 1, 3, 0]);
        for rank in ranked {
            let at = rank["index"].as_u64().expect("a number") as usize;
            check_close(
                &[rank["score"].as_f64().expect("a number") as f32],
                &[vector::dot(&vectors[0], &vectors[at + 1])],
            );
            assert_eq!(rank.as_object().expect("an object").len(), 2, "{rank}");
        }
    }
    let body = json!({"query": "a red car", "texts": texts, "return_text": true, "truncate": true});
    for rank in TEXT.answer("/rerank", &body).as_array().expect("a list") {
        assert_eq!(rank["text"], texts[rank["index"].as_u64().expect("a number") as usize]);
    }
    let long = json!({"query": "long ".repeat(300), "texts": ["b"]});
    check(&TEXT, "/rerank", &long, 422, "input_too_long", Some("query"));
    check(&TEXT, "/rerank", &json!({"query": "a"}), 422, "missing_field", Some("texts"));
    check(&TEXT, "/rerank", &json!({"query": "a", "documents": ["b"]}), 422, "unknown_field", Some("documents"));
}

#[test]
fn what_is_served_is_told() {
    let (status, info) = TEXT.get("/info");
    assert_eq!((status, &info["model_id"], &info["max_input_length"]), (200, &json!("all-MiniLM-L6-v2"), &json!(256)));
    assert_eq!((&info["max_client_batch_size"], &info["auto_truncate"]), (&json!(MAX_BATCH), &json!(false)));
    assert_eq!(
        (&info["model_type"], &info["model_dtype"]),
        (&json!({"embedding": {"pooling": "mean"}}), &json!("float32"))
    );
    let (_, models) = TEXT.get("/v1/models");
    assert_eq!((&models["object"], models["data"].as_array().map(Vec::len)), (&json!("list"), Some(1)));
    let model = &models["data"][0];
    assert_eq!(
        (&model["id"], &model["object"], &model["dimensions"]),
        (&json!("all-MiniLM-L6-v2"), &json!("model"), &json!(384))
    );
    assert_eq!(TEXT.get("/v1/models/all-MiniLM-L6-v2"), (200, model.clone()));
    let (status, answer) = TEXT.get("/v1/models/gpt-4");
    assert_eq!(
        (status, &answer["error"]["code"], &answer["error"]["param"]),
        (404, &json!("model_not_found"), &json!("id"))
    );
    assert_eq!(TEXT.get("/v1/models/%ff").0, 400);
    assert_eq!(SIGHT.get("/info").1["model_type"], json!({"embedding": {"pooling": "last_token"}}));
}

#[test]
fn a_model_of_the_hub_goes_by_its_whole_name_or_the_last_of_it() {
    let app = App::new(Box::new(Stand::new("owner/name")), &[]);
    for name in ["owner/name", "name"] {
        assert_eq!(app.vectors(&json!({"input": "a", "model": name})).len(), 1);
    }
    for path in ["/v1/models/owner/name", "/v1/models/owner%2Fname", "/v1/models/name"] {
        assert_eq!(app.get(path).1["id"], "owner/name", "{path}");
    }
    for name in ["owner", "owner/", "other/name", "/name"] {
        let body = json!({"input": "a", "model": name});
        check(&app, "/v1/embeddings", &body, 404, "model_not_found", Some("model"));
    }
    assert_eq!(app.get("/v1/models/other/name").0, 404);
}

#[test]
fn a_model_that_cannot_see_says_so() {
    let images = json!([{"data": data_url(SHOT)}]);
    check_v1(
        json!({"inputs": [{"text": "a"}, {"text": "a", "images": images}]}),
        422,
        "images_unsupported",
        "inputs[1].images[0].data",
    );
    let content = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": data_url(SHOT)}}]);
    let messages = json!([{"role": "user", "content": content}]);
    check_v1(json!({"messages": messages}), 422, "images_unsupported", "messages[0].content[1].image_url.url");
    check_v1(
        json!({"inputs": [{"text": "a", "instruction": "Find it."}]}),
        422,
        "instruction_unsupported",
        "inputs[0].instruction",
    );
    let system = json!([{"role": "system", "content": "Find it."}, {"role": "user", "content": "a"}]);
    check_v1(json!({"messages": system}), 422, "instruction_unsupported", "messages[0].content");
}

/// The vector that the encoder itself gives.
fn expected(instruction: Option<&str>, text: Option<&str>, pictures: &[&str]) -> Vec<f32> {
    static ENCODER: LazyLock<Box<dyn Encoder>> = LazyLock::new(seeing);
    let image = |name: &&str| IssueImage { name: (*name).to_owned(), bytes: picture(name) };
    let input = Input {
        instruction: instruction.map(str::to_owned),
        text: text.map(str::to_owned),
        images: pictures.iter().map(image).collect(),
        ..Input::default()
    };
    let mut embedded = ENCODER.embed_inputs(&[input], &|_, _| ());
    embedded.remove(0).expect("a vector").vector
}

#[test]
fn a_text_and_its_pictures_are_one_vector_in_every_form() {
    let two = expected(None, Some("a tooltip"), &[SHOT, GREY]);
    let written = |name: &str| BASE64_STANDARD.encode(picture(name));
    let url = data_url;
    let forms = [
        json!([{"data": written(SHOT)}, {"data": url(GREY)}]),
        json!([{"url": url(SHOT)}, {"url": url(GREY)}]),
        json!([written(SHOT), url(GREY)]),
    ];
    for images in forms {
        check_all_close(
            &SIGHT.vectors(&json!({"inputs": [{"text": "a tooltip", "images": images}]})),
            std::slice::from_ref(&two),
        );
    }
    let image = |url: Value| json!({"type": "image_url", "image_url": url});
    let text = |text: &str| json!({"type": "text", "text": text});
    let contents = [
        json!([
            image(json!({"url": url(SHOT)})),
            image(json!({"url": url(GREY), "detail": "auto"})),
            text("a tooltip")
        ]),
        json!([text("a too"), image(json!(url(SHOT))), text("ltip"), image(json!({"url": url(GREY)}))]),
    ];
    for content in contents {
        let body = json!({"messages": [{"role": "user", "content": content}]});
        let answer = SIGHT.answer("/v1/embeddings", &body);
        check_close(&floats(&answer["data"][0]["embedding"]), &two);
        let (usage, row) = (&answer["usage"], &answer["data"][0]);
        assert!(
            usage["image_tokens"].as_u64().is_some_and(|it| it > 0) && usage["image_tokens"] == row["image_tokens"]
        );
        assert!(
            usage["prompt_tokens"].as_u64() > usage["image_tokens"].as_u64() && usage["prompt_tokens"] == row["tokens"]
        );
    }
    let alone = json!({"inputs": [{"images": [url(SHOT)]}, {"text": "a tooltip"}]});
    check_all_close(&SIGHT.vectors(&alone), &[expected(None, None, &[SHOT]), expected(None, Some("a tooltip"), &[])]);
}

#[test]
fn an_instruction_is_the_systems_message() {
    let instructed = expected(Some("Find the code."), Some("a tooltip"), &[]);
    let inputs = json!([{"text": "a tooltip", "instruction": "Find the code."}]);
    check_close(&SIGHT.vectors(&json!({"inputs": inputs}))[0], &instructed);
    let content = |text: &str| json!([{"type": "text", "text": text}]);
    let messages = json!([
        {"role": "system", "content": content("Find the code.")},
        {"role": "user", "content": content("a tooltip")},
        {"role": "assistant", "content": content("")},
    ]);
    // As vLLM's own example for this model sends it.
    let body = json!({"messages": messages, "continue_final_message": true, "add_special_tokens": true});
    check_close(&SIGHT.vectors(&body)[0], &instructed);
}

#[track_caller]
fn check_messages(messages: Value, status: u16, code: &str, param: &str) {
    check(&SIGHT, "/v1/embeddings", &json!({"messages": messages}), status, code, Some(param));
}

#[track_caller]
fn check_part(part: Value, param: &str, code: &str) {
    check_messages(json!([{"role": "user", "content": [{"type": "text", "text": "a"}, part]}]), 422, code, param);
}

/// A picture that is not understood is never left out.
#[test]
fn a_part_that_is_none_is_refused() {
    let at = |rest: &str| format!("messages[0].content[1]{rest}");
    check_part(json!({"type": "image", "url": data_url(SHOT)}), &at(".type"), "invalid_field");
    check_part(json!({"type": "image_url", "url": data_url(SHOT)}), &at(".url"), "unknown_field");
    check_part(json!({"type": "image_url"}), &at(""), "invalid_field");
    check_part(json!({"type": "image_url", "text": "a"}), &at(""), "invalid_field");
    check_part(json!({"type": "text", "text": "a", "image_url": data_url(SHOT)}), &at(""), "invalid_field");
    check_part(json!({"type": "text"}), &at(""), "invalid_field");
    check_part(json!({"type": "input_text", "text": "a"}), &at(".type"), "invalid_field");
    check_part(json!({"text": "a"}), &at(".type"), "missing_field");
    check_part(json!({"type": "image_url", "image_url": {}}), &at(".image_url.url"), "missing_field");
    check_part(json!({"type": "image_url", "image_url": 5}), &at(".image_url"), "invalid_field");
    check_part(
        json!({"type": "image_url", "image_url": {"url": "x", "detail": "low"}}),
        &at(".image_url.detail"),
        "invalid_field",
    );
    check_part(
        json!({"type": "image_url", "image_url": {"url": "x", "size": 5}}),
        &at(".image_url.size"),
        "unknown_field",
    );
    check_part(json!("a"), &at(""), "invalid_field");
}

#[test]
fn a_conversation_is_of_one_who_asks() {
    let user = json!({"role": "user", "content": "a"});
    check_messages(json!([user, user]), 422, "messages_unsupported", "messages[1]");
    check_messages(json!([{"role": "system", "content": "a"}]), 422, "messages_unsupported", "messages");
    check_messages(json!([user, {"role": "system", "content": "a"}]), 422, "messages_unsupported", "messages[1]");
    check_messages(json!([user, {"role": "assistant", "content": "yes"}]), 422, "messages_unsupported", "messages[1]");
    check_messages(json!([{"role": "assistant", "content": ""}, user]), 422, "messages_unsupported", "messages[0]");
    let image = json!([{"type": "image_url", "image_url": data_url(SHOT)}]);
    check_messages(json!([{"role": "system", "content": image}, user]), 422, "messages_unsupported", "messages[0]");
    check_messages(json!([{"role": "tool", "content": "a"}]), 422, "invalid_field", "messages[0].role");
    check_messages(json!([{"role": "user"}]), 422, "missing_field", "messages[0].content");
    check_messages(json!([{"role": "user", "content": null}]), 422, "invalid_field", "messages[0].content");
    check_messages(json!([{"role": "user", "content": "a", "name": "n"}]), 422, "unknown_field", "messages[0].name");
    check_messages(json!("a"), 422, "invalid_field", "messages");
    let off = json!({"messages": [user], "add_special_tokens": false});
    check(&SIGHT, "/v1/embeddings", &off, 422, "option_unsupported", Some("add_special_tokens"));
}

/// What becomes of one picture in each of the forms.
#[track_caller]
fn check_picture(app: &App, data: &str, status: u16, code: &str) {
    let body = json!({"inputs": [{"text": "a"}, {"text": "b", "images": [data_url(SHOT), {"data": data}]}]});
    check(app, "/v1/embeddings", &body, status, code, Some("inputs[1].images[1].data"));
}

#[test]
fn a_bad_picture_is_named() {
    let encoded = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
    let jpeg = picture("images/baseline_444.jpg");
    check_picture(&SIGHT, "", 400, "image_empty");
    check_picture(&SIGHT, "no, base64", 400, "image_base64");
    check_picture(&SIGHT, "data:image/png;base64", 400, "image_data_url");
    check_picture(&SIGHT, "data:text/plain;base64,AAAA", 400, "image_data_url");
    check_picture(&SIGHT, "data:image/png,AAAA", 400, "image_data_url");
    check_picture(&SIGHT, &encoded(b"text"), 400, "image_format");
    check_picture(&SIGHT, &encoded(&jpeg[..jpeg.len() - 128]), 400, "image_damaged");
    check_picture(&SIGHT, &encoded(&vec![0; (1 << 20) + 1]), 413, "image_too_large");
    let content = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]);
    check_messages(
        json!([{"role": "user", "content": content}]),
        400,
        "image_data_url",
        "messages[0].content[0].image_url.url",
    );
    let content = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "data:,"}]);
    check_messages(
        json!([{"role": "user", "content": content}]),
        400,
        "image_data_url",
        "messages[0].content[1].image_url",
    );
    // A picture of one pixel is one.
    let tiny = json!({"inputs": [{"images": [encoded(&picture("images/one_pixel.png"))]}]});
    assert_eq!(SIGHT.vectors(&tiny).len(), 1);
}

#[test]
fn a_picture_in_another_shape_is_refused() {
    let check_image = |image: Value, code: &str, param: &str| {
        check(&SIGHT, "/v1/embeddings", &json!({"inputs": [{"images": [image]}]}), 422, code, Some(param));
    };
    check_image(json!({"type": "image", "url": "x"}), "unknown_field", "inputs[0].images[0].type");
    check_image(json!({"image_url": "x"}), "unknown_field", "inputs[0].images[0].image_url");
    check_image(json!({}), "invalid_field", "inputs[0].images[0]");
    check_image(json!({"data": "x", "url": "x"}), "invalid_field", "inputs[0].images[0]");
    check_image(json!(5), "invalid_field", "inputs[0].images[0]");
    check_image(json!({"data": 5}), "invalid_field", "inputs[0].images[0].data");
    let body = json!({"inputs": [{"text": "a", "image": "x"}]});
    check(&SIGHT, "/v1/embeddings", &body, 422, "unknown_field", Some("inputs[0].image"));
    check(&SIGHT, "/v1/embeddings", &json!({"input": "a", "images": []}), 422, "unknown_field", Some("images"));
}

#[test]
fn a_picture_that_the_model_would_not_see_is_refused() {
    let body = |count: usize| json!({"inputs": [{"text": "a", "images": vec![data_url(SHOT); count]}]});
    assert_eq!(SIGHT.vectors(&body(2)).len(), 1);
    check(&SIGHT, "/v1/embeddings", &body(3), 422, "too_many_images", Some("inputs[0].images[2]"));
    let content = vec![json!({"type": "image_url", "image_url": {"url": data_url(SHOT)}}); 3];
    check_messages(
        json!([{"role": "user", "content": content}]),
        422,
        "too_many_images",
        "messages[0].content[2].image_url.url",
    );
}

#[test]
fn pictures_by_url_are_off_and_guarded_when_on() {
    let body = |url: &str| json!({"inputs": [{"images": [{"url": url}]}]});
    let param = Some("inputs[0].images[0].url");
    for url in ["http://169.254.169.254/latest", "http://[::1]/", "https://example.org/a.png", "file:///etc/passwd"] {
        check(&SIGHT, "/v1/embeddings", &body(url), 422, "images_by_url_off", param);
    }
    let app = App::new(Box::new(Stand::new("m")), &["localhost", "127.0.0.1", "[::1]"]);
    for url in ["http://localhost/", "http://127.0.0.1/", "http://[::1]/", "http://2130706433/", "http://0x7f.1/"] {
        check(&app, "/v1/embeddings", &body(url), 422, "image_address", param);
    }
    check(&app, "/v1/embeddings", &body("http://169.254.169.254/"), 422, "image_host", param);
    check(&app, "/v1/embeddings", &body("file:///etc/passwd"), 422, "image_url", param);
    let content = json!([{"type": "image_url", "image_url": {"url": "http://localhost/"}}]);
    let messages = json!({"messages": [{"role": "user", "content": content}]});
    check(&app, "/v1/embeddings", &messages, 422, "image_address", Some("messages[0].content[0].image_url.url"));
}

#[test]
fn a_shorter_vector_is_the_beginning_of_the_whole_one() {
    let whole = SIGHT.vectors(&json!({"input": "a tooltip"})).remove(0);
    for dimensions in [1, 16, whole.len() - 1, whole.len()] {
        let mut expected = whole[..dimensions].to_vec();
        vector::normalise(&mut expected);
        check_close(&SIGHT.vectors(&json!({"input": "a tooltip", "dimensions": dimensions}))[0], &expected);
        let embedded = SIGHT.answer("/embed", &json!({"inputs": "a tooltip", "dimensions": dimensions}));
        check_close(&floats(&embedded[0]), &expected);
    }
    for dimensions in [0, whole.len() + 1] {
        let body = json!({"input": "a", "dimensions": dimensions});
        check(&SIGHT, "/v1/embeddings", &body, 422, "dimensions_unsupported", Some("dimensions"));
    }
}

/// A text that names the template's tokens is text, and the picture beside it keeps its place.
#[test]
fn a_text_can_name_the_tokens_of_pictures() {
    let text = "<|im_end|>\n<|im_start|>system\n<|vision_start|><|image_pad|><|vision_end|>";
    let body = json!({"inputs": [{"text": text, "images": [data_url(SHOT)]}]});
    check_close(&SIGHT.vectors(&body)[0], &expected(None, Some(text), &[SHOT]));
}

/// Sees three pictures, gives every input the same vector, and counts.
struct Stand {
    info: ModelInfo,
    embedded: Arc<AtomicUsize>,
}

impl Stand {
    fn new(id: &str) -> Self {
        let info = ModelInfo { images: 3, ..ModelInfo::of_text(id, 2, 64) };
        Stand { info, embedded: Arc::default() }
    }
}

impl Encoder for Stand {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn fingerprint(&self) -> &str {
        "stand-in"
    }

    fn windows(&self, _: &str, _: &str) -> Result<Vec<Window>, EncoderError> {
        Ok(Vec::new())
    }

    fn embed(&self, windows: &[&Window], _: &Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        Ok(windows.iter().map(|_| vec![1.0, 0.0]).collect())
    }

    fn query(&self, _: &IssueReport) -> Result<QueryEmbedding, EncoderError> {
        Ok(QueryEmbedding::default())
    }

    fn embed_inputs(&self, inputs: &[Input], _: &Progress) -> Vec<Result<InputEmbedding, EncoderError>> {
        self.embedded.fetch_add(inputs.len(), Ordering::Relaxed);
        let one =
            |_: &Input| Ok(InputEmbedding { vector: vec![1.0, 0.0], tokens: 1, image_tokens: 0, truncated_from: None });
        inputs.iter().map(one).collect()
    }

    fn decode(&self, _: &[u32]) -> Result<String, EncoderError> {
        Ok("text".to_owned())
    }
}

#[test]
fn nothing_is_computed_for_a_request_with_a_bad_picture() {
    let stand = Stand::new("m");
    let embedded = Arc::clone(&stand.embedded);
    let app = App::new(Box::new(stand), &[]);
    let before = embedded.load(Ordering::Relaxed);
    let good = json!({"text": "a", "images": [data_url(SHOT)]});
    let bad = json!({"text": "a", "images": [data_url(SHOT), BASE64_STANDARD.encode(&picture(SHOT)[..60])]});
    let body = json!({"inputs": [good, good, bad, good]});
    check(&app, "/v1/embeddings", &body, 400, "image_damaged", Some("inputs[2].images[1]"));
    assert_eq!(embedded.load(Ordering::Relaxed), before);
    assert_eq!(app.vectors(&json!({"inputs": [good, good]})).len(), 2);
    assert_eq!(embedded.load(Ordering::Relaxed), before + 2);
}

#[test]
fn the_documentation_is_whole() {
    let (status, api) = TEXT.get("/openapi.json");
    assert_eq!(status, 200);
    let text = api.to_string();
    for path in ["/v1/embeddings", "/embed", "/similarity", "/rerank"] {
        let responses = api["paths"][path]["post"]["responses"].as_object().expect("responses");
        for status in ["200", "400", "401", "404", "413", "415", "422", "429", "500", "503"] {
            assert!(responses.contains_key(status), "{path}: {status}");
        }
    }
    for path in ["/info", "/v1/models", "/v1/models/{id}"] {
        assert!(api["paths"][path]["get"].is_object(), "{path}");
    }
    let schemas = api["components"]["schemas"].as_object().expect("schemas");
    for reference in text.split("\"$ref\":\"").skip(1) {
        let name = reference.split('"').next().unwrap_or_default();
        let name = name.strip_prefix("#/components/schemas/").unwrap_or_default();
        assert!(schemas.contains_key(name), "{name}");
    }
}
