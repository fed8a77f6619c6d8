//! The answer of a question as it is served and printed; its shape is documented and stable.

use serde::Serialize;
use utoipa::ToSchema;

use super::evidence::Vce;
use crate::encoder::QueryEmbedding;
use crate::evidence::{EvidenceError, Reading};
use crate::imaging;
use crate::retriever::ingest::Changes;
use crate::retriever::ranker::Parts;
use crate::retriever::{Answer, Hit, PictureWeight};
use crate::types::{IssueReport, Mode, VisualEvidence};

/// The answer of a question; `locate --json` prints the same.
#[derive(Debug, Serialize, ToSchema)]
pub struct Located<'a> {
    pub files: Vec<FileHit<'a>>,
    pub functions: Vec<FunctionHit<'a>>,
    pub query: Query<'a>,
    pub index: Index<'a>,
    pub timings_ms: Timings,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FileHit<'a> {
    rank: usize,
    path: &'a str,
    language: &'a str,
    score: f32,
    scores: Scores<'a>,
    lines: Vec<Line<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FunctionHit<'a> {
    rank: usize,
    path: &'a str,
    function: &'a str,
    start_line: u32,
    end_line: u32,
    language: &'a str,
    score: f32,
    scores: Scores<'a>,
    lines: Vec<Line<'a>>,
}

/// The parts of a score, which is their sum, and the terms that brought most of its lexical part.
#[derive(Debug, Serialize, ToSchema)]
struct Scores<'a> {
    lexical: f32,
    mention: f32,
    /// What was read of the pictures.
    visual: f32,
    context: f32,
    dense: f32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terms: Vec<(&'a str, f32)>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Line<'a> {
    line: u32,
    text: &'a str,
}

/// What was read of the issue.
#[derive(Debug, Serialize, ToSchema)]
pub struct Query<'a> {
    pub retriever: &'a str,
    pub mode: &'a str,
    /// The encoder that was asked; null when none was.
    pub model: Option<&'a str>,
    /// By which rules it read the issue.
    pub policy: Option<&'a str>,
    pub images: &'a [Image],
    /// What was read of the pictures that have text, in the modes `vce` and `vce+image`.
    pub vce: &'a [Vce],
    /// Tokens of the issue, and how many the encoder read; null when none was asked.
    pub tokens: Option<usize>,
    pub tokens_used: Option<usize>,
    /// Tokens that stand for pictures, which are in neither.
    pub image_tokens: Option<usize>,
    pub truncated: bool,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Image {
    pub name: String,
    pub used: bool,
    /// Why it is not used, or not in each way that the mode wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub width: Option<u32>,
    pub height: Option<u32>,
}

impl Image {
    /// One that does not count.
    pub fn unused(name: &str, reason: String, size: Option<(u32, u32)>) -> Self {
        let (width, height) = size.unzip();
        Image { name: name.to_owned(), used: false, reason: Some(reason), width, height }
    }
}

/// The pictures of an issue, and what was read of them.
pub struct Pictures {
    names: Vec<String>,
    sizes: Vec<Option<(u32, u32)>>,
    /// Empty where nothing was to be read.
    read: Vec<Result<Reading, EvidenceError>>,
}

impl Pictures {
    /// `sizes` where they are known, and `read`, of all pictures or of none, in the order of the report's.
    pub fn new(
        report: &IssueReport,
        sizes: Vec<Option<(u32, u32)>>,
        read: Vec<Result<Reading, EvidenceError>>,
    ) -> Self {
        Pictures { names: report.images.iter().map(|it| it.name.clone()).collect(), sizes, read }
    }

    fn with_text(&self) -> impl Iterator<Item = (&String, &Reading)> {
        let readings = self.names.iter().zip(&self.read).filter_map(|(name, it)| Some((name, it.as_ref().ok()?)));
        readings.filter(|(_, it)| !it.evidence.is_empty())
    }

    /// Of those that say something, in order.
    pub fn evidence(&self) -> Vec<VisualEvidence> {
        self.with_text().map(|(_, it)| it.evidence.clone()).collect()
    }

    /// The same as it is served, with how much each counted.
    pub fn told(&self, weights: &[PictureWeight]) -> Vec<Vce> {
        let told =
            |(at, (name, reading)): (usize, (&String, &Reading))| Vce::of(name, reading).weighed(weights.get(at));
        self.with_text().enumerate().map(told).collect()
    }

    /// What became of each, by what was read and what the encoder says of it.
    pub fn uses(&self, mode: Mode, query: Option<&QueryEmbedding>) -> Vec<Image> {
        (0..self.names.len()).map(|at| self.used(at, mode, query)).collect()
    }

    fn used(&self, at: usize, mode: Mode, query: Option<&QueryEmbedding>) -> Image {
        let told = query.and_then(|it| it.images.get(at)).filter(|_| mode.sees());
        let unseen = match told {
            _ if mode == Mode::Text => Some("the mode `text` leaves pictures out".to_owned()),
            _ if !mode.sees() => None,
            None => Some("no encoder was asked, and BM25 reads text only".to_owned()),
            Some(told) => told.unused.clone(),
        };
        let unread = match self.read.get(at) {
            None => None,
            Some(Err(error)) => Some(error.to_string()),
            Some(Ok(reading)) if reading.evidence.is_empty() => Some("no text was found in it".to_owned()),
            Some(Ok(_)) => None,
        };
        // One that is read or seen counts; what failed is told all the same.
        let used = (mode.reads() && unread.is_none()) || (mode.sees() && unseen.is_none());
        let reasons: Vec<String> = unread.into_iter().chain(unseen).collect();
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        let (width, height) = told.and_then(|it| it.size).or(self.sizes[at]).unzip();
        Image { name: self.names[at].clone(), used, reason, width, height }
    }
}

/// Width and height of a picture.
///
/// # Errors
/// Why it is none.
pub fn size_of(picture: &[u8], limits: &imaging::Limits) -> Result<(u32, u32), String> {
    let picture = imaging::decode(picture, limits).map_err(|error| error.to_string())?;
    Ok((picture.width(), picture.height()))
}

/// What was searched.
#[derive(Debug, Serialize, ToSchema)]
pub struct Index<'a> {
    pub commit: Option<&'a str>,
    /// Whether the answer is from an index, and not from the repository itself.
    pub indexed: bool,
    /// Whether the index is not what the repository is now; what has changed.
    pub stale: bool,
    /// Why, beyond changed files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changed<'a>>,
    pub files: usize,
    pub functions: usize,
    pub skipped: usize,
    /// Reservations with which files were read.
    pub notes: usize,
    /// Of the index, and how many of them have a vector; null where there is no index.
    pub windows: Option<usize>,
    pub vectors: Option<usize>,
    /// Candidates that the encoder compared with the issue; windows that were embedded for it, and that the store knew.
    pub compared_candidates: usize,
    pub embedded_windows: usize,
    pub cached_windows: usize,
    /// Windows that the encoder failed on, which were not compared.
    pub failed_windows: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Timings {
    /// Reading the repository, or opening its index and looking for changes; bringing it up to date.
    pub snapshot: u64,
    pub refresh: u64,
    /// Counting words, where there is no index.
    pub index: u64,
    pub lexical: u64,
    /// Reading the pictures.
    pub evidence: u64,
    /// Loading the encoder and embedding the issue, beside the above.
    pub load: u64,
    pub query: u64,
    pub encoder: u64,
    pub total: u64,
}

/// The file list of an answer.
pub fn file_hits(answer: &Answer, explain: bool) -> Vec<FileHit<'_>> {
    let ranked = (1..).zip(&answer.files);
    let hits = ranked.map(|(rank, hit)| FileHit {
        rank,
        path: hit.candidate.path(),
        language: &hit.candidate.source.language,
        score: hit.score,
        scores: scores(hit, explain),
        lines: lines(hit),
    });
    hits.collect()
}

