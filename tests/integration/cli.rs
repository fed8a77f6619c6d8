//! The built program as a user runs it: what it prints, where, and with which exit code.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::repository::Repository;

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
    let said: Vec<&str> = message.split([':', ';', '(']).map(str::trim).filter(|it| it.len() > 3).collect();
    for (at, part) in said.iter().enumerate() {
        assert!(!said[..at].contains(part), "`{message}` says `{part}` twice");
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
        let sum: f64 = ["lexical", "mention", "visual", "context", "dense"]
            .iter()
            .map(|it| scores[it].as_f64().expect("a number"))
            .sum();
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
    assert_eq!(
        keys(&answer["query"]),
        "image_tokens images mode model policy retriever tokens tokens_used truncated vce"
    );
    let image = "height name reason used width";
    assert_eq!(keys(&answer["query"]["images"][0]), image);
    let index = "cached_windows commit compared_candidates embedded_windows failed_windows files functions indexed notes skipped stale vectors windows";
    assert_eq!(keys(&answer["index"]), index);
    assert_eq!(keys(&answer["timings_ms"]), "encoder evidence index lexical load query refresh snapshot total");
    assert_eq!(keys(&answer["files"][0]["scores"]), "context dense lexical mention terms visual");
    assert_eq!(keys(&answer["functions"][0]["scores"]), "context dense lexical mention terms visual");
    assert_eq!(keys(&answer["files"][0]["lines"][0]), "line text");
    assert_eq!(keys(&located(&["--retriever", "bm25"])["files"][0]["scores"]), "context dense lexical mention visual");
    assert_eq!(answer["index"]["commit"], Value::Null);
    assert_eq!(answer["files"][0]["rank"], 1);
}

#[test]
fn pictures_are_decoded_and_said_to_be_unused() {
    let images = located(&["--retriever", "bm25", "--mode", "image"])["query"]["images"].clone();
    assert_eq!(images.as_array().expect("a list").len(), 1);
    assert_eq!((&images[0]["name"], &images[0]["used"]), (&Value::from("checkout.png"), &Value::from(false)));
    assert_eq!((&images[0]["width"], &images[0]["height"]), (&Value::from(4), &Value::from(3)));
    assert!(images[0]["reason"].as_str().expect("a reason").contains("text only"));
}

#[test]
fn a_picture_is_unused_for_the_true_reason() {
    for (arguments, reader) in [
        (&["--retriever", "bm25", "--mode", "image"][..], "no encoder was asked"),
        (&["--rerank", "0", "--mode", "image"], "no encoder was asked"),
        (&["--rerank", "4", "--mode", "image"], "the encoder all-MiniLM-L6-v2"),
        (&["--rerank", "0", "--mode", "text"], "the mode `text`"),
        (&["--rerank", "0"], "no text was found in it"),
    ] {
        let answer = located(arguments);
        let reason = answer["query"]["images"][0]["reason"].as_str().expect("a reason").to_owned();
        assert!(reason.contains(reader), "{arguments:?}: {reason}");
    }
}

#[test]
fn pictures_of_an_issue_from_standard_input_are_reported() {
    let repository = fixture("repository");
    let arguments =
        ["locate", "--json", "--retriever", "bm25", "--repo", repository.to_str().expect("UTF-8"), "--issue", "-"];
    let output = run_with_input(&arguments, "discount\n\n![a](checkout.png) ![b](https://host/b.png)\n");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(column(&answer["query"]["images"], "name"), ["checkout.png", "https://host/b.png"]);
    let reasons = column(&answer["query"]["images"], "reason");
    assert!(reasons[0].contains("standard input") && reasons[1].contains("nothing is fetched"), "{reasons:?}");
    let warnings = text(&output.stderr);
    assert!(warnings.contains("checkout.png") && warnings.contains("https://host/b.png"), "{warnings}");
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
    assert!(shown.lines().any(|it| it.starts_with("     terms: ")), "{shown}");
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
    check_failure(
        &run(&["locate", "--repo", repository, "--issue", issue, "--image", "/dev/null"]),
        2,
        &["/dev/null", "no regular file"],
    );
    check_failure(
        &run(&["candidates", repository, "--config", "/nowhere.toml"]),
        2,
        &["/nowhere.toml", "configuration file"],
    );
}

