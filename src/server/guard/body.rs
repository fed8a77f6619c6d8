//! Bodies: within their size, their memory and their time, or refused with the reason.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::{StreamExt, stream};

use super::limits::{Memory, Reserved, busy};
use crate::server::error::ApiError;
use crate::server::settings::{Settings, seconds};

/// What bodies may be.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    most: u64,
    most_uploaded: u64,
    time: Duration,
    memory: Arc<Memory>,
}

/// So long a body may come as slowly as it likes.
const GRACE: Duration = Duration::from_secs(10);
/// Then it has to come faster than so many bytes a second: one byte now and then would hold a place for as long as it pleases.
const LEAST_PACE: f64 = 16_384.0;

/// Memory that is set aside for a body of unknown length when it begins.
const STEP: u64 = 1 << 20;

impl BodyLimits {
    pub fn new(settings: &Settings) -> Self {
        BodyLimits {
            most: settings.max_body_bytes,
            most_uploaded: settings.max_upload_bytes,
            time: seconds(settings.body_seconds),
            memory: Memory::new(settings.body_memory_bytes),
        }
    }

    /// Sets memory aside for a body, before its first byte is asked for. `None` for a request without one.
    ///
    /// # Errors
    /// 413, 415 or 429.
    pub fn reserve(&self, headers: &HeaderMap, body: &Body) -> Result<Option<Reserved>, ApiError> {
        if body.is_end_stream() {
            return Ok(None);
        }
        check_encoding(headers)?;
        // Who doesn't say how much comes gets more as it comes.
        let length = length(headers, body).unwrap_or(STEP.min(self.most));
        if length > self.most {
            return Err(self.too_large());
        }
        self.memory.reserve(length).map(Some).ok_or_else(no_memory)
    }

    /// Reads a body into memory that was set aside.
    ///
    /// # Errors
    /// 413 or 408, or 400 for one that ends early.
    pub async fn read(&self, body: Body, reserved: &mut Reserved) -> Result<Bytes, ApiError> {
        let length = HttpBody::size_hint(&body).exact().and_then(|it| usize::try_from(it).ok());
        let (mut data, mut pace, start) = (body.into_data_stream(), Pace::new(self.time), Instant::now());
        // All at once, so that growing never holds it twice; what doesn't come is never touched.
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length.unwrap_or(0)).map_err(|_| no_memory())?;
        loop {
            let left = self.time.saturating_sub(start.elapsed());
            let Some(chunk) = pace.next(&mut data, left, bytes.len() as u64).await? else { break };
            if (bytes.len() + chunk.len()) as u64 > self.most {
                drain_data(data);
                return Err(self.too_large());
            }
            let needed = (bytes.len() + chunk.len()) as u64;
            if !reserved.grow(needed) {
                drain_data(data);
                return Err(no_memory());
            }
            bytes.extend_from_slice(&chunk);
        }
        reserved.shrink(bytes.len() as u64);
        Ok(bytes.into())
    }

    fn too_large(&self) -> ApiError {
        too_large(self.most, "server.max_body_bytes")
    }

    /// Checks an upload before it is read.
    ///
    /// # Errors
    /// 413 for one that says that it is too large.
    pub fn check_upload(&self, headers: &HeaderMap, body: &Body) -> Result<(), ApiError> {
        let most = self.most_uploaded;
        let is_too_large = length(headers, body).is_some_and(|it| it > most);
        if is_too_large { Err(StreamError::TooLarge { most }.into()) } else { Ok(()) }
    }

    /// An uploaded body, to be read as it comes. Its errors are [`StreamError`]s.
    pub fn stream(&self, headers: &HeaderMap, body: Body) -> Body {
        let is_awaited = headers.contains_key(header::EXPECT);
        let upload = Upload { data: Some(body.into_data_stream()), pace: Pace::new(self.time), seen: 0, is_awaited };
        let (most, time) = (self.most_uploaded, self.time);
        Body::from_stream(stream::try_unfold(upload, move |mut upload| async move {
            let chunk = upload.next(time, most).await?;
            Ok::<_, StreamError>(chunk.map(|chunk| (chunk, upload)))
        }))
    }
}

/// A body that a handler reads. Once it is refused in the middle, what comes still is thrown away.
struct Upload {
    /// `None` after its end.
    data: Option<BodyDataStream>,
    pace: Pace,
    seen: u64,
    /// The sender waits for leave to send.
    is_awaited: bool,
}

