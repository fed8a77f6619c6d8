//! F5: a conversation with pictures, as OpenAI's chat has it and vLLM takes it for embedding.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Error, SeqAccess, Visitor};
use utoipa::ToSchema;

use crate::service::pictures::{Given, Source};

/// A message of a conversation that is embedded as one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub role: Role,
    #[schema(value_type = ContentSchema)]
    pub content: Content,
}

/// `system` gives the instruction, `user` what is embedded. `assistant` may stand last, and empty, as the model's template ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
}

#[derive(Debug)]
pub enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A text, or parts in any order. The model sees the pictures in their order, then the texts behind one another.
#[derive(ToSchema)]
#[schema(as = Content)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes a type that is read by hand")]
enum ContentSchema {
    Text(String),
    Parts(Vec<PartSchema>),
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content;

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("a text or a list of parts")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Content, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(list)).map(Content::Parts)
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

/// A part of a message.
#[derive(Debug, Deserialize)]
#[serde(try_from = "WrittenPart")]
pub enum Part {
    Text(String),
    Image(ImageUrl),
}

#[derive(ToSchema)]
#[schema(as = Part)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[expect(dead_code, reason = "it describes a type that is read by hand")]
enum PartSchema {
    Text {
        text: String,
    },
    ImageUrl {
        #[schema(value_type = ImageUrlSchema)]
        image_url: ImageUrl,
    },
}

/// A part as it stands there. An enum with a tag would be read ahead of its errors' places.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPart {
    r#type: PartKind,
    text: Option<String>,
    image_url: Option<ImageUrl>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartKind {
    Text,
    ImageUrl,
}

impl TryFrom<WrittenPart> for Part {
    type Error = &'static str;

    fn try_from(WrittenPart { r#type, text, image_url }: WrittenPart) -> Result<Self, Self::Error> {
        match (r#type, text, image_url) {
            (PartKind::Text, Some(text), None) => Ok(Part::Text(text)),
            (PartKind::ImageUrl, None, Some(image)) => Ok(Part::Image(image)),
            (PartKind::Text, ..) => Err("a part of the type `text` has a `text` and nothing else"),
            (PartKind::ImageUrl, ..) => Err("a part of the type `image_url` has an `image_url` and nothing else"),
        }
    }
}

/// Where a picture is.
#[derive(Debug)]
pub struct ImageUrl {
    url: String,
    /// Whether it stands there without an object around it.
    is_bare: bool,
}

/// A data URL, or an address on the web if the operator allows its host.
#[derive(ToSchema)]
#[schema(as = ImageUrl)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes a type that is read by hand")]
enum ImageUrlSchema {
    Url(String),
    Object(WrittenUrl),
}

#[derive(Deserialize, ToSchema)]
#[schema(as = ImageUrlObject)]
#[serde(deny_unknown_fields)]
struct WrittenUrl {
    url: String,
    /// Pictures are shown as large as the model can see them; nothing else can be asked for.
    #[expect(dead_code, reason = "there is only one")]
    #[schema(inline)]
    detail: Option<Detail>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Detail {
    Auto,
}

impl<'de> Deserialize<'de> for ImageUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UrlVisitor;

        impl<'de> Visitor<'de> for UrlVisitor {
            type Value = ImageUrl;

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("an object with a `url`")
            }

            fn visit_str<E: Error>(self, url: &str) -> Result<ImageUrl, E> {
                Ok(ImageUrl { url: url.to_owned(), is_bare: true })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ImageUrl, A::Error> {
                let written = WrittenUrl::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(ImageUrl { url: written.url, is_bare: false })
            }
        }
        deserializer.deserialize_any(UrlVisitor)
    }
}

impl Content {
    /// The texts behind one another, and the pictures with their names in the request; `at` is the content's own.
    pub fn into_parts(self, at: &str) -> (String, Vec<Given>) {
        let parts = match self {
            Content::Text(text) => return (text, Vec::new()),
            Content::Parts(parts) => parts,
        };
        let (mut whole, mut pictures) = (String::new(), Vec::new());
        for (number, part) in parts.into_iter().enumerate() {
            match part {
                Part::Text(text) => whole.push_str(&text),
                Part::Image(ImageUrl { url, is_bare }) => {
                    let field = if is_bare { "" } else { ".url" };
                    let param = format!("{at}[{number}].image_url{field}");
                    pictures.push(Given { param, source: Source::Url(url) });
                }
            }
        }
        (whole, pictures)
    }
}
