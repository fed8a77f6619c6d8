//! Which names a request may call the service by, and which pages may send one.
//!
//! A page of a stranger can make a browser ask this machine: by a name that it points here (DNS rebinding), or by sending a form.
//! A service without keys has nothing else that tells such a request from its user's.

use axum::http::{HeaderMap, StatusCode, Uri, header};

use crate::server::error::ApiError;
use crate::server::settings::{Settings, is_loopback};

/// Who may ask, by name.
#[derive(Debug, Clone)]
pub struct Names {
    /// The one that the service listens on, if only this machine's names are taken.
    own: Option<String>,
    origins: Vec<String>,
}

impl Names {
    pub fn new(settings: &Settings) -> Self {
        let is_guarded = settings.is_loopback() && !settings.has_keys();
        Names { own: is_guarded.then(|| settings.host.clone()), origins: settings.cors_origins.clone() }
    }

    /// Lets a request pass, or not.
    ///
    /// # Errors
    /// 403 for a name or an origin that is another's.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let hosts = headers
            .get_all(header::HOST)
            .iter()
            .map(|it| it.to_str().ok())
            .chain([uri.authority().map(|it| it.as_str())].into_iter().filter(Option::is_some));
        let hosts: Vec<Option<&str>> = hosts.collect();
        if let Some(own) = &self.own
            && !hosts.iter().all(|it| it.is_some_and(|it| is_own(it, own)))
        {
            return Err(refused(
                "host_refused",
                "the request calls the service by a name that is not this machine's: ask 127.0.0.1 or localhost, or give the service a key",
            ));
        }
        let own: Vec<&str> = hosts.into_iter().flatten().collect();
        match headers.get_all(header::ORIGIN).iter().all(|it| it.to_str().is_ok_and(|it| self.is_welcome(it, &own))) {
            true => Ok(()),
            false => Err(refused(
                "origin_refused",
                "the request comes from another page than the service's own: add its origin to the setting `server.cors_origins`",
            )),
        }
    }

    /// Whether an origin is the service's own page, under the name that the request has, or one of the settings.
    fn is_welcome(&self, origin: &str, hosts: &[&str]) -> bool {
        let own = origin.split_once("://").filter(|it| ["http", "https"].contains(&it.0));
        let is_own = own.is_some_and(|(scheme, host)| {
            hosts
                .iter()
                .any(|it| without_default_port(it, scheme).eq_ignore_ascii_case(without_default_port(host, scheme)))
        });
        is_own || self.origins.iter().any(|it| it == origin)
    }
}

fn refused(code: &'static str, message: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, code, message)
}

/// Whether a host with or without a port is this machine, or the name that the service listens on.
fn is_own(host: &str, own: &str) -> bool {
    let name = without_port(host);
    is_loopback(name) || name.eq_ignore_ascii_case(own)
}

/// Without port and brackets; behind the brackets of an address may be a port and nothing else.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((address, rest)) if rest.is_empty() || rest.starts_with(':') => address,
        Some(_) => host,
        None => host.rsplit_once(':').map_or(host, |it| it.0),
    }
}

/// Browsers leave the port of a scheme out of an origin; a proxy may not.
fn without_default_port<'a>(host: &'a str, scheme: &str) -> &'a str {
    let port = if scheme == "https" { ":443" } else { ":80" };
    host.strip_suffix(port).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a request to `host` from `origin`, under some keys of the settings: the code of the refusal.
    #[track_caller]
    fn check(keys: &str, host: &str, origin: &str, expected: &str) {
        let settings = crate::server::settings::tests::settings(keys);
        let mut headers = HeaderMap::new();
        let values = [(header::HOST, host), (header::ORIGIN, origin)];
        for (name, value) in values.into_iter().filter(|it| !it.1.is_empty()) {
            headers.insert(name, value.parse().expect("a value"));
        }
        let found = Names::new(&settings).check(&Uri::from_static("/v1/models"), &headers);
        assert_eq!(found.err().map_or("", |it| it.code), expected, "{host} from {origin}");
    }

    #[test]
    fn without_keys_only_names_of_this_machine_are_taken() {
        for host in ["localhost", "LocalHost:7411", "127.0.0.1", "127.1.2.3:80", "[::1]:7411", "[::1]", ""] {
            check("", host, "", "");
        }
        for host in [
            "evil.example",
            "evil.example:7411",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]:1",
            "[::1]evil.example",
            "[::1",
        ] {
            check("", host, "", "host_refused");
            check("keys = [\"0123456789abcdef\"]", host, "", "");
        }
        check("host = \"127.0.0.5\"", "127.0.0.5:7411", "", "");
        check("host = \"0.0.0.0\"\nallow_unauthenticated = true", "box.lan", "", "");
    }

    #[test]
    fn a_second_name_is_looked_at_too() {
        let settings = crate::server::settings::tests::settings("");
        let names = Names::new(&settings);
        let code = |uri: &str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().expect("a value"));
            }
            names.check(&uri.parse().expect("an address"), &headers).err().map(|it| it.code)
        };
        assert_eq!(code("http://evil.example/v1/models", &["localhost"]), Some("host_refused"));
        assert_eq!(code("http://localhost/v1/models", &["localhost"]), None);
        assert_eq!(code("/", &["localhost", "evil.example"]), Some("host_refused"));
    }

    #[test]
    fn a_page_may_ask_its_own_service_and_others_only_if_they_are_listed() {
        check("", "localhost:7411", "http://localhost:7411", "");
        check("", "LOCALHOST", "http://localhost:80", "");
        check("keys = [\"0123456789abcdef\"]", "svc.example", "https://svc.example", "");
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:7412",
            "http://localhost",
            "file://",
            "https://127.0.0.1:7411",
        ] {
            check("", "localhost:7411", origin, "origin_refused");
        }
        let listed = "cors_origins = [\"https://app.example\"]";
        check(listed, "localhost:7411", "https://app.example", "");
        check(listed, "localhost:7411", "https://app.example:444", "origin_refused");
        check(listed, "localhost:7411", "http://app.example", "origin_refused");
    }
}