impl Upload {
    async fn next(&mut self, time: Duration, most: u64) -> Result<Option<Bytes>, StreamError> {
        self.is_awaited = false;
        let Some(data) = &mut self.data else { return Ok(None) };
        let next = self.pace.next(data, time, self.seen).await;
        if !matches!(next, Ok(Some(_))) {
            self.data = None;
        }
        let chunk = next?;
        self.seen += chunk.as_ref().map_or(0, |it| it.len() as u64);
        if self.seen > most { Err(StreamError::TooLarge { most }) } else { Ok(chunk) }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(data) = self.data.take().filter(|_| !self.is_awaited) {
            drain_data(data);
        }
    }
}

/// Refuses bodies in an encoding that nothing here undoes.
///
/// # Errors
/// 415.
fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_plain = |it: &axum::http::HeaderValue| it.as_bytes().eq_ignore_ascii_case(b"identity") || it.is_empty();
    match headers.get_all(header::CONTENT_ENCODING).iter().all(is_plain) {
        true => Ok(()),
        false => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "content_encoding",
            "the body is compressed, which this route doesn't undo: send it without `Content-Encoding`",
        )),
    }
}

/// The length that a body says it has.
fn length(headers: &HeaderMap, body: &Body) -> Option<u64> {
    let said = headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok());
    said.or_else(|| HttpBody::size_hint(body).exact())
}

/// How long was waited for a body, against what came.
struct Pace {
    grace: Duration,
    waited: Duration,
}

impl Pace {
    fn new(time: Duration) -> Self {
        Pace { grace: GRACE.min(time), waited: Duration::ZERO }
    }

    /// The next bytes, if they come within `left` and the body with `seen` bytes keeps its pace. Only the time that is waited here
    /// counts, not what the reader takes.
    async fn next(
        &mut self,
        data: &mut BodyDataStream,
        left: Duration,
        seen: u64,
    ) -> Result<Option<Bytes>, StreamError> {
        let earned = Duration::try_from_secs_f64(seen as f64 / LEAST_PACE).unwrap_or(Duration::MAX);
        let allowed = self.grace.saturating_add(earned).saturating_sub(self.waited).min(left);
        let start = Instant::now();
        let next = tokio::time::timeout(allowed, data.next()).await.map_err(|_| StreamError::TooSlow)?;
        self.waited += start.elapsed();
        next.transpose().map_err(|_| StreamError::Cut)
    }
}

/// Why the rest of a body doesn't come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error("the body is longer than {most} bytes")]
    TooLarge { most: u64 },
    #[error("the body comes too slowly")]
    TooSlow,
    #[error("the body ended before it was whole")]
    Cut,
}

impl StreamError {
    /// What a handler tells of an error that it met while it read an upload; `None` if the error is about something else.
    pub fn find(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        std::iter::successors(Some(error), |it| it.source()).find_map(|it| it.downcast_ref().copied())
    }
}

impl From<StreamError> for ApiError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::TooLarge { most } => too_large(most, "server.max_upload_bytes"),
            StreamError::TooSlow => ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "body_timeout",
                "the body came too slowly: send it faster, or raise the setting `server.body_seconds`",
            ),
            StreamError::Cut => {
                ApiError::malformed("body_incomplete", "the body ended before it was whole: send it again")
            }
        }
    }
}

fn too_large(most: u64, setting: &str) -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is longer than {most} bytes: send less, or raise the setting `{setting}`"),
    )
}

fn no_memory() -> ApiError {
    busy(
        "body_memory",
        "the bodies of other requests fill the memory that is set aside: ask again",
        Duration::from_secs(1),
    )
}

/// Lets the rest of a refused body come, for a moment: a connection that is closed on a sender who is still sending loses the answer
/// on its way.
pub fn drain(headers: &HeaderMap, body: Body) {
    // Who waits for leave to send doesn't send.
    if !body.is_end_stream() && !headers.contains_key(header::EXPECT) {
        drain_data(body.into_data_stream());
    }
}

fn drain_data(mut data: BodyDataStream) {
    /// A sender who hasn't read the answer by then won't.
    const MOMENT: Duration = Duration::from_secs(2);
    const MOST: usize = 64 << 20;
    // When the program ends there is none.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(tokio::time::timeout(MOMENT, async move {
        let mut seen = 0;
        while let Some(Ok(chunk)) = data.next().await
            && seen < MOST
        {
            seen += chunk.len();
        }
    }));
}
