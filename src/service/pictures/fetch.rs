//! F4: pictures from the web, without letting a request reach what only this machine can reach.
//!
//! A host is one that the operator listed; its addresses are looked up here and all have to be public; the connection goes to one of
//! those that were looked at, and nowhere else: no second look-up, no redirects, no proxy.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body};
use url::{Host, Url};

use super::PictureError;
use super::address::is_public;
use crate::imaging::ImageError;

/// The pictures of a request are there after so long, or not at all.
const TIME: Duration = Duration::from_secs(10);
/// As many addresses as are tried.
const MOST_ADDRESSES: usize = 8;

/// Looks up the addresses of a host.
type LookUp = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// What of the web pictures come from.
pub struct Web {
    hosts: Vec<Allowed>,
    /// The system's resolver, except in tests.
    pub(super) look_up: Arc<LookUp>,
    /// Whether an address may be reached.
    pub(super) permits: fn(IpAddr) -> bool,
    /// For all pictures of a request together.
    pub(super) time: Duration,
}

/// An entry of the list: a host, and its port where that is not the one of the scheme.
#[derive(Debug, PartialEq)]
struct Allowed {
    host: Host,
    port: Option<u16>,
}

/// That an entry of the list of hosts is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no host that pictures can come from; write a name like images.example.org, or with a port behind a colon"
)]
pub struct HostError(pub String);

/// Where a picture is.
#[derive(Debug)]
pub(super) struct Target {
    url: Url,
    host: Host,
    port: u16,
}

/// What the fetches of one request may take together.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    end: Instant,
    bytes: Arc<AtomicU64>,
}

impl Budget {
    pub fn new(end: Instant, bytes: u64) -> Self {
        Budget { end, bytes: Arc::new(AtomicU64::new(bytes)) }
    }

    fn time(&self) -> Result<Duration, PictureError> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(too_slow()) } else { Ok(left) }
    }

    /// Whether so many bytes were left.
    fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

impl Web {
    /// Pictures come from these hosts, which are named as in a URL; from none if there is none.
    ///
    /// # Errors
    /// An entry that is no host.
    pub fn new(hosts: &[String]) -> Result<Self, HostError> {
        let hosts = hosts.iter().map(|entry| Allowed::read(entry).ok_or_else(|| HostError(entry.clone())));
        let look_up = Arc::new(|host: &str, port: u16| Ok((host, port).to_socket_addrs()?.collect()));
        Ok(Web { hosts: hosts.collect::<Result<_, _>>()?, look_up, permits: is_public, time: TIME })
    }

