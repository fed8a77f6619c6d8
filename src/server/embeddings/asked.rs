//! F5: what a request asks to embed, by its own names, held against the model.

use crate::encoder::{EncoderError, ModelInfo};
use crate::server::error::ApiError;
use crate::service::pictures::Given;

use super::messages::{Message, Role};
use super::request::{Direction, EmbeddingsRequest, Item};
use super::texts::{Text, Texts};

/// One vector's worth.
#[derive(Debug, Default, PartialEq)]
pub struct Asked {
    /// What the request calls it.
    pub param: String,
    pub text: Option<String>,
    /// With its own name.
    pub instruction: Option<(String, String)>,
    pub pictures: Vec<Given>,
}

impl Asked {
    /// A text without anything.
    pub fn text(param: impl Into<String>, text: impl Into<String>) -> Self {
        Asked { param: param.into(), text: Some(text.into()), ..Asked::default() }
    }

    /// Holds it against what the model can do.
    pub fn check(&self, model: &ModelInfo) -> Result<(), ApiError> {
        if self.text.as_deref().is_none_or(is_blank) && self.pictures.is_empty() {
            return Err(empty(&self.param, "there is nothing to embed: give a text that is not blank"));
        }
        if self.pictures.len() > model.images {
            return Err(self.too_many_pictures(model));
        }
        Ok(())
    }

    fn too_many_pictures(&self, model: &ModelInfo) -> ApiError {
        let (id, most, there) = (&model.id, model.images, self.pictures.len());
        // The first that it can't see.
        let param = self.pictures.get(most).map_or(&self.param, |it| &it.param);
        match most {
            0 => {
                let error = EncoderError::Blind { id: id.clone(), images: there };
                ApiError::invalid(error.code(), error.to_string()).of(param)
            }
            _ => {
                let message = format!("{id} sees {most} pictures of an input, and there are {there}: leave some out");
                ApiError::invalid("too_many_images", message).of(param)
            }
        }
    }
}

