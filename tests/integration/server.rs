//! The service as its clients see it: repositories from adding to deleting, questions, jobs, and the status of every bad request.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use sightline::encoder::{
    self, Encoder, EncoderError, Input, InputEmbedding, ModelInfo, Progress, QueryEmbedding, Window,
};
use sightline::types::IssueReport;

use super::repository::Repository;
use super::served::{RUNTIME, Served, Setup, answer, fixtures, request};

const CART: &str =
    "def total(items):\n    \"\"\"The price of a cart.\"\"\"\n    return sum(item.price for item in items)\n";
const LOGIN: &str = "export function login(user, password) {\n  return fetch('/session', { user, password });\n}\n";

/// Two files that an issue can tell apart.
fn shop() -> Repository {
    let shop = Repository::plain();
    shop.write("shop/cart.py", CART).write("web/login.js", LOGIN);
    shop
}

/// A service whose clients may name folders below `root`.
fn serve(data: &Path, root: &Path) -> Served {
    let mut setup = Setup::on(data);
    setup.options.roots = vec![root.to_owned()];
    setup.start()
}

/// A service with a repository that is ready.
struct Shop {
    served: Served,
    repository: Repository,
    _data: tempfile::TempDir,
}

impl Shop {
    fn new() -> Self {
        let (data, repository) = (tempfile::tempdir().expect("a folder"), shop());
        let served = serve(data.path(), &repository.root);
        let job = served.add("shop", &repository.root);
        assert_eq!(job["status"], "done", "{job}");
        Shop { served, repository, _data: data }
    }

    fn locate(&self, body: &Value) -> Value {
        self.served.post("/v1/repositories/shop/locate", body).ok(200)
    }
}

fn first<'a>(located: &'a Value, list: &str, key: &str) -> &'a str {
    located[list][0][key].as_str().unwrap_or_default()
}

fn shot() -> Vec<u8> {
    std::fs::read(fixtures().join("checkout.png")).expect("a picture")
}

#[test]
fn a_repository_is_added_asked_and_deleted() {
    let shop = Shop::new();
    let served = &shop.served;
    let view = served.get("/v1/repositories/shop").ok(200);
    let counts = (&view["status"], &view["stale"], &view["files"], &view["functions"], &view["source"]["kind"]);
    assert_eq!(counts, (&json!("ready"), &json!(false), &json!(2), &json!(2), &json!("path")));
    assert_eq!(view["vectors"], view["windows"]);
    let located = shop.locate(&json!({"title": "The total of a cart is wrong", "k": 1}));
    assert_eq!((first(&located, "files", "path"), first(&located, "functions", "function")), ("shop/cart.py", "total"));
    assert_eq!((located["files"].as_array().map(Vec::len), &located["index"]["indexed"]), (Some(1), &json!(true)));
    let list = served.get("/v1/repositories").ok(200);
    assert_eq!(
        (list["repositories"].as_array().map(Vec::len), first(&list, "repositories", "repository")),
        (Some(1), "shop")
    );
    served.delete("/v1/repositories/shop").ok(204);
    assert_eq!(served.get("/v1/repositories/shop").error().0, 404);
    assert_eq!(served.delete("/v1/repositories/shop").error().0, 404);
    assert!(shop.repository.root.join("shop/cart.py").exists(), "the source is its owner's");
}

