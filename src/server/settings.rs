//! The settings of the service; the values in force stand in `configs/default.toml`.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tracing_subscriber::EnvFilter;

use crate::types::Secret;

/// Everything under `[server]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// An address or a name to listen on.
    pub host: String,
    /// 0: a free one.
    pub port: u16,
    /// Folders under which the paths of repositories may lie.
    pub roots: Vec<PathBuf>,
    /// Empty for none.
    pub keys_file: PathBuf,
    pub keys: Vec<Secret>,
    pub allow_unauthenticated: bool,
    pub metrics_need_key: bool,
    /// In flight at a time.
    pub max_requests: usize,
    pub max_connections: usize,
    pub max_body_bytes: u64,
    /// For the bodies of all requests in flight.
    pub body_memory_bytes: u64,
    pub max_upload_bytes: u64,
    /// Inputs of one request.
    pub max_batch: usize,
    pub header_seconds: f64,
    pub body_seconds: f64,
    pub request_seconds: f64,
    pub drain_seconds: f64,
    /// Requests a second by key; 0 for no limit.
    pub rate: f64,
    /// Requests in flight by key; 0 for no limit.
    pub key_concurrency: usize,
    pub cors_origins: Vec<String>,
    pub allow_image_hosts: Vec<String>,
    /// Estimated tokens that may wait for the encoder.
    pub queue_tokens: usize,
    /// A level, or a filter as `tracing` has them.
    pub log: String,
    pub log_format: LogFormat,
    /// Empty for none.
    pub otlp_endpoint: String,
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    pub const ALL: [LogFormat; 2] = [LogFormat::Text, LogFormat::Json];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

/// Why settings of the service can't be used. Each names its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("`server.host` is `{0}`: name an address like 127.0.0.1 or ::1, or a host name, without a port")]
    Host(String),
    #[error("`server.roots` has `{}`, which is no absolute path: write it from the root on", .0.display())]
    Root(PathBuf),
    #[error(
        "a key of `server.keys` has {found} characters: give it {SHORTEST_KEY} to {LONGEST_KEY} visible ASCII characters"
    )]
    Key { found: usize },
    #[error("`server.cors_origins` has `{0}`: write an origin as scheme://host or scheme://host:port, without a path")]
    Origin(String),
    #[error("`server.allow_image_hosts` has `{0}`: write a host name alone, without scheme, port and path")]
    ImageHost(String),
    #[error(
        "`server.log` is `{filter}`: {cause}; write off, error, warn, info, debug, trace or a filter like info,sightline=debug"
    )]
    Log { filter: String, cause: String },
    #[error("`server.otlp_endpoint` is `{0}`: write an address like http://127.0.0.1:4318, or leave it empty")]
    Endpoint(String),
    #[error(
        "`server.body_memory_bytes` is {memory}, less than `server.max_body_bytes`, {body}: raise the first or lower the second, \
         or the longest bodies can never be read"
    )]
    Memory { memory: u64, body: u64 },
    #[error(
        "`server.host` is {host}, which other machines can reach, and there are no keys: set `server.keys_file` or `server.keys`, \
         or `server.allow_unauthenticated` if everyone may ask"
    )]
    Open { host: String },
}

/// A key that is shorter could be found by trying.
pub const SHORTEST_KEY: usize = 16;
/// Far longer than any, and far shorter than a file that is none of keys.
pub const LONGEST_KEY: usize = 512;

/// What the numbers may be, by key. Less would refuse every request; more means nothing on any machine.
pub const RANGES: &[(&str, RangeInclusive<f64>)] = &[
    ("port", 0.0..=65_535.0),
    ("max_requests", 1.0..=100_000.0),
    ("max_connections", 1.0..=1_000_000.0),
    ("max_body_bytes", 1024.0..=TIB),
    ("body_memory_bytes", 1024.0..=TIB),
    ("max_upload_bytes", 1024.0..=TIB),
    ("max_batch", 1.0..=1_000_000.0),
    ("header_seconds", 0.1..=DAY),
    ("body_seconds", 0.1..=DAY),
    ("request_seconds", 0.1..=DAY),
    ("drain_seconds", 0.0..=DAY),
    ("rate", 0.0..=1_000_000.0),
    ("key_concurrency", 0.0..=100_000.0),
    ("queue_tokens", 1024.0..=1e9),
];

