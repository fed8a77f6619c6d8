//! Where a value comes from, for whoever wonders why it is what it is.

use std::fmt;
use std::path::PathBuf;

use toml::Value;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
    /// By its name.
    Variable(String),
    /// By its name, with the dashes.
    Flag(&'static str),
}

impl Origin {
    /// The kind, by one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::File(_) => "file",
            Origin::Variable(_) => "variable",
            Origin::Flag(_) => "flag",
        }
    }

    /// Which one of its kind.
    pub fn name(&self) -> Option<String> {
        match self {
            Origin::Default => None,
            Origin::File(path) => Some(path.display().to_string()),
            Origin::Variable(name) => Some(name.clone()),
            Origin::Flag(name) => Some((*name).to_owned()),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.name()) {
            (Origin::File(_), Some(name)) => write!(out, "file {name}"),
            (Origin::Flag(_), Some(name)) => write!(out, "flag {name}"),
            (_, Some(name)) => out.write_str(&name),
            (_, None) => out.write_str("default"),
        }
    }
}

/// A flag that was given and is a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// From the top: `server.port`.
    pub key: &'static str,
    /// With the dashes.
    pub name: &'static str,
    pub value: Value,
}

/// A value as it may be shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    Value(Value),
    /// A secret that is set.
    Hidden,
}

impl Shown {
    /// A value, without the password if it is an address with one.
    pub fn of(value: &Value) -> Self {
        let address = value.as_str().filter(|it| it.contains('@')).and_then(|it| url::Url::parse(it).ok());
        let Some(mut address) = address.filter(|it| it.password().is_some()) else {
            return Shown::Value(value.clone());
        };
        match address.set_password(Some("hidden")) {
            Ok(()) => Shown::Value(Value::String(address.into())),
            Err(()) => Shown::Hidden,
        }
    }
}

/// A setting in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// From the top; or the name of a variable that is not ours.
    pub key: String,
    pub shown: Shown,
    pub origin: Origin,
}