#[test]
fn a_question_is_answered_the_way_it_is_asked() {
    let shop = Shop::new();
    let files = |body: Value| -> Vec<String> {
        let located = shop.locate(&body);
        located["files"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|it| it["path"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    for retriever in ["bm25", "dense", "hybrid"] {
        assert_eq!(
            files(json!({"title": "login with a password", "retriever": retriever}))[0],
            "web/login.js",
            "{retriever}"
        );
    }
    assert_eq!(files(json!({"title": "login", "k": 1_000_000_000, "retriever": "dense", "exact": true})).len(), 2);
    assert_eq!(
        files(json!({"title": "login", "filter": {"languages": ["Python"]}, "retriever": "dense"})),
        ["shop/cart.py"]
    );
    assert_eq!(files(json!({"title": "login total", "filter": {"paths": ["shop/"]}})), ["shop/cart.py"]);
    assert!(files(json!({"title": "login", "granularity": "function"})).is_empty());
    let explained = shop.locate(&json!({"title": "login", "explain": true}));
    assert_eq!(explained["files"][0]["scores"]["terms"][0][0], "login");
    let null = json!({"title": null, "body": "login", "images": null, "k": null, "filter": null, "mode": null});
    assert_eq!(files(null)[0], "web/login.js");
}

#[test]
fn pictures_come_as_base64_as_data_urls_and_as_files_and_are_told_of() {
    let shop = Shop::new();
    let data = BASE64_STANDARD.encode(shot());
    let images = json!([{"data": data, "name": "a.png"}, {"data": format!("data:image/png;base64,{data}")}]);
    let located = shop.locate(&json!({"title": "login", "images": images, "mode": "image"}));
    let told = &located["query"]["images"];
    assert_eq!((&told[0]["name"], &told[1]["name"]), (&json!("a.png"), &json!("images[1].data")));
    let reason = told[0]["reason"].as_str().unwrap_or_default();
    assert!(told[0]["used"] == false && reason.contains("reads text only"), "{told}");
    assert!(told[0]["width"].as_u64() > Some(0) && told[0]["height"].as_u64() > Some(0), "{told}");
    let text = shop.locate(&json!({"title": "login", "images": images, "mode": "text"}));
    assert!(text["query"]["images"][0]["reason"].as_str().is_some_and(|it| it.contains("`text`")), "{text}");

    let form = form(&[("title", None, b"login"), ("k", None, b"1"), ("image", Some("shot.png"), &shot())]);
    let located = shop.served.send(post_form("/v1/repositories/shop/locate", form)).ok(200);
    assert_eq!(
        (first(&located, "files", "path"), &located["query"]["images"][0]["name"]),
        ("web/login.js", &json!("shot.png"))
    );
    assert_eq!(located["files"].as_array().map(Vec::len), Some(1));
}

/// The beginning of a picture of 100,000 by 100,000 pixels.
fn bomb() -> Vec<u8> {
    let mut header = b"IHDR".to_vec();
    header.extend([100_000u32.to_be_bytes(), 100_000u32.to_be_bytes()].concat());
    header.extend([16, 6, 0, 0, 0]);
    let sum = crc32fast::hash(&header).to_be_bytes();
    [&b"\x89PNG\r\n\x1a\n"[..], &13u32.to_be_bytes(), &header, &sum].concat()
}

const BOUNDARY: &str = "----boundary";

fn form(fields: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, value) in fields {
        let file = file.map(|it| format!("; filename=\"{it}\"\r\nContent-Type: image/png")).unwrap_or_default();
        write!(body, "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").expect("memory");
        body.extend_from_slice(value);
        body.extend_from_slice(b"\r\n");
    }
    write!(body, "--{BOUNDARY}--\r\n").expect("memory");
    body
}

fn post_form(path: &str, body: Vec<u8>) -> axum::http::Request<Body> {
    request("POST", path, Some(&format!("multipart/form-data; boundary={BOUNDARY}")), body.into())
}

#[test]
fn every_bad_question_has_its_status_its_code_and_its_name() {
    let shop = Shop::new();
    let check = |body: &str, expected: (u16, &str, Option<&str>)| {
        let (status, code, param) = shop.served.post("/v1/repositories/shop/locate", body).error();
        assert_eq!((status, code.as_str(), param.as_deref()), expected, "{}", &body[..body.len().min(200)]);
    };
    check("", (400, "empty", None));
    check("{", (400, "invalid_json", None));
    check("{\"title\": \"a\"} b", (400, "invalid_json", None));
    check("[]", (422, "invalid_field", None));
    check("{}", (400, "empty", None));
    check(r#"{"title": " ", "body": "\n\n"}"#, (400, "empty", None));
    check(r#"{"title": "a", "k": 0}"#, (422, "invalid_field", Some("k")));
    check(r#"{"title": "a", "k": -1}"#, (422, "invalid_field", Some("k")));
    check(r#"{"title": "a", "k": "1"}"#, (422, "invalid_field", Some("k")));
    check(r#"{"title": 5}"#, (422, "invalid_field", Some("title")));
    check(r#"{"title": "a", "title": "b"}"#, (422, "duplicate_field", Some("title")));
    check(r#"{"title": "a", "image": []}"#, (422, "unknown_field", Some("image")));
    check(r#"{"title": "a", "images": [{"url": "x"}]}"#, (422, "unknown_field", Some("images[0].url")));
    check(r#"{"title": "a", "images": ["x"]}"#, (422, "invalid_field", Some("images[0]")));
    check(r#"{"title": "a", "images": [{}]}"#, (422, "missing_field", Some("images[0].data")));
    check(r#"{"title": "a", "images": [{"data": "%%%"}]}"#, (400, "image_base64", Some("images[0].data")));
    check(
        r#"{"title": "a", "images": [{"data": "data:image/png,x"}]}"#,
        (400, "image_data_url", Some("images[0].data")),
    );
    let no_picture = format!(r#"{{"title": "a", "images": [{{"data": "{}"}}]}}"#, BASE64_STANDARD.encode("no picture"));
    let (status, _, param) = shop.served.post("/v1/repositories/shop/locate", no_picture).error();
    assert_eq!((status, param.as_deref()), (400, Some("images[0].data")));
    let bomb = format!(r#"{{"title": "a", "images": [{{"data": "{}"}}]}}"#, BASE64_STANDARD.encode(bomb()));
    check(&bomb, (413, "image_too_large", Some("images[0].data")));
    let large =
        format!(r#"{{"title": "a", "images": [{{"data": "{}"}}]}}"#, BASE64_STANDARD.encode(vec![0; (1 << 20) + 1]));
    check(&large, (413, "image_too_large", Some("images[0].data")));
    let many = json!({"title": "a", "images": vec![json!({"data": "eA=="}); 9]}).to_string();
    check(&many, (413, "too_many_images", Some("images")));
    let only_pictures = json!({"images": [{"data": BASE64_STANDARD.encode(shot())}]}).to_string();
    check(&only_pictures, (422, "unusable", Some("images")));
    check(r#"{"title": "a", "retriever": "bm26"}"#, (422, "invalid_field", Some("retriever")));
    check(r#"{"title": "a", "granularity": "files"}"#, (422, "invalid_field", Some("granularity")));
    check(r#"{"title": "a", "mode": "images"}"#, (422, "invalid_field", Some("mode")));
    check(r#"{"title": "a", "exact": true}"#, (422, "no_effect", Some("exact")));
    check(r#"{"title": "a", "filter": {"path": []}}"#, (422, "unknown_field", Some("filter.path")));
    check(r#"{"title": "a", "filter": {"paths": ["x", ""]}}"#, (422, "invalid_pattern", Some("filter.paths[1]")));
    let many = json!({"title": "a", "filter": {"paths": vec!["x"; 257]}}).to_string();
    check(&many, (413, "filter_too_large", Some("filter.paths")));
    assert_eq!(
        shop.served.post("/v1/repositories/none/locate", r#"{"title": "a"}"#).error(),
        (404, "repository_not_found".into(), Some("repo".into()))
    );
    let text = request("POST", "/v1/repositories/shop/locate", Some("text/plain"), Body::from("{}"));
    assert_eq!(shop.served.send(text).error().0, 415);
    let bytes = request(
        "POST",
        "/v1/repositories/shop/locate",
        Some("application/json"),
        Body::from(&b"{\"title\": \"\xff\"}"[..]),
    );
    assert_eq!(shop.served.send(bytes).error().0, 400);
    let deep = format!("{{\"title\": {}", "[".repeat(100_000));
    assert_eq!(shop.served.post("/v1/repositories/shop/locate", deep).error().0, 422);
}

#[test]
fn every_bad_form_has_its_status() {
    let shop = Shop::new();
    let check = |fields: &[(&str, Option<&str>, &[u8])], expected: (u16, &str, Option<&str>)| {
        let (status, code, param) = shop.served.send(post_form("/v1/repositories/shop/locate", form(fields))).error();
        assert_eq!((status, code.as_str(), param.as_deref()), expected, "{fields:?}");
    };
    check(&[], (400, "empty", None));
    check(&[("titel", None, b"a")], (422, "unknown_field", Some("titel")));
    check(&[("title", None, b"a"), ("title", None, b"b")], (422, "duplicate_field", Some("title")));
    check(&[("title", None, b"a"), ("k", None, b"many")], (422, "invalid_field", Some("k")));
    check(&[("title", None, b"a"), ("k", None, b"0")], (422, "invalid_field", Some("k")));
    check(&[("title", None, b"a"), ("images", None, b"[]")], (422, "unknown_field", Some("images")));
    check(&[("title", None, b"a"), ("image", Some("x.png"), b"no picture")], (400, "image_format", Some("image[0]")));
    let cut = request(
        "POST",
        "/v1/repositories/shop/locate",
        Some(&format!("multipart/form-data; boundary={BOUNDARY}")),
        Body::from(format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nlog")),
    );
    assert_eq!(shop.served.send(cut).error(), (400, "invalid_form".into(), None));
    let unbound = request("POST", "/v1/repositories/shop/locate", Some("multipart/form-data"), Body::from("x"));
    assert_eq!(shop.served.send(unbound).error(), (400, "invalid_form".into(), None));
}

#[test]
fn every_bad_repository_has_its_status() {
    let shop = Shop::new();
    let outside = tempfile::tempdir().expect("a folder");
    let put = |name: &str, body: Value| {
        let (status, code, param) = shop.served.json("PUT", &format!("/v1/repositories/{name}"), &body).error();
        (status, code, param.unwrap_or_default())
    };
    let check = |name: &str, body: Value, expected: (u16, &str, &str)| {
        let (status, code, param) = put(name, body.clone());
        assert_eq!((status, code.as_str(), param.as_str()), expected, "{name} {body}");
    };
    let root = &shop.repository.root;
    check("a", json!({}), (404, "repository_not_found", "repo"));
    check("a", json!({"source": {"path": outside.path()}}), (422, "path_not_allowed", "source.path"));
    check("a", json!({"source": {"path": root.join("..")}}), (422, "path_not_allowed", "source.path"));
    check("a", json!({"source": {"path": root.join("none")}}), (422, "path_not_allowed", "source.path"));
    check("a", json!({"source": {"path": "shop"}}), (422, "path_not_allowed", "source.path"));
    check("a", json!({"source": {"path": root.join("shop/cart.py")}}), (422, "path_not_allowed", "source.path"));
    check("a", json!({"source": {"paths": root}}), (422, "unknown_field", "source.paths"));
    check("a", json!({"source": {}}), (422, "missing_field", "source.path"));
    check("a", json!({"source": {"path": root}, "max_file_bytes": 0}), (422, "invalid_field", "max_file_bytes"));
    check("a", json!({"source": {"path": root}, "max_file_bytes": u64::MAX}), (422, "unusable", "max_file_bytes"));
    check("a", json!({"source": {"path": root}, "include": [""]}), (422, "unusable", "include"));
    for name in [".hidden", "a%2Fb", "a%20b", "%C3%A4", "a%00", "..%2F..%2Fetc"] {
        check(name, json!({"source": {"path": root}}), (422, "repository_name", "repo"));
    }
    assert_eq!(put("%ff", json!({"source": {"path": root}})).0, 400);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(outside.path(), root.join("link")).expect("a link");
        check("a", json!({"source": {"path": root.join("link")}}), (422, "path_not_allowed", "source.path"));
    }
    for path in ["/v1/jobs/none", "/v1/jobs/none/events", "/v1/none", "/v1/repositories/none"] {
        assert_eq!(shop.served.get(path).error().0, 404, "{path}");
    }
    assert_eq!(shop.served.delete("/v1/jobs/none").error().0, 404);
    assert_eq!(shop.served.json("PATCH", "/v1/repositories/shop", "{}").error().0, 405);
    // Nothing of all that is left.
    let list = shop.served.get("/v1/repositories").ok(200);
    assert_eq!(list["repositories"].as_array().map(Vec::len), Some(1), "{list}");
}

#[test]
fn no_message_names_a_path_of_the_server() {
    let shop = Shop::new();
    std::fs::remove_dir_all(&shop.repository.root).expect("removable");
    let begun = shop.served.json("PUT", "/v1/repositories/shop", "{}").ok(202);
    let job = shop.served.finished(begun["job"].as_str().expect("a job"));
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("source_unusable")));
    let scratch = shop.repository.root.parent().expect("a folder").to_str().expect("UTF-8").to_owned();
    assert!(!job.to_string().contains(&scratch), "{job}");
    // The index before it answers on.
    let located = shop.locate(&json!({"title": "login"}));
    assert_eq!((first(&located, "files", "path"), &located["index"]["stale"]), ("web/login.js", &json!(true)));
    let view = shop.served.get("/v1/repositories/shop").ok(200);
    assert_eq!((&view["status"], &view["stale"]), (&json!("ready"), &json!(true)));
    assert!(view["failure"].as_str().is_some_and(|it| !it.contains(&scratch)), "{view}");
}

#[test]
fn an_index_is_brought_up_to_date_for_a_question() {
    let shop = Shop::new();
    shop.repository.write("shop/refund.py", "def refund(order):\n    return order.amount\n");
    let start = Instant::now();
    loop {
        let located = shop.locate(&json!({"title": "refund of an order"}));
        if first(&located, "files", "path") == "shop/refund.py" {
            assert_eq!(located["index"]["stale"], false);
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "it is looked at once a second: {located}");
        std::thread::yield_now();
    }
}

fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, text.as_bytes()).expect("memory");
    }
    archive.into_inner().expect("memory")
}

fn upload(name: &str, body: Vec<u8>) -> axum::http::Request<Body> {
    request("POST", &format!("/v1/repositories/{name}/snapshot"), Some("application/x-tar"), body.into())
}

#[test]
fn a_repository_comes_as_an_archive_and_the_next_one_replaces_it() {
    let data = tempfile::tempdir().expect("a folder");
    let served = Setup::on(data.path()).start();
    // What is not needed is removed in the background.
    let check_uploads = |expected: usize| {
        let start = Instant::now();
        while std::fs::read_dir(data.path().join("uploads")).expect("a folder").count() != expected {
            assert!(start.elapsed() < Duration::from_secs(20), "not {expected}");
            std::thread::yield_now();
        }
    };
    let send = |files: &[(&str, &str)]| {
        let begun = served.send(upload("sent", tar(files))).ok(202);
        served.finished(begun["job"].as_str().expect("a job"))
    };
    assert_eq!(send(&[("top/shop/cart.py", CART), ("top/web/login.js", LOGIN)])["status"], "done");
    let located = served.post("/v1/repositories/sent/locate", json!({"title": "total of a cart"})).ok(200);
    assert_eq!(first(&located, "files", "path"), "shop/cart.py");
    let second = send(&[("top/web/login.js", LOGIN), ("top/web/logout.js", "export function logout() {}\n")]);
    assert_eq!((&second["status"], &second["result"]["failed"]), (&json!("done"), &json!(0)));
    let view = served.get("/v1/repositories/sent").ok(200);
    let source = (&view["files"], &view["stale"], &view["source"]["kind"], &view["source"]["path"]);
    assert_eq!(source, (&json!(2), &json!(false), &json!("upload"), &Value::Null));
    check_uploads(1);
    // The same files again, chosen otherwise.
    let begun = served.json("PUT", "/v1/repositories/sent", json!({"exclude": ["logout.js"]})).ok(202);
    assert_eq!(served.finished(begun["job"].as_str().expect("a job"))["status"], "done");
    assert_eq!(served.get("/v1/repositories/sent").ok(200)["files"], 1);
    served.delete("/v1/repositories/sent").ok(204);
    check_uploads(0);
}

#[test]
fn an_archive_that_cannot_be_used_leaves_nothing() {
    let data = tempfile::tempdir().expect("a folder");
    let served = Setup::on(data.path()).start();
    let error = |request| served.send(request).error();
    assert_eq!(error(upload("a", Vec::new())), (400, "empty".into(), None));
    assert_eq!(error(upload("a", b"no archive at all".to_vec())).0, 400);
    let whole = tar(&[("a.py", CART)]);
    assert_eq!(error(upload("a", whole[..700].to_vec())), (400, "archive_invalid".into(), None));
    assert_eq!(error(upload(".a", whole.clone())).0, 422);
    let html = request("POST", "/v1/repositories/a/snapshot", Some("text/html"), whole.into());
    assert_eq!(error(html).0, 415);
    assert_eq!(served.get("/v1/repositories/a").error().0, 404);
    assert_eq!(std::fs::read_dir(data.path().join("uploads")).expect("a folder").count(), 0);
}

/// The model in the program, which can be made to wait, to fail, and counts what it reads.
#[derive(Clone)]
struct Gate {
    inner: Arc<dyn Encoder>,
    is_shut: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
    windows: Arc<AtomicUsize>,
    inputs: Arc<AtomicUsize>,
    /// Calls that have come, before they wait.
    calls: Arc<AtomicUsize>,
}

impl Gate {
    fn new() -> Self {
        let inner: Arc<dyn Encoder> = Arc::new(encoder::bundled().expect("the model"));
        let (is_shut, fails) = (Arc::default(), Arc::default());
        Gate { inner, is_shut, fails, windows: Arc::default(), inputs: Arc::default(), calls: Arc::default() }
    }

    fn shut(&self, is_shut: bool) {
        self.is_shut.store(is_shut, Ordering::SeqCst);
    }

    fn wait(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        while self.is_shut.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl Encoder for Gate {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn fingerprint(&self) -> &str {
        self.inner.fingerprint()
    }

    fn windows(&self, header: &str, body: &str) -> Result<Vec<Window>, EncoderError> {
        self.inner.windows(header, body)
    }

    fn embed(&self, windows: &[&Window], progress: &Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        self.wait();
        if self.fails.load(Ordering::SeqCst) {
            return Err(EncoderError::Compute { sequences: windows.len(), cause: "it is meant to".to_owned() });
        }
        self.windows.fetch_add(windows.len(), Ordering::SeqCst);
        self.inner.embed(windows, progress)
    }

    fn query(&self, issue: &IssueReport) -> Result<QueryEmbedding, EncoderError> {
        self.wait();
        self.inner.query(issue)
    }

    fn embed_inputs(&self, inputs: &[Input], progress: &Progress) -> Vec<Result<InputEmbedding, EncoderError>> {
        self.wait();
        self.inputs.fetch_add(inputs.len(), Ordering::SeqCst);
        self.inner.embed_inputs(inputs, progress)
    }

    fn decode(&self, tokens: &[u32]) -> Result<String, EncoderError> {
        self.inner.decode(tokens)
    }
}

fn gated(data: &Path, root: &Path, gate: &Gate, queue_tokens: usize) -> Served {
    let mut setup = Setup { encoder: Box::new(gate.clone()), ..Setup::on(data) };
    setup.options.roots = vec![root.to_owned()];
    setup.options.queue_tokens = queue_tokens;
    setup.start()
}

#[test]
fn a_build_that_runs_is_waited_for_cancelled_or_deleted() {
    let (data, shop, gate) = (tempfile::tempdir().expect("a folder"), shop(), Gate::new());
    let served = gated(data.path(), &shop.root, &gate, 1 << 20);
    gate.shut(true);
    let put = json!({"source": {"path": shop.root}});
    let begun = served.json("PUT", "/v1/repositories/shop", &put).ok(202);
    let job = begun["job"].as_str().expect("a job").to_owned();
    assert_eq!(served.json("PUT", "/v1/repositories/shop", &put).error().1, "build_running");
    let archive = upload("shop", tar(&[("a.py", CART)]));
    assert_eq!(served.send(archive).error().0, 409);
    let building = served.post("/v1/repositories/shop/locate", json!({"title": "a", "retriever": "bm25"}));
    assert_eq!(building.error(), (503, "repository_building".into(), None));
    assert!(building.headers.contains_key("retry-after"));
    assert_eq!(served.get("/v1/repositories/shop").ok(200)["status"], "building");
    served.delete(&format!("/v1/jobs/{job}")).ok(202);
    gate.shut(false);
    assert_eq!(served.finished(&job)["status"], "cancelled");
    assert_eq!(served.get("/v1/repositories/shop").ok(200)["status"], "failed");
    let located = served.post("/v1/repositories/shop/locate", json!({"title": "a"}));
    assert_eq!(located.error(), (409, "repository_failed".into(), None));
    gate.shut(true);
    let begun = served.json("PUT", "/v1/repositories/shop", &put).ok(202);
    let job = begun["job"].as_str().expect("a job");
    let deleting = served.router.clone();
    let deleted = RUNTIME.spawn(answer(deleting, request("DELETE", "/v1/repositories/shop", None, Body::empty())));
    while served.get("/v1/repositories/shop").status != 404 {}
    gate.shut(false);
    assert_eq!(RUNTIME.block_on(deleted).expect("no panic").status, 204);
    assert_eq!(served.finished(job)["status"], "cancelled");
    assert!(!data.path().join("repositories/shop").exists());
}

#[test]
fn an_interrupted_job_goes_on_after_a_restart_with_what_it_had() {
    let (data, shop, gate) = (tempfile::tempdir().expect("a folder"), shop(), Gate::new());
    for file in 0..4 {
        let lines: String = (0..400).map(|it| format!("    line{file}_{it} = {it}\n")).collect();
        shop.write(&format!("long_{file}.py"), format!("def f():\n{lines}"));
    }
    let served = gated(data.path(), &shop.root, &gate, 1 << 20);
    let begun = served.json("PUT", "/v1/repositories/shop", json!({"source": {"path": shop.root}})).ok(202);
    let job = begun["job"].as_str().expect("a job").to_owned();
    // Until a batch is embedded; the next one waits at the gate.
    let embedded = || served.get(&format!("/v1/jobs/{job}")).ok(200)["progress"].clone();
    while embedded()["phase"] != "embedding" || embedded()["done"] == 0 {
        std::thread::yield_now();
    }
    gate.shut(true);
    drop(served);
    gate.shut(false);
    let again = gated(data.path(), &shop.root, &gate, 1 << 20);
    let done = again.finished(&job);
    assert_eq!(done["status"], "done", "{done}");
    assert!(done["result"]["cached"].as_u64() > Some(0), "{done}");
    assert_eq!(again.get("/v1/repositories/shop").ok(200)["status"], "ready");
}

#[test]
fn an_encoder_that_fails_leaves_the_index_before() {
    let (data, shop, gate) = (tempfile::tempdir().expect("a folder"), shop(), Gate::new());
    let served = gated(data.path(), &shop.root, &gate, 1 << 20);
    gate.fails.store(true, Ordering::SeqCst);
    assert_eq!(served.add("shop", &shop.root)["error"]["code"], "model_failed");
    let view = served.get("/v1/repositories/shop").ok(200);
    assert_eq!((&view["status"], &view["vectors"]), (&json!("failed"), &json!(0)));
    gate.fails.store(false, Ordering::SeqCst);
    assert_eq!(served.add("shop", &shop.root)["status"], "done");
    shop.write("more.py", "def more():\n    return 1\n");
    gate.fails.store(true, Ordering::SeqCst);
    assert_eq!(served.add("shop", &shop.root)["status"], "failed");
    let located = served.post("/v1/repositories/shop/locate", json!({"title": "login", "retriever": "bm25"})).ok(200);
    assert_eq!(first(&located, "files", "path"), "web/login.js");
}

#[test]
fn what_would_wait_too_long_is_refused_and_what_nobody_waits_for_is_not_computed() {
    let (data, shop, gate) = (tempfile::tempdir().expect("a folder"), shop(), Gate::new());
    let served = gated(data.path(), &shop.root, &gate, 2000);
    gate.shut(true);
    let text = "word ".repeat(200);
    let embed = || {
        let body = json!({"input": vec![text.clone(); 4], "truncate": true}).to_string();
        RUNTIME.spawn(answer(
            served.router.clone(),
            request("POST", "/v1/embeddings", Some("application/json"), body.into()),
        ))
    };
    // The first is taken by the thread, which waits; the second fills the queue.
    let first = embed();
    while gate.calls.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    let waits = |least: usize| {
        move |text: &str| {
            let line = text.lines().find(|it| it.starts_with("sightline_queue_tokens "));
            line.and_then(|it| it.split(' ').next_back()?.parse::<usize>().ok()).is_some_and(|it| it >= least)
        }
    };
    let wait_for = |is_so: &dyn Fn(&str) -> bool| {
        let start = Instant::now();
        while !is_so(&String::from_utf8_lossy(&served.get("/metrics").body)) {
            assert!(start.elapsed() < Duration::from_secs(20));
        }
    };
    let queued: Vec<_> = (0..3).map(|_| embed()).collect();
    wait_for(&waits(1000));
    let refused = loop {
        let answer = RUNTIME.block_on(embed()).expect("no panic");
        if answer.status == 429 {
            break answer;
        }
    };
    assert_eq!(refused.error().1, "overloaded");
    assert!(refused.headers["retry-after"].to_str().is_ok_and(|it| it.parse::<u64>().is_ok_and(|it| it >= 1)));
    // Their clients go away.
    queued.iter().for_each(tokio::task::JoinHandle::abort);
    gate.shut(false);
    assert_eq!(RUNTIME.block_on(first).expect("no panic").status, 200);
    let ready = served.post("/v1/embeddings", json!({"input": "a"})).ok(200);
    assert_eq!(ready["data"].as_array().map(Vec::len), Some(1));
    // The canary at the start, the four of the first, and the last.
    assert_eq!(gate.inputs.load(Ordering::SeqCst), 6);
}

#[test]
fn of_five_thousand_posts_at_once_each_is_answered() {
    let (data, shop) = (tempfile::tempdir().expect("a folder"), shop());
    let mut setup = Setup::on(data.path());
    setup.options.roots = vec![shop.root.clone()];
    setup.settings.max_requests = 16;
    let served = setup.start();
    served.add("shop", &shop.root);
    let ask = || {
        let body = Body::from(json!({"title": "login", "retriever": "bm25"}).to_string());
        answer(served.router.clone(), request("POST", "/v1/repositories/shop/locate", Some("application/json"), body))
    };
    let answers = RUNTIME.block_on(async {
        let asked: Vec<_> = (0..5000).map(|_| tokio::spawn(ask())).collect();
        let mut answers = Vec::new();
        for it in asked {
            answers.push(it.await.expect("no panic"));
        }
        answers
    });
    assert!(answers.iter().all(|it| it.status == 200 || it.status == 429 && it.headers.contains_key("retry-after")));
    assert!(answers.iter().any(|it| it.status == 200) && answers.iter().any(|it| it.status == 429));
    served.post("/v1/repositories/shop/locate", json!({"title": "login"})).ok(200);
}

#[test]
fn progress_is_sent_as_events_until_the_end() {
    let shop = Shop::new();
    let begun = shop.served.json("PUT", "/v1/repositories/shop", "{}").ok(202);
    let job = begun["job"].as_str().expect("a job");
    let events = shop.served.get(&format!("/v1/jobs/{job}/events"));
    assert_eq!((events.status, events.headers["content-type"].to_str().ok()), (200, Some("text/event-stream")));
    let text = String::from_utf8(events.body).expect("UTF-8");
    let last = text.trim_end().rsplit("\n\n").next().unwrap_or_default();
    let (name, data) = last.split_once('\n').expect("two lines");
    assert_eq!(name, "event: end");
    let view: Value = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
    assert_eq!((&view["job"], &view["status"]), (&json!(job), &json!("done")));
}

#[test]
fn a_revision_is_indexed_as_it_was_and_is_stale_when_it_moves() {
    let (data, git) = (tempfile::tempdir().expect("a folder"), Repository::git());
    git.write("cart.py", CART);
    git.run(&["add", "."]);
    git.run(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]);
    let served = serve(data.path(), &git.root);
    let begun =
        served.json("PUT", "/v1/repositories/git", json!({"source": {"path": git.root, "rev": "main"}})).ok(202);
    assert_eq!(served.finished(begun["job"].as_str().expect("a job"))["status"], "done");
    let commit = git.run(&["rev-parse", "HEAD"]).trim().to_owned();
    let view = served.get("/v1/repositories/git").ok(200);
    assert_eq!(
        (&view["commit"], &view["stale"], &view["source"]["rev"]),
        (&json!(commit), &json!(false), &json!("main"))
    );
    git.run(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "two", "--allow-empty"]);
    let start = Instant::now();
    while served.get("/v1/repositories/git").ok(200)["stale"] == false {
        assert!(start.elapsed() < Duration::from_secs(20), "it is looked at once a second");
    }
    // The files on disk, and then a commit that was indexed before: what is answered from is what was asked for last.
    git.write("new.py", "def new(): pass\n");
    let indexed = |source: Value| {
        let begun = served.json("PUT", "/v1/repositories/git", json!({"source": source})).ok(202);
        assert_eq!(served.finished(begun["job"].as_str().expect("a job"))["status"], "done");
        served.get("/v1/repositories/git").ok(200)
    };
    let view = indexed(json!({"path": git.root}));
    assert_eq!((&view["commit"], &view["files"]), (&Value::Null, &json!(2)));
    let view = indexed(json!({"path": git.root, "rev": commit}));
    assert_eq!((&view["commit"], &view["files"], &view["stale"]), (&json!(commit), &json!(1), &json!(false)));
    let bad = served.json("PUT", "/v1/repositories/git", json!({"source": {"path": git.root, "rev": "none"}})).ok(202);
    let job = served.finished(bad["job"].as_str().expect("a job"));
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("source_unusable")));
}

#[test]
fn the_description_has_every_route_and_no_reference_leads_nowhere() {
    let data = tempfile::tempdir().expect("a folder");
    let served = Setup::on(data.path()).start();
    let document = served.get("/openapi.json").ok(200);
    assert!(document["openapi"].as_str().is_some_and(|it| it.starts_with("3.1")), "{}", document["openapi"]);
    let routes = document["paths"].as_object().expect("paths");
    let expected = [
        "/embed",
        "/health",
        "/info",
        "/metrics",
        "/openapi.json",
        "/ready",
        "/rerank",
        "/similarity",
        "/v1/embeddings",
        "/v1/jobs/{job}",
        "/v1/jobs/{job}/events",
        "/v1/models",
        "/v1/models/{id}",
        "/v1/repositories",
        "/v1/repositories/{repo}",
        "/v1/repositories/{repo}/locate",
        "/v1/repositories/{repo}/snapshot",
    ];
    for path in expected {
        assert!(routes.contains_key(path), "{path} is not described");
    }
    let text = document.to_string();
    for name in text.split("\"#/components/schemas/").skip(1).filter_map(|it| it.split('"').next()) {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    for (path, methods) in routes {
        for (method, route) in methods.as_object().expect("methods") {
            assert!(route["responses"]["503"].is_object() && route["summary"].is_string(), "{method} {path}");
        }
    }
}

#[test]
fn a_service_that_has_started_is_healthy_and_ready() {
    let (data, gate) = (tempfile::tempdir().expect("a folder"), Gate::new());
    let served = gated(data.path(), data.path(), &gate, 1 << 20);
    assert_eq!(served.get("/ready").ok(200), json!({"status": "ready"}));
    assert_eq!(served.get("/health").ok(200), json!({"status": "ok"}));
}

#[test]
fn a_second_service_on_the_same_data_is_refused() {
    let data = tempfile::tempdir().expect("a folder");
    let served = Setup::on(data.path()).start();
    let Setup { encoder, options, .. } = Setup::on(data.path());
    let second = RUNTIME.block_on(sightline::service::Service::start(encoder, options, Arc::default()));
    let cause = second.err().map(|error| format!("{:?}", anyhow::Error::from(error))).unwrap_or_default();
    assert!(cause.contains("another service uses the data directory"), "{cause}");
    drop(served);
}

#[cfg(unix)]
#[test]
fn a_folder_that_becomes_a_link_is_read_no_more() {
    let shop = Shop::new();
    let secret = Repository::plain();
    secret.write("secret.py", "def secret(): pass\n");
    std::fs::remove_dir_all(&shop.repository.root).expect("there");
    std::os::unix::fs::symlink(&secret.root, &shop.repository.root).expect("a link");
    let begun = shop.served.json("PUT", "/v1/repositories/shop", "{}").ok(202);
    let job = shop.served.finished(begun["job"].as_str().expect("a job"));
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("source_unusable")));
    let located = shop.locate(&json!({"title": "secret login"}));
    assert_eq!((first(&located, "files", "path"), &located["index"]["stale"]), ("web/login.js", &json!(true)));
}

#[test]
fn what_chose_the_files_holds_until_something_else_is_said() {
    let (data, shop) = (tempfile::tempdir().expect("a folder"), shop());
    let served = serve(data.path(), &shop.root);
    let put = |body: Value| {
        let begun = served.json("PUT", "/v1/repositories/shop", body).ok(202);
        served.finished(begun["job"].as_str().expect("a job"));
        served.get("/v1/repositories/shop").ok(200)["files"].clone()
    };
    assert_eq!(put(json!({"source": {"path": shop.root}, "include": ["web/"]})), 1);
    assert_eq!(put(json!({})), 1);
    assert_eq!(put(json!({"include": []})), 2);
}
