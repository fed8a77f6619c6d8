//! F5: vectors as the routes give them.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;
use utoipa::ToSchema;

use crate::encoder::InputEmbedding;

use super::request::EncodingFormat;

/// As OpenAI has it, and what became of each input.
#[derive(Debug, Serialize, ToSchema)]
pub struct EmbeddingsResponse {
    #[schema(example = "list")]
    pub object: &'static str,
    /// In the order of the inputs.
    pub data: Vec<Embedding>,
    pub model: String,
    pub usage: Usage,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Embedding {
    #[schema(example = "embedding")]
    pub object: &'static str,
    pub index: usize,
    pub embedding: Vector,
    /// Tokens that the model read, those of its template and of pictures included.
    pub tokens: usize,
    /// How many of them stand for pictures.
    pub image_tokens: usize,
    /// Whether the end of the text was cut off.
    pub truncated: bool,
    /// Tokens that there would have been without a limit.
    pub total_tokens: usize,
}

/// Numbers, or their 32-bit floats, the lowest byte first, in base64.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Vector {
    Float(Vec<f32>),
    Base64(String),
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Usage {
    /// Tokens that the model read, those of its template and of pictures included.
    pub prompt_tokens: usize,
    /// The same: nothing is generated.
    pub total_tokens: usize,
    /// How many of them stand for pictures.
    pub image_tokens: usize,
}

impl EmbeddingsResponse {
    pub fn new(model: &str, embedded: Vec<InputEmbedding>, format: EncodingFormat) -> Self {
        let mut usage = Usage::default();
        for it in &embedded {
            usage.prompt_tokens += it.tokens;
            usage.image_tokens += it.image_tokens;
        }
        usage.total_tokens = usage.prompt_tokens;
        let data = embedded.into_iter().enumerate().map(|(index, it)| Embedding::new(index, it, format)).collect();
        EmbeddingsResponse { object: "list", data, model: model.to_owned(), usage }
    }
}

impl Embedding {
    fn new(index: usize, it: InputEmbedding, format: EncodingFormat) -> Self {
        let InputEmbedding { vector, tokens, image_tokens, truncated_from } = it;
        Embedding {
            object: "embedding",
            index,
            embedding: Vector::new(vector, format),
            tokens,
            image_tokens,
            truncated: truncated_from.is_some(),
            total_tokens: truncated_from.unwrap_or(tokens),
        }
    }
}

impl Vector {
    pub fn new(vector: Vec<f32>, format: EncodingFormat) -> Self {
        match format {
            EncodingFormat::Float => Vector::Float(vector),
            EncodingFormat::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
                Vector::Base64(BASE64_STANDARD.encode(bytes))
            }
        }
    }
}

/// A text of `/rerank`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Rank {
    /// Its place in the request.
    pub index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The cosine of its embedding with the query's, from -1 to 1.
    pub score: f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: EncodingFormat, expected: serde_json::Value) {
        let embedded = InputEmbedding { vector: vec![1.0, -0.5], tokens: 7, image_tokens: 4, truncated_from: Some(9) };
        let more = InputEmbedding { vector: vec![0.0, 2.0], tokens: 3, image_tokens: 0, truncated_from: None };
        let response = EmbeddingsResponse::new("m", vec![embedded, more], format);
        assert_eq!(serde_json::to_value(response).expect("JSON"), expected);
    }

    #[test]
    fn vectors_are_numbers_or_bytes_with_counts() {
        let expected = |first: serde_json::Value, second: serde_json::Value| {
            serde_json::json!({
                "object": "list",
                "data": [
                    {"object": "embedding", "index": 0, "embedding": first, "tokens": 7, "image_tokens": 4,
                     "truncated": true, "total_tokens": 9},
                    {"object": "embedding", "index": 1, "embedding": second, "tokens": 3, "image_tokens": 0,
                     "truncated": false, "total_tokens": 3},
                ],
                "model": "m",
                "usage": {"prompt_tokens": 10, "total_tokens": 10, "image_tokens": 4},
            })
        };
        check(EncodingFormat::Float, expected([1.0, -0.5].into(), [0.0, 2.0].into()));
        // 1.0 is 00 00 80 3f, -0.5 is 00 00 00 bf, 2.0 is 00 00 00 40.
        check(EncodingFormat::Base64, expected("AACAPwAAAL8=".into(), "AAAAAAAAAEA=".into()));
    }
}
