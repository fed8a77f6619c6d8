//! Answers as text and as JSON.

use serde_json::json;

use super::*;
use crate::retriever::ingest::Changes;
use crate::service::{CacheView, SourceView};

#[track_caller]
fn check(answer: &Answer, text: &str, structured: &Value) {
    assert_eq!(answer.text, text);
    assert_eq!(answer.structured, *structured);
}

fn function(rest: Option<Rest>) -> Found {
    let function = Function { function: "Cart.total".to_owned(), start_line: 3, end_line: 9 };
    Found { path: "src/cart.py".to_owned(), function: Some(function), score: rounded(0.9149), rest }
}

#[test]
fn a_short_answer_is_a_line_a_result() {
    let file = Found { path: "src/cart.py".to_owned(), score: 1.5, ..Found::default() };
    let located = Located { functions: vec![function(None)], files: vec![file], ..Located::default() };
    check(
        &located.answer(),
        "Functions:\n1. src/cart.py:3-9 Cart.total (0.91)\nFiles:\n1. src/cart.py (1.50)",
        &json!({
            "functions": [{"path": "src/cart.py", "function": "Cart.total", "start_line": 3, "end_line": 9, "score": 0.91}],
            "files": [{"path": "src/cart.py", "score": 1.5}],
            "stale": false,
            "notes": [],
        }),
    );
}

#[test]
fn a_full_answer_has_lines_and_parts() {
    let scores = Scores { lexical: 1.0, mention: 0.0, visual: 0.0, context: 0.25, dense: -0.5 };
    let line = Line { line: 4, text: "    return total  ".to_owned() };
    let located = Located { functions: vec![function(Some(Rest { scores, lines: vec![line] }))], ..Located::default() };
    let Answer { text, structured } = located.answer();
    assert_eq!(
        text,
        "Functions:\n1. src/cart.py:3-9 Cart.total (0.91)\n   lexical 1.00, mention 0.00, context 0.25, dense -0.50\n   4|     return total"
    );
    let first = &structured["functions"][0];
    assert_eq!(first["scores"], json!({"lexical": 1.0, "mention": 0.0, "visual": 0.0, "context": 0.25, "dense": -0.5}));
    assert_eq!(first["lines"], json!([{"line": 4, "text": "    return total  "}]));
}

#[test]
fn an_answer_without_results_says_so() {
    let located = Located { notes: vec!["a reason".to_owned()], ..Located::default() };
    assert_eq!(located.answer().text, "Nothing was found.\nNote: a reason");
}

#[test]
fn a_stale_index_says_why_and_what_to_do() {
    let of = |changed: usize, reason: Option<&str>| {
        let changes = Changes { changed: vec!["a.py".to_owned(); changed], ..Changes::default() };
        stale(&Staleness { changes, reason: reason.map(str::to_owned) })
    };
    assert_eq!(of(0, None), None);
    let one = of(1, None).expect("stale");
    assert!(one.contains("(a file has changed") && one.contains("index_repository"), "{one}");
    assert!(of(30, None).expect("stale").contains("(30 files have changed"));
    assert!(of(30, Some("another model")).expect("stale").contains("(another model)"));
}

fn view(name: &str, created: u64) -> RepositoryView {
    RepositoryView {
        repository: name.to_owned(),
        status: Status::Partial,
        stale: true,
        stale_reason: Some("its vectors are of another model".to_owned()),
        source: Some(SourceView { kind: "path", path: Some(format!("/code/{name}")), rev: None }),
        commit: None,
        model: None,
        model_fingerprint: None,
        files: 3,
        functions: 7,
        windows: 10,
        vectors: 4,
        created: Some(created),
        skipped: None,
        skipped_count: 2,
        cache: CacheView::default(),
        progress: None,
        job: None,
        failure: None,
    }
}

#[test]
fn repositories_are_a_line_each_the_newest_first() {
    let views: Vec<RepositoryView> = (0..23).map(|at| view(&format!("r{at}"), at)).collect();
    let Answer { text, structured } = Repositories::of(&views).answer();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 21);
    assert_eq!(
        lines[0],
        "/code/r22: partial, stale, 3 files, 7 functions, 4 of 10 vectors; its vectors are of another model"
    );
    assert_eq!(lines[20], "and 3 more; name one by `path`");
    assert_eq!(
        (structured["more"].as_u64(), structured["repositories"][0]["status"].as_str()),
        (Some(3), Some("partial"))
    );
    assert!(Repositories::of(&[]).answer().text.starts_with("No repository is indexed"));
}

#[test]
fn an_index_that_was_made_is_told_in_numbers() {
    let result = JobResult { files_read: 3, embedded: 6, cached: 1, failed: 0, left: 0, seconds: 1.0 };
    let indexed = Indexed::of(Path::new("/code/r"), &view("r", 1), Some(&result), Duration::from_millis(1260));
    check(
        &indexed.answer(),
        "Indexed /code/r in 1.3 s: 3 files, 7 functions; 4 of 10 vectors, 6 of them new; 2 paths skipped.",
        &json!({
            "path": "/code/r", "seconds": 1.26, "files": 3, "functions": 7, "windows": 10, "vectors": 4, "embedded": 6, "skipped": 2,
        }),
    );
}
