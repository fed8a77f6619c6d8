//! What pictures say: read, taken apart, searched with, and corrected. The screenshots in `tests/fixtures/screens` show texts that stand here.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::served::{Served, Setup, fixtures};

/// What the terminal shows, but for the prompt above it.
const TRACE: &str = r#"Traceback (most recent call last):
  File "/srv/shop/src/cart.py", line 21, in total
    return self.subtotal() - best_discount(self.subtotal(), vouchers)
  File "/srv/shop/src/discounts.py", line 16, in discount_of
    return min(voucher.fixed, amount)
ValueError: voucher is larger than the amount"#;

/// The files of its frames.
const TRACED: [&str; 2] = ["src/cart.py", "src/discounts.py"];

/// The first two files of an answer, by name.
fn first_two(answer: &Value) -> Vec<String> {
    let files = answer["files"].as_array().unwrap();
    let mut first: Vec<String> = files.iter().take(2).map(|it| it["path"].as_str().unwrap().to_owned()).collect();
    first.sort();
    first
}

fn screen(name: &str) -> PathBuf {
    fixtures().join("screens").join(name)
}

fn data(path: &Path) -> String {
    BASE64_STANDARD.encode(std::fs::read(path).expect("a picture"))
}

/// The program on an empty environment but for these variables, so that nothing is kept.
fn sightline(arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sightline"));
    command.args(arguments).env_clear().envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn told(arguments: &[&str]) -> Value {
    let output = sightline(&[&["evidence", "--json"], arguments].concat(), &[], "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["evidence"].take()
}

#[test]
fn a_screenshot_of_a_terminal_is_read_to_the_letter() {
    let told = told(&[screen("trace.png").to_str().unwrap(), screen("dialog.png").to_str().unwrap()]);
    let (trace, dialog) = (&told[0], &told[1]);
    let read = trace["ocr_text"].as_str().unwrap();
    assert_eq!(read, format!("$ python -m shop.checkout\n{TRACE}"));
    let error = &trace["error_signal"];
    assert_eq!(
        (&error["type"], &error["message"]),
        (&json!("ValueError"), &json!("voucher is larger than the amount"))
    );
    assert_eq!(
        error["stack_hint"],
        json!(["discount_of (/srv/shop/src/discounts.py:16)", "total (/srv/shop/src/cart.py:21)"])
    );
    assert_eq!((&trace["category"], &trace["source"]), (&json!("error_message"), &json!("ocr")));
    assert!(trace["confidence"].as_f64() > Some(0.9), "{trace}");
    assert_eq!(trace["lines"].as_array().map(Vec::len), Some(7));
    let labels = dialog["ui_elements"].as_array().unwrap();
    assert!(["Cancel", "Try again"].iter().all(|it| labels.contains(&json!(it))), "{dialog}");
}

#[test]
fn people_get_the_evidence_in_short_and_a_picture_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join("drawn.png");
    let arguments =
        ["evidence", screen("trace.png").to_str().unwrap(), "--draw", drawn.to_str().unwrap()].map(str::to_owned);
    let output = sightline(&arguments.each_ref().map(String::as_str), &[], "");
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(shown.contains("error      ValueError: voucher is larger than the amount"), "{shown}");
    assert!(shown.contains("at         discount_of (/srv/shop/src/discounts.py:16)"), "{shown}");
    let picture = sightline::imaging::decode(
        &std::fs::read(&drawn).unwrap(),
        &sightline::imaging::Limits { max_bytes: 1 << 24, max_pixels: 1 << 24 },
    );
    let picture = picture.expect("a picture");
    let itself = screen("trace.png");
    let itself = ["evidence", itself.to_str().unwrap(), "--draw", itself.to_str().unwrap()];
    assert_eq!(sightline(&itself, &[], "").status.code(), Some(2));
    assert!(picture.width() >= 620 && picture.height() >= 170, "{} x {}", picture.width(), picture.height());
}

#[test]
fn a_bad_picture_costs_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (broken, missing) = (folder.path().join("broken.png"), folder.path().join("missing.png"));
    std::fs::write(&broken, &std::fs::read(screen("trace.png")).unwrap()[..900]).unwrap();
    let dialog = screen("dialog.png");
    let paths = [&broken, &missing, &dialog].map(|it| it.to_str().unwrap());
    let output = sightline(&[&["evidence", "--json"], &paths[..]].concat(), &[], "");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let items = told["evidence"].as_array().unwrap();
    assert!(items[0]["error"]["message"].as_str().unwrap().contains("damaged"), "{told}");
    assert!(items[1]["error"]["message"].as_str().unwrap().contains("check the path"), "{told}");
    assert!(items[2]["ocr_text"].as_str().unwrap().contains("Confirm the order"), "{told}");
}

#[test]
fn pictures_without_text_say_so() {
    for (name, note) in [("checkout.png", "too small"), ("images/rgb_16.png", "no text")] {
        let told = told(&[fixtures().join(name).to_str().unwrap()]);
        assert_eq!(told[0]["ocr_text"], "", "{told}");
        assert!(told[0]["notes"].as_str().unwrap().contains(note), "{told}");
    }
}

