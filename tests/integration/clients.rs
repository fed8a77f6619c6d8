//! The examples of clients in `docs/clients`, as they are, against the program as a user starts it. They need curl, tar, Python and Node.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::served::fixtures;

/// The served program, ended when it is dropped.
struct Served {
    process: Child,
    url: String,
    _data: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let mut process = Command::new(env!("CARGO_BIN_EXE_sightline"))
            .args(["serve", "--port", "0", "--log", "error", "--data-dir"])
            .arg(data.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut said = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        if url.is_none() {
            let _ = process.kill();
            let _ = said.read_to_string(&mut line);
        }
        assert!(url.is_some(), "the program does not listen; it says: {line:?}");
        let url = url.expect("just asked");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Served { process, url, _data: data }
    }

    /// What an example prints.
    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("SIGHTLINE_URL", &self.url)
            .output();
        assert!(output.is_ok(), "{program} can't be run, and the tests need it: {:?}", output.err());
        let output = output.expect("just asked");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It is ours, and nothing of it is needed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_examples_of_clients_find_what_they_are_asked_for() {
    let served = Served::start();
    let (repository, shot) = (fixtures().join("repository"), fixtures().join("checkout.png"));
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (repository, shot) = (text(&repository), text(&shot));
    let title = "The discount of a voucher is larger than the amount";
    let located = served.run("bash", &["docs/clients/locate.sh", &repository, title, &shot]);
    let located: serde_json::Value = serde_json::from_str(&located).expect("JSON");
    assert_eq!(located["files"][0]["path"], "src/discounts.py");
    assert_eq!(located["query"]["images"][0]["name"], "checkout.png");
    for (program, script) in [("python3", "docs/clients/locate.py"), ("node", "docs/clients/locate.mjs")] {
        let found = served.run(program, &[script, "repository", title, &shot]);
        assert!(found.starts_with("src/discounts.py:"), "{script}: {found}");
    }
}
