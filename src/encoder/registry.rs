//! F2: the models that are known, and what has to be known of them beyond their files.
//!
//! Knows nothing of files and networks.

use serde::Deserialize;

use super::EncoderError;

const REGISTRY: &str = include_str!("../../models/registry.toml");

/// A row of `models/registry.toml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint {
    /// Its name, that of the hub where it is published there.
    pub id: String,
    /// As `config.json` has it.
    pub model_type: String,
    pub dimensions: usize,
    /// Most tokens in a window.
    pub window: usize,
    pub pooling: Pooling,
    pub query_instruction: String,
    pub candidate_instruction: String,
    /// The commit of the hub that is meant where none is named.
    #[serde(default)]
    pub revision: Option<String>,
}

/// How the vectors of tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pooling {
    Mean,
    Last,
}

#[derive(Deserialize)]
struct Registry {
    model: Vec<Checkpoint>,
}

fn rows() -> Result<Vec<Checkpoint>, EncoderError> {
    let damaged = |error: toml::de::Error| EncoderError::Damaged {
        file: "registry.toml".to_owned(),
        cause: error.message().lines().collect::<Vec<_>>().join(" "),
    };
    toml::from_str::<Registry>(REGISTRY).map(|registry| registry.model).map_err(damaged)
}

/// The row that a model of this type is run by: the one of its name, or else the first of its type, since a model of another name
/// is most likely trained from that one, with its instructions.
pub(super) fn find(model_type: &str, id: Option<&str>) -> Result<Option<Checkpoint>, EncoderError> {
    let of_type = rows()?.into_iter().filter(|row| row.model_type == model_type).collect::<Vec<_>>();
    let named = of_type.iter().find(|row| id.is_some_and(|id| id == row.id));
    Ok(named.or(of_type.first()).cloned())
}

/// The first row: the model that is compiled in.
pub(super) fn default_checkpoint() -> Result<Checkpoint, EncoderError> {
    rows()?.into_iter().next().ok_or_else(|| EncoderError::Damaged {
        file: "registry.toml".to_owned(),
        cause: "it lists no model".to_owned(),
    })
}

/// The name of the model that is compiled in.
pub(super) fn bundled_id() -> String {
    default_checkpoint().map(|it| it.id).unwrap_or_default()
}

/// The revision of a model of the hub that is meant where none is named.
pub(super) fn pinned(id: &str) -> Option<String> {
    rows().ok()?.into_iter().find(|it| it.id == id)?.revision
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model_type: &str, id: Option<&str>, expected: Option<&str>) {
        let found = find(model_type, id).expect("the registry is part of the program");
        assert_eq!(found.map(|it| it.id).as_deref(), expected);
    }

    #[test]
    fn a_model_is_found_by_its_name_or_else_by_its_type() {
        check("bert", None, Some("all-MiniLM-L6-v2"));
        check("qwen3_vl", None, Some("Qwen/Qwen3-VL-Embedding-2B"));
        check("qwen3_vl", Some("Qwen/Qwen3-VL-Embedding-8B"), Some("Qwen/Qwen3-VL-Embedding-8B"));
        check("qwen3_vl", Some("someone/finetuned"), Some("Qwen/Qwen3-VL-Embedding-2B"));
        check("bert", Some("Qwen/Qwen3-VL-Embedding-8B"), Some("all-MiniLM-L6-v2"));
        check("gpt2", None, None);
    }

    #[test]
    fn the_first_row_is_the_one_in_the_program() {
        assert_eq!(default_checkpoint().expect("the registry is part of the program").id, "all-MiniLM-L6-v2");
    }
}
