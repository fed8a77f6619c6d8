//! F5: the settings in force: `configs/default.toml`, overridden by a file, then by `SIGHTLINE_*`, then by flags.
//!
//! The only module that reads the environment.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use crate::encoder::hub::HubOptions;
use crate::imaging;
use crate::retriever::{Granularity, RetrieverKind, ranker::Weights};
use crate::types::Policy;

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
    pub model: ModelSettings,
    pub locate: LocateSettings,
    pub index: IndexSettings,
    pub ranking: Weights,
    /// What the variables of the hub say, which are not ours.
    #[serde(skip)]
    pub hub: HubOptions,
    /// The user's own folder.
    #[serde(skip)]
    pub home: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotSettings {
    pub max_file_bytes: u64,
}

/// Which model, and how it is run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// A folder, a model of the hub or the bundled one; empty for that.
    pub id: String,
    pub dtype: Dtype,
    #[serde(deserialize_with = "policy")]
    pub policy: Policy,
    /// Of a vector; 0 for as many as the model has.
    pub dimensions: usize,
    /// Tokens in a window of a candidate; 0 for as many as the registry says.
    pub window: usize,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocateSettings {
    pub results: NonZeroUsize,
    pub retriever: RetrieverKind,
    pub granularity: Granularity,
    pub rerank: usize,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSettings {
    /// Absolute or from the current directory; empty for a system without a place for data.
    pub data_dir: PathBuf,
    pub refresh: Refresh,
    pub refresh_files: usize,
    pub vectors: IndexVectors,
    pub store_bytes: u64,
}

/// Which vectors an index gets when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexVectors {
    All,
    /// Those that the store has; the others come over time.
    Stored,
}

impl IndexVectors {
    pub const ALL: [IndexVectors; 2] = [IndexVectors::All, IndexVectors::Stored];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            IndexVectors::All => "all",
            IndexVectors::Stored => "stored",
        }
    }
}

/// A policy by its name.
fn policy<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = Policy::ALL.into_iter().find(|it| it.name() == name);
    known.ok_or_else(|| serde::de::Error::unknown_variant(&name, &["default", "reference"]))
}

/// In which numbers a model computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// The one that suits the model.
    Auto,
    F32,
    Q8,
}

impl Dtype {
    pub const ALL: [Dtype; 3] = [Dtype::Auto, Dtype::F32, Dtype::Q8];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Auto => "auto",
            Dtype::F32 => "f32",
            Dtype::Q8 => "q8",
        }
    }
}

/// What becomes of an index that is out of date when a question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Refresh {
    /// It is refreshed if little has changed.
    Auto,
    Always,
    Never,
}

impl Refresh {
    pub const ALL: [Refresh; 3] = [Refresh::Auto, Refresh::Always, Refresh::Never];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Refresh::Auto => "auto",
            Refresh::Always => "always",
            Refresh::Never => "never",
        }
    }
}

/// Why settings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "the configuration file `{}` can't be read: {cause}; name a readable TOML file with --config or SIGHTLINE_CONFIG, or none",
        path.display()
    )]
    Read { path: PathBuf, cause: std::io::Error },
    #[error("{origin}: {message}; `configs/default.toml` lists every key")]
    Invalid { origin: String, message: String },
    #[error(
        "the variable {variable} is no setting; variables are named SIGHTLINE_<SECTION>_<KEY> after the keys of `configs/default.toml`"
    )]
    UnknownVariable { variable: String },
    #[error("the variable {variable} is not UTF-8; set it to plain text, or unset it")]
    VariableNotUtf8 { variable: String },
    #[error("{origin}: `{key}` is {value}; give it a number from {least} to {most}")]
    OutOfRange { origin: String, key: String, value: f64, least: f64, most: f64 },
    #[error("the variable HF_ENDPOINT is `{value}`, which is no address: set it to one like {HUB}, or unset it")]
    Endpoint { value: String },
}

/// Reads the settings. `file` wins over the file that `SIGHTLINE_CONFIG` names.
///
/// # Errors
/// An unreadable file, an unknown key or variable, a value of the wrong type or out of its range; the message names it.
pub fn load(file: Option<&Path>) -> Result<Settings, ConfigError> {
    #[expect(clippy::disallowed_methods, reason = "this module is where the environment is read")]
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let mut settings = resolve(file, &own(variables.iter().cloned())?)?;
    if settings.index.data_dir.as_os_str().is_empty() {
        settings.index.data_dir = data_directory(&variables).unwrap_or_default();
    }
    settings.home = variable(&variables, HOME).map(PathBuf::from);
    settings.hub = hub_options(&variables, settings.home.as_deref())?;
    Ok(settings)
}

const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// A variable that is set to something.
fn variable<'a>(variables: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsString> {
    variables.iter().find(|it| it.0 == name).map(|it| &it.1).filter(|it| !it.is_empty())
}

