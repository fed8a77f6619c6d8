//! Traces to a collector: spans by OTLP over HTTP, as protobuf.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::{TelemetryError, is_own};

/// Sends spans in batches, from a thread of its own. What waits is sent when it is dropped.
#[derive(Debug)]
pub struct Traces(SdkTracerProvider);

const NAME: &str = env!("CARGO_PKG_NAME");

impl Traces {
    /// Begins to send to an endpoint; `None` for none. A collector that can't be reached costs the traces and nothing else.
    pub fn start(endpoint: &str) -> Result<Option<Self>, TelemetryError> {
        if endpoint.is_empty() {
            return Ok(None);
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client::new())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .map_err(|error| TelemetryError::Traces(error.to_string()))?;
        let resource = Resource::builder().with_service_name(NAME).build();
        Ok(Some(Traces(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())))
    }

    /// The layer that hands spans over: our own, since those of the client that sends them would never end.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync>(&self) -> impl Layer<S> + use<S> {
        let is_told = |it: &Metadata<'_>| is_own(it) && *it.level() <= Level::INFO;
        tracing_opentelemetry::layer().with_tracer(self.0.tracer(NAME)).with_filter(FilterFn::new(is_told))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.0.shutdown();
    }
}

/// The HTTP client that the program has anyway. It is called on the exporter's thread, which may wait.
#[derive(Debug)]
struct Client(ureq::Agent);

impl Client {
    fn new() -> Self {
        const PATIENCE: Duration = Duration::from_secs(10);
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .max_redirects(0)
            .http_status_as_error(false)
            .build();
        Client(config.into())
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        /// What a collector says of a batch.
        const MOST: u64 = 1 << 20;
        let (parts, body) = request.into_parts();
        let (parts, mut body) = self.0.run(Request::from_parts(parts, &body[..]))?.into_parts();
        let body = body.with_config().limit(MOST).read_to_vec().map_err(io::Error::other)?;
        Ok(Response::from_parts(parts, body.into()))
    }
}

type Sent<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Client {
    // The trait is one of `async_trait`, written out.
    fn send_bytes<'life0, 'async_trait>(&'life0 self, request: Request<Bytes>) -> Sent<'async_trait>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move { self.send(request) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Takes one request and answers it; what it was: its line and its body.
    fn collector() -> (String, std::thread::JoinHandle<(String, Vec<u8>)>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let taken = std::thread::spawn(move || {
            let (socket, _) = listener.accept().expect("a connection");
            let mut reader = BufReader::new(socket);
            let mut head = Vec::new();
            while head.last().is_none_or(|it: &String| !it.trim().is_empty()) {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                head.push(line);
            }
            let of = |name: &str| {
                head.iter().find_map(|it| it.to_lowercase().strip_prefix(name).map(|it| it.trim().to_owned()))
            };
            let mut body = vec![0; of("content-length:").and_then(|it| it.parse().ok()).expect("a length")];
            reader.read_exact(&mut body).expect("a body");
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            reader.get_mut().write_all(answer.as_bytes()).expect("taken");
            (format!("{} {}", head[0].trim(), of("content-type:").expect("a type")), body)
        });
        (address, taken)
    }

    #[test]
    fn spans_reach_a_collector_when_the_program_ends() {
        let (address, taken) = collector();
        let traces = Traces::start(&address).expect("an address").expect("one");
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || {
            let _request = tracing::error_span!("request", id = "r-1").entered();
            let _stage = tracing::info_span!("inference", tokens = 17).entered();
            let _detail = tracing::debug_span!("not told").entered();
            let _other = tracing::info_span!(target: "hyper", "of another").entered();
        });
        drop(traces);
        let (head, body) = taken.join().expect("taken");
        assert_eq!(head, "POST /v1/traces HTTP/1.1 application/x-protobuf");
        let holds = |text: &str| body.windows(text.len()).any(|it| it == text.as_bytes());
        assert!(["request", "r-1", "inference", "tokens", NAME].iter().all(|it| holds(it)));
        assert!(!holds("not told") && !holds("of another"));
    }

    #[test]
    fn a_collector_that_is_not_there_costs_the_traces_alone() {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
        let traces = Traces::start(&format!("http://{free}")).expect("an address").expect("one");
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || drop(tracing::info_span!("inference")));
        drop(traces);
        assert!(Traces::start("").expect("none").is_none());
    }
}
