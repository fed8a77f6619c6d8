//! F6: what the running service tells: lines of a log, how long each stage takes, and, if it was built for that, traces.
//!
//! Knows nothing of the stages but the names of their spans.

#[cfg(feature = "otlp")]
mod otlp;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterFn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::server::Settings;
use crate::server::settings::LogFormat;

/// Spans whose time is measured, from their beginning to their end.
pub const STAGES: [&str; 6] = ["decode", "evidence", "tokenise", "queue", "inference", "search"];

/// Hears how many seconds a stage took.
pub type Observe = Arc<dyn Fn(&'static str, f64) + Send + Sync>;

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("`server.log` is no filter: {0}; write info, or a filter like info,sightline=debug")]
    Filter(String),
    #[error(
        "`server.otlp_endpoint` is set, and this program was built without traces: leave it empty, or build with --features otlp"
    )]
    NoTraces,
    #[error("traces can't be sent to `server.otlp_endpoint`: {0}; write an address like http://127.0.0.1:4318")]
    Traces(String),
    #[error("the log was begun already, by another part of this program")]
    Begun,
}

/// Ends what was begun when it is dropped: traces that wait are sent.
#[derive(Debug, Default)]
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    _traces: Option<otlp::Traces>,
}

/// Begins the log on standard error, and gives the time of each stage to `observe`.
///
/// # Errors
/// When the settings can't be followed, or a log was begun already.
pub fn start(settings: &Settings, observe: Observe) -> Result<Telemetry, TelemetryError> {
    #[cfg(feature = "otlp")]
    let (traces, telemetry) = {
        let traces = otlp::Traces::start(&settings.otlp_endpoint)?;
        (traces.as_ref().map(otlp::Traces::layer), Telemetry { _traces: traces })
    };
    #[cfg(not(feature = "otlp"))]
    let (traces, telemetry) = match settings.otlp_endpoint.is_empty() {
        true => (None::<tracing_subscriber::layer::Identity>, Telemetry::default()),
        false => return Err(TelemetryError::NoTraces),
    };
    let is_coloured = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
    let subscriber = Registry::default().with(traces);
    let subscriber = subscriber.with(stages(observe)).with(log(settings, io::stderr, is_coloured)?);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::Begun)?;
    Ok(telemetry)
}

/// Lines of the log.
fn log<S, W>(settings: &Settings, out: W, is_coloured: bool) -> Result<impl Layer<S> + use<S, W>, TelemetryError>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(&settings.log).map_err(|error| TelemetryError::Filter(error.to_string()))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(out).with_ansi(is_coloured);
    Ok(match settings.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
    }
    .with_filter(filter))
}

/// The layer that measures stages. The log's filter is not its own: what isn't logged takes time too.
fn stages<S: Subscriber + for<'a> LookupSpan<'a>>(observe: Observe) -> impl Layer<S> {
    let is_stage = |it: &Metadata<'_>| it.is_span() && STAGES.contains(&it.name()) && is_own(it);
    StageTimes(observe).with_filter(FilterFn::new(is_stage))
}

fn is_own(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(env!("CARGO_PKG_NAME"))
}

struct StageTimes(Observe);

/// When a span began.
struct Began(Instant);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for StageTimes {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(Began(Instant::now()));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let seconds = span.extensions().get::<Began>().map(|it| it.0.elapsed().as_secs_f64());
        if let Some(seconds) = seconds {
            (self.0)(span.name(), seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// What is written, kept.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log of something that is done under some settings, and the stages that were measured.
    fn told(keys: &str, act: impl FnOnce()) -> (String, Vec<&'static str>) {
        let (kept, stages_seen) = (Kept::default(), Arc::new(Mutex::new(Vec::new())));
        let (seen, out) = (stages_seen.clone(), kept.clone());
        let observe: Observe = Arc::new(move |stage, seconds| {
            assert!((0.0..60.0).contains(&seconds));
            seen.lock().expect("sound").push(stage);
        });
        let settings = crate::server::settings::tests::settings(keys);
        let log = log(&settings, move || out.clone(), false).expect("sound settings");
        tracing::subscriber::with_default(Registry::default().with(stages(observe)).with(log), act);
        let text = String::from_utf8(kept.0.lock().expect("sound").clone()).expect("UTF-8");
        let stages = stages_seen.lock().expect("sound").clone();
        (text, stages)
    }

    fn act() {
        let _request = tracing::error_span!("request", id = "r-1").entered();
        {
            let _span = tracing::info_span!("decode").entered();
            let _other = tracing::info_span!("elsewhere").entered();
            tracing::info!(bytes = 3, "a line\nof two");
        }
        let queued = tracing::info_span!("queue");
        drop(tracing::debug_span!("tokenise"));
        tracing::warn!("late");
        drop(queued);
    }

    #[test]
    fn stages_are_measured_whatever_is_logged() {
        for log in ["off", "error", "info", "trace"] {
            let (_, stages) = told(&format!("log = \"{log}\""), act);
            assert_eq!(stages, ["decode", "tokenise", "queue"], "{log}");
        }
    }

    #[test]
    fn a_line_names_its_request_at_every_level() {
        let (text, _) = told("log = \"warn\"", act);
        assert!(text.contains("r-1") && text.contains("late") && text.lines().count() == 1, "{text}");
        let (text, _) = told("log = \"info\"", act);
        assert!(text.contains("decode") && text.contains("bytes=3"), "{text}");
        assert_eq!(told("log = \"off\"", act).0, "");
    }

    #[test]
    fn json_is_one_object_a_line() {
        let (text, _) = told("log_format = \"json\"", act);
        let lines: Vec<serde_json::Value> = text.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0]["message"].as_str(), lines[0]["bytes"].as_u64()), (Some("a line\nof two"), Some(3)));
        assert_eq!((lines[1]["level"].as_str(), lines[1]["spans"][0]["id"].as_str()), (Some("WARN"), Some("r-1")));
    }

    #[test]
    fn what_a_client_sends_does_not_steer_a_terminal() {
        let (text, _) = told("", || tracing::info!(path = "\u{1b}[31m\n", "\u{1b}[2J"));
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }

    #[cfg(not(feature = "otlp"))]
    #[test]
    fn traces_that_cannot_be_sent_are_an_error() {
        let settings = crate::server::settings::tests::settings("otlp_endpoint = \"http://127.0.0.1:4318\"");
        let error = start(&settings, Arc::new(|_, _| {})).expect_err("refused").to_string();
        assert!(error.contains("server.otlp_endpoint") && error.contains("--features otlp"), "{error}");
    }
}
