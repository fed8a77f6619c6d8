//! F2: one question and its answer over HTTP: addresses, time, sizes, and what a status means.
//!
//! No redirect is followed, since it would take the key and the picture to a host that nobody named. The key and the picture stand in no error.

use std::time::{Duration, Instant};

use ureq::http::{Response, header};
use ureq::{Agent, Body};
use url::{Host, Url};

use super::answer::one_line;
use super::{EndpointError, Settings, wire};
use crate::types::Secret;

/// The endpoint of a server, and how it is spoken to.
pub(super) struct Transport {
    agent: Agent,
    url: Url,
    key: Option<Secret>,
    most_bytes: u64,
}

/// What a server says.
pub(super) enum Reply {
    Answer(Vec<u8>),
    /// It does not take the question as it is asked.
    Refused {
        status: u16,
        message: String,
    },
}

/// The time that is left for a picture.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    end: Instant,
    whole: Duration,
}

impl Budget {
    pub fn new(whole: Duration) -> Self {
        Budget { end: Instant::now() + whole, whole }
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// A server that asks for a longer pause is not waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// What is read of a message that explains a refusal.
const MOST_MESSAGE_BYTES: u64 = 1 << 16;
/// Characters of a server's message that are shown.
const MOST_MESSAGE: usize = 200;
/// A longer word is data or a key, and no word.
const LONGEST_WORD: usize = 60;

impl Transport {
    pub fn new(settings: &Settings) -> Result<Self, EndpointError> {
        let url = address(&settings.url)?;
        if settings.key.as_ref().is_some_and(|it| !it.reveal().bytes().all(|it| it.is_ascii_graphic())) {
            return Err(EndpointError::Key { host: host(&url) });
        }
        let builder = Agent::config_builder()
            .user_agent(concat!("sightline/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .accept_encoding("identity")
            .max_redirects(0)
            .max_redirects_will_error(false);
        // What this machine asks itself is no proxy's business.
        let builder = if is_loopback(&url) { builder.proxy(None) } else { builder };
        let key = settings.key.clone().filter(|it| !it.reveal().is_empty());
        Ok(Transport { agent: builder.build().into(), url, key, most_bytes: settings.max_bytes })
    }

    /// The host, and its port where that is not the one of the scheme.
    pub fn host(&self) -> String {
        host(&self.url)
    }

    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Asks once, and once more if the server is busy and says for how short a time.
    pub fn post(&self, question: &[u8], budget: &Budget) -> Result<Reply, EndpointError> {
        let answer = self.send(question, budget)?;
        let wait = retry_after(&answer).filter(|it| *it <= LONGEST_WAIT && *it < budget.left());
        match wait.filter(|_| is_busy(&answer)) {
            Some(wait) => {
                drop(answer);
                std::thread::sleep(wait);
                self.read(self.send(question, budget)?, budget)
            }
            None => self.read(answer, budget),
        }
    }

    fn send(&self, question: &[u8], budget: &Budget) -> Result<Response<Body>, EndpointError> {
        let left = budget.left();
        if left.is_zero() {
            return Err(self.too_slow(budget));
        }
        let request = self.agent.post(self.url.as_str()).header(header::CONTENT_TYPE, "application/json");
        let request = match &self.key {
            Some(key) => request.header(header::AUTHORIZATION, format!("Bearer {}", key.reveal())),
            None => request,
        };
        let request = request.config().timeout_global(Some(left)).build();
        request.send(question).map_err(|error| self.failed(&error, budget))
    }

    fn read(&self, answer: Response<Body>, budget: &Budget) -> Result<Reply, EndpointError> {
        let host = self.host();
        match answer.status().as_u16() {
            200..300 => self.whole(answer.into_body(), budget).map(Reply::Answer),
            status @ 300..400 => Err(EndpointError::Redirect { host, status }),
            status @ (400 | 422) => Ok(Reply::Refused { status, message: self.message(answer) }),
            status @ (401 | 403) => Err(EndpointError::Denied { host, status }),
            404 => Err(EndpointError::NotFound { host, message: self.message(answer) }),
            status @ (429 | 503) => Err(EndpointError::Busy { host, status }),
            status => Err(EndpointError::Refused { host, status, message: self.message(answer) }),
        }
    }

    fn whole(&self, body: Body, budget: &Budget) -> Result<Vec<u8>, EndpointError> {
        let too_long = || EndpointError::TooLong { host: self.host(), limit: self.most_bytes };
        if body.content_length().is_some_and(|it| it > self.most_bytes) {
            return Err(too_long());
        }
        match body.into_with_config().limit(self.most_bytes).read_to_vec() {
            Ok(bytes) => Ok(bytes),
            Err(ureq::Error::BodyExceedsLimit(_)) => Err(too_long()),
            Err(error) => Err(self.failed(&error, budget)),
        }
    }

    /// Why a server refuses, in its words. What can't be read is no message.
    fn message(&self, answer: Response<Body>) -> String {
        let bytes = answer.into_body().into_with_config().limit(MOST_MESSAGE_BYTES).read_to_vec().unwrap_or_default();
        self.shown(&wire::message(&bytes))
    }

    /// Words of others without what is secret or endless.
    fn shown(&self, text: &str) -> String {
        let text = match &self.key {
            Some(key) => text.replace(key.reveal(), "(hidden)"),
            None => text.to_owned(),
        };
        let words = text.split_whitespace().map(|it| if it.len() > LONGEST_WORD { "(...)" } else { it });
        one_line(&words.collect::<Vec<_>>().join(" "), MOST_MESSAGE)
    }

    fn failed(&self, error: &ureq::Error, budget: &Budget) -> EndpointError {
        match error {
            ureq::Error::Timeout(_) => self.too_slow(budget),
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => self.too_slow(budget),
            other => EndpointError::Unreachable { host: self.host(), cause: self.shown(&other.to_string()) },
        }
    }

    fn too_slow(&self, budget: &Budget) -> EndpointError {
        EndpointError::TooSlow { host: self.host(), seconds: budget.whole.as_secs_f32() }
    }
}

/// Where questions go: below the base of an API, the part that all of them share.
fn address(text: &str) -> Result<Url, EndpointError> {
    const PATH: &str = "/chat/completions";
    // The text is not shown, since it may hold a password.
    let mut url = Url::parse(text.trim()).map_err(|_| EndpointError::Address("is no URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(EndpointError::Address("is of another scheme than http and https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(EndpointError::Address("holds a name or a password"));
    }
    url.set_fragment(None);
    let path = match url.path().trim_end_matches('/') {
        "" => format!("/v1{PATH}"),
        whole if whole.ends_with(PATH) => whole.to_owned(),
        base => format!("{base}{PATH}"),
    };
    url.set_path(&path);
    Ok(url)
}

fn host(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |it| format!(":{it}"));
    format!("{}{port}", url.host_str().unwrap_or_default())
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

fn is_busy(answer: &Response<Body>) -> bool {
    matches!(answer.status().as_u16(), 429 | 503)
}

/// The pause that a server asks for, where it is said in seconds.
fn retry_after(answer: &Response<Body>) -> Option<Duration> {
    let value = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: Result<&str, &str>) {
        match (address(url), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.as_str(), expected),
            (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn an_address_is_a_base_or_the_whole() {
        check("http://h:8000/v1", Ok("http://h:8000/v1/chat/completions"));
        check("http://h:8000/v1/", Ok("http://h:8000/v1/chat/completions"));
        check("http://h:8000", Ok("http://h:8000/v1/chat/completions"));
        check(" https://h/api/v3/chat/completions ", Ok("https://h/api/v3/chat/completions"));
        check("https://h/openai/v1?api-version=1#top", Ok("https://h/openai/v1/chat/completions?api-version=1"));
        check("http://[::1]:1/v1", Ok("http://[::1]:1/v1/chat/completions"));
        check("", Err("is no URL"));
        check("localhost:8000/v1", Err("another scheme"));
        check("ftp://h/v1", Err("another scheme"));
        check("http://user:hunter2@h/v1", Err("holds a name or a password"));
        check("http://hunter2@h/v1", Err("holds a name or a password"));
        check("http:///", Err("is no URL"));
    }

    #[test]
    fn this_machine_is_known_by_all_its_names() {
        let is = |it: &str| is_loopback(&Url::parse(it).expect("a URL"));
        assert!(is("http://127.0.0.9:1") && is("http://[::1]") && is("http://LOCALHOST") && is("http://a.localhost"));
        assert!(!is("http://10.0.0.1") && !is("http://example.org") && !is("http://localhost.example.org"));
    }
}
