//! `sightline embed` as other programs use it: a line for a line, in order, whatever stands in them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sightline"));
    command.arg("embed").args(arguments).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // It may answer before it has read everything.
        scope.spawn(move || to.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    })
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn rows(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn vector(row: &Value) -> Vec<f64> {
    row["embedding"].as_array().expect("an embedded row").iter().map(|it| it.as_f64().unwrap()).collect()
}

fn lines(rows: &[Value]) -> Vec<u8> {
    rows.iter().map(|it| format!("{it}\n")).collect::<String>().into_bytes()
}

/// Texts with the vectors that Hugging Face's implementation gives them.
#[test]
fn vectors_are_those_of_the_reference_in_the_order_of_the_rows() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/minilm_golden.json");
    let golden: Vec<Value> = serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    let golden: Vec<&Value> = golden.iter().filter(|it| it["sequences"].as_array().unwrap().len() == 1).collect();
    // Often enough to be more than one group of rows.
    let asked: Vec<&Value> = golden.iter().cycle().take(300).copied().collect();
    let input: Vec<Value> = asked.iter().enumerate().map(|(at, it)| json!({"id": at, "text": it["text"]})).collect();
    let output = run(&["--inputs", "-"], &lines(&input));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = rows(&output);
    assert_eq!(rows.len(), asked.len());
    for (at, (row, expected)) in rows.iter().zip(asked).enumerate() {
        let expected_vector: Vec<f64> =
            expected["f16"][0].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
        let worst = vector(row).iter().zip(&expected_vector).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst <= 1e-5, "{at}: {worst}");
        let tokens = expected["sequences"][0].as_array().unwrap().len();
        assert_eq!((&row["id"], &row["tokens"]), (&json!(at), &json!(tokens)));
        assert_eq!((&row["image_tokens"], &row["truncated"]), (&json!(0), &json!(false)));
    }
}

type Expected = Result<(), (&'static str, &'static str)>;

/// What comes of lines: `Ok` for a vector, else the code and a part of the message; with the id.
#[track_caller]
fn check(input: &[u8], expected: &[(Value, Expected)]) {
    let output = run(&["--inputs", "-"], input);
    let rows = rows(&output);
    assert_eq!(rows.len(), expected.len(), "{}", text(&output.stdout));
    for (row, (id, outcome)) in rows.iter().zip(expected) {
        assert_eq!(&row["id"], id, "{row}");
        match outcome {
            Ok(()) => assert_eq!(vector(row).len(), 384),
            Err((code, part)) => {
                assert_eq!(row["error"]["code"], *code, "{row}");
                assert!(row["error"]["message"].as_str().unwrap().contains(part), "{row} lacks `{part}`");
                assert_eq!(row.as_object().unwrap().len(), 2, "{row}");
            }
        }
    }
    let failed = expected.iter().filter(|it| it.1.is_err()).count();
    assert_eq!(output.status.code(), Some(i32::from(failed > 0)), "{}", text(&output.stderr));
    if failed > 0 {
        let expected = format!("{failed} of {} rows failed", expected.len());
        assert!(text(&output.stderr).contains(&expected), "{}", text(&output.stderr));
    }
}

#[test]
fn a_bad_line_costs_itself() {
    let input = [
        &b"\xef\xbb\xbf{\"id\": \"a\", \"text\": \"x\"}\r\n\n  \n"[..],
        b"{\"id\": 2, \"text\": \"\xff\"}\n",
        b"{\"id\": 3, \"txt\": \"x\"}\n",
        b"nonsense\n",
        b"{\"id\": \"b\"}\n",
        b"{\"id\": 6, \"images\": [\"no-such.png\"]}\n",
        b"{\"id\": 7, \"text\": \"x\", \"instruction\": \"Find it.\"}\n",
        b"{\"id\": 8, \"text\": \"the last one has no line end\"}",
    ]
    .concat();
    check(
        &input,
        &[
            (json!("a"), Ok(())),
            (Value::Null, Err(("invalid_utf8", "line 4: "))),
            (json!(3), Err(("unknown_field", "`txt`"))),
            (Value::Null, Err(("invalid_json", "line 6: "))),
            (json!("b"), Ok(())),
            (json!(6), Err(("image_unreadable", "`no-such.png`"))),
            (json!(7), Err(("instruction_unsupported", "all-MiniLM-L6-v2"))),
            (json!(8), Ok(())),
        ],
    );
    check(b"", &[]);
    check(b"\n\n", &[]);
}

#[test]
fn what_is_cut_is_said() {
    let input =
        [json!({"id": 1, "text": "word ".repeat(300)}), json!({"id": 2, "text": "a b c d e f", "max_length": 5})];
    let rows = rows(&run(&["--inputs", "-"], &lines(&input)));
    let counts = |row: &Value| (row["tokens"].clone(), row["truncated"].clone(), row["total_tokens"].clone());
    assert_eq!(counts(&rows[0]), (json!(256), json!(true), json!(302)));
    assert_eq!(counts(&rows[1]), (json!(5), json!(true), json!(8)));
}

#[test]
fn pictures_are_found_from_the_folder_of_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/checkout.png");
    std::fs::copy(picture, folder.path().join("shot.png")).unwrap();
    let inputs = folder.path().join("rows.jsonl");
    std::fs::write(&inputs, "{\"id\": 1, \"images\": [\"shot.png\"]}\n").unwrap();
    let output = run(&["--inputs", inputs.to_str().unwrap()], b"");
    // It is there, and the model can't see.
    assert_eq!(rows(&output)[0]["error"]["code"], "images_unsupported");
    let output = run(&["--inputs", "/no/such/rows.jsonl"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/no/such/rows.jsonl"), "{}", text(&output.stderr));
}

/// A program may write a row and wait for its vector.
#[test]
fn a_row_is_answered_before_the_next_is_written() {
    let mut child = command(&["--inputs", "-"]).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut output = BufReader::new(output).lines();
    for id in 0..3 {
        writeln!(input, "{}", json!({"id": id, "text": "x"})).unwrap();
        let row: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
        assert_eq!(row["id"], json!(id));
    }
    drop(input);
    assert!(child.wait().unwrap().success() && output.next().is_none());
}
