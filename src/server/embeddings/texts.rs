//! F5: a field that is a text, token ids, or a list of either, as OpenAI and text-embeddings-inference have it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use utoipa::openapi::schema::{Array, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

/// What a field gives to embed. Read by hand, so that an error names the item it is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Texts {
    One(Text),
    Many(Vec<Text>),
}

/// A text, as such or as the model's own tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum Text {
    Text(String),
    Tokens(Vec<u32>),
}

impl Texts {
    /// Token ids in all.
    pub fn tokens(&self) -> usize {
        let of_text = |text: &Text| if let Text::Tokens(tokens) = text { tokens.len() } else { 0 };
        match self {
            Texts::One(text) => of_text(text),
            Texts::Many(texts) => texts.iter().map(of_text).sum(),
        }
    }

    /// Each with its name in a request whose field is called `field`.
    pub fn named(self, field: &str) -> Vec<(String, Text)> {
        match self {
            Texts::One(text) => vec![(field.to_owned(), text)],
            Texts::Many(texts) => {
                texts.into_iter().enumerate().map(|(at, text)| (format!("{field}[{at}]"), text)).collect()
            }
        }
    }
}

const WANTED: &str = "a text, a list of token ids, or a list of either";

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(WANTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Texts, E> {
        Ok(Texts::One(Text::Text(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Texts, A::Error> {
        match list.next_element_seed(Item(None))? {
            None => Ok(Texts::Many(Vec::new())),
            Some(Piece::Token(first)) => {
                let mut tokens = vec![first];
                while let Some(piece) = list.next_element_seed(Item(Some(Kind::Token)))? {
                    tokens.extend(piece.token());
                }
                Ok(Texts::One(Text::Tokens(tokens)))
            }
            Some(Piece::Text(first)) => {
                let mut texts = vec![first];
                while let Some(piece) = list.next_element_seed(Item(Some(Kind::Text)))? {
                    texts.extend(piece.text());
                }
                Ok(Texts::Many(texts))
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Texts, A::Error> {
        Err(Error::custom(PARTS))
    }
}

/// What a list of parts gets, which other services take here.
const PARTS: &str = "it is a text or a list of token ids here, not an object: inputs with pictures go into `inputs` or `messages` of \
                     /v1/embeddings";
const MIXED: &str =
    "a list is either of numbers, which are the tokens of one text, or of texts and lists of tokens: not of both";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Token,
    Text,
}

enum Piece {
    Token(u32),
    Text(Text),
}

impl Piece {
    fn token(self) -> Option<u32> {
        if let Piece::Token(token) = self { Some(token) } else { None }
    }

    fn text(self) -> Option<Text> {
        if let Piece::Text(text) = self { Some(text) } else { None }
    }
}

/// An item of a list, which the first one makes of a kind.
struct Item(Option<Kind>);

impl Item {
    fn check<E: Error>(&self, kind: Kind) -> Result<(), E> {
        if self.0.is_some_and(|it| it != kind) { Err(E::custom(MIXED)) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Item {
    type Value = Piece;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Piece, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Item {
    type Value = Piece;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a text or token ids")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Piece, E> {
        self.check(Kind::Text)?;
        Ok(Piece::Text(Text::Text(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, token: u64) -> Result<Piece, E> {
        self.check(Kind::Token)?;
        let token = u32::try_from(token);
        token.map(Piece::Token).map_err(|_| E::custom("a token id is a whole number below 4294967296"))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Piece, E> {
        Err(E::custom("a token id is not negative"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Piece, A::Error> {
        self.check(Kind::Text)?;
        let tokens = Vec::<u32>::deserialize(de::value::SeqAccessDeserializer::new(list))?;
        Ok(Piece::Text(Text::Tokens(tokens)))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Piece, A::Error> {
        Err(A::Error::custom(PARTS))
    }
}

impl PartialSchema for Texts {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let token = || {
            let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
            number.format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64))).maximum(Some(u32::MAX))
        };
        let tokens = || Array::new(token());
        let either = OneOfBuilder::new().item(text()).item(tokens());
        let all = OneOfBuilder::new()
            .item(text().description(Some("A text.")))
            .item(ArrayBuilder::new().items(token()).description(Some("The tokens of one text.")))
            .item(ArrayBuilder::new().items(either).description(Some("Texts, each as such or as tokens.")));
        all.into()
    }
}

impl ToSchema for Texts {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::extract::parse;

    #[derive(Debug, Deserialize)]
    struct Body {
        input: Texts,
    }

    fn texts(input: &str) -> Result<Texts, (String, String)> {
        let body = parse::<Body>(format!("{{\"input\": {input}}}").as_bytes());
        body.map(|it| it.input).map_err(|it| {
            assert_eq!(it.status.as_u16(), 422, "{it:?}");
            (it.param.unwrap_or_default(), it.message)
        })
    }

    #[track_caller]
    fn check(input: &str, expected: &[(&str, Text)]) {
        let expected: Vec<_> = expected.iter().map(|(name, text)| (name.to_string(), text.clone())).collect();
        assert_eq!(texts(input).expect("texts").named("input"), expected);
    }

    fn text(it: &str) -> Text {
        Text::Text(it.to_owned())
    }

    #[test]
    fn a_field_has_many_shapes() {
        check("\"a\"", &[("input", text("a"))]);
        check("[\"a\", \"\"]", &[("input[0]", text("a")), ("input[1]", text(""))]);
        check("[]", &[]);
        check("[1, 2]", &[("input", Text::Tokens(vec![1, 2]))]);
        check(
            "[[1], [], [4294967295]]",
            &[
                ("input[0]", Text::Tokens(vec![1])),
                ("input[1]", Text::Tokens(vec![])),
                ("input[2]", Text::Tokens(vec![u32::MAX])),
            ],
        );
        check("[\"a\", [1]]", &[("input[0]", text("a")), ("input[1]", Text::Tokens(vec![1]))]);
    }

    #[track_caller]
    fn check_error(input: &str, param: &str, part: &str) {
        let (found, message) = texts(input).expect_err("no texts");
        assert!(found == param && message.contains(part), "{input}: {found}: {message}");
    }

    #[test]
    fn another_shape_is_named_by_its_place() {
        check_error("5", "input", "expected a text");
        check_error("null", "input", "expected a text");
        check_error("[\"a\", null]", "input[1]", "expected a text or token ids");
        check_error("[\"a\", 5]", "input[1]", "not of both");
        check_error("[5, \"a\"]", "input[1]", "not of both");
        check_error("[5, [6]]", "input[1]", "not of both");
        check_error("[[1], 5]", "input[1]", "not of both");
        check_error("[-1]", "input[0]", "negative");
        check_error("[1.5]", "input[0]", "expected a text or token ids");
        check_error("[1, 4294967296]", "input[1]", "below 4294967296");
        check_error("[[1], [2, \"x\"]]", "input[1][1]", "expected u32");
        check_error("[[[1]]]", "input[0][0]", "expected u32");
        check_error("{\"type\": \"text\"}", "input", "`inputs` or `messages`");
        check_error("[{\"type\": \"text\", \"text\": \"a\"}]", "input[0]", "`inputs` or `messages`");
        check_error("[\"a\", {\"type\": \"image_url\"}]", "input[1]", "`inputs` or `messages`");
    }
}