const TIB: f64 = (1u64 << 40) as f64;
const DAY: f64 = 86_400.0;

impl Settings {
    /// Checks each key for itself; numbers are within [`RANGES`] already.
    ///
    /// # Errors
    /// For the first key that can't be used.
    pub fn check(&self) -> Result<(), SettingsError> {
        let (hosts, origins) = (&self.allow_image_hosts, &self.cors_origins);
        if !is_host(&self.host) {
            return Err(SettingsError::Host(self.host.clone()));
        }
        first(&self.roots, |it| it.is_absolute(), |it| SettingsError::Root(it.clone()))?;
        first(&self.keys, |it| is_key(it.reveal()), |it| SettingsError::Key { found: it.reveal().chars().count() })?;
        first(origins, |it| is_origin(it), |it| SettingsError::Origin(it.clone()))?;
        first(hosts, |it| is_name(it), |it| SettingsError::ImageHost(it.clone()))?;
        if let Err(cause) = EnvFilter::try_new(&self.log) {
            return Err(SettingsError::Log { filter: self.log.clone(), cause: cause.to_string() });
        }
        match self.otlp_endpoint.is_empty() || is_web_address(&self.otlp_endpoint) {
            true => Ok(()),
            false => Err(SettingsError::Endpoint(self.otlp_endpoint.clone())),
        }
    }

    /// Checks what keys say of each other: only sense once all of them are known.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn check_together(&self) -> Result<(), SettingsError> {
        let (memory, body) = (self.body_memory_bytes, self.max_body_bytes);
        if memory < body { Err(SettingsError::Memory { memory, body }) } else { Ok(()) }
    }

    /// Checks that a service that others can reach asks for a key.
    ///
    /// # Errors
    /// When it doesn't and isn't meant to.
    pub fn check_exposure(&self) -> Result<(), SettingsError> {
        match self.is_loopback() || self.has_keys() || self.allow_unauthenticated {
            true => Ok(()),
            false => Err(SettingsError::Open { host: self.host.clone() }),
        }
    }

    /// Whether requests need a key.
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty() || !self.keys_file.as_os_str().is_empty()
    }

    /// Whether only this machine can reach the service. A name could be anywhere, but for `localhost`.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Host and port as a resolver takes them.
    pub fn address(&self) -> String {
        match self.host.parse::<IpAddr>() {
            Ok(address) => SocketAddr::new(address, self.port).to_string(),
            Err(_) => format!("{}:{}", self.host, self.port),
        }
    }
}

/// A number of seconds of the settings. [`RANGES`] keeps it from what has no duration.
pub fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(Duration::from_secs(DAY as u64))
}

/// The error of the first item that isn't as it should be.
fn first<T>(items: &[T], is_right: fn(&T) -> bool, error: fn(&T) -> SettingsError) -> Result<(), SettingsError> {
    items.iter().find(|it| !is_right(it)).map_or(Ok(()), |it| Err(error(it)))
}

/// Whether an address or a name, without brackets, can only mean this machine.
pub fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => address.to_canonical().is_loopback(),
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// Whether a text can be a key: what a header can carry, and long enough.
pub fn is_key(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_graphic()) && (SHORTEST_KEY..=LONGEST_KEY).contains(&text.len())
}

fn is_host(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || is_name(text)
}

/// Labels of letters, digits, hyphens and underscores.
fn is_name(text: &str) -> bool {
    let is_label = |it: &str| {
        !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_') && it.len() < 64
    };
    text.len() < 254 && text.split('.').all(is_label)
}

/// What browsers send as `Origin`: a scheme, a host and at most a port. Not `*` and not `null`, which would let every page in.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let is_scheme =
        !scheme.is_empty() && scheme.bytes().all(|it| it.is_ascii_lowercase() || b"0123456789+-.".contains(&it));
    is_scheme && !host.is_empty() && host.bytes().all(|it| it.is_ascii_alphanumeric() || b"-._:[]".contains(&it))
}

