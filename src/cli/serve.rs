//! `sightline serve`: the service over HTTP.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::server_flags::ServerFlags;
use super::{Failure, files, index, model, place, terminal};
use crate::config::{Flag, IndexVectors, Refresh, Settings};
use crate::retriever::ingest::Missing;
use crate::server::embeddings::Means;
use crate::server::guard::{self, Finished, GuardState};
use crate::server::{self, Listening, State, Usual};
use crate::service::metrics::{Metrics, Outcome, Route, Stage};
use crate::service::pictures::{Pictures, Web};
use crate::service::{self, Service};
use crate::telemetry;

/// Serve repositories over HTTP: an API, and a page to ask on.
///
/// The page is at the address that is printed, the description of the API at /docs. Every setting under [server] of `sightline config` is a
/// setting of it.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    model: model::Flags,
}

impl Arguments {
    /// The flags that are settings.
    pub fn flags(&self) -> Vec<Flag> {
        [self.model.settings(), self.server.settings()].concat()
    }
}

pub fn run(settings: &Settings) -> Result<(), Failure> {
    settings.server.check_exposure().map_err(Failure::usage)?;
    let metrics = Arc::new(Metrics::default());
    let stages = Arc::clone(&metrics);
    let _telemetry = telemetry::start(
        &settings.server,
        Arc::new(move |stage, seconds| {
            stages.stages.get_or_create(&Stage { stage: stage.to_owned() }).observe(seconds);
        }),
    )
    .map_err(Failure::usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the system gives no threads: raise its limit")?;
    let ended = runtime.block_on(serve(Arc::new(settings.clone()), metrics));
    // What still runs then has nobody who waits for it.
    runtime.shutdown_timeout(LAST);
    ended
}

/// For so long work that was given up may go on.
const LAST: Duration = Duration::from_secs(2);

async fn serve(settings: Arc<Settings>, metrics: Arc<Metrics>) -> Result<(), Failure> {
    let guard = GuardState::new(&settings.server, observer(&metrics)).map_err(Failure::usage)?;
    let address = settings.server.address();
    let taken = || format!("can't listen on {address}: choose another --host or --port");
    let listening = Listening::bind(&settings.server).await.with_context(taken)?;
    let state = State::new(means(&settings)?, usual(&settings), Arc::clone(&metrics));
    let router = guard::layers(server::app(state.clone()), &guard);
    terminal::remark(&format!("listening on http://{}", listening.address));
    let (failed, failure) = tokio::sync::oneshot::channel();
    let loading = tokio::spawn({
        let (state, settings) = (state.clone(), Arc::clone(&settings));
        async move {
            match load(settings, metrics).await {
                Ok(service) => state.set_service(service),
                Err(error) => drop(failed.send(error)),
            }
        }
    });
    let mut outcome = Ok(());
    let end = async {
        tokio::select! {
            () = stop_signal() => tracing::info!("ending: what was begun is finished"),
            Ok(error) = failure => outcome = Err(error),
        }
        state.end();
    };
    server::serve(listening, router, &settings.server, end).await;
    loading.abort();
    if let Ok(service) = state.service().cloned() {
        let _ = tokio::task::spawn_blocking(move || service.close()).await;
    }
    outcome
}

/// Waits until the user or the system wants the program to end. The second time it ends at once.
async fn stop_signal() {
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

/// Loads the model and opens the data directory, beside requests that are told to wait.
async fn load(settings: Arc<Settings>, metrics: Arc<Metrics>) -> Result<Arc<Service>, Failure> {
    let own = Arc::clone(&settings);
    let encoder = tokio::task::spawn_blocking(move || Ok::<_, Failure>(model::load(&model::place(&own)?, &own)?));
    let encoder = encoder.await??;
    let options = options(&settings)?;
    let service = Service::start(encoder, options, metrics).await?;
    tracing::info!(model = service.model().id, "ready");
    Ok(service)
}

fn options(settings: &Settings) -> Result<service::Options, Failure> {
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
        queue_tokens: settings.server.queue_tokens,
    })
}

fn means(settings: &Settings) -> Result<Means, Failure> {
    let web = Web::new(&settings.server.allow_image_hosts).map_err(Failure::usage)?;
    Ok(Means { pictures: Pictures::new(settings.images.clone(), web), max_batch: settings.server.max_batch })
}

fn usual(settings: &Settings) -> Usual {
    let locate = &settings.locate;
    Usual {
        retriever: locate.retriever,
        granularity: locate.granularity,
        results: locate.results.get(),
        rerank: locate.rerank,
    }
}

/// Counts requests.
fn observer(metrics: &Arc<Metrics>) -> guard::Observer {
    let metrics = Arc::clone(metrics);
    Arc::new(move |it: &Finished<'_>| {
        let route = it.route.unwrap_or("none").to_owned();
        let outcome = Outcome { method: it.method.to_string(), route: route.clone(), status: it.status.as_u16() };
        metrics.requests.get_or_create(&outcome).inc();
        metrics.request_seconds.get_or_create(&Route { route }).observe(it.seconds);
    })
}
