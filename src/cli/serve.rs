//! `sightline serve`: the service over HTTP.

use std::sync::Arc;

use anyhow::Context;

use super::server_flags::ServerFlags;
use super::{Failure, model, reading, service, terminal};
use crate::config::{Flag, Settings};
use crate::server::embeddings::Means;
use crate::server::guard::{self, Finished, GuardState};
use crate::server::{self, Listening, State};
use crate::service::Service;
use crate::service::metrics::{Metrics, Outcome, Route};
use crate::service::pictures::{Pictures, Web};

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
    #[command(flatten)]
    evidence: reading::Flags,
}

impl Arguments {
    /// The flags that are settings.
    pub fn flags(&self) -> Vec<Flag> {
        [self.model.settings(), self.evidence.settings(), self.server.settings()].concat()
    }
}

pub fn run(settings: &Settings) -> Result<(), Failure> {
    settings.server.check_exposure().map_err(Failure::usage)?;
    let metrics = Arc::new(Metrics::default());
    let _telemetry = service::begin_log(&settings.server, &metrics)?;
    service::run(serve(Arc::new(settings.clone()), metrics))
}

async fn serve(settings: Arc<Settings>, metrics: Arc<Metrics>) -> Result<(), Failure> {
    let guard =
        GuardState::new(&settings.server, observer(&metrics), metrics.in_flight.clone()).map_err(Failure::usage)?;
    let address = settings.server.address();
    let taken = || format!("can't listen on {address}: choose another --host or --port");
    let listening = Listening::bind(&settings.server).await.with_context(taken)?;
    let state = State::new(means(&settings)?, service::usual(&settings), Arc::clone(&metrics));
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
            () = service::stop_signal() => tracing::info!("ending: what was begun is finished"),
            Ok(error) = failure => outcome = Err(error),
        }
        state.end();
    };
    server::serve(listening, router, &settings.server, end).await;
    loading.abort();
    if let Ok(service) = state.service().cloned() {
        service::close(service).await;
    }
    outcome
}

async fn load(settings: Arc<Settings>, metrics: Arc<Metrics>) -> Result<Arc<Service>, Failure> {
    let options = service::options(&settings)?;
    service::load(settings, options, metrics).await
}

fn means(settings: &Settings) -> Result<Means, Failure> {
    let web = Web::new(&settings.server.allow_image_hosts).map_err(Failure::usage)?;
    Ok(Means { pictures: Pictures::new(settings.images.clone(), web), max_batch: settings.server.max_batch })
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
