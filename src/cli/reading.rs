//! The pictures of an issue, read beside other work; and the flags that say by whom.

use std::time::{Duration, Instant};

use super::{Failure, service, terminal};
use crate::config::{Flag, Settings};
use crate::evidence::{EvidenceError, Reader, Reading};
use crate::service::located::{Pictures, size_of};
use crate::types::{IssueReport, Mode};

/// Flags that are settings of the evidence.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// Let a vision-language model read pictures: the address of an OpenAI-compatible API, as http://127.0.0.1:8000/v1. The variable
    /// SIGHTLINE_EVIDENCE_ENDPOINT_KEY holds its key [default: pictures are read on this machine].
    #[arg(long, value_name = "URL")]
    vce_endpoint: Option<String>,
    /// The name of the model there.
    #[arg(long, value_name = "NAME")]
    vce_model: Option<String>,
}

impl Flags {
    /// The flags as settings that were given by flags.
    pub fn settings(&self) -> Vec<Flag> {
        let flag = |key, name, value: &Option<String>| value.clone().map(|it| Flag { key, name, value: it.into() });
        let flags = [
            flag("evidence.endpoint", "--vce-endpoint", &self.vce_endpoint),
            flag("evidence.endpoint_model", "--vce-model", &self.vce_model),
        ];
        flags.into_iter().flatten().collect()
    }

    /// Puts the flags into the settings.
    pub fn apply(&self, settings: &mut Settings) {
        let evidence = &mut settings.evidence;
        self.vce_endpoint.iter().for_each(|it| evidence.endpoint.clone_from(it));
        self.vce_model.iter().for_each(|it| evidence.endpoint_model.clone_from(it));
    }
}

/// Reads pictures by the settings.
///
/// # Errors
/// Settings of an endpoint that can be none.
pub fn reader(settings: &Settings) -> Result<Reader, Failure> {
    Reader::new(service::evidence(settings)).map_err(Failure::usage)
}

/// An issue whose pictures were read.
pub struct ReadIssue {
    pub report: IssueReport,
    pub pictures: Pictures,
    pub time: Duration,
}

impl ReadIssue {
    /// Reads the pictures as a mode says; `None`: as much as the model allows, which tells of itself what it sees.
    pub fn of(report: &IssueReport, mode: Option<Mode>, reader: &Reader, settings: &Settings) -> Self {
        let start = Instant::now();
        let read: Vec<Result<Reading, EvidenceError>> = match mode.is_none_or(Mode::reads) {
            true => report.images.iter().map(|it| reader.read(it, report)).collect(),
            false => Vec::new(),
        };
        for (image, reading) in report.images.iter().zip(&read) {
            if let Some(warning) = reading.as_ref().ok().and_then(|it| it.warning.as_ref()) {
                terminal::warning(&format!("the picture `{}`: {warning}", image.name));
            }
        }
        let sizes = report.images.iter().map(|it| size_of(&it.bytes, &settings.images).ok()).collect();
        let pictures = Pictures::new(report, sizes, read);
        let mut report = report.clone();
        report.evidence = pictures.evidence();
        if mode.is_some_and(|it| !it.sees()) {
            report.images.clear();
        }
        ReadIssue { report, pictures, time: start.elapsed() }
    }
}