#[test]
fn a_message_cannot_steer_the_terminal() {
    let hostile = "/no\u{1b}[31m\u{9b}2J\u{202e}\u{2028}where";
    check_failure(&run(&["candidates", hostile]), 1, &["/no\\u{1b}[31m\\u{9b}2J\\u{202e}\\u{2028}where"]);
    let output = run_with_input(
        &["locate", "--retriever", "bm25", "--repo", fixture("repository").to_str().expect("UTF-8"), "--issue", "-"],
        "discount\n\n![](a\u{1b}[31m\u{9b}2J\u{202e}.png)\n",
    );
    assert!(text(&output.stderr).contains("a\\u{1b}[31m\\u{9b}2J\\u{202e}.png"), "{}", text(&output.stderr));
}

#[test]
fn flags_without_effect_are_refused() {
    let (repository, issue) = (fixture("repository"), fixture("issue.md"));
    let locate = ["locate", "--repo", repository.to_str().expect("UTF-8"), "--issue", issue.to_str().expect("UTF-8")];
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/all-MiniLM-L6-v2");
    let model = model.to_str().expect("UTF-8");
    for (arguments, flag) in [
        (&["--retriever", "bm25", "--rerank", "5"][..], "--rerank"),
        (&["--retriever", "dense", "--rerank", "5"], "--rerank"),
        (&["--retriever", "bm25", "--model", model], "--model"),
        (&["--rerank", "0", "--model", model], "--model"),
    ] {
        check_failure(&run(&[&locate, arguments].concat()), 2, &[flag, "no effect"]);
    }
    // A setting of that kind may stand in a file or a variable that serves other runs too.
    let output = sightline(&[&locate[..], &["--retriever", "bm25"]].concat())
        .env("SIGHTLINE_LOCATE_RERANK", "5")
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn rerank_sets_what_is_embedded() {
    assert_eq!(located(&["--rerank", "0"])["index"]["compared_candidates"], 0);
    assert_eq!(located(&["--rerank", "0"])["query"]["model"], Value::Null);
    // Four functions, and a quarter as many files.
    assert_eq!(located(&["--rerank", "4"])["index"]["compared_candidates"], 5);
    assert_eq!(located(&["--rerank", "4", "--granularity", "file"])["index"]["compared_candidates"], 1);
}

#[test]
fn granularity_picks_the_lists() {
    for (granularity, files, functions) in [("file", true, false), ("function", false, true), ("both", true, true)] {
        let answer = located(&["--rerank", "0", "--granularity", granularity]);
        let has = |list: &str| !answer[list].as_array().expect("a list").is_empty();
        assert_eq!((has("files"), has("functions")), (files, functions), "{granularity}");
    }
}

#[test]
fn more_results_than_candidates_are_all_of_them() {
    let answer = located(&["--retriever", "dense", "-k", "100000"]);
    for (list, count) in [("files", "files"), ("functions", "functions")] {
        assert_eq!(
            answer[list].as_array().expect("a list").len(),
            answer["index"][count].as_u64().expect("a count") as usize
        );
    }
}

#[test]
fn a_configuration_file_counts_and_a_flag_counts_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, "[locate]\nresults = 2\nretriever = \"bm25\"\n").expect("a file");
    let file = file.to_str().expect("UTF-8");
    let answer = located(&["--config", file]);
    assert_eq!((answer["files"].as_array().expect("a list").len(), &answer["query"]["retriever"]), (2, &"bm25".into()));
    assert_eq!(located(&["--config", file, "-k", "1"])["files"].as_array().expect("a list").len(), 1);
}

#[test]
fn a_revision_is_read_instead_of_the_files() {
    let repository = Repository::git();
    repository.write("old.py", "def discount(): pass\n");
    let commit = repository.commit();
    std::fs::remove_file(repository.root.join("old.py")).expect("removed");
    repository.write("new.py", "def discount(): pass\n");
    let root = repository.root.to_str().expect("UTF-8");
    let locate = |arguments: &[&str]| -> Value {
        let base = ["locate", "--json", "--retriever", "bm25", "--repo", root, "--issue", "-"];
        let output = run_with_input(&[&base, arguments].concat(), "the discount\n");
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let old = locate(&["--rev", "HEAD"]);
    assert_eq!((column(&old["files"], "path"), &old["index"]["commit"]), (vec!["old.py"], &commit.as_str().into()));
    let new = locate(&[]);
    assert_eq!((column(&new["files"], "path"), &new["index"]["commit"]), (vec!["new.py"], &Value::Null));
    let listed = run(&["candidates", root, "--rev", &commit]);
    assert!(text(&listed.stdout).starts_with("old.py  Python\n"), "{}", text(&listed.stdout));
}

#[test]
fn reservations_about_files_reach_the_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.py"), b"# caf\xe9\ndef discount(): pass\n").expect("a file");
    let root = folder.path().to_str().expect("UTF-8");
    let issue = fixture("issue.md");
    let base = ["locate", "--retriever", "bm25", "--repo", root, "--issue", issue.to_str().expect("UTF-8")];
    let output = run(&base);
    let expected = "warning: 1 file was read with reservations; `sightline candidates` lists them";
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    let output = run(&[&base[..], &["--json"]].concat());
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["index"]["notes"], 1);
}