fn is_web_address(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|it| ["http", "https"].contains(&it.scheme()) && it.has_host())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The settings of `configs/default.toml` with some keys replaced.
    pub fn settings(keys: &str) -> Settings {
        let mut all: toml::Table = include_str!("../../configs/default.toml").parse().expect("the defaults");
        let Some(toml::Value::Table(mut server)) = all.remove("server") else { panic!("no [server]") };
        server.extend(keys.parse::<toml::Table>().expect("sound TOML"));
        server.try_into().expect("sound settings")
    }

    #[track_caller]
    fn check(keys: &str, expected: Result<(), &str>) {
        let settings = settings(keys);
        let found = settings.check().and_then(|()| settings.check_together()).and_then(|()| settings.check_exposure());
        match (found, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => {
                let message = error.to_string();
                assert!(message.contains(part) && !message.contains('\n'), "`{message}` lacks `{part}`");
            }
            (found, expected) => panic!("{keys}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn the_defaults_are_sound_and_reach_no_other_machine() {
        check("", Ok(()));
        assert!(settings("").is_loopback());
        assert_eq!(settings("").address(), "127.0.0.1:7411");
        assert_eq!(settings("host = \"::1\"").address(), "[::1]:7411");
        assert_eq!(settings("host = \"box.lan\"\nport = 0").address(), "box.lan:0");
    }

    #[test]
    fn a_key_that_cannot_be_used_is_named() {
        for host in ["", "127.0.0.1:80", "http://x", "a b", "[::1]", ".", "a..b"] {
            check(&format!("host = \"{host}\""), Err("`server.host`"));
        }
        check("roots = [\"/srv\", \"here\"]", Err("`server.roots` has `here`"));
        for origin in ["*", "null", "example.org", "https://", "https://a/b", "https://a b", "HTTPS://a"] {
            check(&format!("cors_origins = [\"{origin}\"]"), Err("`server.cors_origins`"));
        }
        check("cors_origins = [\"https://a.example\", \"http://[::1]:80\", \"app://local\"]", Ok(()));
        for host in ["http://a", "a:80", "*", "a/b", ""] {
            check(&format!("allow_image_hosts = [\"{host}\"]"), Err("`server.allow_image_hosts`"));
        }
        check("log = \"sightline=loud\"", Err("`server.log` is `sightline=loud`"));
        check("log = \"warn,sightline=debug\"", Ok(()));
        check("otlp_endpoint = \"127.0.0.1:4318\"", Err("`server.otlp_endpoint`"));
        check("otlp_endpoint = \"http://127.0.0.1:4318\"", Ok(()));
        check("max_body_bytes = 2048\nbody_memory_bytes = 2047", Err("`server.body_memory_bytes` is 2047"));
    }

    #[test]
    fn keys_are_long_and_never_shown() {
        check("keys = [\"0123456789abcde\"]", Err("has 15 characters"));
        check("keys = [\"0123456789 abcdef\"]", Err("visible ASCII"));
        check("keys = [\"0123456789abcdef\"]", Ok(()));
        let shown = format!("{:?}", settings("keys = [\"0123456789abcdef\"]"));
        assert!(shown.contains("(hidden)") && !shown.contains("0123456789"), "{shown}");
    }

    #[test]
    fn what_other_machines_reach_needs_a_key() {
        for host in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "LOCALHOST"] {
            check(&format!("host = \"{host}\""), Ok(()));
        }
        for host in ["0.0.0.0", "::", "10.0.0.1", "box.lan", "localhost.example"] {
            check(&format!("host = \"{host}\""), Err("other machines can reach"));
            check(&format!("host = \"{host}\"\nkeys = [\"0123456789abcdef\"]"), Ok(()));
            check(&format!("host = \"{host}\"\nkeys_file = \"/keys\""), Ok(()));
            check(&format!("host = \"{host}\"\nallow_unauthenticated = true"), Ok(()));
        }
    }
}
