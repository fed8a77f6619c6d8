//! What waits for the encoder, and how slices are taken from it.
//!
//! Knows nothing of threads.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Class;
use crate::encoder::{Encoder, EncoderError, Input, InputEmbedding, ModelInfo, QueryEmbedding, Window};
use crate::types::IssueReport;

/// What a slice is to take: so long a question waits for what is computed when it comes.
const AIM: Duration = Duration::from_millis(250);
/// Tokens of a slice, before it is known how fast the model is here; and at the least, since fewer cost a large model more time.
const FIRST_TOKENS: usize = 2048;
const LEAST_TOKENS: usize = 512;
const MOST_TOKENS: usize = 32_768;
/// Slices of requests after which indexing that waits has one: under steady requests an index must not stay out of date.
const PATIENCE: usize = 8;
/// Bytes of a text in a token, nearly always more.
const BYTES_IN_TOKEN: usize = 3;
/// Tokens that are split off a text in the time in which one is computed.
const SPLIT_IN_TIME: usize = 32;
/// What the template adds, roughly.
const TEMPLATE_TOKENS: usize = 32;
/// Tokens of a picture that is shown as large as can be.
const PICTURE_TOKENS: usize = 1280;

/// What is to be computed. Costs are tokens, estimated where counting them would be the work itself.
pub(super) enum Units {
    Queries(Vec<Arc<IssueReport>>),
    Inputs(Vec<Input>),
    Windows(Vec<Window>),
}

impl Units {
    pub fn costs(&self, info: &ModelInfo) -> Vec<usize> {
        let text = |bytes: usize| {
            let read = (bytes / BYTES_IN_TOKEN + TEMPLATE_TOKENS).min(info.max_tokens);
            read + bytes / BYTES_IN_TOKEN / SPLIT_IN_TIME
        };
        match self {
            Units::Queries(issues) => issues
                .iter()
                .map(|it| {
                    text(it.title.len() + it.whole_body().len()) + PICTURE_TOKENS * it.images.len().min(info.images)
                })
                .collect(),
            Units::Inputs(inputs) => {
                let bytes =
                    |it: &Input| [&it.text, &it.instruction].into_iter().flatten().map(String::len).sum::<usize>();
                inputs.iter().map(|it| text(bytes(it)) + PICTURE_TOKENS * it.images.len()).collect()
            }
            Units::Windows(windows) => windows.iter().map(|it| it.tokens.len()).collect(),
        }
    }

    /// Whether they can be computed together with others.
    fn is_like(&self, other: &Units) -> bool {
        mem::discriminant(self) == mem::discriminant(other)
    }
}

/// What came of units, in their order.
#[derive(Debug)]
pub(super) enum Results {
    Queries(Vec<Result<QueryEmbedding, EncoderError>>),
    Inputs(Vec<Result<InputEmbedding, EncoderError>>),
    Windows(Vec<Vec<f32>>),
}

impl Results {
    pub fn queries(self) -> Vec<Result<QueryEmbedding, EncoderError>> {
        if let Results::Queries(results) = self { results } else { Vec::new() }
    }

    pub fn inputs(self) -> Vec<Result<InputEmbedding, EncoderError>> {
        if let Results::Inputs(results) = self { results } else { Vec::new() }
    }

    pub fn windows(self) -> Vec<Vec<f32>> {
        if let Results::Windows(results) = self { results } else { Vec::new() }
    }
}

/// Where an answer goes.
pub(super) enum Reply {
    Async(oneshot::Sender<Answer>),
    Blocking(mpsc::Sender<Answer>),
}

pub(super) type Answer = Result<Results, EncoderError>;

/// What one asker waits for.
pub(super) struct Task {
    units: Units,
    costs: Vec<usize>,
    /// How many units are computed.
    done: usize,
    results: Results,
    /// Dies with who waits.
    asker: Weak<()>,
    /// `None` when it is answered.
    reply: Option<Reply>,
    /// Lasts as long as the task has waited for its first slice.
    span: Option<tracing::Span>,
}

impl Task {
    pub fn new(units: Units, costs: Vec<usize>, asker: Weak<()>, reply: Reply) -> Self {
        let results = match &units {
            Units::Queries(_) => Results::Queries(Vec::new()),
            Units::Inputs(_) => Results::Inputs(Vec::new()),
            Units::Windows(_) => Results::Windows(Vec::new()),
        };
        let span = Some(tracing::info_span!("queue"));
        Task { units, costs, done: 0, results, asker, reply: Some(reply), span }
    }

    fn left(&self) -> usize {
        self.costs[self.done..].iter().sum()
    }

