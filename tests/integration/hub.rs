//! Models of the hub: a small hub on a loopback address, and the program that downloads from it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sha2::{Digest, Sha256};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const MODEL: &str = "someone/model";

/// What the hub does otherwise than it should, or has beside its files.
#[derive(Default)]
struct Ways {
    /// Of a file only so many bytes are sent, once; then the connection is cut.
    cut: Option<(&'static str, usize)>,
    /// Of a file a byte is changed.
    damaged: Option<&'static str>,
    /// A file is said to have a byte more than it has.
    too_long: Option<&'static str>,
    /// The whole is sent, whatever range was asked for.
    ignores_ranges: bool,
    /// Nobody gets anything without it.
    token: Option<&'static str>,
    /// A mirror sends no `x-error-code`, no linked size, and files without a redirection.
    is_mirror: bool,
    /// Of a file neither the length nor a checksum is said.
    is_silent: bool,
}

/// A request line with the header `range`, as `GET /path bytes=3-`.
type Seen = Arc<Mutex<Vec<String>>>;

struct Hub {
    endpoint: String,
    seen: Seen,
}

impl Hub {
    fn start(files: Vec<(&'static str, Vec<u8>)>, ways: Ways) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let seen = Seen::default();
        let served = Served {
            endpoint: endpoint.clone(),
            files: files.into_iter().collect(),
            ways: Mutex::new(ways),
            seen: seen.clone(),
        };
        // It ends with the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that is gone is no fault.
                let _ = served.answer(&stream);
            }
        });
        Hub { endpoint, seen }
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

struct Served {
    endpoint: String,
    files: HashMap<&'static str, Vec<u8>>,
    ways: Mutex<Ways>,
    seen: Seen,
}

impl Served {
    /// Answers one request, and closes the connection.
    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream).lines();
        let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
        let mut headers = HashMap::new();
        for line in lines {
            let line = line?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let range = headers.get("range").map(String::as_str).unwrap_or_default();
        let (method, path) = request.trim_end_matches(" HTTP/1.1").split_once(' ').unwrap_or_default();
        self.seen.lock().unwrap().push(format!("{method} {path} {range}").trim_end().to_owned());
        let mut ways = self.ways.lock().unwrap();
        let authorization = headers.get("authorization").map(String::as_str);
        if let Some(token) = ways.token
            && authorization != Some(&format!("Bearer {token}"))
        {
            return send(stream, 401, &[("x-error-code", "GatedRepo")], b"");
        }
        if let Some(file) = path.strip_prefix("/cdn/") {
            return self.send_file(stream, file, range, &mut ways);
        }
        // An old name leads to the new one, within the hub.
        if let Some(rest) = path.strip_prefix("/someone/old-name/") {
            return send(stream, 307, &[("location", &format!("/{MODEL}/{rest}"))], b"");
        }
        let file = path.strip_prefix(&format!("/{MODEL}/resolve/")).and_then(|it| it.split_once('/'));
        let code = |code| if ways.is_mirror { ("x-other", "") } else { ("x-error-code", code) };
        let Some((revision, file)) = file else { return send(stream, 404, &[code("RepoNotFound")], b"") };
        if !["main", COMMIT, "a%2Fbranch"].contains(&revision) {
            return send(stream, 404, &[code("RevisionNotFound")], b"");
        }
        let Some(content) = self.files.get(file) else { return send(stream, 404, &[code("EntryNotFound")], b"") };
        let etag = if ways.is_silent { "\"some-name\"".to_owned() } else { format!("\"{}\"", etag(file, content)) };
        if ways.is_mirror && method == "HEAD" {
            let length = if ways.is_silent { String::new() } else { content.len().to_string() };
            return send(stream, 200, &[("x-repo-commit", COMMIT), ("etag", &etag), ("content-length", &length)], b"");
        }
        if ways.is_mirror {
            return self.send_file(stream, file, range, &mut ways);
        }
        let length = (content.len() + usize::from(ways.too_long == Some(file))).to_string();
        let location = format!("{}/cdn/{file}", self.endpoint);
        let described =
            [("x-repo-commit", COMMIT), ("x-linked-etag", &etag), ("x-linked-size", &length), ("location", &location)];
        send(stream, 302, &described, b"")
    }

