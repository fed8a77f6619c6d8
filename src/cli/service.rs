//! The service as commands run it: what it works with by the settings, how it is loaded, and when it ends.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::{Failure, files, index, model, place};
use crate::config::{IndexVectors, Refresh, Settings};
use crate::evidence::{self, endpoint};
use crate::index::directory::DataDirectory;
use crate::retriever::ingest::Missing;
use crate::server;
use crate::service::metrics::{Metrics, Stage};
use crate::service::{self, Service, Usual};
use crate::telemetry::{self, Telemetry};

/// For so long work that was given up may go on.
const LAST: Duration = Duration::from_secs(2);

/// Begins the log, and counts how long each stage takes.
///
/// # Errors
/// When the settings of the log can't be followed.
pub fn begin_log(settings: &server::Settings, metrics: &Arc<Metrics>) -> Result<Telemetry, Failure> {
    let metrics = Arc::clone(metrics);
    let observe = move |stage: &'static str, seconds| {
        metrics.stages.get_or_create(&Stage { stage: stage.to_owned() }).observe(seconds);
    };
    telemetry::start(settings, Arc::new(observe)).map_err(Failure::usage)
}

/// Runs what is asynchronous to its end.
///
/// # Errors
/// Its own, and when there are no threads.
pub fn run(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the system gives no threads: raise its limit")?;
    let ended = runtime.block_on(work);
    // What still runs then has nobody who waits for it.
    runtime.shutdown_timeout(LAST);
    ended
}

/// Loads the model and opens the data directory, beside requests that are told to wait.
///
/// # Errors
/// When there is no such model, or the directory can't be used.
pub async fn load(
    settings: Arc<Settings>,
    options: service::Options,
    metrics: Arc<Metrics>,
) -> Result<Arc<Service>, Failure> {
    let encoder =
        tokio::task::spawn_blocking(move || Ok::<_, Failure>(model::load(&model::place(&settings)?, &settings)?));
    let encoder = encoder.await??;
    let service = Service::start(encoder, options, metrics).await?;
    tracing::info!(model = service.model().id, "ready");
    Ok(service)
}

/// Ends the work in the background.
pub async fn close(service: Arc<Service>) {
    let _ = tokio::task::spawn_blocking(move || service.close()).await;
}

/// What a service works with by the settings.
///
/// # Errors
/// When there is no place for data.
pub fn options(settings: &Settings) -> Result<service::Options, Failure> {
    Ok(service::Options {
        data: place::data_directory(&settings.index.data_dir)?,
        roots: settings.server.roots.clone(),
        snapshot: files::options(settings),
        images: settings.images.clone(),
        weights: settings.ranking.clone(),
        missing: match settings.index.vectors {
            IndexVectors::All => Missing::Embed,
            IndexVectors::Stored => Missing::Leave,
        },
        refresh_files: match settings.index.refresh {
            Refresh::Auto => settings.index.refresh_files,
            Refresh::Always => usize::MAX,
            Refresh::Never => 0,
        },
        store_bytes: settings.index.store_bytes,
        evidence: evidence(settings),
        queue_tokens: settings.server.queue_tokens,
        keeps_jobs: true,
    })
}

/// How pictures are read by the settings.
pub fn evidence(settings: &Settings) -> evidence::Options {
    let own = &settings.evidence;
    let endpoint = endpoint::Settings {
        url: own.endpoint.clone(),
        model: own.endpoint_model.clone(),
        key: Some(own.endpoint_key.clone()).filter(|it| !it.reveal().is_empty()),
        timeout: Duration::from_secs(own.endpoint_seconds.into()),
        max_bytes: endpoint::MOST_BYTES,
    };
    let data = &settings.index.data_dir;
    let keeps = own.cached > 0 && !data.as_os_str().is_empty();
    evidence::Options {
        endpoint: (!own.endpoint.is_empty()).then_some(endpoint),
        cache: keeps.then(|| (DataDirectory::new(data).evidence(), own.cached)),
        limits: settings.images.clone(),
    }
}

/// What a question is answered by where it does not say.
pub fn usual(settings: &Settings) -> Usual {
    let locate = &settings.locate;
    Usual {
        retriever: locate.retriever,
        granularity: locate.granularity,
        results: locate.results.get(),
        rerank: locate.rerank,
        mode: locate.mode,
    }
}

/// Waits until the user or the system wants the program to end. The second time it ends at once.
pub async fn stop_signal() {
    asked_to_stop().await;
    tokio::spawn(async {
        asked_to_stop().await;
        std::process::exit(index::INTERRUPTED.into());
    });
}

#[cfg(unix)]
async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

#[cfg(not(unix))]
async fn asked_to_stop() {
    let _ = tokio::signal::ctrl_c().await;
}
