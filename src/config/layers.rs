//! Tables of settings laid over each other, with the layer that each value is from.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::provenance::{Entry, Flag, Origin, Shown};
use super::{ConfigError, Settings, ranges};

/// The compiled-in defaults: every key.
const DEFAULTS: &str = include_str!("../../configs/default.toml");
pub const PREFIX: &str = "SIGHTLINE_";
/// Names a file like `--config` does; the one variable that is not a key.
pub const FILE_VARIABLE: &str = "SIGHTLINE_CONFIG";
/// Keys that have a short name too, as programs of this kind are expected to.
const SHORT: &[(&str, &str)] = &[("SIGHTLINE_LOG", "server.log")];
/// Values that nobody is to see.
const SECRETS: &[&str] = &["server.keys", "evidence.endpoint_key"];

/// The key that a variable is the short name of.
pub fn short(variable: &str) -> Option<&'static str> {
    SHORT.iter().find(|it| it.0 == variable).map(|it| it.1)
}

pub struct Layers {
    table: Table,
    /// Of what is not from the defaults, by key.
    origins: BTreeMap<String, Origin>,
}

impl Layers {
    pub fn defaults() -> Result<Self, ConfigError> {
        Ok(Layers { table: parse(DEFAULTS, "the defaults")?, origins: BTreeMap::new() })
    }

    pub fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|cause| ConfigError::Read { path: path.into(), cause })?;
        let origin = format!("the configuration file `{}`", path.display());
        let over = parse(&text, &origin)?;
        let keys = leaves("", &over).into_iter().map(|(key, _)| (key, Origin::File(path.to_owned())));
        self.origins.extend(keys.collect::<Vec<_>>());
        overlay(&mut self.table, over);
        self.build(&origin).map(drop)
    }

    /// Sets the key whose path, joined by `_` in capitals, is the variable's name after the prefix.
    pub fn variable(&mut self, variable: &str, value: &str) -> Result<(), ConfigError> {
        let unknown = || ConfigError::UnknownVariable { variable: variable.to_owned() };
        let wanted = match short(variable) {
            Some(key) => key.replace('.', "_"),
            None => variable.strip_prefix(PREFIX).ok_or_else(unknown)?.to_lowercase(),
        };
        let (key, slot) = find("", &mut self.table, &wanted).ok_or_else(unknown)?;
        let not_a_list = || ConfigError::NotAList { origin: variable.to_owned(), key: key.clone() };
        *slot = value_of(slot, value).ok_or_else(not_a_list)?;
        self.origins.insert(key, Origin::Variable(variable.to_owned()));
        self.build(variable).map(drop)
    }

    pub fn flag(&mut self, flag: &Flag) -> Result<(), ConfigError> {
        if let Some((key, slot)) = find("", &mut self.table, &flag.key.replace('.', "_")) {
            *slot = flag.value.clone();
            self.origins.insert(key, Origin::Flag(flag.name));
        }
        self.build(flag.name).map(drop)
    }

    /// Sets a text that no layer has set, from a variable that is not ours.
    pub fn fill(&mut self, key: &str, value: Value, variable: &str) {
        match find("", &mut self.table, &key.replace('.', "_")) {
            Some((key, slot)) if slot.as_str() == Some("") => {
                *slot = value;
                self.origins.insert(key, Origin::Variable(variable.to_owned()));
            }
            _ => {}
        }
    }

    /// The settings, if every value is sound for itself.
    pub fn build(&self, origin: &str) -> Result<Settings, ConfigError> {
        let leaves = leaves("", &self.table);
        leaves.iter().try_for_each(|(key, value)| check(key, value, origin))?;
        let settings: Settings = self.table.clone().try_into().map_err(|error| invalid(origin, &error))?;
        settings.server.check().map_err(|error| ConfigError::Server { origin: origin.to_owned(), error })?;
        Ok(settings)
    }

    /// What is in force, by key.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |(key, value): (String, &Value)| {
            let is_hidden = SECRETS.contains(&key.as_str()) && !is_empty(value);
            let shown = if is_hidden { Shown::Hidden } else { Shown::of(value) };
            let origin = self.origins.get(&key).cloned().unwrap_or(Origin::Default);
            Entry { key, shown, origin }
        };
        leaves("", &self.table).into_iter().map(entry).collect()
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_str() == Some("")
}