    fn send_file(&self, mut stream: &TcpStream, file: &str, range: &str, ways: &mut Ways) -> std::io::Result<()> {
        let mut content = self.files[file].clone();
        if ways.damaged == Some(file) {
            let middle = content.len() / 2;
            content[middle] ^= 1;
        }
        let start = range.strip_prefix("bytes=").and_then(|it| it.trim_end_matches('-').parse::<usize>().ok());
        let start = start.filter(|_| !ways.ignores_ranges);
        let sent = &content[start.unwrap_or(0)..];
        let places = format!("bytes {}-{}/{}", start.unwrap_or(0), content.len() - 1, content.len());
        let length = if ways.is_silent { String::new() } else { sent.len().to_string() };
        let status = if start.is_some() { 206 } else { 200 };
        let headers = [("content-length", length.as_str()), ("content-range", &places)];
        match ways.cut.take_if(|it| it.0 == file) {
            None => send(stream, status, &headers[..1 + usize::from(start.is_some())], sent),
            Some((_, bytes)) => {
                send(stream, status, &headers[..1 + usize::from(start.is_some())], &sent[..bytes])?;
                stream.flush()
            }
        }
    }
}

/// A header without a value is left out.
fn send(mut stream: &TcpStream, status: u16, headers: &[(&str, &str)], body: &[u8]) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Said\r\nconnection: close\r\n");
    for (name, value) in headers.iter().filter(|it| !it.1.is_empty()) {
        head += &format!("{name}: {value}\r\n");
    }
    if !headers.iter().any(|it| it.0 == "content-length") {
        head += &format!("content-length: {}\r\n", body.len());
    }
    stream.write_all(head.as_bytes())?;
    stream.write_all(b"\r\n")?;
    stream.write_all(body)
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|it| format!("{it:02x}")).collect()
}

/// Large files go by their SHA-256, others by the name that git has for them.
fn etag(file: &str, content: &[u8]) -> String {
    if file.ends_with(".safetensors") {
        return sha256(content);
    }
    gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Blob, content).unwrap().to_string()
}

#[test]
fn the_names_of_small_files_are_those_that_git_has() {
    // By `git hash-object` on a file of two bytes.
    assert_eq!(etag("config.json", b"{}"), "9e26dfeeb6e641a33dae4961196235bdb965b21b");
}

fn bundled(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("models/all-MiniLM-L6-v2").join(name)).unwrap()
}

/// Files that no model is in: what is downloaded is not looked into.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let weights: Vec<u8> = (0..300_000_u32).map(|at| (at * 31 % 251) as u8).collect();
    vec![("config.json", b"{}".to_vec()), ("tokenizer.json", b"{\"a\": 1}".to_vec()), ("model.safetensors", weights)]
}

