//! `sightline mcp`: tools for agents, on standard input and output.

use std::sync::Arc;

use anyhow::Context;

use super::{Failure, message, model, reading, service};
use crate::config::{Flag, Settings};
use crate::mcp::{self, Options, Tools};
use crate::server;
use crate::service::Service;
use crate::service::metrics::Metrics;
use crate::service::pictures::{Pictures, Web};

/// Serve agents as an MCP server on standard input and output.
///
/// An agent starts it: add the command `sightline mcp` to its MCP servers. It has the tools locate_issue, index_repository and index_status; the
/// repository is the folder that it is started in, unless a call names another.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: model::Flags,
    #[command(flatten)]
    evidence: reading::Flags,
    /// What is logged on standard error: error, warn, info, debug, trace, or a filter like info,sightline=debug [default: info].
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

impl Arguments {
    /// The flags that are settings.
    pub fn flags(&self) -> Vec<Flag> {
        let log = self.log.as_ref().map(|it| Flag { key: "server.log", name: "--log", value: it.as_str().into() });
        self.model.settings().into_iter().chain(self.evidence.settings()).chain(log).collect()
    }
}

pub fn run(settings: &Settings) -> Result<(), Failure> {
    let metrics = Arc::new(Metrics::default());
    let _telemetry = service::begin_log(&log(&settings.server), &metrics)?;
    service::run(serve(Arc::new(settings.clone()), metrics))
}

/// The protocol's own library tells of every message, which is too much for what is usual.
fn log(settings: &server::Settings) -> server::Settings {
    let mut settings = settings.clone();
    if settings.log == "info" {
        settings.log = "info,rmcp=warn".to_owned();
    }
    settings
}

async fn serve(settings: Arc<Settings>, metrics: Arc<Metrics>) -> Result<(), Failure> {
    let tools = options(&settings)?;
    let options = crate::service::Options {
        // He who asks is the user himself.
        roots: vec!["/".into()],
        // Agents come and go, several at a time, beside `serve`: an index that one did not finish is made when it is asked for again.
        keeps_jobs: false,
        ..service::options(&settings)?
    };
    let (tell, told) = tokio::sync::oneshot::channel();
    let starting = tokio::spawn(async move {
        let started = service::load(settings, options, metrics).await;
        if let Ok(service) = &started {
            // Nobody hears it when the client is gone already.
            drop(tell.send(Arc::clone(service)));
        }
        started.map_err(|failure| message(&failure.error))
    });
    let starting = async { starting.await.unwrap_or_else(|error| Err(error.to_string())) };
    let tools = Tools::new(starting, tools);
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let served = mcp::serve(tools, input, output, service::stop_signal()).await;
    end(told).await;
    Ok(served?)
}

/// Lets what is being indexed end at its next batch. A service that has not started has nothing to end.
async fn end(mut started: tokio::sync::oneshot::Receiver<Arc<Service>>) {
    if let Ok(service) = started.try_recv() {
        service::close(service).await;
    }
}

fn options(settings: &Settings) -> Result<Options, Failure> {
    let folder = std::env::current_dir().context("the current folder can't be told: start this in a repository")?;
    let web = Web::new(&settings.server.allow_image_hosts).map_err(Failure::usage)?;
    Ok(Options {
        usual: service::usual(settings),
        pictures: Pictures::new(settings.images.clone(), web),
        picture_bytes: settings.images.max_bytes,
        folder,
        home: settings.home.clone(),
    })
}