/// The hub's own variables, as Python's huggingface_hub reads them.
fn hub_options(variables: &[(OsString, OsString)], home: Option<&Path>) -> Result<HubOptions, ConfigError> {
    let path = |name: &str| {
        let path = Path::new(variable(variables, name)?);
        let below = path.strip_prefix("~").ok().zip(home);
        Some(below.map_or_else(|| path.to_owned(), |(below, home)| home.join(below)))
    };
    let text = |name: &str| {
        let not_text = || ConfigError::VariableNotUtf8 { variable: name.to_owned() };
        variable(variables, name).map(|it| it.to_str().ok_or_else(not_text)).transpose()
    };
    let caches = path("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
    let hub_home = path("HF_HOME").or_else(|| Some(caches?.join("huggingface")));
    let below = |name: &str| hub_home.as_ref().map(|it| it.join(name)).unwrap_or_default();
    let endpoint = text("HF_ENDPOINT")?.unwrap_or(HUB).trim_end_matches('/');
    if !["http://", "https://"].iter().any(|it| endpoint.starts_with(it)) {
        return Err(ConfigError::Endpoint { value: endpoint.to_owned() });
    }
    let is_true = |it: &str| ["1", "ON", "YES", "TRUE"].contains(&it.to_uppercase().as_str());
    Ok(HubOptions {
        cache: path("HF_HUB_CACHE").unwrap_or_else(|| below("hub")),
        endpoint: endpoint.to_owned(),
        token: text("HF_TOKEN")?.map(str::to_owned),
        token_file: path("HF_TOKEN_PATH").unwrap_or_else(|| below("token")),
        is_offline: text("HF_HUB_OFFLINE")?.is_some_and(is_true),
    })
}

const HUB: &str = "https://huggingface.co";

/// Where a user's data lies by the conventions of the system; `None` if the environment doesn't say.
fn data_directory(variables: &[(OsString, OsString)]) -> Option<PathBuf> {
    let variable =
        |name: &str| variables.iter().find(|it| it.0 == name).map(|it| Path::new(&it.1)).filter(|it| it.is_absolute());
    let local = match (cfg!(windows), cfg!(target_os = "macos")) {
        (true, _) => variable("LOCALAPPDATA").map(Path::to_owned),
        (_, true) => variable("HOME").map(|it| it.join("Library/Application Support")),
        _ => variable("HOME").map(|it| it.join(".local/share")),
    };
    Some(variable("XDG_DATA_HOME").map(Path::to_owned).or(local)?.join("sightline"))
}

/// The variables that are Sightline's, as text. One that is not text would be dropped in silence otherwise.
fn own(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Vec<(String, String)>, ConfigError> {
    let ours = variables.filter(|(name, _)| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let text = |(name, value): (OsString, OsString)| match (name.to_str(), value.to_str()) {
        (Some(name), Some(value)) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(ConfigError::VariableNotUtf8 { variable: name.to_string_lossy().into_owned() }),
    };
    ours.map(text).collect()
}

fn resolve(file: Option<&Path>, variables: &[(String, String)]) -> Result<Settings, ConfigError> {
    let mut settings = parse(DEFAULTS, "the defaults")?;
    let named = variables.iter().find(|(name, _)| name == FILE_VARIABLE).map(|(_, path)| Path::new(path));
    if let Some(path) = file.or(named) {
        let text = std::fs::read_to_string(path).map_err(|cause| ConfigError::Read { path: path.into(), cause })?;
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
    let values = settings.get("ranking").map(|ranking| numbers("ranking", ranking)).unwrap_or_default();
    let settings: Settings = settings.try_into().map_err(|error| invalid(origin, &error))?;
    match values.into_iter().find(|(key, value)| !allowed(key).contains(value)) {
        Some((key, value)) => {
            let (least, most) = allowed(&key).into_inner();
            Err(ConfigError::OutOfRange { origin: origin.to_owned(), key, value, least, most })
        }
        None => Ok(settings),
    }
}

/// What a number under `ranking` may be. Beyond it an order would still come out, and mean nothing.
fn allowed(key: &str) -> RangeInclusive<f64> {
    /// Far above any useful weight, and far below what sums of scores could overflow by.
    const MOST: f64 = 1000.0;
    let name = key.rsplit('.').next().unwrap_or(key);
    let is_share = name == "b" || name.ends_with("_b") || name == "demotion";
    if is_share { 0.0..=1.0 } else { 0.0..=MOST }
}

/// The numbers in a value, each by its key from the top, at most as deep as the defaults nest.
fn numbers(key: &str, value: &Value) -> Vec<(String, f64)> {
    match value {
        Value::Float(number) => vec![(key.to_owned(), *number)],
        Value::Integer(number) => vec![(key.to_owned(), *number as f64)],
        Value::Table(table) => {
            table.iter().flat_map(|(name, value)| numbers(&format!("{key}.{name}"), value)).collect()
        }
        _ => Vec::new(),
    }
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

    #[test]
    fn numbers_out_of_their_range_are_refused_by_key_and_range() {
        for (variable, value, expected) in [
            ("SIGHTLINE_RANKING_K1", "nan", "`ranking.k1` is NaN; give it a number from 0 to 1000"),
            ("SIGHTLINE_RANKING_K1", "inf", "`ranking.k1` is inf"),
            ("SIGHTLINE_RANKING_K1", "-1", "`ranking.k1` is -1"),
            ("SIGHTLINE_RANKING_B", "5", "`ranking.b` is 5; give it a number from 0 to 1"),
            ("SIGHTLINE_RANKING_FILE_FIELDS_PATH_B", "1.5", "`ranking.file_fields.path_b` is 1.5"),
            ("SIGHTLINE_RANKING_FUNCTION_FIELDS_NAME", "-0.1", "`ranking.function_fields.name` is -0.1"),
            ("SIGHTLINE_RANKING_DEMOTION", "1.1", "`ranking.demotion` is 1.1; give it a number from 0 to 1"),
            ("SIGHTLINE_RANKING_DENSE_FILE", "1e30", "`ranking.dense_file` is 1"),
        ] {
            check_refused("", &[(variable, value)], expected);
            check_refused("", &[(variable, value)], variable);
        }
        check_refused("[ranking]\nb = -0.5\n", &[], "settings.toml`: `ranking.b` is -0.5");
    }

    #[test]
    fn the_ends_of_a_range_are_in_it() {
        for (variable, value) in [("K1", "0"), ("B", "1"), ("B", "0.0"), ("DEMOTION", "0"), ("MENTION", "1000")] {
            resolve(None, &variables(&[(&format!("SIGHTLINE_RANKING_{variable}"), value)])).expect("in its range");
        }
    }

    #[test]
    fn a_missing_file_is_named_with_a_remedy() {
        let error = resolve(Some(Path::new("no-such.toml")), &[]).expect_err("there is none");
        let message = error.to_string();
        assert!(message.contains("`no-such.toml`") && message.contains("--config"), "{message}");
        assert!(std::error::Error::source(&error).is_none(), "the cause would be printed twice");
    }

    /// What the hub's variables come to, as text.
    #[track_caller]
    fn check_hub(pairs: &[(&str, &str)], cache: &str, endpoint: &str, token_file: &str, is_offline: bool) {
        let pairs: Vec<(OsString, OsString)> = pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let options = hub_options(&pairs, Some(Path::new("/me"))).expect("sound");
        let paths = (options.cache.display().to_string(), options.token_file.display().to_string());
        assert_eq!(paths, (cache.to_owned(), token_file.to_owned()));
        assert_eq!((options.endpoint.as_str(), options.is_offline), (endpoint, is_offline));
    }

    #[cfg(unix)]
    #[test]
    fn the_variables_of_the_hub_mean_what_they_mean_to_python() {
        check_hub(&[], "/me/.cache/huggingface/hub", HUB, "/me/.cache/huggingface/token", false);
        check_hub(&[("XDG_CACHE_HOME", "/c")], "/c/huggingface/hub", HUB, "/c/huggingface/token", false);
        check_hub(
            &[("HF_HOME", "~/hf"), ("HF_ENDPOINT", "http://mirror/hf/"), ("HF_HUB_OFFLINE", "yes")],
            "/me/hf/hub",
            "http://mirror/hf",
            "/me/hf/token",
            true,
        );
        check_hub(
            &[("HF_HUB_CACHE", "/hub"), ("HF_TOKEN_PATH", "/t"), ("HF_HOME", ""), ("HF_HUB_OFFLINE", "0")],
            "/hub",
            HUB,
            "/t",
            false,
        );
        let odd = [("HF_ENDPOINT".into(), "mirror".into())];
        let error = hub_options(&odd, None).expect_err("no address").to_string();
        assert!(error.contains("HF_ENDPOINT") && error.contains("`mirror`"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_not_text_is_refused_by_name_and_others_are_left_alone() {
        use std::os::unix::ffi::OsStringExt;
        let odd = || OsString::from_vec(vec![b'1', 0xff]);
        let error = own([("SIGHTLINE_LOCATE_RESULTS".into(), odd())].into_iter()).expect_err("not text");
        assert!(error.to_string().contains("SIGHTLINE_LOCATE_RESULTS"), "{error}");
        let named = OsString::from_vec([&b"SIGHTLINE_"[..], &[0xff]].concat());
        own([(named, "1".into())].into_iter()).expect_err("not text");
        assert_eq!(own([("OTHER".into(), odd())].into_iter()).expect("not ours"), []);
    }
}
