//! F5: the settings in force: `configs/default.toml`, overridden by a file, then by `SIGHTLINE_*`, then by flags.
//!
//! The only module that reads the environment.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use crate::imaging;
use crate::retriever::{Granularity, RetrieverKind, ranker::Weights};

/// The compiled-in defaults: every key.
const DEFAULTS: &str = include_str!("../configs/default.toml");
const PREFIX: &str = "SIGHTLINE_";
/// Names a file like `--config` does; the one variable that is not a key.
const FILE_VARIABLE: &str = "SIGHTLINE_CONFIG";

/// Every setting.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub snapshot: SnapshotSettings,
    pub images: imaging::Limits,
    pub locate: LocateSettings,
    pub ranking: Weights,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotSettings {
    pub max_file_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocateSettings {
    pub results: NonZeroUsize,
    pub retriever: RetrieverKind,
    pub granularity: Granularity,
    pub rerank: usize,
}

/// Why settings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the configuration file `{}` can't be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{origin}: {message}; `configs/default.toml` lists every key")]
    Invalid { origin: String, message: String },
    #[error(
        "the variable {variable} is no setting; variables are named SIGHTLINE_<SECTION>_<KEY> after the keys of `configs/default.toml`"
    )]
    UnknownVariable { variable: String },
}

/// Reads the settings. `file` wins over the file that `SIGHTLINE_CONFIG` names.
///
/// # Errors
/// An unreadable file, an unknown key or variable, a value of the wrong type; the message names it.
pub fn load(file: Option<&Path>) -> Result<Settings, ConfigError> {
    #[expect(clippy::disallowed_methods, reason = "this module is where the environment is read")]
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    resolve(file, &variables)
}

fn resolve(file: Option<&Path>, variables: &[(String, String)]) -> Result<Settings, ConfigError> {
    let mut settings = parse(DEFAULTS, "the defaults")?;
    let named = variables.iter().find(|(name, _)| name == FILE_VARIABLE).map(|(_, path)| Path::new(path));
    if let Some(path) = file.or(named) {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
        let origin = format!("the configuration file `{}`", path.display());
        overlay(&mut settings, parse(&text, &origin)?);
        build(settings.clone(), &origin)?;
    }
    for (name, value) in variables.iter().filter(|(name, _)| name != FILE_VARIABLE) {
        set_variable(&mut settings, name, value)?;
    }
    build(settings, "the settings")
}

fn parse(text: &str, origin: &str) -> Result<Table, ConfigError> {
    text.parse::<Table>().map_err(|error| invalid(origin, &error))
}

fn build(settings: Table, origin: &str) -> Result<Settings, ConfigError> {
    settings.try_into().map_err(|error| invalid(origin, &error))
}

fn invalid(origin: &str, error: &toml::de::Error) -> ConfigError {
    ConfigError::Invalid { origin: origin.to_owned(), message: error.to_string().trim().replace('\n', " ") }
}

/// Replaces keys of `base`; tables are merged key by key, at most as deep as the defaults nest.
fn overlay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// Sets the key whose path, joined by `_` in capitals, is the variable's name after the prefix.
fn set_variable(settings: &mut Table, variable: &str, value: &str) -> Result<(), ConfigError> {
    let unknown = || ConfigError::UnknownVariable { variable: variable.to_owned() };
    let wanted = variable.strip_prefix(PREFIX).ok_or_else(unknown)?.to_lowercase();
    let slot = find(settings, &wanted).ok_or_else(unknown)?;
    *slot = match slot {
        Value::String(_) => Value::String(value.to_owned()),
        // A bare word that is no TOML value stays text, and is then refused by its type with a message.
        _ => format!("value = {value}")
            .parse::<Table>()
            .ok()
            .and_then(|mut it| it.remove("value"))
            .unwrap_or(Value::String(value.to_owned())),
    };
    build(settings.clone(), variable).map(drop)
}

fn find<'a>(table: &'a mut Table, wanted: &str) -> Option<&'a mut Value> {
    table.iter_mut().find_map(|(key, value)| {
        let rest = wanted.strip_prefix(key.as_str())?;
        match value {
            Value::Table(below) => find(below, rest.strip_prefix('_')?),
            value => rest.is_empty().then_some(value),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn defaults() -> Settings {
        resolve(None, &[]).expect("the compiled-in defaults")
    }

    #[track_caller]
    fn check_refused(file: &str, pairs: &[(&str, &str)], expected: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.toml");
        std::fs::write(&path, file).expect("a file");
        let error = resolve(Some(&path), &variables(pairs)).expect_err("refused").to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "`{error}` lacks `{expected}`");
    }

    #[test]
    fn defaults_parse() {
        assert_eq!(defaults().locate.results.get(), 10);
    }

    #[test]
    fn a_file_overrides_a_key_and_a_variable_overrides_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.toml");
        std::fs::write(&path, "[locate]\nresults = 3\nrerank = 7\n[ranking.file_fields]\npath = 9.0\n")
            .expect("a file");
        let named =
            variables(&[("SIGHTLINE_CONFIG", path.to_str().expect("UTF-8")), ("SIGHTLINE_LOCATE_RESULTS", "5")]);
        let settings = resolve(None, &named).expect("sound settings");
        assert_eq!((settings.locate.results.get(), settings.locate.rerank), (5, 7));
        assert_eq!((settings.ranking.file_fields.path, settings.ranking.file_fields.body), (9.0, 1.0));
        assert_eq!(settings.locate.retriever, defaults().locate.retriever);
    }

    #[test]
    fn a_nested_key_and_a_word_are_variables_too() {
        let named =
            variables(&[("SIGHTLINE_RANKING_FILE_FIELDS_PATH_B", "0.5"), ("SIGHTLINE_LOCATE_RETRIEVER", "bm25")]);
        let settings = resolve(None, &named).expect("sound settings");
        assert_eq!(settings.ranking.file_fields.path_b, 0.5);
        assert_eq!(settings.locate.retriever, RetrieverKind::Bm25);
    }

    #[test]
    fn what_is_unknown_or_of_the_wrong_type_is_refused_by_name() {
        check_refused("[locate]\nresuts = 3\n", &[], "resuts");
        check_refused("[locate]\nretriever = \"bm26\"\n", &[], "bm26");
        check_refused("not toml", &[], "settings.toml");
        check_refused("", &[("SIGHTLINE_LOCATE_RESUTS", "3")], "SIGHTLINE_LOCATE_RESUTS");
        check_refused("", &[("SIGHTLINE_LOCATE_RESULTS", "many")], "SIGHTLINE_LOCATE_RESULTS");
    }
}