#[test]
fn a_long_issue_is_not_said_to_be_read_by_what_did_not_read_it() {
    let repository = fixture("repository");
    let issue = "discount of the cart ".repeat(500);
    for (retriever, expected) in [("dense", "--retriever hybrid reads all of it"), ("hybrid", "BM25 read all of it")] {
        let base = ["locate", "--repo", repository.to_str().expect("UTF-8"), "--issue", "-", "--retriever", retriever];
        let output = run_with_input(&base, &format!("{issue}\n\n{issue}"));
        let warnings = text(&output.stderr);
        assert!(warnings.contains("tokens") && warnings.contains(expected), "{retriever}: {warnings}");
        assert_eq!(warnings.contains("BM25"), retriever == "hybrid", "{warnings}");
    }
}

#[test]
fn the_first_command_of_the_readme_finds_the_code() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let issue = top.join("docs/example-issue.md");
    let output = run(&[
        "locate",
        "--json",
        "--rerank",
        "20",
        "--repo",
        top.to_str().expect("UTF-8"),
        "--issue",
        issue.to_str().expect("UTF-8"),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["files"][0]["path"], "src/snapshot/notebook.rs");
}

#[test]
fn help_states_the_defaults_in_force() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let defaults = std::fs::read_to_string(top.join("configs/default.toml")).expect("a file");
    let defaults: toml::Table = defaults.parse().expect("TOML");
    let output = run(&["locate", "--help"]);
    let help = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for (flag, key) in [
        ("--results", "results"),
        ("--retriever", "retriever"),
        ("--granularity", "granularity"),
        ("--rerank", "rerank"),
    ] {
        let default = defaults["locate"][key].to_string();
        let stated = help.split(&format!("{flag} <")).nth(1).and_then(|it| it.split("[default: ").nth(1));
        let stated = stated.and_then(|it| it.split(']').next());
        assert_eq!(stated, Some(default.trim_matches('"')), "{flag}");
    }
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
    check_failure(&locate(), 2, &["config.json", "model.safetensors"]);
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

#[test]
fn patterns_choose_files_by_flags_or_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in ["src/a.py", "src/gen/b.py", "tests/c.py"] {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, "x = 1\n").expect("a file");
    }
    let root = folder.path().to_str().expect("UTF-8");
    let listed = |output: Output| -> Vec<String> {
        let lines = text(&output.stdout).lines().map(|it| serde_json::from_str::<Value>(it).expect("a JSON line"));
        lines.filter(|it| it["kind"] == "file").map(|it| it["path"].as_str().expect("a path").to_owned()).collect()
    };
    let base = ["candidates", root, "--json"];
    assert_eq!(listed(run(&[&base[..], &["--include", "src/", "--exclude", "gen/"]].concat())), ["src/a.py"]);
    let with = |variable: &str, value: &str, flags: &[&str]| {
        sightline(&[&base[..], flags].concat()).env(variable, value).output().expect("the program runs")
    };
    assert_eq!(
        listed(with("SIGHTLINE_SNAPSHOT_INCLUDE", r#"["tests/", "gen/"]"#, &[])),
        ["src/gen/b.py", "tests/c.py"]
    );
    assert_eq!(listed(with("SIGHTLINE_SNAPSHOT_EXCLUDE", r#"["tests/"]"#, &["--exclude", "src/"])), ["tests/c.py"]);
    let refused = ["the pattern `../x` has `.` or `..`", ".gitignore"];
    check_failure(&run(&[&base[..], &["--exclude", "../x"]].concat()), 2, &refused);
    check_failure(&with("SIGHTLINE_SNAPSHOT_INCLUDE", r#"["../x"]"#, &[]), 2, &refused);
}
