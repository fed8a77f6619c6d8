//! API keys: compared without telling by time how near a guess is, and read again when their file changes.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::server::settings::{LONGEST_KEY, SHORTEST_KEY, Settings, is_key};

/// What stands for a key in logs and metrics: the first 8 hex digits of its SHA-256.
pub type KeyId = Arc<str>;

/// Why a file of keys can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("the file of keys `{}` can't be read: {cause}; name a readable file in `server.keys_file`", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("the file of keys `{}` has no key in it: write one a line, or name no file in `server.keys_file`", path.display())]
    Empty { path: PathBuf },
    #[error(
        "line {line} of the file of keys `{}` is no key: give it {SHORTEST_KEY} to {LONGEST_KEY} visible ASCII characters",
        path.display()
    )]
    BadKey { path: PathBuf, line: usize },
}

/// The keys that open the service.
pub struct Keys {
    literal: Arc<[Key]>,
    file: Option<KeysFile>,
}

#[derive(Clone)]
struct Key {
    digest: [u8; 32],
    id: KeyId,
}

impl Key {
    fn new(text: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let id: String = digest[..4].iter().map(|it| format!("{it:02x}")).collect();
        Key { digest, id: id.into() }
    }
}

impl Keys {
    /// The keys of the settings; `None` for a service that asks for none.
    ///
    /// # Errors
    /// For a file that can't be read or has no sound keys: it must not open the service.
    pub fn load(settings: &Settings) -> Result<Option<Self>, KeysError> {
        if !settings.has_keys() {
            return Ok(None);
        }
        let literal = settings.keys.iter().map(|it| Key::new(it.reveal())).collect();
        let path = &settings.keys_file;
        let file = (!path.as_os_str().is_empty()).then(|| KeysFile::open(path)).transpose()?;
        Ok(Some(Keys { literal, file }))
    }

    /// The key that a text is, if it is one. All keys are compared, whichever it is.
    pub fn identify(&self, text: &str, now: Instant) -> Option<KeyId> {
        let of_file = self.file.as_ref().map(|it| it.current(now));
        let asked = Key::new(text);
        let mut found = None;
        for key in self.literal.iter().chain(of_file.iter().flat_map(|it| it.iter())) {
            let is_it: Choice = key.digest.ct_eq(&asked.digest);
            if bool::from(is_it) {
                found = Some(&key.id);
            }
        }
        found.cloned()
    }
}

/// The key that a request brings: `None` if it brings none, or more than one.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim()).filter(|it| !it.is_empty())
}

/// A file of keys, looked at as requests come.
struct KeysFile {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    keys: Arc<[Key]>,
    looked: Instant,
    /// Of the file as it was read last, whether it could be used or not; `None` if it may change without another stamp.
    stamp: Option<Stamp>,
}

/// What changes when a file does.
#[derive(Debug, Clone, PartialEq)]
struct Stamp {
    modified: SystemTime,
    bytes: u64,
    file: u64,
}

/// How often the file is looked at, at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A file that was written so short a time ago can be written again within the same tick of its clock.
const SETTLED: Duration = Duration::from_secs(2);
/// Thousands of keys.
const MOST_BYTES: u64 = 1 << 20;

impl KeysFile {
    fn open(path: &Path) -> Result<Self, KeysError> {
        let (stamp, keys) = read(path)?;
        let state = Mutex::new(State { keys, looked: Instant::now(), stamp });
        Ok(KeysFile { path: path.to_owned(), state })
    }

    /// The keys in force. A file that went away, was emptied or was spoiled leaves the old ones.
    fn current(&self, now: Instant) -> Arc<[Key]> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.looked) >= LOOK_AGAIN {
            state.looked = now;
            self.look(&mut state);
        }
        state.keys.clone()
    }

    fn look(&self, state: &mut State) {
        let found = std::fs::metadata(&self.path).ok().and_then(|it| Stamp::of(&it));
        if found.is_some() && found == state.stamp {
            return;
        }
        match read(&self.path) {
            Ok((stamp, keys)) => {
                if keys.iter().map(|it| it.digest).ne(state.keys.iter().map(|it| it.digest)) {
                    tracing::info!(keys = keys.len(), "the file of API keys was read again");
                }
                (state.keys, state.stamp) = (keys, stamp);
            }
            Err(error) => {
                tracing::warn!(%error, keys = state.keys.len(), "the old API keys stay in force");
                state.stamp = found;
            }
        }
    }
}

impl Stamp {
    /// `None` if the file was written just now.
    fn of(metadata: &Metadata) -> Option<Self> {
        let modified = metadata.modified().ok()?;
        let is_settled = SystemTime::now().duration_since(modified).is_ok_and(|it| it > SETTLED);
        is_settled.then(|| Stamp { modified, bytes: metadata.len(), file: number(metadata) })
    }
}

/// Tells a file that replaced another from it.
#[cfg(unix)]
fn number(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn number(_: &Metadata) -> u64 {
    0
}

fn read(path: &Path) -> Result<(Option<Stamp>, Arc<[Key]>), KeysError> {
    let unreadable = |cause| KeysError::Unreadable { path: path.to_owned(), cause };
    // Looked at before it is read, since opening a pipe would wait for its other end.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(unreadable(io::Error::other("it is no file, or too large for one of keys")));
    }
    let mut text = String::new();
    File::open(path).and_then(|it| it.take(MOST_BYTES).read_to_string(&mut text)).map_err(unreadable)?;
    warn_if_open(path, &metadata);
    Ok((Stamp::of(&metadata), parse(&text, path)?))
}

