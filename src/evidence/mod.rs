//! F2: what pictures say, as fields (visual content evidence; MM-IssueLoc, section 4.2 and appendix D): text read on this machine, or what
//! a vision-language model tells. Knows nothing of repositories or of how evidence ranks.
//!
//! [`Reader::read`] is the way: a picture's text is read by [`ocr`] and taken apart by `structure`; where an endpoint is set it is asked
//! instead, and what it can't do falls back to reading. Results are kept by the picture's hash.

mod cache;
pub mod confusion;
pub mod draw;
pub mod endpoint;
mod models;
pub mod ocr;
mod page;
mod structure;

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::imaging::{self, ImageError, Limits};
use crate::types::{IssueImage, IssueReport, VisualEvidence};

use cache::{Cache, Key};
use endpoint::{Endpoint, EndpointError};
use ocr::{Ocr, OcrError, Pixels};
pub use page::{Block, Line, Note, Page};

/// How pictures are read.
#[derive(Debug, Clone)]
pub struct Options {
    /// A vision-language model that is asked; `None`: pictures are read here.
    pub endpoint: Option<endpoint::Settings>,
    /// Where results are kept, and how many.
    pub cache: Option<(PathBuf, usize)>,
    pub limits: Limits,
}

/// Why a picture could not be read. The messages leave out its name, which the caller knows.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    #[error("{0}")]
    Image(#[from] ImageError),
    #[error("its text can't be read: {0}")]
    Ocr(#[from] OcrError),
    #[error("its text can't be read: {0}")]
    Models(String),
}

/// Who read a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This machine.
    Ocr,
    /// A vision-language model.
    Endpoint { model: String },
    /// Whoever asks says what it holds.
    Given,
}

/// What was read of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub evidence: VisualEvidence,
    /// Where the text stands, if it was read on this machine.
    pub page: Option<Page>,
    pub source: Source,
    /// Why another than the wanted one read it.
    pub warning: Option<String>,
}

impl Reading {
    /// Of a text that is said to be all that a picture holds, a line each.
    pub fn given(text: &str) -> Self {
        let page = Page::of_text(text);
        // Whoever says it vouches for it.
        let evidence = VisualEvidence { confidence: 1.0, ..structure::structure(&page) };
        Reading { evidence, page: None, source: Source::Given, warning: None }
    }

    fn of_page(page: Page) -> Self {
        Reading { evidence: structure::structure(&page), page: Some(page), source: Source::Ocr, warning: None }
    }
}

/// Reads pictures. What it needs is loaded when the first is read.
pub struct Reader {
    ocr: OnceLock<Result<Ocr, String>>,
    endpoint: Option<Endpoint>,
    cache: Option<Cache>,
    limits: Limits,
}

impl Reader {
    /// # Errors
    /// An endpoint that can be none.
    pub fn new(options: Options) -> Result<Self, EndpointError> {
        let endpoint = options.endpoint.map(Endpoint::new).transpose()?;
        let cache = options.cache.map(|(folder, most)| Cache::open(&folder, most));
        Ok(Reader { ocr: OnceLock::new(), endpoint, cache, limits: options.limits })
    }

    /// Reads a picture of an issue.
    ///
    /// # Errors
    /// A picture that can't be decoded, and models that can't be loaded. A picture without text is no error.
    pub fn read(&self, image: &IssueImage, report: &IssueReport) -> Result<Reading, EvidenceError> {
        let _span = tracing::info_span!("evidence").entered();
        let Some(endpoint) = &self.endpoint else { return self.read_here(image) };
        // What is no picture is sent to nobody.
        let picture = imaging::decode(&image.bytes, &self.limits)?;
        let failure = match self.ask(endpoint, image, &picture, report) {
            Ok(reading) if !reading.evidence.is_empty() => return Ok(reading),
            Ok(_) => "the vision-language model found nothing".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(cause = failure, "a picture is read on this machine instead");
        let warning = format!("{failure}; the picture was read on this machine instead");
        Ok(Reading { warning: Some(warning), ..self.read_here(image)? })
    }

    fn ask(
        &self,
        endpoint: &Endpoint,
        image: &IssueImage,
        picture: &imaging::Picture,
        report: &IssueReport,
    ) -> Result<Reading, EndpointError> {
        let source = Source::Endpoint { model: endpoint.model().to_owned() };
        let key = Key::new(&image.bytes, &endpoint.fingerprint(&report.title, &report.body));
        let evidence = match self.cache.as_ref().and_then(|it| it.evidence(&key)) {
            Some(known) => known,
            None => {
                // Its pixels alone: what else is in the file is nobody's business.
                let pixels = draw::png(picture.width(), picture.height(), picture.rgb());
                let sent = pixels.as_ref().unwrap_or(&image.bytes);
                let evidence = endpoint.read(sent, &report.title, &report.body)?;
                self.cache.iter().for_each(|it| it.put_evidence(&key, &evidence));
                evidence
            }
        };
        Ok(Reading { evidence, page: None, source, warning: None })
    }

    /// Reads a picture's text on this machine, whatever endpoint is set.
    ///
    /// # Errors
    /// Those of [`Reader::read`].
    pub fn read_here(&self, image: &IssueImage) -> Result<Reading, EvidenceError> {
        let key = Key::new(&image.bytes, models::FINGERPRINT);
        if let Some(page) = self.cache.as_ref().and_then(|it| it.page(&key)) {
            return Ok(Reading::of_page(page));
        }
        let picture = imaging::decode(&image.bytes, &self.limits)?;
        let ocr = self.ocr.get_or_init(|| models::load().map_err(|error| error.to_string()));
        let ocr = ocr.as_ref().map_err(|error| EvidenceError::Models(error.clone()))?;
        // A decoded picture has pixels.
        let pixels = Pixels::new(picture.width(), picture.height(), picture.rgb()).ok_or(ImageError::Empty)?;
        let mut page = ocr.read(&pixels)?;
        if picture.is_animated() {
            page.notes.push(Note::Animated);
        }
        self.cache.iter().for_each(|it| it.put_page(&key, &page));
        Ok(Reading::of_page(page))
    }
}
