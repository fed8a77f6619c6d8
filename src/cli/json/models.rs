//! The JSON of `pull`, `embed` and `doctor`.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::doctor::Report;
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

/// The answer of `doctor --json`.
#[derive(Serialize)]
pub struct Doctor<'a> {
    ok: bool,
    version: &'static str,
    platform: &'a str,
    device: &'static str,
    kernels: &'static str,
    threads: usize,
    peak_memory_bytes: u64,
    /// Null if it could not be loaded.
    model: Option<ExaminedModel<'a>>,
    data: DataState,
    hub: HubState<'a>,
    checks: Vec<CheckResult<'a>>,
}

#[derive(Serialize)]
struct ExaminedModel<'a> {
    id: &'a str,
    /// Null for the one in the program.
    folder: Option<String>,
    fingerprint: &'a str,
    dimensions: usize,
    window: usize,
    dtype: &'static str,
    policy: &'static str,
    /// Pictures of an issue that it sees.
    images: usize,
    load_seconds: f64,
    tokens_per_second: Option<f64>,
    picture_seconds: Option<f64>,
    /// Whether what it computes was compared with a vector that it is known to give.
    known_vector: bool,
}

#[derive(Serialize)]
struct DataState {
    path: String,
    exists: bool,
    bytes: u64,
}

#[derive(Serialize)]
struct HubState<'a> {
    cache: String,
    models: usize,
    bytes: u64,
    endpoint: &'a str,
    offline: bool,
}

#[derive(Serialize)]
struct CheckResult<'a> {
    name: &'static str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
}

impl<'a> Doctor<'a> {
    pub fn of(report: &'a Report) -> Self {
        let Report { machine, model, data, hub, checks } = report;
        let model = model.as_ref().map(|it| ExaminedModel {
            id: &it.info.id,
            folder: it.folder.as_ref().map(|it| it.display().to_string()),
            fingerprint: &it.fingerprint,
            dimensions: it.info.dimensions,
            window: it.info.window_tokens,
            dtype: it.info.compute.name(),
            policy: it.info.policy.name(),
            images: it.info.images,
            load_seconds: it.load_seconds,
            tokens_per_second: it.tokens_per_second,
            picture_seconds: it.picture_seconds,
            known_vector: it.has_known_vector,
        });
        let check = |it: &'a crate::cli::doctor::Check| CheckResult {
            name: it.name,
            ok: it.problem.is_none(),
            problem: it.problem.as_deref(),
        };
        Doctor {
            ok: report.problems().next().is_none(),
            version: machine.version,
            platform: &machine.platform,
            device: "cpu",
            kernels: machine.kernels,
            threads: machine.threads,
            peak_memory_bytes: machine.peak_bytes,
            model,
            data: DataState { path: data.path.display().to_string(), exists: data.exists, bytes: data.bytes },
            hub: HubState {
                cache: hub.path.display().to_string(),
                models: hub.models,
                bytes: hub.bytes,
                endpoint: &hub.endpoint,
                offline: hub.is_offline,
            },
            checks: checks.iter().map(check).collect(),
        }
    }
}
