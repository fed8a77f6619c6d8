//! Indexes as a user makes and uses them: what is embedded, what is said, and what a crash or a damaged disk leaves.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::repository::Repository;

/// A data directory and the program that uses it.
struct Place {
    scratch: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { scratch: tempfile::tempdir().unwrap() }
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sightline"));
        command.args(arguments).env_clear().env("SIGHTLINE_INDEX_DATA_DIR", self.data()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command that succeeds prints.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Indexes, and checks how many windows were embedded.
    #[track_caller]
    fn check(&self, arguments: &[&str], embedded: u64) -> Value {
        let run = self.json(&[&["index"], arguments].concat());
        let total: u64 = run["builds"].as_array().unwrap().iter().map(|it| it["embedded"].as_u64().unwrap()).sum();
        assert_eq!(total, embedded, "{run:#}");
        run
    }

    /// The answer to a question about a repository, and what was said beside it.
    #[track_caller]
    fn ask(&self, repository: &Path, arguments: &[&str]) -> (Value, String) {
        let issue = self.scratch.path().join("issue.md");
        std::fs::write(&issue, "The parser hangs\n\n`parse_header` never returns for an empty header.\n").unwrap();
        let base = ["locate", "--json", "--repo", repository.to_str().unwrap(), "--issue", issue.to_str().unwrap()];
        let output = self.run(&[&base, arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        (serde_json::from_slice(&output.stdout).unwrap(), text(&output.stderr).to_owned())
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const PARSER: &str = "def parse_header(text):\n    while not text:\n        pass\n    return text\n\n\ndef parse_body(text):\n    return text.strip()\n";
const WRITER: &str = "def write(out, text):\n    out.write(text)\n";

/// A git repository with two files and three functions, a window each.
fn repository() -> Repository {
    let repository = Repository::git();
    repository.write("src/parser.py", PARSER).write("src/writer.py", WRITER);
    commit(&repository);
    repository
}

fn commit(repository: &Repository) -> String {
    repository.run(&["add", "-A"]);
    repository.run(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "a change"]);
    repository.run(&["rev-parse", "HEAD"]).trim().to_owned()
}

fn root(repository: &Repository) -> &str {
    repository.root.to_str().unwrap()
}

#[test]
fn no_content_is_embedded_twice() {
    let (place, repository) = (Place::new(), repository());
    let all = 2 + 3;
    let run = place.check(&[root(&repository)], all);
    assert_eq!(run["builds"][0]["status"], "ready");
    let again = place.check(&[root(&repository)], 0);
    assert_eq!(again["builds"][0]["new"], false);
    // A function, and the file that it is in.
    repository.write("src/parser.py", PARSER.replace("strip", "rstrip"));
    place.check(&[root(&repository)], 2);
    // The path is part of what is embedded: the file and its function.
    repository.run(&["mv", "src/writer.py", "src/printer.py"]);
    place.check(&[root(&repository)], 2);
    // A clone has the committed files, all of which were seen under these paths.
    let clone = repository.beside("clone");
    repository.run_in(repository.root.parent().unwrap(), &["clone", "-q", root(&repository), clone.to_str().unwrap()]);
    place.check(&[clone.to_str().unwrap()], 0);
    // The commit that both stem from, and one more.
    place.check(&[root(&repository), "--rev", "HEAD"], 0);
    repository.write("src/new.py", "def new():\n    return 1\n");
    let second = commit(&repository);
    let run = place.check(&[root(&repository), "--rev", "HEAD~1", "--rev", "HEAD"], 2);
    assert_eq!(run["builds"][1]["target"], second.as_str());
    // Everything is known, so that no file need be read.
    let run = place.check(&[root(&repository), "--rev", "HEAD~1", "--rev", "HEAD"], 0);
    assert_eq!(run["builds"][1]["files_read"], 0);
}

#[test]
fn a_long_file_is_not_embedded_again_behind_an_edit() {
    let (place, repository) = (Place::new(), Repository::plain());
    let line = |at: usize| format!("value_{at} = compute(\"{at}\", {at}) + offset_{at}\n");
    let lines: Vec<String> = (0..400).map(line).collect();
    repository.write("long.py", lines.concat());
    let windows = place.json(&["index", root(&repository)])["builds"][0]["embedded"].as_u64().unwrap();
    assert!(windows > 20, "{windows}");
    let edited = [&lines[..40], &["inserted = 1\n".to_owned()], &lines[40..]].concat();
    repository.write("long.py", edited.concat());
    let again = place.json(&["index", root(&repository)])["builds"][0]["embedded"].as_u64().unwrap();
    assert!((1..=4).contains(&again), "{again} of {windows} windows");
}

#[test]
fn an_index_answers_as_the_repository_itself_does() {
    let (place, repository) = (Place::new(), repository());
    for retriever in ["bm25", "dense", "hybrid"] {
        let (without, _) = Place::new().ask(&repository.root, &["--retriever", retriever]);
        place.json(&["index", root(&repository)]);
        let (with, said) = place.ask(&repository.root, &["--retriever", retriever]);
        assert_eq!(
            (&without["index"]["indexed"], &with["index"]["indexed"]),
            (&Value::Bool(false), &Value::Bool(true))
        );
        assert_eq!(said, "");
        for list in ["files", "functions"] {
            let order = |answer: &Value| -> Vec<(Value, Value, Value)> {
                answer[list]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|it| (it["path"].clone(), it["function"].clone(), it["lines"].clone()))
                    .collect()
            };
            assert_eq!(order(&with), order(&without), "{retriever}");
            let score = |answer: &Value| answer[list][0]["score"].as_f64().unwrap();
            assert!((score(&with) - score(&without)).abs() < 1e-3, "{retriever}: {} {}", score(&with), score(&without));
        }
        assert_eq!(with["index"]["embedded_windows"], 0);
    }
}

#[test]
fn a_stale_index_says_so_or_is_refreshed() {
    let (place, repository) = (Place::new(), repository());
    place.json(&["index", root(&repository)]);
    repository.write("src/parser.py", PARSER.replace("parse_header", "read_header"));
    let (answer, said) = place.ask(&repository.root, &["--refresh=never"]);
    assert_eq!(answer["index"]["stale"], true);
    assert_eq!(answer["index"]["changes"]["changed"][0], "src/parser.py");
    assert!(said.contains("the index is stale: 1 file changed (src/parser.py)"), "{said}");
    assert_eq!(answer["functions"][0]["function"], "parse_header", "the answer is that of the old files");
    let status = place.json(&["status", root(&repository)]);
    assert_eq!(status["repositories"][0]["builds"][0]["stale"], true);
    // Little has changed, so that it is brought up to date first.
    let (answer, said) = place.ask(&repository.root, &[]);
    assert_eq!((&answer["index"]["stale"], said.as_str()), (&Value::Bool(false), ""));
    assert_eq!(answer["functions"][0]["function"], "read_header");
    // Much has.
    for at in 0..30 {
        repository.write(&format!("src/new{at}.py"), format!("x = {at}\n"));
    }
    let (answer, said) = place.ask(&repository.root, &[]);
    assert_eq!(answer["index"]["stale"], true);
    assert!(said.contains("30 files changed (src/new0.py, src/new1.py, src/new10.py, ...)"), "{said}");
    let (answer, _) = place.ask(&repository.root, &["--refresh"]);
    assert_eq!((&answer["index"]["stale"], &answer["index"]["files"]), (&Value::Bool(false), &Value::from(32)));
}

#[test]
fn status_and_cache_tell_what_there_is_and_forget_it() {
    let (place, repository) = (Place::new(), repository());
    assert_eq!(place.json(&["status"])["repositories"], Value::Array(Vec::new()));
    repository.write("dist/big.min.js", "x");
    repository.write("lib.py", [0_u8, 159, 146, 150]);
    place.json(&["index", root(&repository)]);
    let status = place.json(&["status", root(&repository)]);
    let build = &status["repositories"][0]["builds"][0];
    assert_eq!(
        (&build["status"], &build["stale"], &build["files"], &build["vectors"]),
        (&"ready".into(), &false.into(), &2.into(), &5.into())
    );
    let skipped: Vec<&str> =
        build["skipped"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert!(skipped.contains(&"lib.py"), "{skipped:?}");
    let cache = place.json(&["cache"]);
    assert_eq!(cache["models"][0]["vectors"], 5);
    assert_eq!(place.json(&["cache", "prune", "--to", "0"])["vectors"], 5);
    assert_eq!(place.json(&["cache"])["models"], Value::Array(Vec::new()));
    // The index has vectors of its own.
    place.check(&[root(&repository)], 0);
    assert!(place.json(&["cache", "forget", root(&repository)])["bytes"].as_u64().unwrap() > 1000);
    assert_eq!(place.json(&["status"])["repositories"], Value::Array(Vec::new()));
    let output = place.run(&["cache", "forget", root(&repository)]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_index_without_vectors_fills_itself_by_the_questions_that_are_asked() {
    let (place, repository) = (Place::new(), repository());
    let long: String = (0..400).map(|at| format!("value_{at} = compute(\"{at}\", {at}) + offset_{at}\n")).collect();
    repository.write("src/values.py", long);
    let stored = ["--vectors", "stored"];
    let run = place.check(&[&[root(&repository)], &stored[..]].concat(), 0);
    let build = &run["builds"][0];
    let windows = build["windows"].as_u64().unwrap();
    assert!(windows > 20, "{run:#}");
    assert_eq!((&build["status"], &build["vectors"], &build["left"]), (&"partial".into(), &0.into(), &windows.into()));
    // Each question compares what its words lead to; the next finds the vectors in the index.
    let (mut counts, mut embedded) = (Vec::new(), 0);
    for rerank in ["1", "1", "2", "100", "100"] {
        let (answer, said) = place.ask(&repository.root, &["--rerank", rerank]);
        assert_eq!(said, "");
        assert_eq!((&answer["index"]["indexed"], &answer["index"]["cached_windows"]), (&true.into(), &0.into()));
        counts.push(answer["index"]["vectors"].as_u64().unwrap());
        embedded += answer["index"]["embedded_windows"].as_u64().unwrap();
    }
    // A file and a function; nothing new; another function; two more files, of the long one two windows, and a function.
    assert!(counts.is_sorted() && counts[0] == 0 && counts[1] == counts[2] && counts[2] < counts[4], "{counts:?}");
    let (answer, _) = place.ask(&repository.root, &["--rerank", "100"]);
    assert_eq!((&answer["index"]["embedded_windows"], &answer["index"]["vectors"]), (&0.into(), &embedded.into()));
    let status = place.json(&["status", root(&repository)]);
    let build = &status["repositories"][0]["builds"][0];
    assert_eq!((&build["status"], &build["vectors"]), (&"partial".into(), &embedded.into()));
    // It ranks as the repository itself does.
    let (without, _) = Place::new().ask(&repository.root, &[]);
    for list in ["files", "functions"] {
        let paths = |it: &Value| it[list].as_array().unwrap().iter().map(|it| it["path"].clone()).collect::<Vec<_>>();
        assert_eq!(paths(&answer), paths(&without));
    }
    // A change does not make it embed what it was not asked for.
    repository.write("src/writer.py", WRITER.replace("text", "line"));
    let (answer, _) = place.ask(&repository.root, &["--rerank", "1"]);
    assert_eq!((&answer["index"]["stale"], &answer["index"]["embedded_windows"]), (&false.into(), &0.into()));
    // One that compares everything embeds the rest, and only the rest.
    let vectors = answer["index"]["vectors"].as_u64().unwrap();
    let (answer, said) = place.ask(&repository.root, &["--retriever", "dense"]);
    assert_eq!((&answer["index"]["embedded_windows"], said.as_str()), (&(windows - vectors).into(), ""));
    let run = place.check(&[root(&repository)], 0);
    assert_eq!(run["builds"][0]["status"], "ready");
}

#[test]
fn dense_without_any_vector_embeds_everything() {
    let (place, repository) = (Place::new(), repository());
    place.check(&[root(&repository), "--vectors", "stored"], 0);
    let (answer, said) = place.ask(&repository.root, &["--retriever", "dense"]);
    assert_eq!((&answer["index"]["embedded_windows"], said.as_str()), (&5.into(), ""));
    let status = place.json(&["status", root(&repository)]);
    assert_eq!(status["repositories"][0]["builds"][0]["status"], "ready");
}

#[test]
fn an_index_is_exported_with_its_vectors() {
    let (place, repository) = (Place::new(), repository());
    let path = |name: &str| place.scratch.path().join(name).to_str().unwrap().to_owned();
    place.json(&["index", root(&repository), "--export", &path("all.jsonl")]);
    let lines = std::fs::read_to_string(path("all.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["kind"], &lines[0]["dimensions"]), (6, &"index".into(), &384.into()));
    assert_eq!((&lines[2]["function"], &lines[2]["start_line"]), (&"parse_header".into(), &1.into()));
    let vector: Vec<f64> =
        lines[2]["windows"][0]["vector"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    let length: f64 = vector.iter().map(|it| it * it).sum();
    assert!(vector.len() == 384 && (length - 1.0).abs() < 1e-3, "{length}");

    place.json(&["index", root(&repository), "--export", &path("all.safetensors")]);
    let bytes = std::fs::read(path("all.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(tensors.tensor("vectors").unwrap().shape(), [5, 384]);
    let halves = tensors.tensor("vectors").unwrap().data()[384 * 2..][..2].to_vec();
    let value = half::f16::from_le_bytes([halves[0], halves[1]]).to_f64();
    assert!((value - vector[0]).abs() < 1e-6, "the second row is that of the first function");
    let output = place.run(&["index", root(&repository), "--export", &path("all.csv")]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_place_that_cannot_be_written_is_said_and_questions_are_answered() {
    let (place, repository) = (Place::new(), repository());
    // A file where a folder should be stops everybody, the superuser too.
    std::fs::write(place.data(), "").unwrap();
    let output = place.run(&["index", root(&repository)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(place.data().to_str().unwrap()), "{}", text(&output.stderr));
    let (answer, said) = place.ask(&repository.root, &[]);
    assert_eq!(answer["index"]["indexed"], false);
    assert!(said.contains("vectors are not kept"), "{said}");
}

#[test]
fn a_wrong_path_or_revision_fails_alone() {
    let (place, repository) = (Place::new(), repository());
    let output = place.run(&["index", repository.beside("nothing").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("there is no directory"), "{}", text(&output.stderr));
    assert!(!place.data().join("repositories").exists());
    let output = place.run(&["index", root(&repository), "--rev", "nonsense", "--rev", "HEAD", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("revision `nonsense` is not indexed"), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["builds"].as_array().unwrap().len(), 1);
    assert_eq!(run["failures"][0]["revision"], "nonsense");
}

#[test]
fn two_runs_at_once_take_turns() {
    let (place, repository) = (Place::new(), repository());
    let spawn = || {
        place
            .command(&["index", root(&repository), "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let runs: Vec<_> = (0..3).map(|_| spawn()).collect();
    let mut embedded = 0;
    for run in runs {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let run: Value = serde_json::from_slice(&output.stdout).unwrap();
        embedded += run["builds"][0]["embedded"].as_u64().unwrap();
    }
    assert_eq!(embedded, 5);
}

/// Kills runs at moments all over a build and an update; after each the index before is whole, and the next run goes on.
#[test]
fn a_killed_run_leaves_the_index_before_it_and_the_next_embeds_only_what_is_missing() {
    let repository = Repository::plain();
    let source = |at: usize, by: usize| format!("def function_{at}(a, b):\n    return a * {at} + b * {by}\n");
    let write = |by: usize| (0..120).for_each(|at| _ = repository.write(&format!("m{at}.py"), source(at, by)));
    write(0);
    let windows = 240;
    let start = Instant::now();
    Place::new().check(&[root(&repository)], windows);
    let whole = start.elapsed();
    // The first rounds build from nothing; the later ones bring an index up to date whose files have all changed.
    let rounds = 6;
    for update in [false, true] {
        let mut before = Place::new();
        for round in 1..=rounds {
            if update {
                write(0);
                before.json(&["index", root(&repository)]);
                write(round);
            } else {
                before = Place::new();
            }
            kill_after(before.command(&["index", root(&repository)]), whole * round as u32 / rounds as u32);
            let cached = place_vectors(&before);
            check_index_before(&before, &repository, update);
            let run = before.json(&["index", root(&repository)]);
            let build = &run["builds"][0];
            assert_eq!((&build["status"], &build["files"]), (&"ready".into(), &120.into()));
            let embedded = build["embedded"].as_u64().unwrap();
            // Each update before this one has left its vectors, and the first index.
            let kept = cached - if update { windows * round as u64 } else { 0 };
            assert!(embedded <= windows && (embedded + kept) <= windows, "{embedded} embedded though {kept} were kept");
        }
    }
}

fn kill_after(mut command: Command, time: Duration) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + time;
    while Instant::now() < until && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    // It may have ended by itself.
    let _ = child.kill();
    child.wait().unwrap();
}

/// The vectors in the store, which opens whatever happened.
#[track_caller]
fn place_vectors(place: &Place) -> u64 {
    let cache = place.json(&["cache"]);
    cache["models"].as_array().unwrap().iter().map(|it| it["vectors"].as_u64().unwrap()).sum()
}

/// The index of the run before, if there was one, is there and whole.
#[track_caller]
fn check_index_before(place: &Place, repository: &Repository, is_there: bool) {
    let status = place.json(&["status", root(repository)]);
    let builds = status["repositories"][0]["builds"].as_array().unwrap();
    assert!(builds.len() <= 1 && (!is_there || builds.len() == 1), "{status:#}");
    for build in builds {
        assert_eq!((&build["status"], &build["files"], &build["vectors"]), (&"ready".into(), &120.into(), &240.into()));
        let (answer, _) = place.ask(&repository.root, &["--refresh=never", "--retriever", "dense"]);
        assert_eq!((&answer["index"]["indexed"], answer["files"].as_array().unwrap().len()), (&true.into(), 10));
    }
}

#[test]
fn an_index_is_for_the_patterns_that_it_was_made_with() {
    let (place, repository) = (Place::new(), repository());
    place.check(&[root(&repository), "--exclude", "writer.py"], 1 + 2);
    let status = place.json(&["status", root(&repository)]);
    let build = &status["repositories"][0]["builds"][0];
    assert_eq!((&build["exclude"][0], &build["stale"]), (&Value::from("writer.py"), &Value::from(false)));
    let skipped = &build["skipped"][0];
    assert_eq!(skipped["path"], "src/writer.py");
    let (answer, said) = place.ask(&repository.root, &["--exclude", "writer.py"]);
    assert_eq!((&answer["index"]["indexed"], &answer["index"]["files"]), (&Value::from(true), &Value::from(1)));
    assert_eq!(said, "");
    // Others get no answer from it.
    let (answer, said) = place.ask(&repository.root, &["--retriever", "bm25"]);
    assert_eq!((&answer["index"]["indexed"], &answer["index"]["files"]), (&Value::from(false), &Value::from(2)));
    assert!(said.contains("under other settings"), "{said}");
    // What both choose is neither read nor embedded again.
    let run = place.check(&[root(&repository)], 1 + 1);
    assert_eq!(run["builds"][0]["status"], "ready");
}
