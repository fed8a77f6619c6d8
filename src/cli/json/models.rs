//! The JSON of `pull`.

use serde::Serialize;

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