/// One key a line; blank lines and what follows a `#` at the beginning of a line or after a space are left out.
fn parse(text: &str, path: &Path) -> Result<Arc<[Key]>, KeysError> {
    let of_line = |line: &str| line.split_once(" #").map_or(line, |it| it.0).trim().to_owned();
    let lines = text.lines().map(of_line).enumerate();
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(at, line)| {
        let bad = || KeysError::BadKey { path: path.to_owned(), line: at + 1 };
        is_key(&line).then(|| Key::new(&line)).ok_or_else(bad)
    });
    let keys: Arc<[Key]> = keys.collect::<Result<_, _>>()?;
    if keys.is_empty() { Err(KeysError::Empty { path: path.to_owned() }) } else { Ok(keys) }
}

#[cfg(unix)]
fn warn_if_open(path: &Path, metadata: &Metadata) {
    use std::os::unix::fs::PermissionsExt;
    if metadata.permissions().mode() & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "other users can read the file of API keys: chmod 600 it");
    }
}

#[cfg(not(unix))]
fn warn_if_open(_: &Path, _: &Metadata) {}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "first-key-0123456789";
    const SECOND: &str = "second-key-0123456789";

    fn settings(file: &Path, literal: &[&str]) -> Settings {
        let mut settings = crate::server::settings::tests::settings("");
        settings.keys_file = file.to_owned();
        settings.keys = literal.iter().map(|it| crate::types::Secret::new(*it)).collect();
        settings
    }

    fn keys(text: &str) -> (tempfile::TempDir, Result<Option<Keys>, KeysError>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        std::fs::write(&path, text).expect("writable");
        let keys = Keys::load(&settings(&path, &[]));
        (folder, keys)
    }

    /// The keys that open the service that long after it began.
    #[track_caller]
    fn check_open(keys: &Keys, seconds: u64, expected: &[&str]) {
        let now = Instant::now() + Duration::from_secs(seconds);
        let open = [FIRST, SECOND].into_iter().filter(|it| keys.identify(it, now).is_some()).collect::<Vec<_>>();
        assert_eq!(open, expected);
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let message = keys(text).1.err().expect("refused").to_string();
        assert!(message.contains(expected) && !message.contains('\n'), "`{message}` lacks `{expected}`");
    }

    #[test]
    fn keys_stand_one_a_line_with_comments() {
        let text = format!("# both\n\n  {FIRST}  # old\r\n{SECOND}\n#{FIRST}x\n");
        let (_folder, keys) = keys(&text);
        let keys = keys.expect("sound").expect("there are keys");
        check_open(&keys, 0, &[FIRST, SECOND]);
        for other in ["", "first-key-012345678", "first-key-01234567890", "# both", "first-key-0123456789x"] {
            assert_eq!(keys.identify(other, Instant::now()), None, "{other}");
        }
    }

    #[test]
    fn a_key_is_known_by_the_beginning_of_its_hash() {
        let keys = Keys::load(&settings(Path::new(""), &[FIRST])).expect("sound").expect("there are keys");
        // printf %s first-key-0123456789 | sha256sum
        assert_eq!(keys.identify(FIRST, Instant::now()).as_deref(), Some("ed60d752"));
        assert!(Keys::load(&settings(Path::new(""), &[])).expect("sound").is_none());
    }

    #[test]
    fn a_file_that_can_open_nothing_is_refused_when_it_is_loaded() {
        check_refused("", "has no key in it");
        check_refused("# none\n\n", "has no key in it");
        check_refused(&format!("{FIRST}\nshort\n"), "line 2");
        check_refused("with space in the middle of it\n", "line 1");
        let missing = Keys::load(&settings(Path::new("/no/such/keys"), &[FIRST])).err().expect("refused").to_string();
        assert!(missing.contains("/no/such/keys") && missing.contains("server.keys_file"), "{missing}");
        let folder = tempfile::tempdir().expect("a folder");
        Keys::load(&settings(folder.path(), &[FIRST])).err().expect("a folder is no file");
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_spoiled_one_changes_nothing() {
        let (folder, keys) = keys(FIRST);
        let (path, keys) = (folder.path().join("keys"), keys.expect("sound").expect("there are keys"));
        let write = |text: &str| std::fs::write(&path, text).expect("writable");
        write(SECOND);
        check_open(&keys, 0, &[FIRST]);
        check_open(&keys, 2, &[SECOND]);
        write("");
        check_open(&keys, 4, &[SECOND]);
        write(&format!("{FIRST}\nshort"));
        check_open(&keys, 6, &[SECOND]);
        std::fs::remove_file(&path).expect("there");
        check_open(&keys, 8, &[SECOND]);
        write(&format!("{FIRST}\n{SECOND}"));
        check_open(&keys, 10, &[FIRST, SECOND]);
    }

    #[track_caller]
    fn check_bearer(values: &[&str], expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().expect("a value"));
        }
        assert_eq!(bearer(&headers), expected, "{values:?}");
    }

    #[test]
    fn a_key_comes_as_a_bearer_token() {
        check_bearer(&["Bearer abc"], Some("abc"));
        check_bearer(&["bearer  abc "], Some("abc"));
        for values in [&[][..], &["abc"], &["Basic abc"], &["Bearer"], &["Bearer "], &["Bearer a", "Bearer b"]] {
            check_bearer(values, None);
        }
    }
}
