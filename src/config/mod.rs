//! F6: the settings in force: `configs/default.toml`, overridden by a file, then by `SIGHTLINE_*`, then by flags; and of each value
//! where it comes from.
//!
//! The only module that reads the environment.

mod hub;
mod layers;
mod provenance;
mod ranges;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Value;

use crate::encoder::hub::HubOptions;
use crate::imaging;
use crate::retriever::{Granularity, RetrieverKind, ranker::Weights};
use crate::server;
use crate::types::{Mode, Policy, Secret};

use layers::Layers;
pub use provenance::{Entry, Flag, Origin, Shown};

/// Every setting.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub snapshot: SnapshotSettings,
    pub images: imaging::Limits,
    pub model: ModelSettings,
    pub locate: LocateSettings,
    pub evidence: EvidenceSettings,
    pub index: IndexSettings,
    pub ranking: Weights,
    pub server: server::Settings,
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
    /// Patterns of files that count; none: all do.
    pub include: Vec<String>,
    /// Patterns of files that don't.
    pub exclude: Vec<String>,
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
    /// `None`: what the model allows.
    #[serde(deserialize_with = "mode")]
    pub mode: Option<Mode>,
}

/// How pictures are read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceSettings {
    /// Of a vision-language model; empty for none.
    pub endpoint: String,
    pub endpoint_model: String,
    pub endpoint_key: Secret,
    pub endpoint_seconds: u32,
    /// Pictures whose text is kept.
    pub cached: usize,
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

/// A mode by its name, or `auto`.
fn mode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Mode>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = Mode::ALL.into_iter().find(|it| it.name() == name);
    match known {
        None if name != "auto" => {
            Err(serde::de::Error::unknown_variant(&name, &["auto", "text", "image", "vce", "vce+image"]))
        }
        known => Ok(known),
    }
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
    #[error("{origin}: {error}")]
    Server { origin: String, error: server::settings::SettingsError },
    #[error("{origin}: `{key}` is no list of texts: write it as [\"one\", \"two\"]")]
    NotAList { origin: String, key: String },
    #[error("{origin}: `{key}` is no text: write it in quotes")]
    NotAText { origin: String, key: String },
    #[error("the variable HF_ENDPOINT is `{value}`, which is no address: set it to one like {}, or unset it", hub::HUB)]
    Endpoint { value: String },
}

/// The settings in force, and what is to be said of each.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub settings: Settings,
    /// By key.
    pub entries: Vec<Entry>,
    /// The variables of the hub.
    pub hub: Vec<Entry>,
}

/// Reads the settings. `file` wins over the file that `SIGHTLINE_CONFIG` names.
///
/// # Errors
/// An unreadable file, an unknown key or variable, a value of the wrong type or out of its range; the message names it.
pub fn load(file: Option<&Path>, flags: &[Flag]) -> Result<Loaded, ConfigError> {
    #[expect(clippy::disallowed_methods, reason = "this module is where the environment is read")]
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    load_from(file, &variables, flags)
}

fn load_from(file: Option<&Path>, variables: &Variables, flags: &[Flag]) -> Result<Loaded, ConfigError> {
    let mut layers = resolve(file, &own(variables.iter().cloned())?, flags)?;
    if let Some((name, folder)) = data_directory(variables) {
        layers.fill(DATA_DIR, Value::String(folder.to_string_lossy().into_owned()), name);
    }
    if let Some(endpoint) = text(variables, OTLP_VARIABLE)?.filter(|_| cfg!(feature = "otlp")) {
        layers.fill("server.otlp_endpoint", Value::String(endpoint.to_owned()), OTLP_VARIABLE);
    }
    let mut settings = layers.build("the settings")?;
    settings.server.check_together().map_err(|error| ConfigError::Server { origin: "the settings".into(), error })?;
    settings.home = variable(variables, HOME).map(PathBuf::from);
    let hub = hub::Read::new(variables, settings.home.as_deref())?;
    settings.hub = hub.options();
    Ok(Loaded { settings, entries: layers.entries(), hub: hub.entries() })
}

/// The environment.
type Variables = [(OsString, OsString)];

/// A key that is filled from the system's conventions if it is empty.
const DATA_DIR: &str = "index.data_dir";
/// What every program that sends traces reads.
const OTLP_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// A variable that is set to something.
fn variable<'a>(variables: &'a Variables, name: &str) -> Option<&'a OsString> {
    variables.iter().find(|it| it.0 == name).map(|it| &it.1).filter(|it| !it.is_empty())
}

/// The same, as text.
fn text<'a>(variables: &'a Variables, name: &str) -> Result<Option<&'a str>, ConfigError> {
    let not_text = || ConfigError::VariableNotUtf8 { variable: name.to_owned() };
    variable(variables, name).map(|it| it.to_str().ok_or_else(not_text)).transpose()
}