/// The answer to an issue that says nothing but what its picture shows.
fn located(arguments: &[&str], variables: &[(&str, &str)]) -> (Value, String) {
    let (repository, picture) = (fixtures().join("repository"), screen("trace.png"));
    let base = [
        "locate",
        "--json",
        "--repo",
        repository.to_str().unwrap(),
        "--image",
        picture.to_str().unwrap(),
        "--issue",
        "-",
    ];
    let output = sightline(&[&base, arguments].concat(), variables, "It fails\n\nSee the picture of the mail.");
    assert!(output.status.success(), "{}", text(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), text(&output.stderr).to_owned())
}

#[test]
fn what_a_picture_says_finds_the_code() {
    for retriever in ["bm25", "hybrid", "dense"] {
        let (answer, warnings) = located(&["--retriever", retriever], &[]);
        assert_eq!(first_two(&answer), TRACED, "{retriever}");
        assert_eq!(answer["query"]["mode"], "vce");
        assert_eq!(answer["query"]["images"][0]["used"], true, "{answer}");
        assert_eq!(answer["query"]["vce"][0]["error_signal"]["type"], "ValueError");
        assert!(!warnings.contains("not used"), "{warnings}");
    }
    let (hybrid, _) = located(&["--rerank", "0"], &[]);
    assert!(hybrid["query"]["vce"][0]["weight"].as_f64() > Some(0.5), "{hybrid}");
    assert!(hybrid["functions"][0]["scores"]["visual"].as_f64() > Some(0.0), "{hybrid}");
    let (text, warnings) = located(&["--rerank", "0", "--mode", "text"], &[]);
    assert_eq!((&text["files"][0]["path"], &text["query"]["vce"]), (&json!("src/mail.ts"), &json!([])), "{text}");
    assert!(warnings.contains("the mode `text` leaves pictures out"), "{warnings}");
}

#[test]
fn a_picture_of_another_matter_does_not_decide() {
    let served = served();
    let image = json!({"data": data(&screen("dialog.png")), "text": TRACE});
    let mail =
        "The mail that confirms an order has no subject, and the mailer sends it to the wrong address of the order";
    let asked = json!({"title": "Confirmation of an order is sent to nobody", "body": mail, "images": [image]});
    let located = locate(&served, &asked);
    assert_eq!(located["files"][0]["path"], "src/mail.ts", "{located}");
    assert!(located["query"]["vce"][0]["weight"].as_f64() < Some(0.5), "{located}");
    // The same picture where the text is of its matter.
    let asked = json!({"title": "Discount of a voucher is too large", "body": "The total of a cart with a voucher and its discount is wrong, it should be at least zero whatever the amount of the voucher", "images": asked["images"]});
    let located = locate(&served, &asked);
    assert!(located["query"]["vce"][0]["weight"].as_f64() > Some(0.9), "{located}");
}

#[test]
fn a_letter_read_wrong_still_finds_its_file() {
    let served = served();
    for read in ["in disc0unt_of", "in discountof", "File \"src/d1scounts.py\", line 16"] {
        let image = json!({"data": data(&screen("dialog.png")), "text": read});
        let located = locate(&served, &json!({"title": "It fails", "images": [image], "retriever": "hybrid"}));
        assert_eq!(located["files"][0]["path"], "src/discounts.py", "{read}: {located}");
        assert_eq!(located["query"]["vce"][0]["source"], "given");
    }
}

fn served() -> Served {
    // Dropped with the process; the service ends with its test.
    let data = tempfile::tempdir().unwrap().keep();
    let mut setup = Setup::on(&data);
    setup.options.roots = vec![fixtures()];
    let served = setup.start();
    assert_eq!(served.add("shop", &fixtures().join("repository"))["status"], "done");
    served
}

fn locate(served: &Served, body: &Value) -> Value {
    served.post("/v1/repositories/shop/locate", body).ok(200)
}

#[test]
fn the_service_tells_what_pictures_say_and_searches_with_it() {
    let served = served();
    let (trace, dialog) = (data(&screen("trace.png")), data(&screen("dialog.png")));
    let told = served.post("/v1/evidence", json!({"images": [{"data": trace, "name": "t"}, {"data": "?"}]})).ok(200);
    assert_eq!(told["evidence"][0]["error_signal"]["type"], "ValueError", "{told}");
    assert_eq!(told["evidence"][1]["error"]["code"], "image_base64", "{told}");
    assert_eq!(told["evidence"][1]["error"]["param"], "images[1].data", "{told}");
    let refused = |body: Value| served.post("/v1/evidence", body).error();
    assert_eq!(
        refused(json!({"images": [{"data": "?"}]})),
        (400, "image_base64".into(), Some("images[0].data".into()))
    );
    assert_eq!(refused(json!({"images": []})), (400, "empty".into(), Some("images".into())));
    assert_eq!(refused(json!({"image": trace})), (422, "unknown_field".into(), Some("image".into())));
    let nine: Vec<Value> = (0..9).map(|_| json!({"data": trace})).collect();
    assert_eq!(refused(json!({"images": nine})), (413, "too_many_images".into(), Some("images".into())));

    // A picture is a question.
    let only = locate(&served, &json!({"images": [{"data": trace}]}));
    assert_eq!(first_two(&only), TRACED);
    let nothing = served.post("/v1/repositories/shop/locate", json!({"images": [{"data": trace}], "mode": "text"}));
    assert_eq!((nothing.error().0, nothing.error().2), (422, Some("images".into())));
    // What the user says that it holds counts instead of what would be read.
    let given = json!({"title": "It fails", "images": [{"data": dialog, "text": TRACE}]});
    assert_eq!(first_two(&locate(&served, &given)), TRACED);
    let useless = json!({"title": "a", "mode": "image", "images": [{"data": dialog, "text": TRACE}]});
    let useless = served.post("/v1/repositories/shop/locate", useless).error();
    assert_eq!(useless, (422, "no_effect".into(), Some("images[0].text".into())));
}

