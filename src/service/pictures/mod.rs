//! F4: pictures as requests carry them: base64, data URLs, and addresses on the web where the operator allows hosts.
//!
//! Knows nothing of what a picture is for. A picture that is given on is one that decodes within the limits: a bad one is found before
//! anything is computed for its request.

mod address;
mod data;
mod fetch;

use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::{AcquireError, Semaphore};

use crate::imaging::{self, ImageError, Limits, PixelRange};
use crate::types::IssueImage;

pub use fetch::{HostError, Web};

/// Pictures from the web of one request that are on their way at a time, and of all requests four times as many.
const FETCHES: usize = 4;
/// The pictures from the web of one request take so much together, as multiples of what one may.
const MOST_FETCHED: u64 = 4;

/// A picture as a request gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// What the request calls it (`images[0].data`): its name in messages.
    pub param: String,
    pub source: Source,
}

/// A picture that decodes.
#[derive(Debug, Clone)]
pub struct Picture {
    pub image: IssueImage,
    /// Width and height.
    pub size: (u32, u32),
}

/// Where a picture's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Base64, or a data URL.
    Data(String),
    /// A data URL, or an address on the web.
    Url(String),
    /// The bytes of its file.
    Bytes(Vec<u8>),
}

/// Why a picture of a request can't be used. The messages leave out its name, which the caller knows; none says more of the server or its
/// network than the request did.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error("its data URL {0}: write data:image/png;base64, and the file in base64")]
    DataUrl(&'static str),
    #[error("its base64 {0}: encode the bytes of the file, or give a data URL")]
    Base64(&'static str),
    #[error("pictures are not fetched from the web here: send the file in base64, or as a data URL")]
    UrlsOff,
    #[error("its URL {0}: give an http or https URL without a name or a password, or send the file in base64")]
    Url(&'static str),
    #[error(
        "pictures are not fetched from the host `{0}`: send the file in base64, or ask the operator to allow the host"
    )]
    Host(String),
    #[error("its host leads to an address that is not on the public internet: send the file in base64")]
    Address,
    #[error("it can't be fetched: {0}; check the URL, or send the file in base64")]
    Fetch(String),
    #[error("{0}")]
    Image(#[from] ImageError),
    #[error("it could not be read because this server is ending: ask again")]
    Ending,
}

impl PictureError {
    /// The error's stable name, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            PictureError::DataUrl(_) => "image_data_url",
            PictureError::Base64(_) => "image_base64",
            PictureError::UrlsOff => "images_by_url_off",
            PictureError::Url(_) => "image_url",
            PictureError::Host(_) => "image_host",
            PictureError::Address => "image_address",
            PictureError::Fetch(_) => "image_fetch",
            PictureError::Image(error) => error.code(),
            PictureError::Ending => "server_ending",
        }
    }
}

impl From<AcquireError> for PictureError {
    fn from(_: AcquireError) -> Self {
        PictureError::Ending
    }
}

/// A picture that can't be used, by the name that the request has for it.
#[derive(Debug, thiserror::Error)]
#[error("the picture `{param}` can't be used: {error}")]
pub struct BadPicture {
    pub param: String,
    #[source]
    pub error: PictureError,
}

/// Reads pictures off the threads that answer requests. Cheap to clone.
#[derive(Clone)]
pub struct Pictures {
    limits: Limits,
    web: Arc<Web>,
    /// Decoding takes a core and up to three bytes a pixel for each picture.
    decoding: Arc<Semaphore>,
    fetching: Arc<Semaphore>,
}

impl Pictures {
    /// Pictures within these limits, and from nowhere else on the web than `web` says.
    pub fn new(limits: Limits, web: Web) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Pictures {
            limits,
            web: Arc::new(web),
            decoding: Arc::new(Semaphore::new(cores)),
            fetching: Arc::new(Semaphore::new(4 * FETCHES)),
        }
    }

    /// The pictures of a request, in order, or the first of them that can't be used.
    ///
    /// # Errors
    /// [`BadPicture`] by its name.
    pub async fn read(&self, given: Vec<Given>) -> Result<Vec<Picture>, BadPicture> {
        let fetch = self.fetch();
        let one = async |Given { param, source }| match self.one(&param, source, &fetch).await {
            Ok(image) => Ok(image),
            Err(error) => Err(BadPicture { param, error }),
        };
        stream::iter(given).map(one).buffered(FETCHES).try_collect().await
    }

    fn fetch(&self) -> fetch::Budget {
        fetch::Budget::new(Instant::now() + self.web.time, MOST_FETCHED * self.limits.max_bytes)
    }

    async fn one(&self, param: &str, source: Source, budget: &fetch::Budget) -> Result<Picture, PictureError> {
        let source = match source {
            Source::Url(url) if !data::is_data_url(&url) => Source::Bytes(self.fetched(&url, budget).await?),
            source => source,
        };
        let permit = Arc::clone(&self.decoding).acquire_owned().await?;
        let limits = self.limits.clone();
        let checked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let _span = tracing::info_span!("decode").entered();
            let bytes = bytes(source)?;
            check(&bytes, &limits).map(|size| (bytes, size))
        });
        let (bytes, size) = checked.await.map_err(|_| PictureError::Ending)??;
        Ok(Picture { image: IssueImage { name: param.to_owned(), bytes }, size })
    }

    async fn fetched(&self, url: &str, budget: &fetch::Budget) -> Result<Vec<u8>, PictureError> {
        let target = self.web.target(url)?;
        let permit = Arc::clone(&self.fetching).acquire_owned().await?;
        let (web, budget, most) = (Arc::clone(&self.web), budget.clone(), self.limits.max_bytes);
        let fetched = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            web.fetch(&target, &budget, most)
        });
        fetched.await.map_err(|_| PictureError::Ending)?
    }
}

/// The bytes of a picture that the request holds.
fn bytes(source: Source) -> Result<Vec<u8>, PictureError> {
    match source {
        Source::Bytes(bytes) => Ok(bytes),
        Source::Data(text) if !data::is_data_url(&text) => data::base64(text.as_bytes(), PictureError::Base64),
        Source::Data(url) | Source::Url(url) => data::data_url(&url),
    }
}

/// The size of a picture that can be seen: it decodes, and no side is out of all proportion to the other.
fn check(bytes: &[u8], limits: &Limits) -> Result<(u32, u32), PictureError> {
    // What a policy makes of the pixels is no matter.
    let picture = imaging::decode(bytes, limits)?;
    // Any size does: what is asked is the proportion.
    let any = PixelRange { min_pixels: 1, max_pixels: u64::MAX };
    imaging::smart_resize(picture.height(), picture.width(), 1, any)?;
    Ok((picture.width(), picture.height()))
}

#[cfg(test)]
mod tests;
