//! A question to a repository, from what is asked to an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::evidence::Vce;
use super::located::{self, Image, Index, Located, Pictures, Query, Timings};
use super::repositories::{Repository, Served, Staleness};
use super::{Inner, Service, ServiceError, Wanted};
use crate::encoder::QueryEmbedding;
use crate::evidence::{EvidenceError, Reading};
use crate::imaging::ImageError;
use crate::retriever::inference::{Class, Queued};
use crate::retriever::ingest;
use crate::retriever::{Answer, Corpus, Encoded, Localizer, Question, Request, RetrieverError, RetrieverKind};
use crate::types::{IssueReport, Level, Mode};

/// A question waits no longer for an index to be brought up to date; it goes on, and the next one has it.
const REFRESH_WAIT: Duration = Duration::from_secs(2);

/// Bytes of an issue's text: forty times what forges take, and what an encoder takes apart in seconds.
const MOST_TEXT: usize = 1 << 20;

/// Pictures of one question that are read at a time, and of all questions.
pub(super) const READINGS: usize = 2;
/// Those of an endpoint wait for another machine.
pub(super) const ASKED_READINGS: usize = 8;
/// What is told of a picture that the endpoint did not read.
const FELL_BACK: &str = "the vision-language model did not read it, so the service read its text";
/// Pictures that may wait: at a second or two each, more would not be read in the time of a request.
const MOST_WAITING: usize = 24;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Ask {
    pub report: IssueReport,
    /// What else is known of each of its pictures.
    pub pictures: Vec<AskedPicture>,
    pub request: Request,
    /// What is read of the pictures; `None`: as much as the model allows.
    pub mode: Option<Mode>,
    /// Whether the terms behind each score are told.
    pub explain: bool,
}

/// A picture of a question, beside its bytes.
#[derive(Debug, Clone, Default)]
pub struct AskedPicture {
    /// Width and height.
    pub size: (u32, u32),
    /// The text that it holds, by whoever asks; it is not read then.
    pub text: Option<String>,
}

/// A question that was answered.
pub struct Answered {
    pub answer: Answer,
    served: Arc<Served>,
    staleness: Arc<Staleness>,
    query: Option<QueryEmbedding>,
    /// What became of each picture.
    pub images: Vec<Image>,
    /// What was read of pictures.
    pub evidence: Vec<Vce>,
    mode: Mode,
    model: String,
    policy: &'static str,
    retriever: RetrieverKind,
    explain: bool,
    times: Times,
}

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    snapshot: Duration,
    refresh: Duration,
    evidence: Duration,
    query: Duration,
    total: Duration,
}