    /// What a URL leads to, if pictures may come from there.
    pub(super) fn target(&self, url: &str) -> Result<Target, PictureError> {
        if self.hosts.is_empty() {
            return Err(PictureError::UrlsOff);
        }
        let mut url = Url::parse(url).map_err(|_| PictureError::Url("is none"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(PictureError::Url("is of another scheme than http and https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(PictureError::Url("holds a name or a password"));
        }
        url.set_fragment(None);
        let host = url.host().ok_or(PictureError::Url("names no host"))?.to_owned();
        let port = url.port_or_known_default().ok_or(PictureError::Url("names no port"))?;
        let own = url.port();
        if !self.hosts.iter().any(|it| it.host == host && (it.port == own || it.port == Some(port))) {
            let port = own.map_or(String::new(), |port| format!(":{port}"));
            return Err(PictureError::Host(format!("{host}{port}")));
        }
        Ok(Target { url, host, port })
    }

    /// The bytes of a picture; takes as long as `budget` allows, and the calling thread.
    pub(super) fn fetch(&self, target: &Target, budget: &Budget, most: u64) -> Result<Vec<u8>, PictureError> {
        let addresses = self.addresses(target, budget)?;
        let config = Agent::config_builder()
            .user_agent(concat!("sightline/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .accept_encoding("identity")
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(budget.time()?))
            .build();
        let agent = Agent::with_parts(config, DefaultConnector::default(), Looked(addresses));
        let answer = agent.get(target.url.as_str()).call().map_err(|error| failed(&error))?;
        match answer.status().as_u16() {
            200 => {}
            status @ 300..400 => {
                return Err(PictureError::Fetch(format!("its host answers {status}, and redirects are not followed")));
            }
            status => return Err(PictureError::Fetch(format!("its host answers {status}"))),
        }
        read(answer.into_body(), budget, most)
    }

    /// The addresses of a host, all of which may be reached.
    fn addresses(&self, target: &Target, budget: &Budget) -> Result<Vec<SocketAddr>, PictureError> {
        let addresses = match &target.host {
            Host::Ipv4(address) => vec![SocketAddr::from((*address, target.port))],
            Host::Ipv6(address) => vec![SocketAddr::from((*address, target.port))],
            Host::Domain(name) => self.looked_up(name.clone(), target.port, budget)?,
        };
        if addresses.is_empty() {
            return Err(unknown_host());
        }
        match addresses.iter().all(|it| (self.permits)(it.ip())) {
            true => Ok(addresses),
            false => Err(PictureError::Address),
        }
    }

    /// Systems' look-ups have no limit in time of their own, so that another thread waits for them.
    fn looked_up(&self, name: String, port: u16, budget: &Budget) -> Result<Vec<SocketAddr>, PictureError> {
        let (tell, told) = mpsc::channel();
        let look_up = Arc::clone(&self.look_up);
        let waiting = std::thread::Builder::new().name("look-up".to_owned());
        // Nobody may be there any more to hear it.
        let started = waiting.spawn(move || drop(tell.send(look_up(&name, port))));
        started.map_err(|_| unknown_host())?;
        match told.recv_timeout(budget.time()?) {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(_)) => Err(unknown_host()),
            Err(_) => Err(too_slow()),
        }
    }
}

impl Allowed {
    fn read(entry: &str) -> Option<Self> {
        let url = Url::parse(&format!("sightline://{entry}")).ok()?;
        let is_bare = entry.bytes().all(|it| it.is_ascii_alphanumeric() || b".-_:[]".contains(&it))
            && !entry.ends_with(':')
            && url.path().is_empty()
            && url.host_str().is_some_and(|it| !it.is_empty());
        // As hosts of http are read, which those of an unknown scheme are not.
        let host = Url::parse(&format!("http://{entry}")).ok()?.host()?.to_owned();
        is_bare.then(|| Allowed { host, port: url.port() })
    }
}

fn unknown_host() -> PictureError {
    PictureError::Fetch("its host can't be found".to_owned())
}

fn too_slow() -> PictureError {
    PictureError::Fetch("it took too long".to_owned())
}

/// What went wrong on the way, without what it says of networks.
fn failed(error: &ureq::Error) -> PictureError {
    match error {
        ureq::Error::Timeout(_) => too_slow(),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => too_slow(),
        _ => PictureError::Fetch("its host can't be reached, or does not answer as HTTP asks".to_owned()),
    }
}

fn read(body: Body, budget: &Budget, most: u64) -> Result<Vec<u8>, PictureError> {
    let too_large = |bytes| PictureError::Image(ImageError::TooManyBytes { bytes, limit: most });
    if let Some(bytes) = body.content_length().filter(|it| *it > most) {
        return Err(too_large(bytes));
    }
    let mut reader = body.into_reader();
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(count) => count,
            Err(_) if budget.time().is_err() => return Err(too_slow()),
            Err(_) => return Err(PictureError::Fetch("its host broke off".to_owned())),
        };
        // A sender that never pauses would not be met by the time-out of a single read.
        budget.time()?;
        bytes.extend_from_slice(&buffer[..count]);
        if bytes.len() as u64 > most {
            return Err(too_large(bytes.len() as u64));
        }
        if !budget.take(count as u64) {
            return Err(PictureError::Fetch(
                "the pictures of one request from the web are too large together".to_owned(),
            ));
        }
    }
}

/// Leads everywhere to the addresses that were looked at.
#[derive(Debug)]
struct Looked(Vec<SocketAddr>);

impl Resolver for Looked {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        self.0.iter().take(MOST_ADDRESSES).for_each(|it| addresses.push(*it));
        Ok(addresses)
    }
}