    fn answer(&mut self, answer: Answer) {
        // Who is gone needs none.
        match self.reply.take() {
            Some(Reply::Async(reply)) => drop(reply.send(answer)),
            Some(Reply::Blocking(reply)) => drop(reply.send(answer)),
            None => {}
        }
    }
}

/// All that waits.
#[derive(Default)]
pub(super) struct Queues {
    requests: VecDeque<Task>,
    indexing: VecDeque<Task>,
    /// Slices of requests since the last one of indexing.
    passed: usize,
    pub rate: Rate,
    pub is_closed: bool,
}

impl Queues {
    fn of(&mut self, class: Class) -> &mut VecDeque<Task> {
        match class {
            Class::Request => &mut self.requests,
            Class::Indexing => &mut self.indexing,
        }
    }

    pub fn push(&mut self, class: Class, task: Task) {
        self.of(class).push_back(task);
    }

    /// Tokens that wait.
    pub fn waiting(&self, class: Class) -> usize {
        let queue = if class == Class::Request { &self.requests } else { &self.indexing };
        queue.iter().map(Task::left).sum()
    }

    /// Forgets what nobody waits for any more, and says how much that was.
    pub fn remove_abandoned(&mut self) -> usize {
        let before = self.requests.len() + self.indexing.len();
        for queue in [&mut self.requests, &mut self.indexing] {
            queue.retain(|it| it.asker.strong_count() > 0);
        }
        before - self.requests.len() - self.indexing.len()
    }

    /// Tells all that wait that there is no answer.
    pub fn clear(&mut self) {
        for mut task in self.requests.drain(..).chain(self.indexing.drain(..)) {
            task.answer(Err(EncoderError::Stopped));
        }
    }

    /// Takes what is computed next: of the first task, and of those like it, as many units as fit the time of a slice.
    pub fn slice(&mut self) -> Option<Slice> {
        let class = self.next_class();
        let budget = self.rate.tokens();
        let queue = self.of(class);
        let mut parts: Vec<Part> = Vec::new();
        let mut tokens = 0;
        let mut at = 0;
        while at < queue.len() {
            let is_like = parts.first().is_none_or(|it| it.task.units.is_like(&queue[at].units));
            let fits = |tokens: usize, cost: usize| tokens == 0 || tokens + cost <= budget;
            let next = queue[at].costs.get(queue[at].done).copied().unwrap_or(0);
            if !is_like || !fits(tokens, next) {
                at += 1;
                continue;
            }
            let Some(mut task) = queue.remove(at) else { break };
            task.span = None;
            let start = task.done;
            while let Some(&cost) = task.costs.get(task.done).filter(|cost| fits(tokens, **cost)) {
                tokens += cost;
                task.done += 1;
            }
            parts.push(Part { count: task.done - start, start, task });
        }
        (!parts.is_empty()).then_some(Slice { class, parts, tokens })
    }

    fn next_class(&mut self) -> Class {
        let is_due = self.passed >= PATIENCE && !self.indexing.is_empty();
        if self.requests.is_empty() || is_due {
            self.passed = 0;
            Class::Indexing
        } else {
            self.passed += 1;
            Class::Request
        }
    }

    /// What is not finished waits again, behind the others.
    pub fn put_back(&mut self, slice: Slice) {
        let unfinished = slice.parts.into_iter().map(|it| it.task).filter(|it| it.reply.is_some());
        self.of(slice.class).extend(unfinished);
    }
}

/// How fast tokens are computed.
#[derive(Default)]
pub(super) struct Rate {
    /// Tokens in a second, 0 before the first slice.
    mean: f64,
}

impl Rate {
    /// Tokens of the next slice.
    fn tokens(&self) -> usize {
        match self.mean {
            0.0 => FIRST_TOKENS,
            mean => ((mean * AIM.as_secs_f64()) as usize).clamp(LEAST_TOKENS, MOST_TOKENS),
        }
    }

    pub fn took(&mut self, tokens: usize, time: Duration) {
        let now = tokens as f64 / time.as_secs_f64().max(1e-4);
        // What is refused at once says nothing of how fast the others are.
        let now = if self.mean == 0.0 { now } else { now.min(2.0 * self.mean) };
        self.mean = if self.mean == 0.0 { now } else { self.mean * 0.8 + now * 0.2 };
    }

    /// How long so many tokens take, in whole seconds.
    pub fn time_for(&self, tokens: usize) -> Duration {
        let seconds = (tokens as f64 / self.mean.max(1.0)).ceil();
        Duration::from_secs(seconds.clamp(1.0, 60.0) as u64)
    }
}