/// Whether a text shows nothing: models make no tokens of it, or nothing but spaces.
fn is_blank(text: &str) -> bool {
    let is_invisible = |it| matches!(it, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    text.chars().all(|it| it.is_whitespace() || it.is_control() || is_invisible(it))
}

/// 400: nothing there.
pub fn empty(param: &str, message: &str) -> ApiError {
    ApiError::malformed("input_empty", message).of(param)
}

/// Turns tokens of the model into their text.
pub type Decode<'a> = dyn Fn(&[u32]) -> Result<String, EncoderError> + 'a;

/// What a body of `/v1/embeddings` asks for.
pub fn asked(request: &mut EmbeddingsRequest, decode: &Decode) -> Result<Vec<Asked>, ApiError> {
    let forms = [request.input.is_some(), request.messages.is_some(), request.inputs.is_some()];
    let mut given = ["input", "messages", "inputs"].into_iter().zip(forms).filter(|it| it.1).map(|it| it.0);
    match (given.next(), given.next()) {
        (None, _) => {
            return Err(ApiError::invalid("missing_field", "give one of `input`, `messages` and `inputs`").of("input"));
        }
        (Some(one), Some(other)) => {
            let message = format!("give only one of `input`, `messages` and `inputs`: there are `{one}` and `{other}`");
            return Err(ApiError::invalid("conflicting_fields", message).of(other));
        }
        (Some(_), None) => {}
    }
    check_template(request)?;
    match (request.input.take(), request.messages.take(), request.inputs.take()) {
        (Some(texts), ..) => of_texts(texts, "input", decode),
        (_, Some(messages), _) => Ok(vec![of_messages(messages)?]),
        (.., items) => of_items(items.unwrap_or_default()),
    }
}

/// The two options of vLLM about its template, of which this service can do one thing each.
fn check_template(request: &EmbeddingsRequest) -> Result<(), ApiError> {
    let options = [
        ("continue_final_message", request.continue_final_message),
        ("add_special_tokens", request.add_special_tokens),
    ];
    for (name, value) in options {
        let why = match value {
            None => continue,
            Some(_) if request.messages.is_none() => "belongs to `messages`",
            Some(false) => "is always `true` here, since the model's template is used whole",
            Some(true) => continue,
        };
        return Err(ApiError::invalid("option_unsupported", format!("`{name}` {why}: leave it out")).of(name));
    }
    Ok(())
}

/// Token ids of a request. Making text of them takes up to 10 microseconds for each, and no model reads the hundredth part of so many.
const MOST_TOKENS: usize = 1 << 18;

/// The texts of a field.
pub fn of_texts(texts: Texts, field: &str, decode: &Decode) -> Result<Vec<Asked>, ApiError> {
    let there = texts.tokens();
    if there > MOST_TOKENS {
        let message =
            format!("there are {there} token ids, and a request may have {MOST_TOKENS}: send several requests");
        let status = axum::http::StatusCode::PAYLOAD_TOO_LARGE;
        return Err(ApiError::new(status, "text_too_large", message).of(field));
    }
    let named = texts.named(field);
    if named.is_empty() {
        return Err(empty(field, "the list is empty: give at least one text"));
    }
    let one = |(param, text): (String, Text)| {
        let text = match text {
            Text::Text(text) => text,
            Text::Tokens(tokens) => decode(&tokens).map_err(|error| {
                ApiError::invalid(error.code(), error.to_string()).of(param_of_token(&param, &tokens, &error))
            })?,
        };
        Ok(Asked::text(param, text))
    };
    named.into_iter().map(one).collect()
}

/// The name of a token that is none, or of the list.
fn param_of_token(param: &str, tokens: &[u32], error: &EncoderError) -> String {
    match error {
        EncoderError::UnknownToken { token, .. } => {
            let at = tokens.iter().position(|it| it == token).unwrap_or(0);
            format!("{param}[{at}]")
        }
        _ => param.to_owned(),
    }
}

fn of_items(items: Vec<Item>) -> Result<Vec<Asked>, ApiError> {
    if items.is_empty() {
        return Err(empty("inputs", "the list is empty: give at least one input"));
    }
    let one = |(at, Item { text, images, instruction }): (usize, Item)| {
        let param = format!("inputs[{at}]");
        let given = images.unwrap_or_default().into_iter().enumerate().map(|(number, picture)| Given {
            param: format!("{param}.images[{number}]{}", picture.field),
            source: picture.source,
        });
        let pictures = given.collect();
        let instruction = instruction.map(|it| (format!("{param}.instruction"), it));
        Asked { param, text, instruction, pictures }
    };
    Ok(items.into_iter().enumerate().map(one).collect())
}

/// A conversation: what the system says is the instruction, what the user says is embedded.
fn of_messages(messages: Vec<Message>) -> Result<Asked, ApiError> {
    if messages.is_empty() {
        return Err(empty("messages", "the list is empty: give a message of the role `user`"));
    }
    let last = messages.len() - 1;
    let (mut asked, mut instruction) = (None, None);
    for (at, Message { role, content }) in messages.into_iter().enumerate() {
        let param = format!("messages[{at}].content");
        let refuse = |why: &str| Err(ApiError::invalid("messages_unsupported", why).of(format!("messages[{at}]")));
        let (text, pictures) = content.into_parts(&param);
        match role {
            Role::System if at > 0 => return refuse("a message of the role `system` is the first one: move it there"),
            Role::System if !pictures.is_empty() => {
                return refuse("an instruction has no pictures: move them to the message of the role `user`");
            }
            Role::System => instruction = Some((param, text)),
            Role::User if asked.is_some() => {
                return refuse("one message of the role `user` is embedded: send each in a request, or use `inputs`");
            }
            Role::User => asked = Some(Asked { param, text: Some(text), instruction: None, pictures }),
            Role::Assistant if at < last || asked.is_none() || !text.is_empty() || !pictures.is_empty() => {
                return refuse("what an assistant says is not embedded: leave it out, or last and empty");
            }
            Role::Assistant => {}
        }
    }
    match asked {
        Some(asked) => Ok(Asked { instruction, ..asked }),
        None => Err(ApiError::invalid("messages_unsupported", "add a message of the role `user`").of("messages")),
    }
}

/// Whether a request means the model that is served.
pub fn check_model(name: Option<&str>, model: &ModelInfo) -> Result<(), ApiError> {
    let Some(name) = name else { return Ok(()) };
    let last = model.id.rsplit('/').next();
    if name == model.id || Some(name) == last {
        return Ok(());
    }
    let message =
        format!("the model `{}` is not served here: name `{}`, or leave `model` out", shortened(name), model.id);
    Err(ApiError::new(axum::http::StatusCode::NOT_FOUND, "model_not_found", message).of("model"))
}

/// A name for a message: names that are none may be of any length.
fn shortened(name: &str) -> String {
    name.chars().filter(|it| !it.is_control()).take(100).collect()
}

/// How many numbers of a vector are asked for.
pub fn dimensions(asked: Option<u64>, model: &ModelInfo) -> Result<usize, ApiError> {
    let (whole, id) = (model.dimensions, &model.id);
    let Some(asked) = asked else { return Ok(whole) };
    let why = match usize::try_from(asked) {
        Ok(asked) if asked == whole => return Ok(whole),
        Ok(asked) if model.is_matryoshka && (1..whole).contains(&asked) => return Ok(asked),
        _ if model.is_matryoshka => format!("{id} gives from 1 to {whole}"),
        _ => format!("{id} gives {whole}, and is not trained for fewer"),
    };
    Err(ApiError::invalid("dimensions_unsupported", format!("`dimensions` can't be {asked}: {why}")).of("dimensions"))
}

/// What text-embeddings-inference can do and models here can't.
pub fn check_direction(direction: Option<Direction>, param: &str) -> Result<(), ApiError> {
    match direction {
        Some(Direction::Left) => {
            let message = "only the end of a text is cut off: leave `truncation_direction` out, or make it `Right`";
            Err(ApiError::invalid("option_unsupported", message).of(param))
        }
        Some(Direction::Right) | None => Ok(()),
    }
}

/// As [`check_direction`].
pub fn check_prompt(name: Option<&str>, param: &str) -> Result<(), ApiError> {
    match name {
        Some(_) => {
            let message = "there are no prompts by name here: leave `prompt_name` out; `inputs` of /v1/embeddings takes an `instruction`";
            Err(ApiError::invalid("option_unsupported", message).of(param))
        }
        None => Ok(()),
    }
}

/// As [`check_direction`].
pub fn check_normalize(normalize: Option<bool>) -> Result<(), ApiError> {
    match normalize {
        Some(false) => {
            let message = "vectors have length 1 here, and what they were before is not kept: leave `normalize` out, or make it `true`";
            Err(ApiError::invalid("option_unsupported", message).of("normalize"))
        }
        Some(true) | None => Ok(()),
    }
}
