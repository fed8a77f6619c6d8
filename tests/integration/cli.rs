//! The built program as a user runs it: what it prints, where, and with which exit code.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The program with an environment of its own.
fn sightline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sightline"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    sightline(arguments).output().expect("the program runs")
}

fn run_with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = sightline(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("the program reads its input");
    child.wait_with_output().expect("the program ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

fn located(arguments: &[&str]) -> Value {
    let repository = fixture("repository");
    let issue = fixture("issue.md");
    let base =
        ["locate", "--json", "--repo", repository.to_str().expect("UTF-8"), "--issue", issue.to_str().expect("UTF-8")];
    let output = run(&[&base, arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// A failure says one line, on standard error alone, with every one of `expected` in it.
#[track_caller]
fn check_failure(output: &Output, code: i32, expected: &[&str]) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(output.stdout.is_empty(), "standard output: {}", text(&output.stdout));
    assert!(message.starts_with("error: ") && message.trim_end().lines().count() == 1, "not one line: {message}");
    for part in expected {
        assert!(message.contains(part), "`{message}` lacks `{part}`");
    }
}

fn column<'a>(hits: &'a Value, key: &str) -> Vec<&'a str> {
    hits.as_array().expect("a list").iter().map(|it| it[key].as_str().expect("a text")).collect()
}

#[test]
fn an_issue_leads_to_its_files_and_functions() {
    for retriever in ["bm25", "dense", "hybrid"] {
        let answer = located(&["--retriever", retriever]);
        let files = column(&answer["files"], "path");
        assert!(files[..3].contains(&"src/discounts.py"), "{retriever}: {files:?}");
        let functions = column(&answer["functions"], "function");
        assert!(functions[..5].contains(&"discount_of"), "{retriever}: {functions:?}");
    }
}

#[test]
fn hybrid_puts_code_before_tests_and_docs_and_counts_mentions() {
    let answer = located(&[]);
    let files = column(&answer["files"], "path");
    let place = |path: &str| files.iter().position(|it| *it == path).unwrap_or(usize::MAX);
    assert!(place("src/discounts.py") < place("tests/test_discounts.py"), "{files:?}");
    let cart = answer["files"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|it| it["path"] == "src/cart.py")
        .expect("the mentioned file");
    assert!(cart["scores"]["mention"].as_f64().expect("a number") > 0.0);
}

#[test]
fn the_parts_of_a_score_add_up_to_it() {
    let answer = located(&[]);
    for hit in answer["files"].as_array().into_iter().chain(answer["functions"].as_array()).flatten() {
        let scores = &hit["scores"];
        let sum: f64 =
            ["lexical", "mention", "context", "dense"].iter().map(|it| scores[it].as_f64().expect("a number")).sum();
        assert!((sum - hit["score"].as_f64().expect("a number")).abs() < 1e-5, "{hit}");
    }
}

#[test]
fn json_has_the_documented_shape() {
    let answer = located(&["-k", "2", "--explain"]);
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&answer), "files functions index query timings_ms");
    assert_eq!(answer["files"].as_array().expect("a list").len(), 2);
    assert_eq!(keys(&answer["files"][0]), "language lines path rank score scores");
    assert_eq!(keys(&answer["functions"][0]), "end_line function language lines path rank score scores start_line");
    assert_eq!(keys(&answer["query"]), "images mode model retriever tokens tokens_used truncated");
    assert_eq!(answer["index"]["commit"], Value::Null);
    assert_eq!(answer["files"][0]["rank"], 1);
}

#[test]
fn pictures_are_decoded_and_said_to_be_unused() {
    let images = located(&["--retriever", "bm25"])["query"]["images"].clone();
    assert_eq!(images.as_array().expect("a list").len(), 1);
    assert_eq!((&images[0]["name"], &images[0]["used"]), (&Value::from("checkout.png"), &Value::from(false)));
    assert_eq!((&images[0]["width"], &images[0]["height"]), (&Value::from(4), &Value::from(3)));
    assert!(images[0]["reason"].as_str().expect("a reason").contains("text only"));
}

#[test]
fn a_damaged_picture_costs_itself_alone() {
    let damaged = fixture("issue.md");
    let answer = located(&["--retriever", "bm25", "--image", damaged.to_str().expect("UTF-8")]);
    assert!(answer["query"]["images"][0]["reason"].as_str().expect("a reason").contains("format is not known"));
    assert!(!answer["files"].as_array().expect("a list").is_empty());
}

#[test]
fn people_get_aligned_lists_without_colour_in_a_pipe() {
    let (repository, issue) = (fixture("repository"), fixture("issue.md"));
    let arguments = [
        "locate",
        "--repo",
        repository.to_str().expect("UTF-8"),
        "--issue",
        issue.to_str().expect("UTF-8"),
        "--explain",
    ];
    let output = run(&arguments);
    let shown = text(&output.stdout);
    assert!(shown.starts_with("Files\n  1  src/") && shown.contains("\nFunctions\n  1  src/"), "{shown}");
    let names: Vec<usize> =
        shown.lines().filter_map(|it| it.find("discount_of  ").or(it.find("Cart.total  "))).collect();
    assert!(names.len() == 2 && names[0] == names[1], "names are not aligned: {shown}");
    assert!(shown.lines().any(|it| it.starts_with("  ") && it.contains("src/discounts.py:11  ")), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert!(text(&output.stderr).contains("is not used"), "{}", text(&output.stderr));
}

#[test]
fn the_issue_may_come_from_standard_input() {
    let repository = fixture("repository");
    let arguments =
        ["locate", "--json", "--retriever", "bm25", "--repo", repository.to_str().expect("UTF-8"), "--issue", "-"];
    let output = run_with_input(&arguments, "confirmation of an order\r\n\r\nThe Mailer sends nothing.\r\n");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["files"][0]["path"], "src/mail.ts");
    assert_eq!(answer["functions"][0]["function"], "Mailer.confirm");
}