impl Service {
    /// Answers a question from a repository's index. Dropped, what has not begun is not done.
    ///
    /// # Errors
    /// A repository that is not there or not built, a question that is empty, pictures that are none, too much at once.
    pub async fn locate(&self, name: &str, mut ask: Ask) -> Result<Answered, ServiceError> {
        let start = Instant::now();
        let repository = self.inner.repositories.get(name)?;
        let mode = ask.mode.unwrap_or_else(|| Mode::of(true, self.sees(&ask.request)));
        self.check(&ask, mode)?;
        let current = self.current(&repository).await?;
        let mut times = Times { snapshot: current.took, refresh: current.refreshed, ..Times::default() };
        let reading = Instant::now();
        let texts = ask.pictures.iter().map(|it| it.text.clone()).collect();
        let read = if mode.reads() { self.read(&ask.report, texts).await? } else { Vec::new() };
        times.evidence = reading.elapsed();
        let pictures = Pictures::new(&ask.report, ask.pictures.iter().map(|it| Some(it.size)).collect(), read);
        ask.report.evidence = pictures.evidence();
        if ask.report.is_blank() && ask.report.evidence.is_empty() && !(mode.sees() && self.sees(&ask.request)) {
            return Err(self.nothing_to_go_by(mode));
        }
        if !mode.sees() {
            ask.report.images.clear();
        }
        let report = Arc::new(ask.report);
        let reading = Instant::now();
        let query = match needs_encoder(&ask.request) {
            true => Some(self.inner.inference.query(Arc::clone(&report)).await?),
            false => None,
        };
        times.query = reading.elapsed();
        // Beyond one for each core they would only be in each other's way.
        let permit = Arc::clone(&self.inner.ranking).acquire_owned().await.map_err(ServiceError::internal)?;
        let wanted = Wanted::default();
        let (inner, stop, served, request) =
            (Arc::clone(&self.inner), wanted.flag(), Arc::clone(&current.served), ask.request.clone());
        let ranked = blocking(move || {
            let _permit = permit;
            let answer = inner.rank(&served, &report, query.as_ref(), &request, stop)?;
            Ok::<_, ServiceError>((answer, query))
        });
        let (answer, query) = ranked.await??;
        self.inner.metrics.cache_hits.inc_by(answer.embedded.cached as u64);
        self.inner.metrics.cache_misses.inc_by(answer.embedded.windows as u64);
        let new = answer.embedded.windows + answer.embedded.cached;
        if ingest::is_worth_filling(current.served.manifest(), self.inner.inference.model(), new) {
            self.inner.jobs.fill(&repository);
        }
        times.total = start.elapsed();
        let info = self.model();
        let (images, evidence) = (pictures.uses(mode, query.as_ref()), pictures.told(&answer.pictures));
        Ok(Answered {
            evidence,
            mode,
            answer,
            served: current.served,
            staleness: current.staleness,
            query,
            images,
            model: info.id.clone(),
            policy: info.policy.name(),
            retriever: ask.request.retriever,
            explain: ask.explain,
            times,
        })
    }

    fn check(&self, ask: &Ask, mode: Mode) -> Result<(), ServiceError> {
        let told = ask.pictures.iter().flat_map(|it| &it.text).map(String::len).sum::<usize>();
        let bytes = ask.report.title.len() + ask.report.body.len() + told;
        if bytes > MOST_TEXT {
            return Err(ServiceError::LargeQuestion { bytes, most: MOST_TEXT });
        }
        if !ask.report.is_blank() {
            return Ok(());
        }
        if ask.report.images.is_empty() {
            return Err(ServiceError::EmptyQuestion);
        }
        if mode.reads() || (mode.sees() && self.sees(&ask.request)) { Ok(()) } else { Err(self.nothing_to_go_by(mode)) }
    }

    /// Whether the encoder sees the pictures of a request.
    fn sees(&self, request: &Request) -> bool {
        self.model().images > 0 && needs_encoder(request)
    }

    /// The refusal of an issue that has nothing but pictures.
    fn nothing_to_go_by(&self, mode: Mode) -> ServiceError {
        let what = match mode {
            Mode::Vce | Mode::VceImage => "no text was read in them",
            Mode::Text => "the mode `text` leaves them out",
            Mode::Image if self.model().images == 0 => "the model reads text only",
            Mode::Image => "this retriever reads text only",
        };
        let reason = format!("the issue has nothing but pictures, and {what}: add a title or a body");
        ServiceError::Unusable { field: "images".to_owned(), reason }
    }

    /// Reads the pictures of an issue, each for itself. One whose text is given is not read.
    ///
    /// # Errors
    /// Too much text, too many pictures that wait, and when the service is ending.
    pub async fn read(
        &self,
        report: &IssueReport,
        texts: Vec<Option<String>>,
    ) -> Result<Vec<Result<Reading, EvidenceError>>, ServiceError> {
        let bytes = report.title.len() + report.body.len() + texts.iter().flatten().map(String::len).sum::<usize>();
        if bytes > MOST_TEXT {
            return Err(ServiceError::LargeQuestion { bytes, most: MOST_TEXT });
        }
        let _waiting = Waiting::of(texts.iter().filter(|it| it.is_none()).count(), &self.inner.waiting)?;
        let report = Arc::new(report.clone());
        let one = |(at, text): (usize, Option<String>)| {
            let (inner, report) = (Arc::clone(&self.inner), Arc::clone(&report));
            async move {
                if let Some(text) = text {
                    return blocking(move || Ok(Reading::given(&text))).await;
                }
                let permit = Arc::clone(&inner.reading).acquire_owned().await.map_err(ServiceError::internal)?;
                blocking(move || {
                    let _permit = permit;
                    let image = report.images.get(at).ok_or(EvidenceError::Image(ImageError::Empty))?;
                    let reading = inner.reader.read(image, &report)?;
                    // The log has the cause, which is the operator's business.
                    let warning = reading.warning.as_ref().map(|_| FELL_BACK.to_owned());
                    Ok(Reading { warning, ..reading })
                })
                .await
            }
        };
        stream::iter(texts.into_iter().enumerate()).map(one).buffered(READINGS).try_collect().await
    }

