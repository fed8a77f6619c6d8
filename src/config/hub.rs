//! The hub's own variables, as Python's huggingface_hub reads them.

use std::path::{Path, PathBuf};

use toml::Value;

use super::provenance::{Entry, Origin, Shown};
use super::{ConfigError, Variables, text, variable};
use crate::encoder::hub::HubOptions;

pub const HUB: &str = "https://huggingface.co";

/// A value and the variable that it is from, if from any.
struct Sourced<T>(T, Option<&'static str>);

/// What the variables say.
pub struct Read {
    cache: Sourced<PathBuf>,
    endpoint: Sourced<String>,
    token: Option<String>,
    token_file: Sourced<PathBuf>,
    is_offline: Sourced<bool>,
}

impl Read {
    pub fn new(variables: &Variables, home: Option<&Path>) -> Result<Self, ConfigError> {
        let hub_home = hub_home(variables, home);
        let below = |name: &str| match &hub_home {
            Some(Sourced(folder, variable)) => Sourced(folder.join(name), *variable),
            None => Sourced(PathBuf::new(), None),
        };
        let of = |name: &'static str| Some(Sourced(path(variables, name, home)?, Some(name)));
        Ok(Read {
            cache: of("HF_HUB_CACHE").unwrap_or_else(|| below("hub")),
            endpoint: endpoint(variables)?,
            token: text(variables, "HF_TOKEN")?.map(str::to_owned),
            token_file: of("HF_TOKEN_PATH").unwrap_or_else(|| below("token")),
            is_offline: offline(variables)?,
        })
    }

    pub fn options(&self) -> HubOptions {
        HubOptions {
            cache: self.cache.0.clone(),
            endpoint: self.endpoint.0.clone(),
            token: self.token.clone(),
            token_file: self.token_file.0.clone(),
            is_offline: self.is_offline.0,
        }
    }

    /// One for each variable, with what it comes to.
    pub fn entries(&self) -> Vec<Entry> {
        let token = match &self.token {
            None => (Shown::Value(Value::String(String::new())), None),
            Some(_) => (Shown::Hidden, Some("HF_TOKEN")),
        };
        let path = |Sourced(path, variable): &Sourced<PathBuf>| (shown(path.to_string_lossy()), *variable);
        let entries = [
            ("HF_HUB_CACHE", path(&self.cache)),
            ("HF_ENDPOINT", (shown(self.endpoint.0.as_str()), self.endpoint.1)),
            ("HF_TOKEN", token),
            ("HF_TOKEN_PATH", path(&self.token_file)),
            ("HF_HUB_OFFLINE", (Shown::Value(Value::Boolean(self.is_offline.0)), self.is_offline.1)),
        ];
        let origin = |it: Option<&str>| it.map_or(Origin::Default, |it| Origin::Variable(it.to_owned()));
        entries.map(|(key, (shown, from))| Entry { key: key.to_owned(), shown, origin: origin(from) }).into()
    }
}

fn shown(text: impl Into<String>) -> Shown {
    Shown::of(&Value::String(text.into()))
}

/// A variable that names a path, where `~` is the user's folder.
fn path(variables: &Variables, name: &str, home: Option<&Path>) -> Option<PathBuf> {
    let path = Path::new(variable(variables, name)?);
    let below = path.strip_prefix("~").ok().zip(home);
    Some(below.map_or_else(|| path.to_owned(), |(below, home)| home.join(below)))
}

/// The folder that the others lie in.
fn hub_home(variables: &Variables, home: Option<&Path>) -> Option<Sourced<PathBuf>> {
    let of = |name: &'static str| Some(Sourced(path(variables, name, home)?, Some(name)));
    let caches = || of("XDG_CACHE_HOME").or_else(|| Some(Sourced(home?.join(".cache"), None)));
    let in_caches = || caches().map(|Sourced(folder, variable)| Sourced(folder.join("huggingface"), variable));
    of("HF_HOME").or_else(in_caches)
}

fn endpoint(variables: &Variables) -> Result<Sourced<String>, ConfigError> {
    let Some(endpoint) = text(variables, "HF_ENDPOINT")? else { return Ok(Sourced(HUB.to_owned(), None)) };
    let endpoint = endpoint.trim_end_matches('/').to_owned();
    match ["http://", "https://"].iter().any(|it| endpoint.starts_with(it)) {
        true => Ok(Sourced(endpoint, Some("HF_ENDPOINT"))),
        false => Err(ConfigError::Endpoint { value: endpoint }),
    }
}

fn offline(variables: &Variables) -> Result<Sourced<bool>, ConfigError> {
    let is_true = |it: &str| ["1", "ON", "YES", "TRUE"].contains(&it.to_uppercase().as_str());
    Ok(match text(variables, "HF_HUB_OFFLINE")? {
        Some(value) => Sourced(is_true(value), Some("HF_HUB_OFFLINE")),
        None => Sourced(false, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    /// What the hub's variables come to, as text.
    #[track_caller]
    fn check_hub(pairs: &[(&str, &str)], cache: &str, endpoint: &str, token_file: &str, is_offline: bool) {
        let pairs: Vec<(OsString, OsString)> = pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let options = Read::new(&pairs, Some(Path::new("/me"))).expect("sound").options();
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
        let odd: [(OsString, OsString); 1] = [("HF_ENDPOINT".into(), "mirror".into())];
        let error = Read::new(&odd, None).err().map(|it| it.to_string()).unwrap_or_default();
        assert!(error.contains("HF_ENDPOINT") && error.contains("`mirror`"), "{error}");
    }

    #[test]
    fn a_token_is_hidden_and_every_value_says_where_it_is_from() {
        let pairs: Vec<(OsString, OsString)> =
            [("HF_TOKEN", "hf_secret"), ("HF_HOME", "/hf")].map(|(name, value)| (name.into(), value.into())).into();
        let entries = Read::new(&pairs, None).expect("sound").entries();
        let of = |key: &str| entries.iter().find(|it| it.key == key).expect("there").clone();
        assert_eq!((of("HF_TOKEN").shown, of("HF_TOKEN").origin), (Shown::Hidden, Origin::Variable("HF_TOKEN".into())));
        assert_eq!(of("HF_HUB_CACHE").origin, Origin::Variable("HF_HOME".into()));
        assert_eq!(of("HF_ENDPOINT").origin, Origin::Default);
        assert!(!format!("{entries:?}").contains("secret"));
    }
}