/// The function list of an answer.
pub fn function_hits(answer: &Answer, explain: bool) -> Vec<FunctionHit<'_>> {
    let ranked = (1..).zip(&answer.functions);
    let hits = ranked.map(|(rank, hit)| FunctionHit {
        rank,
        path: hit.candidate.path(),
        function: hit.candidate.name.as_deref().unwrap_or_default(),
        start_line: hit.candidate.lines.start,
        end_line: hit.candidate.lines.end,
        language: &hit.candidate.source.language,
        score: hit.score,
        scores: scores(hit, explain),
        lines: lines(hit),
    });
    hits.collect()
}

fn scores(hit: &Hit, explain: bool) -> Scores<'_> {
    let Parts { lexical, mention, visual, context, dense } = hit.parts;
    let shown = if explain { terms(hit) } else { &[] };
    let terms = shown.iter().map(|(term, score)| (term.as_str(), *score)).collect();
    Scores { lexical, mention, visual, context, dense, terms }
}

/// The terms behind a hit's score; none where they have no part in it.
pub fn terms(hit: &Hit) -> &[(String, f32)] {
    if hit.parts.lexical == 0.0 { &[] } else { &hit.terms }
}

fn lines(hit: &Hit) -> Vec<Line<'_>> {
    hit.lines.iter().map(|it| Line { line: it.line, text: &it.text }).collect()
}

/// What has changed in a repository since an index was made.
#[derive(Debug, Serialize, ToSchema)]
pub struct Changed<'a> {
    added: &'a [String],
    changed: &'a [String],
    removed: &'a [String],
}

impl<'a> Changed<'a> {
    pub fn of(changes: &'a Changes) -> Self {
        Changed { added: &changes.added, changed: &changes.changed, removed: &changes.removed }
    }
}
