//! F2: the shapes of the chat API as servers and clients have them (`/chat/completions`), as far as they are used here.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How a server wants to be asked. The best is tried first; what it refuses is left out of all later questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub format: Format,
    /// Some models take only their own.
    pub has_temperature: bool,
    /// Servers of reasoning models count the thoughts too, and name the limit for it.
    pub has_completion_limit: bool,
}

/// What keeps an answer in shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Schema,
    Object,
    /// The prompt alone.
    Free,
}

impl Dialect {
    pub const BEST: Dialect = Dialect { format: Format::Schema, has_temperature: true, has_completion_limit: false };

    /// What to try when a server refuses this one with a message.
    pub fn next(self, message: &str) -> Option<Self> {
        if message.contains("max_completion_tokens") && !self.has_completion_limit {
            return Some(Dialect { has_completion_limit: true, ..self });
        }
        if message.contains("temperature") && self.has_temperature {
            return Some(Dialect { has_temperature: false, ..self });
        }
        match self.format {
            Format::Schema => Some(Dialect { format: Format::Object, ..self }),
            Format::Object => Some(Dialect { format: Format::Free, ..self }),
            Format::Free => None,
        }
    }
}

/// A question.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    messages: &'a [Message<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonSchema { json_schema: Schema<'a> },
    JsonObject,
}

#[derive(Serialize)]
struct Schema<'a> {
    name: &'a str,
    strict: bool,
    schema: &'a RawValue,
}

impl<'a> Request<'a> {
    pub fn new(
        model: &'a str,
        messages: &'a [Message<'a>],
        tokens: u32,
        schema: &'a RawValue,
        dialect: Dialect,
    ) -> Self {
        let schema = Schema { name: "visual_evidence", strict: true, schema };
        Request {
            model,
            messages,
            temperature: dialect.has_temperature.then_some(0),
            max_tokens: (!dialect.has_completion_limit).then_some(tokens),
            max_completion_tokens: dialect.has_completion_limit.then_some(tokens),
            response_format: match dialect.format {
                Format::Schema => Some(ResponseFormat::JsonSchema { json_schema: schema }),
                Format::Object => Some(ResponseFormat::JsonObject),
                Format::Free => None,
            },
        }
    }
}

/// A turn of a conversation.
#[derive(Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts([Part<'a>; 2]),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: Cow<'a, str>,
}

impl<'a> Message<'a> {
    pub fn system(text: &'a str) -> Self {
        Message { role: "system", content: Content::Text(text.into()) }
    }

    pub fn user(text: String) -> Self {
        Message { role: "user", content: Content::Text(text.into()) }
    }

    /// A text and a picture, which is a data URL.
    pub fn picture(text: String, url: String) -> Self {
        let image = Part::ImageUrl { image_url: ImageUrl { url: url.into() } };
        Message { role: "user", content: Content::Parts([Part::Text { text: text.into() }, image]) }
    }

    pub fn assistant(text: String) -> Self {
        Message { role: "assistant", content: Content::Text(text.into()) }
    }
}

/// An answer.
pub(super) struct Completion {
    pub text: String,
    /// It ends because the limit was reached.
    pub is_cut: bool,
    /// Why the model does not answer.
    pub refusal: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Turn,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Turn {
    content: Option<Written>,
    refusal: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Parts(Vec<TextPart>),
}

#[derive(Deserialize)]
struct TextPart {
    #[serde(default)]
    text: String,
}

impl Completion {
    /// Reads an answer; `None` if it is none of this API.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let response: Response = serde_json::from_slice(bytes).ok()?;
        let Choice { message, finish_reason } = response.choices.into_iter().next()?;
        let text = match message.content {
            Some(Written::Text(text)) => text,
            Some(Written::Parts(parts)) => parts.into_iter().map(|it| it.text).collect(),
            None => String::new(),
        };
        let refusal = message.refusal.filter(|it| !it.is_empty());
        Some(Completion { text, is_cut: finish_reason.as_deref() == Some("length"), refusal })
    }
}

/// The message in a server's refusal, wherever its kind of server puts it; the text itself if it is no JSON.
pub(super) fn message(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else { return text.into_owned() };
    let places = ["/error/message", "/error", "/message", "/detail/0/msg", "/detail"];
    let found = places.iter().find_map(|it| value.pointer(it)?.as_str());
    found.map_or_else(String::new, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_message(answer: &str, expected: &str) {
        assert_eq!(message(answer.as_bytes()), expected);
    }

    #[test]
    fn servers_put_messages_in_different_places() {
        check_message(r#"{"error": {"message": "no such model", "type": "x"}}"#, "no such model");
        check_message(r#"{"error": "no such model"}"#, "no such model");
        check_message(r#"{"object": "error", "message": "no such model", "code": 404}"#, "no such model");
        check_message(r#"{"detail": [{"loc": ["body"], "msg": "field required"}]}"#, "field required");
        check_message(r#"{"detail": "Not Found"}"#, "Not Found");
        check_message("bad gateway", "bad gateway");
        check_message("[]", "");
    }

    #[test]
    fn dialects_end() {
        let mut tried = vec![Dialect::BEST];
        while let Some(next) = tried.last().and_then(|it| it.next("temperature, max_completion_tokens")) {
            assert!(!tried.contains(&next));
            tried.push(next);
        }
        assert_eq!(tried.len(), 5);
    }

    #[test]
    fn parts_of_an_answer_are_one_text() {
        let answer = br#"{"choices": [{"message": {"content": [{"type": "text", "text": "{}"}, {"type": "x"}]}}]}"#;
        assert_eq!(Completion::read(answer).expect("an answer").text, "{}");
        assert!(Completion::read(b"{\"choices\": []}").is_none() && Completion::read(b"<html>").is_none());
    }
}
