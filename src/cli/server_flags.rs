//! The flags of `serve` that are settings of the service; each has a key and a variable too.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use toml::Value;

use crate::config::Flag;

/// The flags that are settings of the service.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ServerFlags {
    /// Where to listen; anything but this machine alone needs a key [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// The port; 0 for a free one [default: 7411].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// A folder under which repositories lie that may be indexed by path; can be given several times.
    #[arg(long = "root", value_name = "FOLDER")]
    roots: Vec<PathBuf>,
    /// A file with one API key a line.
    #[arg(long, value_name = "FILE")]
    keys_file: Option<PathBuf>,
    /// Lets everyone who can reach the service use it.
    #[arg(long)]
    allow_unauthenticated: bool,
    /// Requests in flight; more are refused [default: 64].
    #[arg(long, value_name = "COUNT")]
    max_requests: Option<u32>,
    /// Requests a second by key; 0 for no limit [default: 0].
    #[arg(long, value_name = "COUNT")]
    rate: Option<f64>,
    /// An origin of other pages that may use the service, as scheme://host:port; can be given several times.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    cors_origins: Vec<String>,
    /// Hosts that pictures may be fetched from, separated by commas; can be given several times.
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    allow_image_hosts: Vec<String>,
    /// What is logged: error, warn, info, debug, trace, or a filter like info,sightline=debug [default: info].
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How it is logged [default: text].
    #[arg(long, value_parser = PossibleValuesParser::new(["text", "json"]))]
    log_format: Option<String>,
}

impl ServerFlags {
    /// The flags as settings that were given by flags.
    pub fn settings(&self) -> Vec<Flag> {
        let flags = [
            flag("server.host", "--host", self.host.clone().map(Value::from)),
            flag("server.port", "--port", self.port.map(|it| i64::from(it).into())),
            flag("server.roots", "--root", list(self.roots.iter().map(|it| absolute(it)))),
            flag("server.keys_file", "--keys-file", self.keys_file.as_ref().map(|it| absolute(it).into())),
            flag(
                "server.allow_unauthenticated",
                "--allow-unauthenticated",
                self.allow_unauthenticated.then(|| true.into()),
            ),
            flag("server.max_requests", "--max-requests", self.max_requests.map(|it| i64::from(it).into())),
            flag("server.rate", "--rate", self.rate.map(Value::from)),
            flag("server.cors_origins", "--cors-origin", list(self.cors_origins.iter().cloned())),
            flag("server.allow_image_hosts", "--allow-image-hosts", list(self.allow_image_hosts.iter().cloned())),
            flag("server.log", "--log", self.log.clone().map(Value::from)),
            flag("server.log_format", "--log-format", self.log_format.clone().map(Value::from)),
        ];
        flags.into_iter().flatten().collect()
    }
}

fn flag(key: &'static str, name: &'static str, value: Option<Value>) -> Option<Flag> {
    value.map(|value| Flag { key, name, value })
}

/// `None` for a flag that was not given.
fn list(items: impl Iterator<Item = String>) -> Option<Value> {
    let items: Vec<Value> = items.map(Value::from).collect();
    (!items.is_empty()).then_some(Value::Array(items))
}

/// A path of the command line, which is one from the current directory.
fn absolute(path: &std::path::Path) -> String {
    std::path::absolute(path).as_deref().unwrap_or(path).to_string_lossy().into_owned()
}
