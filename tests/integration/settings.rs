//! What `sightline config` says of the settings, by the built program.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const SECRETS: [&str; 2] = ["0123456789-file-key", "hf_secret"];

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        let file = format!("[server]\nport = 1\nkeys = [\"{}\"]\n[locate]\nresults = 3\n", SECRETS[0]);
        std::fs::write(place.file(), file).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("settings.toml")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_sightline"))
            .arg("config")
            .args(arguments)
            .env_clear()
            .env("SIGHTLINE_CONFIG", self.file())
            .env("SIGHTLINE_SERVER_RATE", "2.5")
            .env("SIGHTLINE_SERVER_ROOTS", "/srv")
            .env("HF_TOKEN", SECRETS[1])
            .env("HF_HOME", "/hf")
            .output()
            .unwrap();
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(SECRETS.iter().all(|it| !said.contains(it)), "a secret is shown: {said}");
        output
    }
}

/// Value and origin of a key, of `config --json`.
#[track_caller]
fn check(all: &Value, key: &str, expected: &str) {
    let lists = ["settings", "hub"].map(|it| all[it].as_array().unwrap());
    let found = lists.into_iter().flatten().find(|it| it["key"] == key).unwrap();
    let (origin, name) = (&found["origin"]["kind"], found["origin"]["name"].as_str().unwrap_or_default());
    assert_eq!(format!("{} {} {name}", found["value"], origin.as_str().unwrap()), expected, "{key}");
}

#[test]
fn every_value_is_shown_with_where_it_comes_from_and_secrets_are_not() {
    let place = Place::new();
    let output = place.run(&["--json", "--host", "::1", "--cors-origin", "http://a", "--model", "owner/name"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = format!("file {}", place.file().display());
    check(&all, "server.host", "\"::1\" flag --host");
    check(&all, "server.cors_origins", "[\"http://a\"] flag --cors-origin");
    check(&all, "model.id", "\"owner/name\" flag --model");
    check(&all, "server.rate", "2.5 variable SIGHTLINE_SERVER_RATE");
    check(&all, "server.roots", "[\"/srv\"] variable SIGHTLINE_SERVER_ROOTS");
    check(&all, "server.port", &format!("1 {file}"));
    check(&all, "locate.results", &format!("3 {file}"));
    check(&all, "server.keys", &format!("\"(set)\" {file}"));
    check(&all, "server.max_requests", "64 default ");
    check(&all, "HF_TOKEN", "\"(set)\" variable HF_TOKEN");
    check(&all, "HF_HUB_CACHE", "\"/hf/hub\" variable HF_HOME");
    check(&all, "HF_HUB_OFFLINE", "false default ");
}

#[test]
fn what_is_printed_is_a_configuration_file_that_comes_to_the_same() {
    let place = Place::new();
    let printed = String::from_utf8(place.run(&["--port", "9"]).stdout).unwrap();
    assert!(printed.lines().any(|it| it.starts_with("port = 9 ") && it.ends_with("# flag --port")), "{printed}");
    assert!(printed.lines().any(|it| it.starts_with("# keys = (set) ")), "{printed}");
    let read: toml::Table = printed.parse().unwrap();
    let defaults: toml::Table = include_str!("../../configs/default.toml").parse().unwrap();
    let keys = |it: &toml::Table| it.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&read), keys(&defaults));
    let again = place.folder.path().join("again.toml");
    std::fs::write(&again, &printed).unwrap();
    let output = place.run(&["--config", again.to_str().unwrap(), "--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&all, "server.port", &format!("9 file {}", again.display()));
}

#[test]
fn settings_that_cannot_be_used_are_a_usage_error_of_one_line() {
    let place = Place::new();
    for (arguments, expected) in [
        (&["--host", "a:1"][..], "--host: `server.host` is `a:1`"),
        (&["--rate", "nan"], "--rate: `server.rate` is NaN"),
        (&["--max-requests", "0"], "--max-requests: `server.max_requests` is 0"),
        (&["--cors-origin", "*"], "--cors-origin: `server.cors_origins` has `*`"),
    ] {
        let output = place.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.trim().lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(expected), "`{said}` lacks `{expected}`");
    }
}