/// Units of one task in a slice.
struct Part {
    task: Task,
    /// The first of them, and how many.
    start: usize,
    count: usize,
}

/// What is computed together.
pub(super) struct Slice {
    class: Class,
    parts: Vec<Part>,
    tokens: usize,
}

impl Slice {
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    pub fn tasks(&self) -> usize {
        self.parts.len()
    }

    pub fn compute(&mut self, encoder: &dyn Encoder) {
        match self.parts.first().map(|it| &it.task.units) {
            Some(Units::Queries(_)) => self.queries(encoder),
            Some(Units::Inputs(_)) => self.inputs(encoder),
            Some(Units::Windows(_)) => self.windows(encoder),
            None => {}
        }
    }

    fn queries(&mut self, encoder: &dyn Encoder) {
        let of_part = |it: &Part| match &it.task.units {
            Units::Queries(issues) => issues[it.start..][..it.count].to_vec(),
            Units::Inputs(_) | Units::Windows(_) => Vec::new(),
        };
        let issues: Vec<Arc<IssueReport>> = self.parts.iter().flat_map(of_part).collect();
        let found = encoder.queries(&issues.iter().map(|it| &**it).collect::<Vec<_>>());
        let mut found = found.into_iter();
        for Part { task, count, .. } in &mut self.parts {
            if let Results::Queries(results) = &mut task.results {
                results.extend(found.by_ref().take(*count));
            }
        }
    }

    fn inputs(&mut self, encoder: &dyn Encoder) {
        let mut inputs = Vec::new();
        for Part { task, start, count } in &mut self.parts {
            if let Units::Inputs(own) = &mut task.units {
                // They are read once, and their pictures are megabytes.
                inputs.extend(own[*start..][..*count].iter_mut().map(mem::take));
            }
        }
        let mut found = encoder.embed_inputs(&inputs, &|_, _| ()).into_iter();
        for Part { task, count, .. } in &mut self.parts {
            if let Results::Inputs(results) = &mut task.results {
                results.extend(found.by_ref().take(*count));
            }
        }
    }

    fn windows(&mut self, encoder: &dyn Encoder) {
        let all: Vec<&Window> = self.parts.iter().flat_map(Part::windows).collect();
        if let Ok(vectors) = encoder.embed(&all, &|_, _| ()) {
            let mut vectors = vectors.into_iter();
            for part in &mut self.parts {
                let own = vectors.by_ref().take(part.count).collect();
                part.add(own);
            }
            return;
        }
        // The error is one of them all: each task has those of its own windows.
        for part in &mut self.parts {
            match encoder.embed(&part.windows().iter().collect::<Vec<_>>(), &|_, _| ()) {
                Ok(vectors) => part.add(vectors),
                Err(error) => part.task.answer(Err(error)),
            }
        }
    }

    /// Answers all with an error.
    pub fn fail(&mut self, cause: &str) {
        for Part { task, count, .. } in &mut self.parts {
            task.answer(Err(EncoderError::Compute { sequences: *count, cause: cause.to_owned() }));
        }
    }

    /// Answers what is finished.
    pub fn answer(&mut self) {
        for Part { task, .. } in &mut self.parts {
            if task.done == task.costs.len() {
                let results = mem::replace(&mut task.results, Results::Windows(Vec::new()));
                task.answer(Ok(results));
            }
        }
    }
}

impl Part {
    fn windows(&self) -> &[Window] {
        match &self.task.units {
            Units::Windows(windows) => &windows[self.start..][..self.count],
            Units::Queries(_) | Units::Inputs(_) => &[],
        }
    }

    fn add(&mut self, vectors: Vec<Vec<f32>>) {
        if let Results::Windows(results) = &mut self.task.results {
            results.extend(vectors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexing_goes_on_beside_steady_requests() {
        let (asker, (reply, _answers)) = (Arc::new(()), mpsc::channel());
        let mut queues = Queues::default();
        let mut push = |class| {
            let units = Units::Queries(vec![Arc::default()]);
            // Each fills a slice.
            let reply = Reply::Blocking(reply.clone());
            queues.push(class, Task::new(units, vec![MOST_TOKENS], Arc::downgrade(&asker), reply));
        };
        push(Class::Indexing);
        push(Class::Indexing);
        (0..20).for_each(|_| push(Class::Request));
        let order: Vec<Class> = std::iter::from_fn(|| queues.slice()).map(|it| it.class).collect();
        let indexing: Vec<usize> = (0..order.len()).filter(|&at| order[at] == Class::Indexing).collect();
        assert_eq!((order.len(), indexing), (22, vec![8, 17]));
    }
}