/// Where a user's data lies by the conventions of the system, and the variable that says so; `None` if none does.
fn data_directory(variables: &Variables) -> Option<(&'static str, PathBuf)> {
    let folder = |name: &'static str, below: &str| {
        let path = Path::new(variable(variables, name)?);
        path.is_absolute().then(|| (name, path.join(below).join("sightline")))
    };
    let local = || match (cfg!(windows), cfg!(target_os = "macos")) {
        (true, _) => folder("LOCALAPPDATA", ""),
        (_, true) => folder("HOME", "Library/Application Support"),
        _ => folder("HOME", ".local/share"),
    };
    folder("XDG_DATA_HOME", "").or_else(local)
}

/// The variables that are Sightline's, as text. One that is not text would be dropped in silence otherwise.
fn own(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Vec<(String, String)>, ConfigError> {
    let ours = variables.filter(|(name, _)| name.as_encoded_bytes().starts_with(layers::PREFIX.as_bytes()));
    let text = |(name, value): (OsString, OsString)| match (name.to_str(), value.to_str()) {
        (Some(name), Some(value)) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(ConfigError::VariableNotUtf8 { variable: name.to_string_lossy().into_owned() }),
    };
    ours.map(text).collect()
}

fn resolve(file: Option<&Path>, variables: &[(String, String)], flags: &[Flag]) -> Result<Layers, ConfigError> {
    let mut layers = Layers::defaults()?;
    let named = variables.iter().find(|(name, _)| name == layers::FILE_VARIABLE).map(|(_, path)| Path::new(path));
    if let Some(path) = file.or(named) {
        layers.file(path)?;
    }
    // The short name of a key first, so that the full one wins.
    let (short, full): (Vec<_>, Vec<_>) = variables.iter().partition(|(name, _)| layers::short(name).is_some());
    for (name, value) in short.into_iter().chain(full).filter(|(name, _)| name != layers::FILE_VARIABLE) {
        layers.variable(name, value)?;
    }
    flags.iter().try_for_each(|flag| layers.flag(flag))?;
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn settled(file: Option<&Path>, pairs: &[(String, String)]) -> Result<Settings, ConfigError> {
        resolve(file, pairs, &[])?.build("the settings")
    }

    fn defaults() -> Settings {
        settled(None, &[]).expect("the compiled-in defaults")
    }

    #[track_caller]
    fn check_refused(file: &str, pairs: &[(&str, &str)], expected: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.toml");
        std::fs::write(&path, file).expect("a file");
        let error = settled(Some(&path), &variables(pairs)).expect_err("refused").to_string();
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
        let settings = settled(None, &named).expect("sound settings");
        assert_eq!((settings.locate.results.get(), settings.locate.rerank), (5, 7));
        assert_eq!((settings.ranking.file_fields.path, settings.ranking.file_fields.body), (9.0, 1.0));
        assert_eq!(settings.locate.retriever, defaults().locate.retriever);
    }

    #[test]
    fn a_nested_key_and_a_word_are_variables_too() {
        let named =
            variables(&[("SIGHTLINE_RANKING_FILE_FIELDS_PATH_B", "0.5"), ("SIGHTLINE_LOCATE_RETRIEVER", "bm25")]);
        let settings = settled(None, &named).expect("sound settings");
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
            settled(None, &variables(&[(&format!("SIGHTLINE_RANKING_{variable}"), value)])).expect("in its range");
        }
    }

    #[test]
    fn a_missing_file_is_named_with_a_remedy() {
        let error = settled(Some(Path::new("no-such.toml")), &[]).expect_err("there is none");
        let message = error.to_string();
        assert!(message.contains("`no-such.toml`") && message.contains("--config"), "{message}");
        assert!(std::error::Error::source(&error).is_none(), "the cause would be printed twice");
    }

    #[test]
    fn numbers_of_the_service_are_refused_by_key_and_range_too() {
        for (file, expected) in [
            ("[server]\nport = 70000\n", "`server.port` is 70000; give it a number from 0 to 65535"),
            ("[server]\nrate = nan\n", "`server.rate` is NaN"),
            ("[server]\nmax_requests = 0\n", "`server.max_requests` is 0; give it a number from 1"),
            ("[server]\nmax_body_bytes = -1\n", "`server.max_body_bytes` is -1"),
            ("[server]\nbody_seconds = 0\n", "`server.body_seconds` is 0"),
            ("[server]\nqueue_tokens = 0\n", "`server.queue_tokens` is 0"),
            ("[server]\nprot = 1\n", "prot"),
            ("[server]\nlog_format = \"xml\"\n", "xml"),
            ("[server]\nhost = \"a:1\"\n", "settings.toml`: `server.host` is `a:1`"),
            ("[images]\nmax_pixels = 0\n", "`images.max_pixels` is 0"),
        ] {
            check_refused(file, &[], expected);
        }
    }

    #[test]
    fn a_secret_is_in_no_message() {
        let secret = "supersecretsupersecret";
        for file in [
            format!("[server]\nkeys = \"{secret}\"\n"),
            format!("[server]\nkeys = [\"{secret}\", 1]\n"),
            format!("[server]\nkeys = [\"{secret}\n"),
            format!("[server]\nkeys = [\"{secret} \"]\n"),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("settings.toml");
            std::fs::write(&path, &file).expect("a file");
            let message = settled(Some(&path), &[]).expect_err("refused").to_string();
            assert!(!message.contains("supersecret") && message.contains("settings.toml"), "{message}");
        }
        let unended = variables(&[("SIGHTLINE_SERVER_KEYS", "[\"supersecretsupersecret")]);
        let message = settled(None, &unended).expect_err("refused").to_string();
        assert!(!message.contains("supersecret") && message.contains("SIGHTLINE_SERVER_KEYS"), "{message}");
    }

    #[track_caller]
    fn check_list(value: &str, expected: &[&str]) {
        let settings = settled(None, &variables(&[("SIGHTLINE_SERVER_CORS_ORIGINS", value)])).expect("sound");
        assert_eq!(settings.server.cors_origins, expected, "{value}");
    }

    #[test]
    fn a_list_in_a_variable_is_toml_or_one_item() {
        check_list("[\"http://a\", \"http://b\"]", &["http://a", "http://b"]);
        check_list(" [ ] ", &[]);
        check_list("", &[]);
        check_list("http://a", &["http://a"]);
        check_refused("", &[("SIGHTLINE_SERVER_CORS_ORIGINS", "http://a,http://b")], "`http://a,http://b`");
        check_refused("", &[("SIGHTLINE_SERVER_CORS_ORIGINS", "[http://a]")], "is no list of texts");
        check_refused("", &[("SIGHTLINE_SERVER_CORS_ORIGINS", "[1]")], "SIGHTLINE_SERVER_CORS_ORIGINS");
    }

    /// What is said of some keys, by all four layers.
    fn entries(variables: &[(&str, &str)], flags: &[Flag]) -> (tempfile::TempDir, Vec<Entry>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.toml");
        let file = "[server]\nport = 1\nrate = 2\nkeys = [\"0123456789abcdef\"]\n[ranking.file_fields]\npath = 9\n";
        std::fs::write(&path, file).expect("a file");
        let variables: Vec<(OsString, OsString)> = variables.iter().map(|it| (it.0.into(), it.1.into())).collect();
        let loaded = load_from(Some(&path), &variables, flags).expect("sound");
        (folder, loaded.entries)
    }

    #[test]
    fn each_value_says_which_layer_it_is_from() {
        let flag = Flag { key: "server.max_batch", name: "--max-batch", value: 7.into() };
        let variables =
            [("SIGHTLINE_SERVER_PORT", "8"), ("SIGHTLINE_SERVER_MAX_BATCH", "9"), ("XDG_DATA_HOME", "/data")];
        let (folder, entries) = entries(&variables, &[flag]);
        let of = |key: &str| {
            let entry = entries.iter().find(|it| it.key == key).expect("every key is there");
            let shown = match &entry.shown {
                Shown::Value(value) => value.to_string(),
                Shown::Hidden => "hidden".to_owned(),
            };
            format!("{shown} {}", entry.origin).replace(&folder.path().display().to_string(), "")
        };
        assert_eq!(of("server.port"), "8 SIGHTLINE_SERVER_PORT");
        assert_eq!(of("server.rate"), "2 file /settings.toml");
        assert_eq!(of("server.max_batch"), "7 flag --max-batch");
        assert_eq!(of("server.keys"), "hidden file /settings.toml");
        assert_eq!(of("ranking.file_fields.path"), "9 file /settings.toml");
        assert_eq!(of("ranking.file_fields.body"), "1.0 default");
        assert_eq!(of("server.roots"), "[] default");
        if cfg!(unix) {
            assert_eq!(of("index.data_dir"), "\"/data/sightline\" XDG_DATA_HOME");
        }
    }

    #[test]
    fn the_log_has_a_short_variable_and_the_full_one_wins() {
        let settings = |pairs| settled(None, &variables(pairs)).expect("sound").server.log;
        assert_eq!(settings(&[("SIGHTLINE_LOG", "debug")]), "debug");
        assert_eq!(settings(&[("SIGHTLINE_SERVER_LOG", "warn"), ("SIGHTLINE_LOG", "debug")]), "warn");
        check_refused("", &[("SIGHTLINE_LOG", "sightline=loud")], "SIGHTLINE_LOG: `server.log`");
    }

    #[test]
    fn keys_that_contradict_each_other_are_refused_once_all_are_known() {
        let load = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(OsString, OsString)> = pairs.iter().map(|it| (it.0.into(), it.1.into())).collect();
            load_from(None, &pairs, &[]).map(drop).map_err(|it| it.to_string())
        };
        let (body, memory) = ("SIGHTLINE_SERVER_MAX_BODY_BYTES", "SIGHTLINE_SERVER_BODY_MEMORY_BYTES");
        assert_eq!(load(&[(body, "1_000_000_000"), (memory, "1_000_000_000")]), Ok(()));
        assert!(load(&[(body, "1_000_000_000")]).expect_err("refused").contains("`server.body_memory_bytes`"));
    }

    #[test]
    fn a_password_in_an_address_is_not_shown() {
        let shown = Shown::of(&Value::String("http://me:secret@host/x".into()));
        assert_eq!(shown, Shown::Value(Value::String("http://me:hidden@host/x".into())));
        assert_eq!(Shown::of(&Value::String("me@host".into())), Shown::Value(Value::String("me@host".into())));
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