#[test]
fn candidates_are_json_lines_with_what_was_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("node_modules")).expect("a folder");
    std::fs::write(folder.path().join("node_modules/x.js"), "function x() {}").expect("a file");
    std::fs::write(folder.path().join("a.js"), "class A { m() {} }\n").expect("a file");
    let output = run(&["candidates", folder.path().to_str().expect("UTF-8"), "--json"]);
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|it| serde_json::from_str(it).expect("a JSON line")).collect();
    assert_eq!(
        lines[0],
        serde_json::json!({"kind": "file", "path": "a.js", "start_line": 1, "end_line": 1, "language": "JavaScript"})
    );
    assert_eq!(
        lines[1],
        serde_json::json!({"kind": "function", "path": "a.js", "function": "A.m", "start_line": 1, "end_line": 1, "language": "JavaScript"})
    );
    assert_eq!((&lines[2]["kind"], &lines[2]["path"]), (&Value::from("skipped"), &Value::from("node_modules")));
    assert_eq!(lines.len(), 3);
}

#[test]
fn an_empty_repository_gives_empty_lists_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let issue = fixture("issue.md");
    for retriever in ["bm25", "dense", "hybrid"] {
        let arguments = [
            "locate",
            "--json",
            "--retriever",
            retriever,
            "--repo",
            folder.path().to_str().expect("UTF-8"),
            "--issue",
            issue.to_str().expect("UTF-8"),
        ];
        let output = run(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            (&answer["files"], &answer["functions"]),
            (&Value::from(Vec::<Value>::new()), &Value::from(Vec::<Value>::new()))
        );
        assert!(text(&output.stderr).contains("no source files"));
    }
}

#[test]
fn what_cannot_be_read_is_named_with_its_remedy() {
    let repository = fixture("repository");
    let (repository, issue) = (repository.to_str().expect("UTF-8"), fixture("issue.md"));
    let issue = issue.to_str().expect("UTF-8");
    check_failure(
        &run(&["locate", "--repo", "/nowhere/at/all", "--issue", issue]),
        1,
        &["/nowhere/at/all", "check the path"],
    );
    check_failure(&run(&["locate", "--repo", issue, "--issue", issue]), 1, &["issue.md", "not a directory"]);
    check_failure(
        &run(&["locate", "--repo", repository, "--issue", "/nowhere/issue.md"]),
        2,
        &["/nowhere/issue.md", "name a text file"],
    );
    check_failure(&run_with_input(&["locate", "--repo", repository, "--issue", "-"], " \n\n"), 2, &["empty", "title"]);
    check_failure(
        &run(&["locate", "--repo", repository, "--issue", issue, "--image", "/nowhere.png"]),
        2,
        &["/nowhere.png", "--image"],
    );
    check_failure(&run(&["candidates", "/nowhere/at/all"]), 1, &["/nowhere/at/all"]);
}

#[test]
fn an_unknown_revision_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    check_failure(&run(&["candidates", path, "--rev", "v9"]), 1, &["v9", "no git repository"]);
}

#[test]
fn a_damaged_model_is_named_with_its_remedy() {
    let (repository, issue) = (fixture("repository"), fixture("issue.md"));
    let model = tempfile::tempdir().expect("a folder");
    let locate = || {
        let paths = [repository.as_path(), issue.as_path(), model.path()].map(|it| it.to_str().expect("UTF-8"));
        run(&["locate", "--repo", paths[0], "--issue", paths[1], "--model", paths[2]])
    };
    check_failure(&locate(), 1, &["config.json", "model.safetensors"]);
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/all-MiniLM-L6-v2");
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(bundled.join(file), model.path().join(file)).expect("a copy");
    }
    assert!(locate().status.success());
    let weights = std::fs::OpenOptions::new().write(true).open(model.path().join("model.safetensors")).expect("a file");
    weights.set_len(1_000_000).expect("a cut");
    check_failure(&locate(), 1, &["model.safetensors", "damaged", "copy it again"]);
}

#[test]
fn settings_come_from_variables_and_unknown_ones_are_refused() {
    let (repository, issue) = (fixture("repository"), fixture("issue.md"));
    let arguments = [
        "locate",
        "--json",
        "--retriever",
        "bm25",
        "--repo",
        repository.to_str().expect("UTF-8"),
        "--issue",
        issue.to_str().expect("UTF-8"),
    ];
    let output = sightline(&arguments).env("SIGHTLINE_LOCATE_RESULTS", "1").output().expect("the program runs");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["files"].as_array().expect("a list").len(), 1);
    let output = sightline(&arguments).env("SIGHTLINE_LOCATE_RESULT", "1").output().expect("the program runs");
    check_failure(&output, 2, &["SIGHTLINE_LOCATE_RESULT", "default.toml"]);
}

#[test]
fn wrong_usage_exits_with_two() {
    for arguments in [
        &["locate"][..],
        &["locate", "--issue", "x", "-k", "0"],
        &["locate", "--issue", "x", "--retriever", "bm26"],
        &["nonsense"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let many: String = (0..20_000).map(|it| format!("def f{it}(): pass\n")).collect();
    std::fs::write(folder.path().join("many.py"), many).expect("a file");
    let mut child = sightline(&["candidates", folder.path().to_str().expect("UTF-8")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
}