    /// The index that is asked, brought up to date if little has changed.
    async fn current(&self, repository: &Arc<Repository>) -> Result<Current, ServiceError> {
        let start = Instant::now();
        let (served, staleness) = self.look(repository).await?;
        let took = start.elapsed();
        let changed = staleness.changes.count();
        if changed == 0 || staleness.reason.is_some() || changed > self.inner.options.refresh_files {
            return Ok(Current { served, staleness, took, refreshed: Duration::ZERO });
        }
        let (inner, own, old) = (Arc::clone(&self.inner), Arc::clone(repository), Arc::clone(&served));
        let refresh = tokio::task::spawn_blocking(move || inner.refresh(&own, &old));
        let (served, staleness) = match tokio::time::timeout(REFRESH_WAIT, refresh).await {
            Ok(Ok(true)) => self.look(repository).await?,
            _ => (served, staleness),
        };
        Ok(Current { served, staleness, took, refreshed: start.elapsed() - took })
    }

    async fn look(&self, repository: &Arc<Repository>) -> Result<(Arc<Served>, Arc<Staleness>), ServiceError> {
        if let Some(found) = repository.at_hand() {
            return Ok(found);
        }
        let (inner, own) = (Arc::clone(&self.inner), Arc::clone(repository));
        let found = blocking(move || own.look(inner.inference.model(), &inner.repositories.sources)).await??;
        found.ok_or_else(|| self.not_built(repository))
    }

    /// Why a repository can't be asked.
    fn not_built(&self, repository: &Repository) -> ServiceError {
        let id = repository.name.clone();
        if let Some(job) = self.inner.jobs.of_repository(&id) {
            return ServiceError::NotBuilt { id, job: job.view().job };
        }
        let last = repository.job().and_then(|it| self.inner.jobs.get(&it).ok()).and_then(|it| it.view().error);
        let reason = last.map_or_else(|| "the last build was not finished".to_owned(), |it| it.message);
        ServiceError::Failed { id, reason }
    }
}

/// Pictures that wait to be read, or are.
struct Waiting<'w> {
    pictures: usize,
    all: &'w AtomicUsize,
}

impl<'w> Waiting<'w> {
    /// Lets pictures wait, if they are not too many with those that do.
    fn of(pictures: usize, all: &'w AtomicUsize) -> Result<Self, ServiceError> {
        let before = all.fetch_add(pictures, Ordering::Relaxed);
        let waiting = Waiting { pictures, all };
        match before + pictures > MOST_WAITING && before > 0 {
            true => Err(ServiceError::NotReady { what: "many pictures wait to be read" }),
            false => Ok(waiting),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.pictures, Ordering::Relaxed);
    }
}

/// What is asked of it.
struct Current {
    served: Arc<Served>,
    staleness: Arc<Staleness>,
    took: Duration,
    refreshed: Duration,
}

