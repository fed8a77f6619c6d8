//! `sightline config`: what is in force, and where each value comes from.

use std::io;

use serde::Serialize;
use toml::Value;

use super::server_flags::ServerFlags;
use super::terminal::{self, DIM, HEADING, NAME, PLAIN, Page};
use super::{Failure, json, model, reading};
use crate::config::{Entry, Flag, Loaded, Origin, Shown};

/// Prints every setting in force and where it comes from: a default, a file, a variable or a flag.
///
/// The output is a configuration file itself. Flags of `serve` can be given, to see what they come to. Secrets are not shown.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: model::Flags,
    #[command(flatten)]
    evidence: reading::Flags,
    #[command(flatten)]
    server: ServerFlags,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The flags that are settings.
    pub fn flags(&self) -> Vec<Flag> {
        [self.model.settings(), self.evidence.settings(), self.server.settings()].concat()
    }
}

/// Runs the command.
///
/// # Errors
/// Those of writing.
pub fn run(arguments: &Arguments, loaded: &Loaded) -> Result<(), Failure> {
    if arguments.json {
        return Ok(json::print(&Configuration::of(loaded))?);
    }
    let mut out = terminal::output();
    write(loaded, &mut out)?;
    Ok(out.flush()?)
}

fn write(loaded: &Loaded, out: &mut Page<impl io::Write>) -> io::Result<()> {
    // Keys of a table before the tables in it, as TOML wants them.
    let mut entries: Vec<(&str, &str, &Entry)> =
        loaded.entries.iter().filter_map(|it| it.key.rsplit_once('.').map(|(table, key)| (table, key, it))).collect();
    entries.sort_by_key(|it| it.0);
    let width = widest(entries.iter().map(|(_, key, entry)| line(key, entry)));
    for (at, (table, key, entry)) in entries.iter().enumerate() {
        if at == 0 || entries[at - 1].0 != *table {
            heading(if at == 0 { "" } else { "\n" }, &format!("[{table}]"), out)?;
        }
        written(&line(key, entry), &entry.origin, width, out)?;
    }
    heading("\n", "# variables of the hub", out)?;
    let width = widest(loaded.hub.iter().map(|it| format!("# {}", line(&it.key, it))));
    loaded.hub.iter().try_for_each(|it| written(&format!("# {}", line(&it.key, it)), &it.origin, width, out))
}

fn heading(before: &str, text: &str, out: &mut Page<impl io::Write>) -> io::Result<()> {
    if !before.is_empty() {
        out.line(&[])?;
    }
    out.line(&[(HEADING, text)])
}

/// One setting. One that is hidden is a comment, since it would be none that can be read back.
fn line(key: &str, entry: &Entry) -> String {
    match &entry.shown {
        Shown::Value(value) => format!("{key} = {value}"),
        Shown::Hidden => format!("# {key} = (set)").trim_start_matches("# # ").to_owned(),
    }
}

/// Beyond it a value is followed by its origin as it comes.
const WIDEST: usize = 48;

fn widest(lines: impl Iterator<Item = String>) -> usize {
    lines.map(|it| it.chars().count()).filter(|it| *it <= WIDEST).max().unwrap_or(0)
}

fn written(line: &str, origin: &Origin, width: usize, out: &mut Page<impl io::Write>) -> io::Result<()> {
    let style = if *origin == Origin::Default { DIM } else { NAME };
    out.line(&[(PLAIN, &format!("{line:width$}  ")), (style, &format!("# {origin}"))])
}

/// The JSON of the command.
#[derive(Serialize)]
struct Configuration {
    settings: Vec<Setting>,
    /// The variables of the hub, which are not Sightline's.
    hub: Vec<Setting>,
}

#[derive(Serialize)]
struct Setting {
    key: String,
    /// The text `(set)` for a secret.
    value: Value,
    origin: Source,
}

#[derive(Serialize)]
struct Source {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl Configuration {
    fn of(loaded: &Loaded) -> Self {
        let setting = |Entry { key, shown, origin }: &Entry| Setting {
            key: key.clone(),
            value: match shown {
                Shown::Value(value) => value.clone(),
                Shown::Hidden => Value::String("(set)".to_owned()),
            },
            origin: Source { kind: origin.kind(), name: origin.name() },
        };
        let all = |entries: &[Entry]| entries.iter().map(setting).collect();
        Configuration { settings: all(&loaded.entries), hub: all(&loaded.hub) }
    }
}
