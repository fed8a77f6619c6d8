//! F5: bodies of the routes that embed.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Error, Visitor};
use utoipa::ToSchema;

use super::messages::Message;
use super::texts::Texts;
use crate::service::pictures::Source;

/// Exactly one of `input`, `messages` and `inputs`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingsRequest {
    /// The model that is served, by its whole name or what follows its last slash; the served one if it is left out.
    pub model: Option<String>,
    /// Texts, each a vector.
    pub input: Option<Texts>,
    /// A conversation with pictures, one vector in all.
    pub messages: Option<Vec<Message>>,
    /// Texts with pictures and instructions, each a vector.
    pub inputs: Option<Vec<Item>>,
    /// Numbers, or their 32-bit floats, the lowest byte first, in base64. `float` if it is left out.
    pub encoding_format: Option<EncodingFormat>,
    /// The first so many numbers of each vector, normalised again, for models that are trained for it (Matryoshka).
    pub dimensions: Option<u64>,
    /// Whether a text that is too long loses its end. It is refused if not.
    pub truncate: Option<bool>,
    /// Taken, and of no consequence.
    #[expect(dead_code, reason = "it is what it says")]
    pub user: Option<String>,
    /// With `messages`, for clients of vLLM: the model's own template is always used whole, which is what `true` means.
    pub continue_final_message: Option<bool>,
    /// As `continue_final_message`.
    pub add_special_tokens: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EncodingFormat {
    Float,
    Base64,
}

/// A text, pictures, or both: one vector.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    pub text: Option<String>,
    /// The model sees them in this order, before the text.
    #[schema(value_type = Option<Vec<PictureSchema>>)]
    pub images: Option<Vec<Picture>>,
    /// What the model is told to do, for models that take instructions.
    pub instruction: Option<String>,
}

/// A picture: base64 or a data URL, as such or in `data`; or a URL in `url`.
#[derive(Debug)]
pub struct Picture {
    pub source: Source,
    /// The field that it stands in.
    pub field: &'static str,
}

/// A picture in base64, as a data URL, or by an address on the web if the operator allows its host.
#[derive(ToSchema)]
#[schema(as = Picture)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes a type that is read by hand")]
enum PictureSchema {
    /// Base64 or a data URL.
    Data(String),
    Object(WrittenPicture),
}

/// Either of them.
#[derive(Deserialize, ToSchema)]
#[schema(as = PictureObject)]
#[serde(deny_unknown_fields)]
struct WrittenPicture {
    /// Base64 or a data URL.
    data: Option<String>,
    /// A data URL or an address on the web.
    url: Option<String>,
}

impl<'de> Deserialize<'de> for Picture {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PictureVisitor;

        impl<'de> Visitor<'de> for PictureVisitor {
            type Value = Picture;

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("a picture in base64, or an object with `data` or `url`")
            }

            fn visit_str<E: Error>(self, data: &str) -> Result<Picture, E> {
                Ok(Picture { source: Source::Data(data.to_owned()), field: "" })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Picture, A::Error> {
                match WrittenPicture::deserialize(de::value::MapAccessDeserializer::new(map))? {
                    WrittenPicture { data: Some(data), url: None } => {
                        Ok(Picture { source: Source::Data(data), field: ".data" })
                    }
                    WrittenPicture { data: None, url: Some(url) } => {
                        Ok(Picture { source: Source::Url(url), field: ".url" })
                    }
                    _ => Err(A::Error::custom("a picture has either `data` or `url`")),
                }
            }
        }
        deserializer.deserialize_any(PictureVisitor)
    }
}

/// As text-embeddings-inference has it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbedRequest {
    pub inputs: Texts,
    /// Whether a text that is too long loses its end. It is refused if not.
    pub truncate: Option<bool>,
    pub truncation_direction: Option<Direction>,
    /// Vectors have length 1 here; `false` is refused.
    pub normalize: Option<bool>,
    /// The first so many numbers of each vector, normalised again, for models that are trained for it (Matryoshka).
    pub dimensions: Option<u64>,
    /// Numbers, or their 32-bit floats, the lowest byte first, in base64. `float` if it is left out.
    pub encoding_format: Option<EncodingFormat>,
    /// Models here have no prompts by name; anything but null is refused.
    pub prompt_name: Option<String>,
}

/// Where a text that is too long is cut. Only its end can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
pub enum Direction {
    #[serde(alias = "left")]
    Left,
    #[serde(alias = "right")]
    Right,
}

/// As text-embeddings-inference and Hugging Face's `sentence_similarity` have it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SimilarityRequest {
    pub inputs: SimilarityInputs,
    pub parameters: Option<SimilarityParameters>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SimilarityInputs {
    pub source_sentence: String,
    /// What it is compared with.
    pub sentences: Vec<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SimilarityParameters {
    /// Whether a text that is too long loses its end. It is refused if not.
    pub truncate: Option<bool>,
    pub truncation_direction: Option<Direction>,
    /// Models here have no prompts by name; anything but null is refused.
    pub prompt_name: Option<String>,
}

/// As text-embeddings-inference has it; the score is the cosine of two embeddings, and not that of a model that reads both texts at once.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerankRequest {
    pub query: String,
    pub texts: Vec<String>,
    /// Of no consequence: a cosine is raw, and is not brought to other limits than its own.
    #[expect(dead_code, reason = "it is what it says")]
    pub raw_scores: Option<bool>,
    /// Whether each text stands in the answer.
    pub return_text: Option<bool>,
    /// Whether a text that is too long loses its end. It is refused if not.
    pub truncate: Option<bool>,
    pub truncation_direction: Option<Direction>,
}
