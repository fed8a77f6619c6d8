//! The built program as an agent runs it: lines of JSON-RPC on its standard input and output.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

/// A server with a data directory of its own.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    /// Messages that came while another was waited for.
    notifications: Vec<Value>,
    next: u64,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

impl Server {
    /// Started in a folder, before it is said hello to.
    fn start(folder: &Path, data: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sightline"));
        command.args(["mcp", "--log", "warn"]).env_clear().current_dir(folder).env("SIGHTLINE_INDEX_DATA_DIR", data);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Server { child, input, output, notifications: Vec::new(), next: 1 }
    }

    fn begin(folder: &Path, data: &Path) -> Self {
        let mut server = Server::start(folder, data);
        let client = json!({"name": "test", "version": "1"});
        let hello = server
            .request("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}));
        let told = &hello["result"];
        assert_eq!(told["protocolVersion"], "2025-06-18");
        assert_eq!(told["serverInfo"]["name"], "sightline");
        assert_eq!(told["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(told["instructions"].as_str().unwrap().contains("locate_issue"));
        assert!(told["capabilities"]["tools"].is_object());
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next message, which is one line of JSON, as all that is printed.
    fn receive(&mut self) -> Value {
        let line = self.output.next().expect("an answer").unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    fn ask(&mut self, method: &str, parameters: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        id
    }

    fn request(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.ask(method, parameters);
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        answer["result"].clone()
    }

    /// What a tool that succeeds says, as text and for programs.
    #[track_caller]
    fn told(&mut self, tool: &str, arguments: Value) -> (String, Value) {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result:#}");
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["structuredContent"].clone())
    }

    /// A tool that fails says why in one line, as its result.
    #[track_caller]
    fn check_refused(&mut self, tool: &str, arguments: Value, expected: &[&str]) {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result:#}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        for part in expected {
            assert!(text.contains(part), "`{text}` lacks `{part}`");
        }
    }

    /// Ends its input; gives how it ended, what it printed until then, and its log.
    fn end(mut self) -> (ExitStatus, Vec<String>, String) {
        drop(self.input.take());
        let rest = self.output.map(Result::unwrap).collect();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap(), rest, log)
    }

    #[track_caller]
    fn check_end(self) {
        let (status, rest, log) = self.end();
        assert!(status.success(), "{log}");
        assert!(rest.is_empty(), "{rest:?}");
    }
}

/// A copy of the fixture that may be changed.
fn copy(to: &Path) {
    for entry in std::fs::read_dir(fixture("repository")).unwrap() {
        let folder = entry.unwrap().path();
        let target = to.join(folder.file_name().unwrap());
        std::fs::create_dir_all(&target).unwrap();
        for file in std::fs::read_dir(&folder).unwrap() {
            let file = file.unwrap().path();
            std::fs::copy(&file, target.join(file.file_name().unwrap())).unwrap();
        }
    }
}

struct Place {
    scratch: tempfile::TempDir,
    repository: PathBuf,
}

impl Place {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let repository = scratch.path().join("work");
        copy(&repository);
        Place { scratch, repository }
    }

    fn server(&self) -> Server {
        Server::begin(&self.repository, &self.scratch.path().join("data"))
    }
}

fn issue() -> Value {
    let text = std::fs::read_to_string(fixture("issue.md")).unwrap();
    let (title, body) = text.split_once('\n').unwrap();
    json!({"title": title, "body": body})
}

fn with(mut arguments: Value, more: Value) -> Value {
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect()
}

#[test]
fn an_issue_is_located_in_a_repository_that_was_never_indexed() {
    let place = Place::new();
    let mut server = place.server();
    let (text, answer) = server.told("locate_issue", issue());
    assert!(paths(&answer["files"])[..3].contains(&"src/discounts.py"), "{text}");
    let functions = answer["functions"].as_array().unwrap();
    let at = functions.iter().position(|it| it["function"] == "discount_of").unwrap();
    assert!(at < 5, "{text}");
    // Counted in the fixture by hand.
    let source = std::fs::read_to_string(place.repository.join("src/discounts.py")).unwrap();
    let line = 1 + source.lines().position(|it| it.contains("def discount_of")).unwrap();
    assert_eq!(functions[at]["start_line"], line);
    let expected = format!("{}. src/discounts.py:{line}-", at + 1);
    assert!(text.lines().any(|it| it.starts_with(&expected) && it.contains(" discount_of (")), "{text}");
    assert!(text.contains("had no index") && answer["notes"][0].as_str().unwrap().contains("index_repository"));
    assert!(functions[at].get("lines").is_none() && text.lines().count() < 30, "{text}");
    // It is there now.
    let (text, answer) = server.told("locate_issue", with(issue(), json!({"k": 1, "granularity": "file"})));
    assert_eq!((paths(&answer["files"]).len(), paths(&answer["functions"]).len()), (1, 0), "{text}");
    assert_eq!(answer["notes"], json!([]));
    server.check_end();
}

#[test]
fn a_full_answer_has_lines_and_the_parts_of_scores() {
    let place = Place::new();
    let mut server = place.server();
    let (text, answer) = server.told("locate_issue", with(issue(), json!({"detail": "full", "path": "."})));
    let hit = &answer["files"][0];
    let parts: f64 = hit["scores"].as_object().unwrap().values().map(|it| it.as_f64().unwrap()).sum();
    // Each is rounded to two places.
    assert!((parts - hit["score"].as_f64().unwrap()).abs() < 0.04, "{hit}");
    let line = hit["lines"][0]["text"].as_str().unwrap();
    assert!(text.contains(line.trim_end()) && text.contains("lexical"), "{text}");
    server.check_end();
}

#[test]
fn a_repository_is_indexed_with_progress_and_told_of() {
    let place = Place::new();
    let mut server = place.server();
    let (text, none) = server.told("index_status", json!({"path": "."}));
    assert!(text.contains("has no index") && none["repositories"] == json!([]), "{text}");
    let parameters = json!({"name": "index_repository", "arguments": {}, "_meta": {"progressToken": "p"}});
    let result = server.request("tools/call", parameters)["result"].clone();
    let indexed = &result["structuredContent"];
    assert_eq!(result["isError"], false, "{result:#}");
    assert_eq!(indexed["windows"], indexed["vectors"]);
    assert!(indexed["embedded"].as_u64().unwrap() > 0 && indexed["files"].as_u64().unwrap() >= 4, "{indexed}");
    let progress: Vec<f64> = server.notifications.iter().map(|it| it["params"]["progress"].as_f64().unwrap()).collect();
    assert!(progress.is_sorted_by(|a, b| a < b) && progress.iter().all(|it| *it <= 100.0), "{progress:?}");
    for notification in std::mem::take(&mut server.notifications) {
        assert_eq!(notification["method"], "notifications/progress");
        assert_eq!(
            (&notification["params"]["progressToken"], &notification["params"]["total"]),
            (&json!("p"), &json!(100.0))
        );
    }
    let (text, status) = server.told("index_status", json!({}));
    let root = place.repository.canonicalize().unwrap();
    assert_eq!(status["repositories"][0]["path"], root.to_str().unwrap());
    assert_eq!(
        (&status["repositories"][0]["status"], &status["repositories"][0]["stale"]),
        (&json!("ready"), &json!(false))
    );
    assert!(text.contains(": ready, "), "{text}");
    // The command line knows the same index.
    let status = Command::new(env!("CARGO_BIN_EXE_sightline"))
        .args(["status", "--json", root.to_str().unwrap()])
        .env_clear()
        .env("SIGHTLINE_INDEX_DATA_DIR", place.scratch.path().join("data"))
        .output()
        .unwrap();
    let known: Value = serde_json::from_slice(&status.stdout).unwrap();
    let build = &known["repositories"][0]["builds"][0];
    assert_eq!((&build["status"], &build["stale"]), (&json!("ready"), &json!(false)), "{known:#}");
    // No question asked without progress is told of any.
    let (_, answer) = server.told("locate_issue", issue());
    assert_eq!((&answer["notes"], server.notifications.len()), (&json!([]), 0));
    server.check_end();
}

#[test]
fn an_edit_is_seen_by_the_next_question() {
    let place = Place::new();
    let mut server = place.server();
    server.told("index_repository", json!({}));
    let code = "def unfreeze_gadget(gadget):\n    return gadget.unfreeze()\n";
    std::fs::write(place.repository.join("src/gadget.py"), code).unwrap();
    // The index looks at its source again after a second.
    let begin = std::time::Instant::now();
    loop {
        let (text, answer) = server.told("locate_issue", json!({"title": "unfreeze_gadget never returns"}));
        // Before that no word of the question stands in it.
        if paths(&answer["files"]).first().is_some_and(|it| *it == "src/gadget.py") {
            break;
        }
        assert!(begin.elapsed().as_secs() < 60, "{text}");
    }
    server.check_end();
}

#[test]
fn bad_arguments_are_errors_of_the_tool() {
    let place = Place::new();
    let mut server = place.server();
    server.check_refused("locate_issue", json!({"titel": "x"}), &["unknown field `titel`", "`title`"]);
    server.check_refused("locate_issue", json!({}), &["there is nothing to ask", "`title`"]);
    server.check_refused("locate_issue", json!({"title": "x", "k": 0}), &["`k` is 0"]);
    server.check_refused(
        "locate_issue",
        json!({"title": "x", "path": "/no/such/place"}),
        &["`path`", "/no/such/place"],
    );
    server.check_refused("locate_issue", json!({"title": "x", "images": ["shot.png"]}), &["`images[0]`", "shot.png"]);
    let text = place.repository.join("src/cart.py");
    server.check_refused("locate_issue", json!({"title": "x", "images": [text]}), &["`images[0]`"]);
    server.check_refused("index_repository", json!({"repo": "."}), &["unknown field `repo`", "`path`"]);
    server.check_refused("index_status", json!({"path": 3}), &["`path`", "expected a string"]);
    let unknown = server.request("tools/call", json!({"name": "locate", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("locate_issue"), "{unknown}");
    let unknown = server.request("tools/drop", json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    // It still serves.
    let tools = server.request("tools/list", json!({}));
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["locate_issue", "index_repository", "index_status"]);
    server.check_end();
}

#[test]
fn a_picture_that_the_model_does_not_see_is_said() {
    let place = Place::new();
    let mut server = place.server();
    let picture = fixture("images/rgb_16.png");
    let (text, answer) = server.told("locate_issue", with(issue(), json!({"images": [picture]})));
    let note = answer["notes"].as_array().unwrap().iter().find(|it| it.as_str().unwrap().contains("images[0]"));
    assert!(note.is_some() && text.contains("images[0] was not used"), "{text}");
    server.check_end();
}

#[test]
fn a_call_that_is_cancelled_leaves_a_server_that_serves() {
    let place = Place::new();
    let mut server = place.server();
    let id = server.ask("tools/call", json!({"name": "index_repository", "arguments": {}}));
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    let (_, answer) = server.told("locate_issue", issue());
    assert!(!paths(&answer["files"]).is_empty());
    let (text, _) = server.told("index_repository", json!({}));
    assert!(text.starts_with("Indexed "), "{text}");
    server.check_end();
}

#[test]
fn an_input_that_ends_ends_it() {
    let place = Place::new();
    let data = place.scratch.path().join("data");
    let (status, output, log) = Server::start(&place.repository, &data).end();
    assert!(status.success() && output.is_empty(), "{log}");
    Server::begin(&place.repository, &data).check_end();
    // What is asked before is answered, and what is no message costs itself.
    let mut server = Server::begin(&place.repository, &data);
    writeln!(server.input.as_mut().unwrap(), "{{no json").unwrap();
    server.ask("tools/list", json!({}));
    let (status, output, log) = server.end();
    assert!(status.success() && output.len() == 1 && output[0].contains("locate_issue"), "{output:?} {log}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_as_the_end_of_its_input_does() {
    let place = Place::new();
    let mut server = place.server();
    server.told("index_status", json!({}));
    let signalled = Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn two_agents_share_an_index() {
    let place = Place::new();
    let (mut one, mut other) = (place.server(), place.server());
    let first = one.ask("tools/call", json!({"name": "index_repository", "arguments": {}}));
    let (text, _) = other.told("index_repository", json!({}));
    assert!(text.starts_with("Indexed "), "{text}");
    let done = loop {
        let message = one.receive();
        if message["id"] == first {
            break message;
        }
    };
    assert_eq!(done["result"]["isError"], false, "{done:#}");
    one.check_end();
    other.check_end();
}