impl Inner {
    fn rank(
        &self,
        served: &Served,
        report: &IssueReport,
        query: Option<&QueryEmbedding>,
        request: &Request,
        stop: Arc<AtomicBool>,
    ) -> Result<Answer, ServiceError> {
        if stop.load(Ordering::Relaxed) {
            return Err(ServiceError::NotReady { what: "nobody waits for the answer" });
        }
        let _span = tracing::info_span!("search").entered();
        let encoder = Queued::new(self.inference.clone(), Class::Request, stop);
        let view = &served.view;
        let corpus = Corpus { candidates: &view.candidates, lexical: &view.lexical, vectors: view.vectors.as_ref() };
        let encoded = query.map(|query| {
            let (encoder, model) = (&encoder, self.inference.model());
            move || Ok::<_, RetrieverError>(Encoded { encoder, model, query })
        });
        let encoded = encoded.as_ref().map(|it| it as &dyn Fn() -> _);
        let localizer = Localizer::new(corpus, &self.store, &self.options.weights);
        Ok(localizer.locate(Question { report, encoded }, request, &|_, _| ())?)
    }
}

fn needs_encoder(request: &Request) -> bool {
    match request.retriever {
        RetrieverKind::Bm25 => false,
        RetrieverKind::Dense => true,
        RetrieverKind::Hybrid => request.rerank > 0,
    }
}

/// Runs what takes time where it keeps no other from its work.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ServiceError> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(ServiceError::internal)
}

impl Answered {
    /// The answer as it is served.
    pub fn located(&self) -> Located<'_> {
        Located {
            files: located::file_hits(&self.answer, self.explain),
            functions: located::function_hits(&self.answer, self.explain),
            query: self.query(),
            index: self.index(),
            timings_ms: self.timings(),
        }
    }

    fn query(&self) -> Query<'_> {
        let asked = self.query.as_ref();
        Query {
            retriever: self.retriever.name(),
            mode: self.mode.name(),
            model: asked.map(|_| self.model.as_str()),
            policy: asked.map(|_| self.policy),
            images: &self.images,
            vce: &self.evidence,
            tokens: asked.map(|it| it.tokens),
            tokens_used: asked.map(|it| it.tokens_used),
            image_tokens: asked.map(|it| it.image_tokens),
            truncated: asked.is_some_and(|it| it.tokens_used < it.tokens),
        }
    }

    fn index(&self) -> Index<'_> {
        let (view, staleness, embedded) = (&self.served.view, &self.staleness, &self.answer.embedded);
        let counts = self.served.manifest().counts;
        Index {
            commit: view.commit(),
            indexed: true,
            stale: staleness.is_stale(),
            stale_reason: staleness.reason.as_deref(),
            changes: (!staleness.changes.is_empty()).then(|| located::Changed::of(&staleness.changes)),
            files: view.lexical.documents(Level::File).len(),
            functions: view.lexical.documents(Level::Function).len(),
            skipped: view.build.skipped.len(),
            notes: view.build.notes.len(),
            windows: Some(counts.windows),
            vectors: Some(counts.vectors),
            compared_candidates: embedded.candidates,
            embedded_windows: embedded.windows,
            cached_windows: embedded.cached,
            failed_windows: embedded.failed,
        }
    }

    fn timings(&self) -> Timings {
        let milliseconds = |time: Duration| time.as_millis() as u64;
        Timings {
            snapshot: milliseconds(self.times.snapshot),
            refresh: milliseconds(self.times.refresh),
            index: 0,
            load: 0,
            evidence: milliseconds(self.times.evidence),
            query: milliseconds(self.times.query),
            lexical: milliseconds(self.answer.lexical_time),
            encoder: milliseconds(self.answer.encoder_time),
            total: milliseconds(self.times.total),
        }
    }

    /// The build that answered.
    pub fn commit(&self) -> Option<&str> {
        self.served.view.commit()
    }

    pub fn is_stale(&self) -> bool {
        self.staleness.is_stale()
    }

    /// Whether the index is what its source is now.
    pub fn staleness(&self) -> &Staleness {
        &self.staleness
    }

    /// Windows of the index, and those of them that have a vector.
    pub fn vectors(&self) -> (usize, usize) {
        let counts = self.served.manifest().counts;
        (counts.windows, counts.vectors)
    }
}
