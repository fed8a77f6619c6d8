//! F5: the socket: connections are taken, bounded in number and time, and drained when the service ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use super::settings::{Settings, seconds};

/// A socket that is bound.
pub struct Listening {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Listening {
    /// Binds the address of the settings.
    ///
    /// # Errors
    /// When it is taken, or none of this machine.
    pub async fn bind(settings: &Settings) -> io::Result<Self> {
        raise_descriptors();
        let listener = TcpListener::bind(settings.address()).await?;
        let address = listener.local_addr()?;
        Ok(Listening { listener, address })
    }
}

/// Lets the process have as many descriptors as it may: each connection is one, and shells give a thousand.
#[cfg(unix)]
fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it is given a place to write to, and that is all it touches.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 && limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: it reads the limits that it is given. One that the system refuses leaves things as they are.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

#[cfg(not(unix))]
fn raise_descriptors() {}

/// After a failure to take a connection, most often for want of descriptors, so long none is tried.
const PAUSE: Duration = Duration::from_millis(20);

/// Serves until `end`, then finishes what was begun within the time of the settings.
pub async fn serve(listening: Listening, router: Router, settings: &Settings, end: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(settings.max_connections.min(Semaphore::MAX_PERMITS)));
    let header_time = seconds(settings.header_seconds);
    let mut end = std::pin::pin!(end);
    loop {
        let next = async {
            // Beyond them connections wait in the system's queue.
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listening.listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = &mut end => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(cause = error.to_string(), "a connection could not be taken");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let connection = graceful.watch(connection(stream, peer, router.clone(), header_time));
        tokio::spawn(async move {
            let _place = place;
            // Clients come and go as they like.
            if let Err(error) = connection.await {
                tracing::debug!(cause = error.to_string(), "a connection ended early");
            }
        });
    }
    drop(listening);
    let drain = seconds(settings.drain_seconds);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(seconds = drain.as_secs_f32(), "requests that were not answered in time are cut off");
    }
}

/// A connection, whose requests know who sends them.
fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    header_time: Duration,
) -> impl GracefulConnection<Error = hyper::Error> {
    // Small answers would wait for each other otherwise.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .serve_connection(TokioIo::new(stream), service)
}
