//! F2: files over the network by the hub's protocol: what a file is, and its bytes from where an earlier transfer ended.
//!
//! Knows nothing of the cache but the paths that it is given.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::config::RedirectAuthHeaders;
use ureq::http::{Response, header};
use ureq::{Agent, Body};

use super::cache::is_commit;
use super::name::is_plain;
use super::{HubError, HubModel, HubOptions, Progress};

/// What the hub says of a file.
#[derive(Debug, Clone)]
pub(super) struct Described {
    /// The file's address at this very commit.
    pub url: String,
    pub commit: String,
    /// Names the content: the SHA-256 of a large file, the name that git has for a small one. Mirrors have names of their own.
    pub etag: String,
    pub bytes: Option<u64>,
}

impl Described {
    fn is_sha256(&self) -> bool {
        is_hex(&self.etag, 64)
    }

    /// SHA-1, of a blob as git has it or, at some mirrors, of its bytes alone.
    fn is_sha1(&self) -> bool {
        is_hex(&self.etag, 40)
    }
}

fn is_hex(etag: &str, digits: usize) -> bool {
    etag.len() == digits && etag.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Asks the hub about one model.
pub(super) struct Transfer<'a> {
    options: &'a HubOptions,
    model: &'a HubModel,
    token: Option<String>,
    agent: Agent,
}

/// A server that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// The hub leads from an old name to a new one; more is a circle.
const MOST_REDIRECTS: usize = 5;
/// So often a transfer that breaks off is taken up again, each time further on.
const MOST_ATTEMPTS: usize = 5;