/// A model that answers every request so, once for each answer; gives its address and hears what it was asked.
fn model(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let serve = |answer: String| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut buffer = [0; 1 << 16];
            let length = |asked: &[u8]| {
                let head = String::from_utf8_lossy(asked).to_lowercase();
                let (head, _) = head.split_once("\r\n\r\n")?;
                let length =
                    head.lines().find_map(|it| it.strip_prefix("content-length:"))?.trim().parse::<usize>().ok()?;
                Some(head.len() + 4 + length)
            };
            while length(&asked).is_none_or(|it| asked.len() < it) {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    read => asked.extend(&buffer[..read]),
                }
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                answer.len()
            );
            stream.write_all((head + &answer).as_bytes()).unwrap();
            String::from_utf8_lossy(&asked).into_owned()
        };
        answers.into_iter().map(serve).collect()
    });
    (address, serving)
}

fn completion(content: &str) -> String {
    json!({"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}]})
        .to_string()
}

#[test]
fn a_vision_language_model_fills_the_fields_if_one_is_set() {
    let evidence = json!({
        "ocr_text": "discount_of", "error_signal": null, "ui_elements": [], "user_action": "pays with a voucher",
        "code_hint": {"function_names": ["discount_of"], "file_patterns": [], "frameworks": []},
        "visual_saliency": "the total is negative", "confidence": 0.8, "notes": [], "category": "ui_screenshot",
    });
    let (address, asked) = model(vec![completion(&evidence.to_string())]);
    let key = [("SIGHTLINE_EVIDENCE_ENDPOINT_KEY", "secret-of-the-test")];
    let (answer, _) = located(&["--vce-endpoint", &address, "--vce-model", "seer", "--rerank", "0"], &key);
    let vce = &answer["query"]["vce"][0];
    assert_eq!(
        (&vce["source"], &vce["model"], &vce["user_action"]),
        (&json!("endpoint"), &json!("seer"), &json!("pays with a voucher"))
    );
    assert!(first_two(&answer).contains(&"src/discounts.py".to_owned()), "{answer}");
    let asked = asked.join().unwrap();
    assert!(asked[0].contains("secret-of-the-test") && asked[0].contains("data:image/png;base64,"), "{}", asked[0]);
}

#[test]
fn a_model_that_can_not_read_leaves_it_to_this_machine() {
    let (address, asked) = model(vec![completion("no JSON"), completion("{\"confidence\": 7}")]);
    let (answer, warnings) = located(&["--vce-endpoint", &address, "--vce-model", "seer", "--rerank", "0"], &[]);
    assert_eq!(answer["query"]["vce"][0]["source"], "ocr", "{answer}");
    assert!(answer["query"]["vce"][0]["warning"].as_str().unwrap().contains("on this machine instead"), "{answer}");
    assert!(warnings.contains("trace.png") && warnings.contains("on this machine instead"), "{warnings}");
    assert_eq!((asked.join().unwrap().len(), first_two(&answer)), (2, TRACED.map(str::to_owned).to_vec()));
    // Nobody is there.
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = format!("http://{unused}/v1");
    let (answer, _) = located(&["--vce-endpoint", &address, "--vce-model", "seer", "--rerank", "0"], &[]);
    assert!(answer["query"]["vce"][0]["warning"].as_str().unwrap().contains("can't be reached"), "{answer}");
    let output = sightline(&["evidence", "a.png", "--vce-endpoint", "ftp://x", "--vce-model", "m"], &[], "");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn what_was_read_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let path = screen("trace.png");
    let arguments = ["evidence", "--json", "--data-dir", data.path().to_str().unwrap(), path.to_str().unwrap()];
    let first = sightline(&arguments, &[], "");
    let kept = || std::fs::read_dir(data.path().join("evidence")).unwrap().count();
    assert_eq!((text(&first.stderr), kept()), ("", 1));
    let second = sightline(&arguments, &[], "");
    assert_eq!(text(&first.stdout), text(&second.stdout));
    // One that is damaged is read again.
    let entry = std::fs::read_dir(data.path().join("evidence")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&entry, b"rubbish").unwrap();
    assert_eq!(text(&sightline(&arguments, &[], "").stdout), text(&first.stdout));
    assert_ne!(std::fs::read(&entry).unwrap(), b"rubbish");
}