/// A home of the hub's cache, and the program that uses it.
struct Place {
    scratch: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { scratch: tempfile::tempdir().unwrap() }
    }

    fn home(&self) -> PathBuf {
        self.scratch.path().join("hf")
    }

    fn model(&self) -> PathBuf {
        self.home().join("hub/models--someone--model")
    }

    fn command(&self, hub: &Hub, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sightline"));
        command.args(arguments).env_clear().env("HF_HOME", self.home()).env("HF_ENDPOINT", &hub.endpoint);
        command.env("SIGHTLINE_INDEX_DATA_DIR", self.scratch.path().join("data")).stdin(Stdio::null());
        command
    }

    fn run(&self, hub: &Hub, arguments: &[&str]) -> Output {
        self.command(hub, arguments).output().unwrap()
    }

    /// What `pull --json` says.
    #[track_caller]
    fn pull(&self, hub: &Hub, arguments: &[&str]) -> Value {
        let output = self.run(hub, &[&["pull", "--json"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A pull fails with one line that holds all of `expected`.
    #[track_caller]
    fn check_failure(&self, hub: &Hub, arguments: &[&str], code: i32, expected: &[&str]) {
        check_failure(&self.run(hub, &[&["pull"], arguments].concat()), code, expected);
    }

    /// The files of the snapshot are those of the hub.
    #[track_caller]
    fn check_files(&self, files: &[(&str, Vec<u8>)]) {
        for (name, content) in files {
            assert!(
                std::fs::read(self.model().join("snapshots").join(COMMIT).join(name)).unwrap() == *content,
                "{name}"
            );
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn check_failure(output: &Output, code: i32, expected: &[&str]) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.starts_with("error: ") && message.trim_end().lines().count() == 1, "not one line: {message}");
    for part in expected {
        assert!(message.contains(part), "`{message}` lacks `{part}`");
    }
}

#[test]
fn a_model_is_downloaded_once() {
    let (hub, place) = (Hub::start(files(), Ways::default()), Place::new());
    let pulled = place.pull(&hub, &[MODEL]);
    assert_eq!((&pulled["commit"], &pulled["revision"]), (&COMMIT.into(), &"main".into()));
    assert_eq!((&pulled["bytes"], &pulled["downloaded"]), (&300_010.into(), &300_010.into()));
    place.check_files(&files());
    assert_eq!(std::fs::read_to_string(place.model().join("refs/main")).unwrap(), COMMIT);
    let sum = sha256(&files()[2].1);
    assert!(place.model().join("blobs").join(sum).is_file());
    // Asked again, the hub says that nothing has changed; no file is sent.
    hub.seen();
    assert_eq!(place.pull(&hub, &[MODEL])["downloaded"], 0);
    let seen = hub.seen();
    assert!(!seen.is_empty() && seen.iter().all(|it| it.starts_with("HEAD ")), "{seen:?}");
    // Without the network too, by the name and by the commit.
    for name in [MODEL, &format!("{MODEL}@{COMMIT}")] {
        let output = place.command(&hub, &["pull", name]).env("HF_HUB_OFFLINE", "1").output().unwrap();
        assert!(output.status.success() && text(&output.stdout).contains(COMMIT), "{}", text(&output.stderr));
    }
    place.pull(&hub, &[MODEL, "--revision", COMMIT]);
    assert!(hub.seen().is_empty());
}

#[test]
fn revisions_are_resolved_and_old_names_lead_to_new_ones() {
    let (hub, place) = (Hub::start(files(), Ways::default()), Place::new());
    assert_eq!(place.pull(&hub, &[MODEL, "--revision", "a/branch"])["commit"], COMMIT);
    assert_eq!(std::fs::read_to_string(place.model().join("refs/a/branch")).unwrap(), COMMIT);
    assert_eq!(place.pull(&hub, &["someone/old-name"])["downloaded"], 300_010);
    place.check_failure(&hub, &[MODEL, "--revision", "nothing"], 1, &["`nothing`", "a branch, a tag"]);
    place.check_failure(&hub, &[MODEL, "--revision", "../x"], 2, &["`../x`"]);
}

#[test]
fn a_download_goes_on_where_it_broke_off() {
    // What is cut in the course of a run is taken up by it.
    let ways = Ways { cut: Some(("model.safetensors", 100_000)), ..Ways::default() };
    let (hub, place) = (Hub::start(files(), ways), Place::new());
    place.pull(&hub, &[MODEL]);
    place.check_files(&files());
    assert!(
        hub.seen().iter().any(|it| it == &format!("GET /{MODEL}/resolve/{COMMIT}/model.safetensors bytes=100000-"))
    );
    // What an earlier run left, or Python did, is taken up by the next.
    let place = Place::new();
    let (name, weights) = &files()[2];
    let partial = place.model().join("blobs").join(format!("{}.incomplete", etag(name, weights)));
    std::fs::create_dir_all(partial.parent().unwrap()).unwrap();
    std::fs::write(&partial, &weights[..200_000]).unwrap();
    assert_eq!(place.pull(&hub, &[MODEL])["downloaded"], 100_010);
    place.check_files(&files());
    assert!(!partial.exists());
}

#[test]
fn a_server_without_ranges_sends_all_of_it_again() {
    let ways = Ways { cut: Some(("model.safetensors", 100_000)), ignores_ranges: true, ..Ways::default() };
    let (hub, place) = (Hub::start(files(), ways), Place::new());
    place.pull(&hub, &[MODEL]);
    place.check_files(&files());
}

#[test]
fn a_connection_that_gives_nothing_is_an_error_and_what_came_stays() {
    let ways = Ways { cut: Some(("model.safetensors", 0)), ..Ways::default() };
    let (hub, place) = (Hub::start(files(), ways), Place::new());
    place.check_failure(&hub, &[MODEL], 1, &["model.safetensors", "broke off after 0 bytes", "run it again"]);
    assert_eq!(place.pull(&hub, &[MODEL])["downloaded"], 300_000);
}

#[test]
fn a_mirror_does_as_well() {
    let (hub, place) = (Hub::start(files(), Ways { is_mirror: true, ..Ways::default() }), Place::new());
    place.pull(&hub, &[MODEL]);
    place.check_files(&files());
    place.check_failure(&hub, &["someone/nothing"], 1, &["no model someone/nothing", &hub.endpoint]);
}

#[test]
fn shards_are_those_that_their_index_names() {
    let index = |first: &str| {
        format!("{{\"metadata\": {{}}, \"weight_map\": {{\"a\": \"{first}\", \"b\": \"model-2.safetensors\"}}}}")
    };
    let files = |index: String| {
        let mut files = files();
        let weights = files.pop().unwrap().1;
        files.push(("model-1.safetensors", weights.clone()));
        files.push(("model-2.safetensors", weights[1..].to_vec()));
        files.push(("model.safetensors.index.json", index.into_bytes()));
        files
    };
    let (sharded, place) = (files(index("model-1.safetensors")), Place::new());
    place.pull(&Hub::start(sharded.clone(), Ways::default()), &[MODEL]);
    place.check_files(&sharded);
    // One that is missing makes the model incomplete, and it is fetched alone.
    std::fs::remove_file(place.model().join("snapshots").join(COMMIT).join("model-2.safetensors")).unwrap();
    std::fs::remove_file(place.model().join("blobs").join(sha256(&sharded[3].1))).unwrap();
    let hub = Hub::start(sharded.clone(), Ways::default());
    assert_eq!(place.pull(&hub, &[MODEL])["downloaded"], 299_999);
    for name in ["../../escape.safetensors", "/tmp/x.safetensors", "sub/x.safetensors", "model.bin"] {
        let hub = Hub::start(files(index(name)), Ways::default());
        Place::new().check_failure(&hub, &[MODEL], 1, &["model.safetensors.index.json", name]);
    }
}

#[test]
fn what_is_not_as_it_was_described_is_not_kept() {
    let place = Place::new();
    let damaged = Hub::start(files(), Ways { damaged: Some("model.safetensors"), ..Ways::default() });
    place.check_failure(&damaged, &[MODEL], 1, &["model.safetensors", "its SHA-256 is", "run it again"]);
    let blobs = std::fs::read_dir(place.model().join("blobs")).unwrap();
    assert_eq!(blobs.count(), 2, "the other two files");
    let small = Hub::start(files(), Ways { damaged: Some("tokenizer.json"), ..Ways::default() });
    Place::new().check_failure(&small, &[MODEL], 1, &["tokenizer.json", "its SHA-1 is", "run it again"]);
    let silent = Hub::start(files(), Ways { is_mirror: true, is_silent: true, ..Ways::default() });
    Place::new().check_failure(&silent, &[MODEL], 1, &["says neither how long config.json is", "HF_ENDPOINT"]);
    let too_long = Hub::start(files(), Ways { too_long: Some("tokenizer.json"), ..Ways::default() });
    Place::new().check_failure(&too_long, &[MODEL], 1, &["tokenizer.json", "broke off after 8 bytes", "there are 9"]);
    assert_eq!(place.pull(&Hub::start(files(), Ways::default()), &[MODEL])["downloaded"], 300_000);
}

#[test]
fn who_may_not_is_told_what_to_do() {
    let (hub, place) = (Hub::start(files(), Ways { token: Some("secret"), ..Ways::default() }), Place::new());
    place.check_failure(&hub, &[MODEL], 1, &["refuses someone/model (401)", "HF_TOKEN"]);
    let output = place.command(&hub, &["pull", MODEL]).env("HF_TOKEN", "wrong").output().unwrap();
    check_failure(&output, 1, &["401"]);
    assert!(!text(&output.stderr).contains("wrong"));
    // The token that a login left.
    std::fs::create_dir_all(place.home()).unwrap();
    std::fs::write(place.home().join("token"), "secret\n").unwrap();
    place.pull(&hub, &[MODEL]);
}

#[test]
fn what_is_not_there_is_named() {
    let (hub, place) = (Hub::start(files(), Ways::default()), Place::new());
    place.check_failure(&hub, &["someone/nothing"], 1, &["no model someone/nothing", &hub.endpoint, "HF_TOKEN"]);
    let without = Hub::start(files()[..2].to_vec(), Ways::default());
    place.check_failure(&without, &[MODEL], 1, &["someone/model has no file model.safetensors"]);
    place.check_failure(&hub, &["nonsense"], 2, &["`nonsense`", "owner/name"]);
    place.check_failure(&hub, &["./folder"], 2, &["`./folder`"]);
    // Nobody listens there.
    let gone = Hub { endpoint: "http://127.0.0.1:1".to_owned(), seen: Seen::default() };
    place.check_failure(&gone, &[MODEL], 1, &["http://127.0.0.1:1/", "can't be reached", "HF_ENDPOINT"]);
    let output = place.command(&hub, &["pull", MODEL]).env("HF_HUB_OFFLINE", "1").output().unwrap();
    check_failure(&output, 1, &["someone/model is not in the cache", "HF_HUB_OFFLINE", "sightline pull someone/model"]);
}

/// The lists of an answer without its times.
fn lists(output: &Output) -> (Value, Value) {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    (answer["files"].clone(), answer["functions"].clone())
}

fn locate<'a>(model: &'a str, fixtures: &'a [String; 2]) -> Vec<&'a str> {
    vec!["locate", "--json", "--repo", &fixtures[0], "--issue", &fixtures[1], "--model", model]
}

fn fixtures() -> [String; 2] {
    ["repository", "issue.md"]
        .map(|it| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(it).to_str().unwrap().to_owned())
}

#[test]
fn locate_downloads_the_model_that_it_is_to_use_and_a_folder_asks_nobody() {
    let model = || ["config.json", "tokenizer.json", "model.safetensors"].map(|it| (it, bundled(it))).to_vec();
    let (hub, place, fixtures) = (Hub::start(model(), Ways::default()), Place::new(), fixtures());
    let from_hub = place.run(&hub, &locate(MODEL, &fixtures));
    let said = text(&from_hub.stderr);
    assert!(said.contains("someone/model is not in the cache") && said.contains(COMMIT), "{said}");
    hub.seen();
    let again = place.run(&hub, &locate(MODEL, &fixtures));
    assert!(!text(&again.stderr).contains("cache"), "{}", text(&again.stderr));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/all-MiniLM-L6-v2");
    let from_folder = place.run(&hub, &locate(folder.to_str().unwrap(), &fixtures));
    let bundled = place.run(&hub, &locate("all-MiniLM-L6-v2", &fixtures));
    assert!(hub.seen().is_empty(), "the hub was asked");
    for other in [&again, &from_folder, &bundled] {
        assert_eq!(lists(other), lists(&from_hub));
    }
}

/// A cache as Python's huggingface_hub writes it: links from a snapshot to blobs, a ref without a line end, a note of a file that is
/// not there, and a lock.
#[cfg(unix)]
#[test]
fn a_cache_that_python_wrote_is_used() {
    let place = Place::new();
    let root = place.model();
    for folder in ["blobs", "refs", "snapshots", ".no_exist"].map(|it| root.join(it)) {
        std::fs::create_dir_all(folder).unwrap();
    }
    let snapshot = root.join("snapshots").join(COMMIT);
    std::fs::create_dir(&snapshot).unwrap();
    for (name, content) in files() {
        std::fs::write(root.join("blobs").join(etag(name, &content)), &content).unwrap();
        std::os::unix::fs::symlink(format!("../../blobs/{}", etag(name, &content)), snapshot.join(name)).unwrap();
    }
    std::fs::write(root.join("refs/main"), COMMIT).unwrap();
    let offline = |place: &Place, arguments: &[&str]| {
        let nobody = Hub { endpoint: "http://127.0.0.1:1".to_owned(), seen: Seen::default() };
        place.command(&nobody, arguments).env("HF_HUB_OFFLINE", "TRUE").output().unwrap()
    };
    let output = offline(&place, &["pull", MODEL]);
    assert!(text(&output.stdout).contains(snapshot.to_str().unwrap()), "{}", text(&output.stderr));
    // A link that leads nowhere is no file.
    std::fs::remove_file(root.join("blobs").join(etag("tokenizer.json", &files()[1].1))).unwrap();
    check_failure(&offline(&place, &["pull", MODEL]), 1, &["is not in the cache"]);
    assert_eq!(place.pull(&Hub::start(files(), Ways::default()), &[MODEL])["downloaded"], 8);
}