impl<'a> Transfer<'a> {
    pub fn new(options: &'a HubOptions, model: &'a HubModel) -> Self {
        let agent = Agent::config_builder()
            .user_agent(concat!("sightline/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            // A file is to arrive as it is.
            .accept_encoding("identity")
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build();
        Transfer { options, model, token: token(options), agent: agent.into() }
    }

    fn url(&self, revision: &str, file: &str) -> String {
        format!("{}/{}/resolve/{}/{file}", self.options.endpoint, self.model.id, revision.replace('/', "%2F"))
    }

    /// What a file is at a revision; `None` if the model has no such file.
    pub fn describe(&self, revision: &str, file: &str) -> Result<Option<Described>, HubError> {
        let url = self.url(revision, file);
        let answer = self.head(&url)?;
        let status = answer.status().as_u16();
        let header = |name: &str| answer.headers().get(name).and_then(|it| it.to_str().ok());
        if !(200..400).contains(&status) {
            return self.refusal(status, header("x-error-code"), &url);
        }
        let strange = |what: &str| HubError::Strange { url: url.clone(), what: what.to_owned() };
        let commit = header("x-repo-commit").filter(|it| is_commit(it));
        let commit = commit.ok_or_else(|| strange("it names no commit"))?.to_owned();
        let etag = header("x-linked-etag").or(header("etag")).map(|it| it.trim_start_matches("W/").trim_matches('"'));
        let etag = etag.filter(|it| is_plain(it)).ok_or_else(|| strange("it names no content"))?.to_owned();
        // That of a redirection is its own.
        let own_length = header("content-length").filter(|_| status < 300);
        let bytes = header("x-linked-size").or(own_length).and_then(|it| it.parse().ok());
        Ok(Some(Described { url: self.url(&commit, file), commit, etag, bytes }))
    }

    /// Asks for the headers of a file. Of redirections those within the hub are followed; another one leads to where the bytes are.
    fn head(&self, url: &str) -> Result<Response<Body>, HubError> {
        let mut at = url.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let mut request = self.agent.head(&at).config().max_redirects(0).max_redirects_will_error(false).build();
            if let Some(token) = &self.token {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            let answer = request.call().map_err(|error| unreachable(&at, &error))?;
            let location = answer.headers().get(header::LOCATION).and_then(|it| it.to_str().ok());
            match location.filter(|it| answer.status().is_redirection() && it.starts_with('/') && !it.starts_with("//"))
            {
                None => return Ok(answer),
                Some(path) => at = format!("{}{path}", origin(&self.options.endpoint)),
            }
        }
        Err(HubError::Strange { url: url.to_owned(), what: "it leads in a circle".to_owned() })
    }

    /// What an answer without a file means; `Ok` if it is that there is no such file.
    fn refusal(&self, status: u16, code: Option<&str>, url: &str) -> Result<Option<Described>, HubError> {
        let (model, endpoint) = (self.model.to_string(), self.options.endpoint.clone());
        match (status, code) {
            (404, Some("EntryNotFound")) => Ok(None),
            (404, Some("RevisionNotFound")) => {
                Err(HubError::NoRevision { model, revision: self.model.revision().to_owned() })
            }
            (_, Some("RepoNotFound")) => Err(HubError::NoModel { model: self.model.id.clone(), endpoint }),
            (401 | 403, _) => Err(HubError::NoAccess { model, endpoint, status }),
            // A mirror without codes: the first file that is asked for is one that every model has.
            (404, _) if url.ends_with("/config.json") => {
                Err(HubError::NoModel { model: self.model.id.clone(), endpoint })
            }
            (404, _) => Ok(None),
            _ => Err(HubError::Refused { url: url.to_owned(), status }),
        }
    }

    /// Downloads a file, and gives it its name only when it is what was described. Gives the bytes that came.
    pub fn fetch(&self, file: &str, described: &Described, blob: &Path, progress: &Progress) -> Result<u64, HubError> {
        // The name that Python's huggingface_hub gives it, which goes on behind our bytes as we do behind its.
        let mut path = blob.as_os_str().to_owned();
        path.push(".incomplete");
        let mut partial = Partial::open(PathBuf::from(path), described)?;
        let before = partial.done;
        for attempt in 1.. {
            let start = partial.done;
            match self.receive(file, described, &mut partial, progress) {
                Ok(()) => break,
                // As long as each attempt gets further.
                Err(HubError::BrokenOff { .. }) if partial.done > start && attempt < MOST_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
        let downloaded = partial.done.saturating_sub(before);
        partial.finish(file, described, blob)?;
        Ok(downloaded)
    }

    /// Adds to a partial file what it lacks.
    fn receive(
        &self,
        file: &str,
        described: &Described,
        partial: &mut Partial,
        progress: &Progress,
    ) -> Result<(), HubError> {
        if described.bytes == Some(partial.done) {
            return Ok(());
        }
        let answer = self.get(&described.url, partial.done)?;
        let status = answer.status().as_u16();
        let range = answer.headers().get(header::CONTENT_RANGE).and_then(|it| it.to_str().ok()).map(str::to_owned);
        let is_behind = || range.as_ref().is_some_and(|it| it.starts_with(&format!("bytes {}-", partial.done)));
        match status {
            206 if is_behind() => {}
            // The whole of it, whatever was asked for.
            200 => partial.restart()?,
            206 | 416 if partial.done > 0 => {
                partial.restart()?;
                return self.receive(file, described, partial, progress);
            }
            _ => return self.refusal(status, None, &described.url).and(Err(refused(&described.url, status))),
        }
        let own = answer.body().content_length().map(|it| it + partial.done);
        let total = described.bytes.or(own);
        if total.is_none() && !described.is_sha256() && !described.is_sha1() {
            // Nobody could tell when it is cut.
            let what = format!("it says neither how long {file} is nor what its checksum is");
            return Err(HubError::Strange { url: described.url.clone(), what });
        }
        partial.read(file, answer.into_body().into_reader(), total, progress)
    }

    fn get(&self, url: &str, from: u64) -> Result<Response<Body>, HubError> {
        let mut request = self.agent.get(url);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if from > 0 {
            request = request.header(header::RANGE, format!("bytes={from}-"));
        }
        request.call().map_err(|error| unreachable(url, &error))
    }
}

/// The token that was given, or the one that `huggingface-cli login` left.
fn token(options: &HubOptions) -> Option<String> {
    let from_file = || std::fs::read_to_string(&options.token_file).ok();
    let token = options.token.clone().or_else(from_file)?.trim().to_owned();
    // Anything else can't be sent.
    (!token.is_empty() && token.bytes().all(|it| it.is_ascii_graphic())).then_some(token)
}

fn refused(url: &str, status: u16) -> HubError {
    HubError::Refused { url: url.to_owned(), status }
}

fn unreachable(url: &str, error: &ureq::Error) -> HubError {
    HubError::Unreachable { url: url.to_owned(), cause: error.to_string().replace('\n', " ") }
}

/// The endpoint without what follows its host.
fn origin(endpoint: &str) -> &str {
    let host = endpoint.find("://").map_or(0, |it| it + 3);
    endpoint[host..].find('/').map_or(endpoint, |it| &endpoint[..host + it])
}

/// A file that is on its way, with the checksum of what is there of it.
struct Partial {
    path: PathBuf,
    file: File,
    done: u64,
    hash: Sha256,
}

impl Partial {
    fn open(path: PathBuf, described: &Described) -> Result<Self, HubError> {
        let failed = |error| HubError::write(&path, error);
        let file = File::options().read(true).create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        let mut partial = Partial { path: path.clone(), file, done: 0, hash: Sha256::new() };
        let there = partial.file.metadata().map_err(failed)?.len();
        if described.bytes.is_some_and(|bytes| there > bytes) {
            partial.restart()?;
        }
        partial.skip().map_err(failed)?;
        Ok(partial)
    }

    /// Reads what is there.
    fn skip(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.file.read(&mut buffer)? {
                0 => return Ok(()),
                count => {
                    self.hash.update(&buffer[..count]);
                    self.done += count as u64;
                }
            }
        }
    }

    fn restart(&mut self) -> Result<(), HubError> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map_err(|error| HubError::write(&self.path, error))?;
        (self.done, self.hash) = (0, Sha256::new());
        Ok(())
    }

    /// Takes bytes to the end of the file, or as far as they come.
    fn read(
        &mut self,
        file: &str,
        mut from: impl Read,
        total: Option<u64>,
        progress: &Progress,
    ) -> Result<(), HubError> {
        let broken = |done, cause: String| HubError::BrokenOff { file: file.to_owned(), done, cause };
        let mut buffer = vec![0; 1 << 16];
        loop {
            progress(file, self.done, total.unwrap_or(self.done));
            let count = from.read(&mut buffer).map_err(|error| broken(self.done, error.to_string()))?;
            if count == 0 {
                break;
            }
            self.file.write_all(&buffer[..count]).map_err(|error| HubError::write(&self.path, error))?;
            self.hash.update(&buffer[..count]);
            self.done += count as u64;
        }
        match total {
            Some(total) if self.done < total => Err(broken(self.done, format!("there are {total}"))),
            _ => Ok(()),
        }
    }

    /// Gives the file its name, if it is what it should be; else it is removed.
    fn finish(mut self, file: &str, described: &Described, blob: &Path) -> Result<(), HubError> {
        if let Some(what) = self.objection(described).map_err(|error| HubError::write(&self.path, error))? {
            let _ = std::fs::remove_file(&self.path);
            return Err(HubError::Damaged { file: file.to_owned(), what });
        }
        let named = self.file.sync_all().and_then(|()| std::fs::rename(&self.path, blob));
        named.map_err(|error| HubError::write(blob, error))
    }

    /// Why the bytes are not those that were described.
    fn objection(&mut self, described: &Described) -> io::Result<Option<String>> {
        if let Some(bytes) = described.bytes.filter(|it| *it != self.done) {
            return Ok(Some(format!("{} bytes came instead of {bytes}", self.done)));
        }
        let sums = match described {
            it if it.is_sha256() => vec![hex(&self.hash.clone().finalize())],
            it if it.is_sha1() => self.sha1s()?.into(),
            _ => return Ok(None),
        };
        let is_one = sums.iter().any(|it| it.eq_ignore_ascii_case(&described.etag));
        let kind = if described.is_sha256() { "SHA-256" } else { "SHA-1" };
        Ok((!is_one).then(|| format!("its {kind} is {}, not {}", sums[0], described.etag)))
    }

    /// SHA-1 of a small file: as git has it, and of the bytes alone.
    fn sha1s(&mut self) -> io::Result<[String; 2]> {
        let (mut blob, mut bare) = (gix::hash::hasher(SHA1), gix::hash::hasher(SHA1));
        blob.update(format!("blob {}\0", self.done).as_bytes());
        self.file.seek(SeekFrom::Start(0))?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.file.read(&mut buffer)? {
                0 => break,
                count => [&mut blob, &mut bare].into_iter().for_each(|it| it.update(&buffer[..count])),
            }
        }
        let finished = |hasher: gix::hash::Hasher| {
            let sum = hasher.try_finalize().map_err(|error| io::Error::other(error.to_string()))?;
            Ok::<_, io::Error>(sum.to_string())
        };
        Ok([finished(blob)?, finished(bare)?])
    }
}

const SHA1: gix::hash::Kind = gix::hash::Kind::Sha1;

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
