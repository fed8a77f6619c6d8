//! The JSON of `pull` and `embed`.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::encoder::InputEmbedding;
use crate::encoder::hub::{HubModel, Pulled};

/// The answer of `pull --json`.
#[derive(Serialize)]
pub struct PulledModel<'a> {
    model: &'a str,
    revision: &'a str,
    commit: &'a str,
    folder: String,
    bytes: u64,
    /// Of them that came over the network now.
    downloaded: u64,
    files: Vec<ModelFile<'a>>,
}

#[derive(Serialize)]
struct ModelFile<'a> {
    name: &'a str,
    bytes: u64,
}

impl<'a> PulledModel<'a> {
    pub fn of(model: &'a HubModel, pulled: &'a Pulled) -> Self {
        PulledModel {
            model: &model.id,
            revision: model.revision(),
            commit: &pulled.commit,
            folder: pulled.folder.display().to_string(),
            bytes: pulled.bytes(),
            downloaded: pulled.downloaded,
            files: pulled.files.iter().map(|it| ModelFile { name: &it.name, bytes: it.bytes }).collect(),
        }
    }
}

/// A line of `embed`.
#[derive(Serialize)]
#[serde(untagged)]
pub enum EmbeddedRow<'a> {
    Embedded {
        id: Option<&'a RawValue>,
        embedding: Vec<f32>,
        /// That the model read, those of the template and of pictures included.
        tokens: usize,
        image_tokens: usize,
        truncated: bool,
        /// Before it was cut, where it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        total_tokens: Option<usize>,
    },
    Failed {
        /// Null for a line that has none.
        id: Option<&'a RawValue>,
        error: Error,
    },
}

/// Why something failed: a word for programs and a line for people.
#[derive(Serialize)]
pub struct Error {
    code: &'static str,
    message: String,
}

impl<'a> EmbeddedRow<'a> {
    pub fn of(id: Option<&'a RawValue>, it: InputEmbedding) -> Self {
        EmbeddedRow::Embedded {
            id,
            embedding: it.vector,
            tokens: it.tokens,
            image_tokens: it.image_tokens,
            truncated: it.truncated_from.is_some(),
            total_tokens: it.truncated_from,
        }
    }

    pub fn failed(id: Option<&'a RawValue>, code: &'static str, message: String) -> Self {
        EmbeddedRow::Failed { id, error: Error { code, message } }
    }
}
