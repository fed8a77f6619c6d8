//! A model that sees, and models that are broken, through the commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use safetensors::SafeTensors;
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A folder for data, and the program that uses it.
struct Place {
    scratch: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { scratch: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).to_str().unwrap().to_owned()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sightline"));
        command.args(arguments).env_clear().env("SIGHTLINE_INDEX_DATA_DIR", self.path("data")).stdin(Stdio::null());
        command.output().unwrap()
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn tiny() -> String {
    fixture("qwen3_vl/tiny-a").to_str().unwrap().to_owned()
}

/// The golden cases as rows, and the name of each.
fn golden_rows() -> (Vec<Value>, Vec<Value>) {
    let golden: Value = serde_json::from_slice(&std::fs::read(fixture("qwen3_vl/tiny-a.cases.json")).unwrap()).unwrap();
    let row = |case: &Value| -> Option<(Value, Value)> {
        let input = &case["input"];
        // A row has one text.
        let text = input["text"].is_null() || input["text"].is_string();
        let image = |it: &Value| fixture("qwen3_vl/images").join(it.as_str().unwrap()).to_str().unwrap().to_owned();
        let images: Vec<String> = input["image"].as_array().into_iter().flatten().map(image).collect();
        let row = json!({
            "id": case["name"], "text": input["text"], "instruction": input["instruction"], "images": images,
            "max_length": case["max_length"], "min_pixels": case["min_pixels"], "max_pixels": case["max_pixels"],
        });
        text.then(|| (row, case.clone()))
    };
    golden["cases"].as_array().unwrap().iter().filter_map(row).unzip()
}

/// The rows that come of rows.
fn embedded(place: &Place, rows: &[Value], arguments: &[&str]) -> Vec<Value> {
    let path = place.path("rows.jsonl");
    std::fs::write(&path, rows.iter().map(|it| format!("{it}\n")).collect::<String>()).unwrap();
    let tiny = tiny();
    let output = place.run(&[&["embed", "--model", &tiny, "--inputs", &path], arguments].concat());
    text(&output.stdout).lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn vector(row: &Value) -> Vec<f32> {
    serde_json::from_value(row["embedding"].clone()).expect("an embedded row")
}

#[test]
fn rows_have_the_vectors_of_the_reference() {
    let (place, (rows, cases)) = (Place::new(), golden_rows());
    let bytes = std::fs::read(fixture("qwen3_vl/tiny-a.arrays.safetensors")).unwrap();
    let arrays = SafeTensors::deserialize(&bytes).unwrap();
    let array = |name: String| -> Vec<f32> {
        let tensor = arrays.tensor(&name).unwrap();
        tensor.data().chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
    };
    let exact = ["--policy", "reference", "--dtype", "f32"];
    let found = embedded(&place, &rows, &exact);
    let shorter = embedded(&place, &rows, &[&exact[..], &["--dimensions", "32"]].concat());
    assert_eq!((found.len(), shorter.len()), (cases.len(), cases.len()));
    let mut compared = 0;
    for ((row, shorter), case) in found.iter().zip(&shorter).zip(&cases) {
        let name = case["name"].as_str().unwrap();
        assert_eq!(row["id"], name);
        if case.get("expect_error").is_some() {
            assert!(row["error"]["code"].is_string(), "{row}");
            continue;
        }
        assert_eq!(row["tokens"], case["num_tokens"], "{name}");
        // Decoders of JPEG differ by a few levels.
        let limit = if name.contains("jpeg") { 0.05 } else { 1e-5 };
        for (found, expected) in [(row, "embedding"), (shorter, "mrl_32")] {
            let expected = array(format!("{name}.{expected}"));
            assert_eq!(vector(found).len(), expected.len());
            let worst = vector(found).iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= limit, "{name}: off by {worst}");
        }
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn a_picture_of_an_issue_is_seen_by_a_model_that_sees() {
    let (place, tiny) = (Place::new(), tiny());
    let (repository, issue) = (fixture("repository"), fixture("issue.md"));
    let picture = fixture("qwen3_vl/images/plain_130x101.png");
    let broken = place.path("broken.png");
    std::fs::write(&broken, "no picture").unwrap();
    let base = [
        "locate",
        "--json",
        "--model",
        &tiny,
        "--repo",
        repository.to_str().unwrap(),
        "--issue",
        issue.to_str().unwrap(),
        "--image",
        &broken,
        "--image",
        picture.to_str().unwrap(),
    ];
    let answer = place.json(&base);
    let query = &answer["query"];
    assert_eq!((&query["mode"], &query["policy"]), (&json!("vce+image"), &json!("default")));
    assert!(query["image_tokens"].as_u64().unwrap() > 0 && query["tokens"].as_u64().unwrap() > 0);
    let images = query["images"].as_array().unwrap();
    let of = |path: &str| images.iter().find(|it| path.ends_with(it["name"].as_str().unwrap())).unwrap();
    let seen = of(picture.to_str().unwrap());
    assert_eq!((&seen["used"], &seen["width"], &seen["height"]), (&json!(true), &json!(130), &json!(101)));
    assert_eq!((of(&broken)["used"].clone(), of(&broken)["reason"].is_string()), (json!(false), true));
    // It is another question than the one without pictures, and what was embedded for it is known by now.
    let without = place.json(&[&base[..8], &["--policy", "default"]].concat());
    assert_eq!(without["index"]["embedded_windows"], 0, "{without:#}");
    assert!(without["index"]["cached_windows"].as_u64().unwrap() > 0);
    assert_ne!(answer["files"][0]["scores"]["dense"], without["files"][0]["scores"]["dense"]);
    // An index of its vectors.
    let run = place.json(&["index", repository.to_str().unwrap(), "--model", &tiny, "--json"]);
    assert_eq!(run["builds"][0]["status"], "ready");
    let indexed = place.json(&base[..8]);
    let paths =
        |it: &Value| it["functions"].as_array().unwrap().iter().map(|it| it["function"].clone()).collect::<Vec<_>>();
    assert_eq!((&indexed["index"]["indexed"], paths(&indexed)), (&json!(true), paths(&without)));
}

/// What `doctor` says of a model: the exit code, and the names of failed checks with what is wrong.
fn doctor(place: &Place, model: &str) -> (i32, Value) {
    let output = place.run(&["doctor", "--json", "--model", model]);
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

fn problems(report: &Value) -> Vec<(&str, &str)> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks
        .filter(|it| it["ok"] == false)
        .map(|it| (it["name"].as_str().unwrap(), it["problem"].as_str().unwrap()))
        .collect()
}

#[test]
fn the_doctor_finds_nothing_where_nothing_is() {
    let place = Place::new();
    for (model, dimensions, images) in [("all-MiniLM-L6-v2", 384, 0), (&*tiny(), 64, 2)] {
        let (code, report) = doctor(&place, model);
        assert_eq!((code, &report["ok"], problems(&report)), (0, &json!(true), vec![]), "{report:#}");
        let model = &report["model"];
        assert_eq!((&model["dimensions"], &model["images"]), (&json!(dimensions), &json!(images)));
        assert!(model["tokens_per_second"].as_f64().unwrap() > 0.0 && model["load_seconds"].as_f64().unwrap() >= 0.0);
        assert_eq!(model["picture_seconds"].is_null(), images == 0);
        assert!(report["peak_memory_bytes"].as_u64().unwrap() > 10_000_000);
    }
    let output = place.run(&["doctor"]);
    let page = text(&output.stdout);
    for part in
        ["all-MiniLM-L6-v2, in the program", "tokens/s", "ok     the model loads", "which is made when it is needed"]
    {
        assert!(page.contains(part), "{page}");
    }
    assert!(!page.contains("WRONG"));
}

#[test]
fn the_doctor_names_what_is_wrong() {
    let (place, model) = (Place::new(), PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models/all-MiniLM-L6-v2"));
    let copy = PathBuf::from(place.path("copy"));
    std::fs::create_dir(&copy).unwrap();
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(model.join(name), copy.join(name)).unwrap();
    }
    // Weights that load and are others: the last tenth is that of another tensor.
    let mut weights = std::fs::read(model.join("model.safetensors")).unwrap();
    let tenth = weights.len() / 10;
    let from = weights.len() - 2 * tenth - (weights.len() - 2 * tenth) % 2;
    let moved = weights[from..from + tenth - tenth % 2].to_vec();
    let to = weights.len() - moved.len();
    weights[to..].copy_from_slice(&moved);
    std::fs::write(copy.join("model.safetensors"), &weights).unwrap();
    let (code, report) = doctor(&place, copy.to_str().unwrap());
    assert_eq!((code, &report["ok"]), (1, &json!(false)));
    let found = problems(&report);
    assert!(
        found.len() == 1 && found[0].0.contains("known to give") && found[0].1.contains("copy the model's files"),
        "{found:?}"
    );
    // One that is cut short.
    std::fs::write(copy.join("model.safetensors"), &weights[..1000]).unwrap();
    let (code, report) = doctor(&place, copy.to_str().unwrap());
    assert_eq!((code, problems(&report)[0].0, &report["model"]), (1, "the model loads", &Value::Null));
    assert!(problems(&report)[0].1.contains("model.safetensors"));
    // A file where data should be.
    std::fs::write(place.path("data"), "").unwrap();
    let (code, report) = doctor(&place, "all-MiniLM-L6-v2");
    let found = problems(&report);
    assert_eq!((code, found.len(), found[0].0), (1, 1, "vectors and indexes can be kept"), "{found:?}");
    assert!(found[0].1.contains(&place.path("data")) && found[0].1.contains("--data-dir"));
    assert_eq!(place.run(&["doctor", "--model", "nonsense"]).status.code(), Some(2));
}

/// The answer to the question of the fixtures by the similarity of vectors, and what is said beside it.
fn dense(place: &Place, arguments: &[&str]) -> (Value, String) {
    let (repository, issue) = (fixture("repository"), fixture("issue.md"));
    let base = ["locate", "--json", "--repo", repository.to_str().unwrap(), "--issue", issue.to_str().unwrap()];
    let output = place.run(&[&base[..], &["--retriever", "dense"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), text(&output.stderr).to_owned())
}

#[test]
fn a_partial_index_is_no_reason_to_compare_less() {
    let (place, tiny, repository) = (Place::new(), tiny(), fixture("repository"));
    let repository = repository.to_str().unwrap();
    let flags = ["--model", &tiny, "--dtype", "f32"];
    let whole = dense(&Place::new(), &flags).0;
    let run = place.json(&[&["index", repository, "--vectors", "stored", "--json"], &flags[..]].concat());
    assert_eq!((&run["builds"][0]["status"], &run["builds"][0]["vectors"]), (&json!("partial"), &json!(0)));
    // Some of its vectors.
    let issue = fixture("issue.md");
    let some = ["locate", "--json", "--repo", repository, "--issue", issue.to_str().unwrap(), "--rerank", "1"];
    place.json(&[&some, &flags[..]].concat());
    let (answer, _) = dense(&place, &flags);
    let index = &answer["index"];
    assert!(index["vectors"].as_u64().unwrap() > 0 && index["embedded_windows"].as_u64().unwrap() > 0, "{index}");
    assert_eq!(index["compared_candidates"], whole["index"]["compared_candidates"]);
    assert_eq!((&answer["files"][0]["path"], index["failed_windows"].as_u64()), (&whole["files"][0]["path"], Some(0)));
    // They are in the index by now.
    let (again, said) = dense(&place, &flags);
    assert_eq!((&again["index"]["embedded_windows"], &again["index"]["vectors"]), (&json!(0), &index["windows"]));
    assert!(said.is_empty(), "{said}");
    // Those of another way to run the model are others, and that is said.
    let (_, said) = dense(&place, &["--model", &tiny, "--dtype", "q8"]);
    for part in [
        "tiny-a (f32, policy default)",
        "tiny-a (q8, policy default)",
        &format!("`sightline index {repository} --model {tiny} --dtype q8`"),
    ] {
        assert!(said.contains(part), "{said}");
    }
    let status = place.json(&["status", repository, "--json"]);
    let build = &status["repositories"][0]["builds"][0];
    assert_eq!((&build["dtype"], &build["policy"]), (&json!("f32"), &json!("default")));
}

#[test]
fn a_model_is_the_same_by_another_name() {
    let (place, renamed) = (Place::new(), tempfile::tempdir().unwrap());
    let renamed = renamed.path().join("renamed");
    std::fs::create_dir(&renamed).unwrap();
    for file in std::fs::read_dir(tiny()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), renamed.join(file.file_name())).unwrap();
    }
    place.json(&["index", fixture("repository").to_str().unwrap(), "--model", &tiny(), "--json"]);
    let (answer, said) = dense(&place, &["--model", renamed.to_str().unwrap()]);
    assert_eq!((&answer["index"]["embedded_windows"], &answer["index"]["cached_windows"]), (&json!(0), &json!(0)));
    assert!(said.is_empty(), "{said}");
}

#[test]
fn the_reference_is_exact_unless_something_else_is_asked_for() {
    let (place, tiny) = (Place::new(), tiny());
    let path = place.path("rows.jsonl");
    std::fs::write(&path, "{\"id\": 1, \"text\": \"a text\"}\n").unwrap();
    let embed = |arguments: &[&str]| {
        let output = place.run(&[&["embed", "--model", &tiny, "--inputs", &path], arguments].concat());
        (text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (vectors, said) = embed(&["--policy", "reference"]);
    assert!(said.contains("1 row embedded") && said.contains("tiny-a (f32, policy reference)"), "{said}");
    assert_eq!(embed(&["--policy", "reference", "--dtype", "f32"]).0, vectors);
    assert_ne!(embed(&["--policy", "reference", "--dtype", "q8"]).0, vectors);
}

/// Arguments that can't be used are refused with exit code 2, by name.
#[track_caller]
fn check_unusable(variables: &[(&str, &str)], arguments: &[&str], expected: &str) {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sightline"));
    command.args(arguments).env_clear().env("SIGHTLINE_INDEX_DATA_DIR", place.path("data")).stdin(Stdio::null());
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
}

#[test]
fn settings_that_no_model_takes_are_named() {
    let (tiny, issue, repository) = (tiny(), fixture("issue.md"), fixture("repository"));
    let (issue, repository) = (issue.to_str().unwrap(), repository.to_str().unwrap());
    let locate = ["locate", "--repo", repository, "--issue", issue, "--model"];
    check_unusable(&[("SIGHTLINE_MODEL_WINDOW", "3")], &[&locate[..], &[&tiny]].concat(), "`model.window`");
    check_unusable(
        &[("SIGHTLINE_MODEL_DIMENSIONS", "65")],
        &["index", repository, "--model", &tiny],
        "`model.dimensions`",
    );
    check_unusable(&[], &[&locate[..], &["./no-such"]].concat(), "`./no-such` is no folder");
    check_unusable(&[], &[&locate[..], &[repository]].concat(), "holds no config.json");
    check_unusable(&[], &["pull", "a/b@v1", "--revision", "main"], "--revision");
    check_unusable(&[], &["embed", "--inputs", issue, "--dimensions", "65", "--model", &tiny], "`model.dimensions`");
}

#[test]
fn a_flag_without_effect_is_told() {
    let place = Place::new();
    let output = place.run(&["doctor", "--dtype", "q8", "--policy", "reference"]);
    for part in ["--dtype q8 has no effect on all-MiniLM-L6-v2", "--policy reference has no effect"] {
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_doctor_knows_a_place_where_nothing_can_be_made() {
    let output = Place::new().run(&["doctor", "--data-dir", "/proc/none/data"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("WRONG  vectors and indexes can be kept"), "{}", text(&output.stdout));
}
