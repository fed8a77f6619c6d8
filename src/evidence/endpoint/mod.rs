//! F2: a vision-language model behind an OpenAI-compatible endpoint, which fills all fields of visual evidence (MM-IssueLoc, section 4.2).
//! Knows nothing of caches, of configuration, or of who reads a picture when the model does not.
//!
//! [`Endpoint::read`] asks with a schema for the answer, or with less where a server does not know schemas; an answer that breaks the
//! rules is asked for once more with its fault named. Picture and issue are strangers' data: the prompt says so, and the issue is
//! handed over as a JSON string, which has no end but its own.

mod answer;
mod transport;
mod wire;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::ImageFormat;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::types::{Secret, VisualEvidence};

use answer::Fault;
use transport::{Budget, Reply, Transport};
use wire::{Completion, Dialect, Message, Request};

/// Where a model is, and what it may cost.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The base of an API (`http://127.0.0.1:8000/v1`; a bare host gets `/v1`) or the whole address of its `chat/completions`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// Sent as a bearer token.
    pub key: Option<Secret>,
    /// For a picture, with all attempts and waits.
    pub timeout: Duration,
    /// Of an answer; [`MOST_BYTES`] is plenty.
    pub max_bytes: u64,
}

/// Several times what the tokens of an answer can come to.
pub const MOST_BYTES: u64 = 1 << 20;

/// Why a model gave no evidence. No message shows the key or the picture.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EndpointError {
    #[error(
        "the address of the vision-language model {0}: write `evidence.endpoint` like http://127.0.0.1:8000/v1, and the key apart from it"
    )]
    Address(&'static str),
    #[error("no vision-language model is named for {host}: name one in `evidence.endpoint_model`")]
    NoModel { host: String },
    #[error("the key for {host} has other characters than visible ASCII: copy it again, without spaces and line ends")]
    Key { host: String },
    #[error("the vision-language model at {host} can't be reached ({cause}): start it, or correct `evidence.endpoint`")]
    Unreachable { host: String, cause: String },
    #[error(
        "the vision-language model at {host} gave no answer within {seconds} s: raise `evidence.endpoint_seconds` or take a faster model"
    )]
    TooSlow { host: String, seconds: f32 },
    #[error("{host} denies access to the vision-language model (status {status}): check its key")]
    Denied { host: String, status: u16 },
    #[error(
        "{host} has no such address or model (status 404; it says: {message}): check `evidence.endpoint` and `evidence.endpoint_model`"
    )]
    NotFound { host: String, message: String },
    #[error("the vision-language model at {host} is busy (status {status}): try again later")]
    Busy { host: String, status: u16 },
    #[error(
        "{host} redirects to another address (status {status}), which is not followed: set `evidence.endpoint` to where it leads"
    )]
    Redirect { host: String, status: u16 },
    #[error(
        "{host} refuses the picture (status {status}; it says: {message}): check that the model takes pictures, and its log"
    )]
    Refused { host: String, status: u16, message: String },
    #[error("the answer of {host} has more than {limit} bytes: check that `evidence.endpoint` is a chat API")]
    TooLong { host: String, limit: u64 },
    #[error("what {host} answers is not of the chat API: check `evidence.endpoint`, which mostly ends in /v1")]
    Strange { host: String },
    #[error("the vision-language model at {host} declines to read the picture: take another model for such pictures")]
    Declined { host: String },
    #[error(
        "the second answer of the vision-language model at {host} can't be used either: {fault}; take a larger model"
    )]
    Unusable { host: String, fault: String },
}

/// A vision-language model that reads pictures.
pub struct Endpoint {
    transport: Transport,
    model: String,
    timeout: Duration,
    /// The way of asking that the server took last.
    dialect: Mutex<Dialect>,
    schema: Box<RawValue>,
}

const PROMPT: &str = include_str!("prompt.md");
const SCHEMA: &str = include_str!("schema.json");
/// Changes whenever the same answer is read in another way.
const VERSION: u32 = 1;
/// What an answer may cost: a screen full of text and the fields beside it. Many servers are set up for 8,192 with the picture.
const MOST_TOKENS: u32 = 4096;
/// Characters of the title and of the body that a model gets to see.
const MOST_TITLE: usize = 300;
const MOST_BODY: usize = 4000;
/// Characters of a useless answer that it gets to see again.
const MOST_REPEATED: usize = 4000;

