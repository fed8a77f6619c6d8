//! What is installed beside the program, and the files that deploy it, fit the program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn top(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(top(path)).expect(path)
}

fn run_with(arguments: &[&str], variables: &BTreeMap<String, String>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sightline"));
    command.args(arguments).env_clear().envs(variables).stdin(Stdio::null());
    command.output().expect("the program runs")
}

/// What a command that succeeds prints.
#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = run_with(arguments, &BTreeMap::new());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The commands that the help lists.
fn commands() -> Vec<String> {
    let help = printed(&["--help"]);
    let lines = help.lines().skip_while(|it| *it != "Commands:").skip(1).take_while(|it| !it.is_empty());
    let names = lines.filter(|it| it.starts_with("  ") && !it.starts_with("   "));
    names.filter_map(|it| it.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn completions_know_every_command() {
    let commands = commands();
    assert!(commands.len() > 8 && commands.iter().any(|it| it == "locate"), "{commands:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell} lacks {command}");
        }
        assert!(script.contains("exclude"), "{shell} lacks flags");
    }
    assert_eq!(run_with(&["completions", "sh"], &BTreeMap::new()).status.code(), Some(2));
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("man1");
    assert_eq!(printed(&["man", "--out", out.to_str().expect("UTF-8")]), "");
    for command in commands() {
        let page = std::fs::read_to_string(out.join(format!("sightline-{command}.1"))).expect("a page");
        assert!(page.contains(".TH") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    assert!(printed(&["man"]).contains("sightline\\-locate"));
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let refused = run_with(&["man", "--out", file.to_str().expect("UTF-8")], &BTreeMap::new());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("can't be written"), "{refused:?}");
}

#[test]
fn the_image_is_built_with_the_toolchain_of_the_source() {
    let toolchain: toml::Table = read("rust-toolchain.toml").parse().expect("TOML");
    let channel = toolchain["toolchain"]["channel"].as_str().expect("a version");
    let dockerfile = read("Dockerfile");
    assert!(dockerfile.contains(&format!("FROM rust:{channel}-")), "another image than {channel}");
    assert!(dockerfile.contains(&format!("RUSTUP_TOOLCHAIN={channel}\n")), "another toolchain than {channel}");
}

/// The variables of ours that a file sets.
fn variables(file: &str) -> BTreeMap<String, String> {
    let words = file.split(char::is_whitespace).filter_map(|it| Some(&it[it.find("SIGHTLINE_")?..]));
    words.filter_map(|it| it.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn what_deploys_the_service_sets_settings_that_there_are() {
    for (path, count) in [("Dockerfile", 4), ("configs/deploy/sightline.service", 3)] {
        let variables = variables(&read(path));
        assert_eq!(variables.len(), count, "{path}: {variables:?}");
        let output = run_with(&["config"], &variables);
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn what_stops_the_service_waits_longer_than_it_drains() {
    let defaults: toml::Table = read("configs/default.toml").parse().expect("TOML");
    let drain = defaults["server"]["drain_seconds"].as_integer().expect("seconds");
    let seconds = |path: &str, key: &str| -> i64 {
        let file = read(path);
        let rest = file.lines().find_map(|it| it.trim().strip_prefix(key)).expect("the key is there");
        rest.trim().trim_end_matches('s').parse().expect("seconds")
    };
    assert!(seconds("configs/deploy/sightline.service", "TimeoutStopSec=") > drain);
    assert!(seconds("configs/deploy/compose.yaml", "stop_grace_period:") > drain);
}

#[test]
fn other_configurations_are_sound() {
    let path = top("configs/cpu.toml");
    let printed = printed(&["config", "--config", path.to_str().expect("UTF-8")]);
    assert!(printed.contains("dtype = \"q8\""), "{printed}");
}