/// Checks what a type can't say, or would say with the value of a secret in it.
fn check(key: &str, value: &Value, origin: &str) -> Result<(), ConfigError> {
    let origin = || origin.to_owned();
    let is_list = || value.as_array().is_some_and(|it| it.iter().all(Value::is_str));
    if key == "evidence.endpoint_key" && !value.is_str() {
        return Err(ConfigError::NotAText { origin: origin(), key: key.to_owned() });
    }
    if key == "server.keys" && !is_list() {
        return Err(ConfigError::NotAList { origin: origin(), key: key.to_owned() });
    }
    let (Some(value), Some(range)) = (ranges::number(value), ranges::allowed(key)) else { return Ok(()) };
    match range.contains(&value) {
        true => Ok(()),
        false => {
            let (least, most) = range.into_inner();
            Err(ConfigError::OutOfRange { origin: origin(), key: key.to_owned(), value, least, most })
        }
    }
}

/// A variable as a value of the kind that stands there. A list is written as TOML has it, or is one item as it is: commas are
/// left alone, since paths have them. `None` for a list that doesn't end.
fn value_of(slot: &Value, text: &str) -> Option<Value> {
    let parsed = || format!("value = {text}").parse::<Table>().ok()?.remove("value");
    match slot {
        Value::String(_) => Some(Value::String(text.to_owned())),
        Value::Array(_) if text.trim().is_empty() => Some(Value::Array(Vec::new())),
        Value::Array(_) if text.trim_start().starts_with('[') => parsed().filter(Value::is_array),
        Value::Array(_) => Some(Value::Array(vec![Value::String(text.to_owned())])),
        // A bare word that is no TOML value stays text, and is then refused by its type with a message.
        _ => Some(parsed().unwrap_or_else(|| Value::String(text.to_owned()))),
    }
}

fn parse(text: &str, origin: &str) -> Result<Table, ConfigError> {
    text.parse::<Table>().map_err(|error| {
        // Not the line itself, which may hold a secret.
        let line = error.span().map(|it| 1 + text.bytes().take(it.start).filter(|it| *it == b'\n').count());
        let place = line.map(|it| format!("line {it}: ")).unwrap_or_default();
        let message = format!("{place}{}", one_line(error.message()));
        ConfigError::Invalid { origin: origin.to_owned(), message }
    })
}

fn invalid(origin: &str, error: &toml::de::Error) -> ConfigError {
    ConfigError::Invalid { origin: origin.to_owned(), message: one_line(&error.to_string()) }
}

fn one_line(message: &str) -> String {
    message.trim().replace('\n', " ")
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

/// What is no table, by its key from the top. Tables of files nest as deep as the parser lets them, which is not deep.
fn leaves<'a>(above: &str, table: &'a Table) -> Vec<(String, &'a Value)> {
    let of_key = |(key, value): (&String, &'a Value)| match value {
        Value::Table(below) => leaves(&joined(above, key), below),
        value => vec![(joined(above, key), value)],
    };
    table.iter().flat_map(of_key).collect()
}

fn find<'a>(above: &str, table: &'a mut Table, wanted: &str) -> Option<(String, &'a mut Value)> {
    table.iter_mut().find_map(|(key, value)| {
        let rest = wanted.strip_prefix(key.as_str())?;
        match value {
            Value::Table(below) => find(&joined(above, key), below, rest.strip_prefix('_')?),
            value => rest.is_empty().then(|| (joined(above, key), value)),
        }
    })
}

fn joined(above: &str, key: &str) -> String {
    if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") }
}