impl Endpoint {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// An address, a model's name or a key that can be none.
    pub fn new(settings: Settings) -> Result<Self, EndpointError> {
        let transport = Transport::new(&settings)?;
        let model = settings.model.trim().to_owned();
        if model.is_empty() {
            return Err(EndpointError::NoModel { host: transport.host() });
        }
        let schema = serde_json::from_str(SCHEMA).unwrap_or_default();
        Ok(Endpoint { transport, model, timeout: settings.timeout, dialect: Mutex::new(Dialect::BEST), schema })
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Everything but the picture that an answer depends on, as a hash: server, model, prompt, schema, and what is told of the issue.
    pub fn fingerprint(&self, title: &str, body: &str) -> String {
        let mut hash = Sha256::new();
        let version = VERSION.to_string();
        for part in [&version, self.transport.url(), &self.model, PROMPT, SCHEMA, &question(title, body)] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().iter().map(|it| format!("{it:02x}")).collect()
    }

    /// Asks what a picture shows, given the title and body of its issue. `picture` is a file of a format that is decoded here. Blocks for
    /// at most the time that is set.
    ///
    /// # Errors
    /// [`EndpointError`] names the host, the cause and the remedy. An answer that breaks the rules is one only when the second does too.
    pub fn read(&self, picture: &[u8], title: &str, body: &str) -> Result<VisualEvidence, EndpointError> {
        let budget = Budget::new(self.timeout);
        let url = format!("data:{};base64,{}", mime(picture), STANDARD.encode(picture));
        let mut messages = vec![Message::system(PROMPT), Message::picture(question(title, body), url)];
        let (text, fault) = match self.ask(&messages, &budget)? {
            (_, Ok(evidence)) => return Ok(evidence),
            (text, Err(fault)) => (text, fault),
        };
        // Some servers refuse turns without text.
        let shown: String = text.chars().take(MOST_REPEATED).collect();
        messages.push(Message::assistant(if shown.trim().is_empty() { "{}".to_owned() } else { shown }));
        messages.push(Message::user(format!("This can't be used: {fault}. {AGAIN}")));
        let (_, second) = self.ask(&messages, &budget)?;
        second.map_err(|fault| EndpointError::Unusable { host: self.transport.host(), fault: shortened(&fault) })
    }

    /// An answer, and what it says.
    fn ask(
        &self,
        messages: &[Message<'_>],
        budget: &Budget,
    ) -> Result<(String, Result<VisualEvidence, Fault>), EndpointError> {
        let host = || self.transport.host();
        let bytes = self.answer(messages, budget)?;
        let completion = Completion::read(&bytes).ok_or_else(|| EndpointError::Strange { host: host() })?;
        if completion.refusal.is_some() {
            return Err(EndpointError::Declined { host: host() });
        }
        let read = match answer::read(&completion.text) {
            // The object may be whole where only prose behind it is cut.
            Err(_) if completion.is_cut => Err(Fault::Cut),
            other => other,
        };
        Ok((completion.text, read))
    }

    /// The bytes of an answer, asked for in the way that the server takes.
    fn answer(&self, messages: &[Message<'_>], budget: &Budget) -> Result<Vec<u8>, EndpointError> {
        let mut dialect = *self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let request = Request::new(&self.model, messages, MOST_TOKENS, &self.schema, dialect);
            // Strings and numbers can always be written.
            let question = serde_json::to_vec(&request).unwrap_or_default();
            match self.transport.post(&question, budget)? {
                Reply::Answer(bytes) => {
                    *self.dialect.lock().unwrap_or_else(PoisonError::into_inner) = dialect;
                    return Ok(bytes);
                }
                Reply::Refused { status, message } => {
                    let refused =
                        || EndpointError::Refused { host: self.transport.host(), status, message: message.clone() };
                    dialect = dialect.next(&message).ok_or_else(refused)?;
                }
            }
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Endpoint")
            .field("url", &self.transport.url())
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

const AGAIN: &str = "Answer once more with the JSON object alone, with exactly the fields that were asked for, and shorter if it was too long.";

/// What is told of the issue. JSON ends where it ends, whatever stands in the strings.
fn question(title: &str, body: &str) -> String {
    let start = |text: &str, most| text.trim().chars().take(most).collect::<String>();
    let issue = serde_json::json!({ "title": start(title, MOST_TITLE), "body": start(body, MOST_BODY) });
    format!("The bug report, as data:\n{issue}\n\nThe picture that came with it:")
}

fn shortened(fault: &Fault) -> String {
    const MOST: usize = 200;
    answer::one_line(&fault.to_string(), MOST)
}

/// The kind of picture by its first bytes; whatever is decoded here has one.
fn mime(picture: &[u8]) -> &'static str {
    image::guess_format(picture).unwrap_or(ImageFormat::Png).to_mime_type()
}
