//! Slices: who goes first, what is computed together, and what is not computed at all.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use super::*;
use crate::encoder::{Input, Progress, Window};

/// Notes what it is given together, and waits until it may.
struct Recorder {
    info: ModelInfo,
    calls: Arc<Mutex<Vec<String>>>,
    /// A token for each call that may go on.
    permits: Mutex<mpsc::Receiver<()>>,
}

impl Recorder {
    fn call(&self, what: String) {
        lock(&self.calls).push(what);
        let _ = self.permits.lock().map(|it| it.recv());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Encoder for Recorder {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn fingerprint(&self) -> &str {
        "recorder"
    }

    fn windows(&self, _: &str, _: &str) -> Result<Vec<Window>, EncoderError> {
        Ok(Vec::new())
    }

    fn embed(&self, windows: &[&Window], _: &Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        let first: Vec<String> = windows.iter().map(|it| it.tokens[0].to_string()).collect();
        self.call(format!("windows {}", first.join(" ")));
        // A window of zeros is one that can't be embedded.
        match windows.iter().any(|it| it.tokens[0] == 0) {
            true => Err(EncoderError::Compute { sequences: windows.len(), cause: "it is meant to".to_owned() }),
            false => Ok(windows.iter().map(|it| vec![it.tokens[0] as f32]).collect()),
        }
    }

    fn query(&self, issue: &IssueReport) -> Result<QueryEmbedding, EncoderError> {
        Ok(QueryEmbedding { vector: vec![issue.title.len() as f32], ..QueryEmbedding::default() })
    }

    fn queries(&self, issues: &[&IssueReport]) -> Vec<Result<QueryEmbedding, EncoderError>> {
        let titles: Vec<&str> = issues.iter().map(|it| it.title.as_str()).collect();
        self.call(format!("queries {}", titles.join(" ")));
        issues.iter().map(|it| self.query(it)).collect()
    }

    fn embed_inputs(&self, inputs: &[Input], _: &Progress) -> Vec<Result<InputEmbedding, EncoderError>> {
        let texts: Vec<&str> = inputs.iter().filter_map(|it| it.text.as_deref()).collect();
        self.call(format!("inputs {}", texts.iter().map(|it| &it[..1]).collect::<Vec<_>>().join(" ")));
        assert!(!texts.contains(&"panic"), "it is meant to");
        let of = |it: &&str| {
            let (vector, tokens) = (vec![it.len() as f32], it.len());
            Ok(InputEmbedding { vector, tokens, image_tokens: 0, truncated_from: None })
        };
        texts.iter().map(of).collect()
    }

    fn decode(&self, _: &[u32]) -> Result<String, EncoderError> {
        Ok(String::new())
    }
}

struct Rig {
    inference: Inference,
    calls: Arc<Mutex<Vec<String>>>,
    permits: mpsc::Sender<()>,
}

impl Rig {
    fn new(most_waiting: usize) -> Self {
        let (permits, receiver) = mpsc::channel();
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let info = ModelInfo::of_text("recorder", 1, 100_000);
        let recorder = Recorder { info, calls: Arc::clone(&calls), permits: Mutex::new(receiver) };
        let inference =
            Inference::start(Box::new(recorder), most_waiting, Meters::default()).expect("a thread to compute on");
        Rig { inference, calls, permits }
    }

    /// Puts units into the queue.
    fn ask(&self, class: Class, units: Units) -> (Arc<()>, oneshot::Receiver<queue::Answer>) {
        let (reply, answer) = oneshot::channel();
        (self.inference.submit(class, units, Reply::Async(reply)).expect("room"), answer)
    }

    /// A task that the thread is computing from here on, until it gets a permit.
    fn busy(&self) -> (Arc<()>, oneshot::Receiver<queue::Answer>) {
        let asked = self.ask(Class::Request, inputs(&["busy"]));
        while self.calls().is_empty() {
            thread::yield_now();
        }
        asked
    }

    fn go(&self, calls: usize) {
        for _ in 0..calls {
            let _ = self.permits.send(());
        }
    }

    fn calls(&self) -> Vec<String> {
        lock(&self.calls).clone()
    }
}

fn inputs(texts: &[&str]) -> Units {
    let input = |text: &&str| Input { text: Some((*text).to_owned()), ..Input::default() };
    Units::Inputs(texts.iter().map(input).collect())
}

fn windows(first: &[u32]) -> Units {
    let window = |first: &u32| Window { tokens: vec![*first; 600], body: 0..0, header_shortened: false };
    Units::Windows(first.iter().map(window).collect())
}

fn query(title: &str) -> Units {
    Units::Queries(vec![Arc::new(IssueReport { title: title.to_owned(), ..IssueReport::default() })])
}

#[test]
fn questions_go_before_indexing_and_those_that_wait_are_computed_together() {
    let rig = Rig::new(1 << 20);
    let busy = rig.busy();
    let indexing = rig.ask(Class::Indexing, windows(&[1, 2, 3, 4, 5, 6]));
    let questions: Vec<_> = ["a", "b", "c"].iter().map(|it| rig.ask(Class::Request, query(it))).collect();
    let other = rig.ask(Class::Request, inputs(&["x"]));
    rig.go(9);
    let vectors = indexing.1.blocking_recv().expect("an answer").expect("vectors").windows();
    assert_eq!(vectors, [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]);
    for (_, question) in questions {
        let found = question.blocking_recv().expect("an answer").expect("a vector").queries().remove(0);
        assert_eq!(found.expect("a vector").vector, [1.0]);
    }
    assert!(other.1.blocking_recv().expect("an answer").is_ok() && busy.1.blocking_recv().is_ok());
    let calls = rig.calls();
    assert_eq!(calls[..3], ["inputs b", "queries a b c", "inputs x"]);
    assert!(calls[3..].iter().all(|it| it.starts_with("windows")), "{calls:?}");
}

#[test]
fn a_long_task_is_cut_into_slices_between_which_others_go() {
    let rig = Rig::new(1 << 20);
    let texts: Vec<String> = (0..8).map(|it| format!("{it}{}", "y".repeat(5000))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let long = rig.ask(Class::Request, inputs(&texts));
    while rig.calls().is_empty() {
        thread::yield_now();
    }
    let question = rig.ask(Class::Request, query("now"));
    rig.go(20);
    assert!(question.1.blocking_recv().expect("an answer").is_ok());
    let found = long.1.blocking_recv().expect("an answer").expect("vectors").inputs();
    assert!(found.iter().all(|it| it.as_ref().is_ok_and(|it| it.tokens == 5001)) && found.len() == 8);
    let calls = rig.calls();
    assert_eq!(calls[1], "queries now", "{calls:?}");
    let order: Vec<char> = calls.iter().flat_map(|it| it.chars()).filter(char::is_ascii_digit).collect();
    assert_eq!(order, ['0', '1', '2', '3', '4', '5', '6', '7']);
}

#[test]
fn what_nobody_waits_for_is_not_computed() {
    let rig = Rig::new(1 << 20);
    let busy = rig.busy();
    let gone = rig.ask(Class::Request, inputs(&["gone"]));
    let stays = rig.ask(Class::Request, inputs(&["stays"]));
    drop(gone);
    rig.go(9);
    assert!(stays.1.blocking_recv().expect("an answer").is_ok() && busy.1.blocking_recv().is_ok());
    assert_eq!(rig.calls(), ["inputs b", "inputs s"]);
    assert_eq!(rig.inference.shared.meters.abandoned.get(), 1);
}

#[test]
fn as_many_tokens_wait_as_may_and_no_more() {
    let rig = Rig::new(100);
    let _busy = rig.busy();
    let _waits = rig.ask(Class::Request, inputs(&["a"]));
    let ask = |units, class| {
        let (reply, _answer) = oneshot::channel();
        rig.inference.submit(class, units, Reply::Async(reply)).err()
    };
    let long = "z".repeat(3000);
    let Some(InferenceError::Full { waiting, retry_after }) = ask(inputs(&[&long]), Class::Request) else {
        panic!("it was let in");
    };
    assert!(waiting > 0 && waiting <= 100 && retry_after >= Duration::from_secs(1), "{waiting} {retry_after:?}");
    // What a question that was let in needs, and what nobody waits for, is not from outside.
    assert!(ask(windows(&[1]), Class::Request).is_none() && ask(windows(&[1]), Class::Indexing).is_none());
    rig.go(9);
}

#[test]
fn an_error_and_a_panic_are_those_of_their_tasks() {
    let rig = Rig::new(1 << 20);
    let busy = rig.busy();
    let bad = rig.ask(Class::Indexing, windows(&[0]));
    let good = rig.ask(Class::Indexing, windows(&[7]));
    rig.go(9);
    assert!(matches!(bad.1.blocking_recv(), Ok(Err(EncoderError::Compute { .. }))));
    assert_eq!(good.1.blocking_recv().expect("an answer").expect("a vector").windows(), [[7.0]]);
    assert!(busy.1.blocking_recv().is_ok());
    let panics = rig.ask(Class::Request, inputs(&["panic"]));
    assert!(matches!(panics.1.blocking_recv(), Ok(Err(EncoderError::Compute { .. }))));
    let next = rig.ask(Class::Request, inputs(&["next"]));
    assert!(next.1.blocking_recv().expect("the thread lives").is_ok());
}

#[test]
fn who_waits_when_it_ends_is_told() {
    let rig = Rig::new(1 << 20);
    let _busy = rig.busy();
    let waits = rig.ask(Class::Request, inputs(&["a"]));
    let unwanted = Arc::new(AtomicBool::new(true));
    let queued = Queued::new(rig.inference.clone(), Class::Request, unwanted);
    let window = Window { tokens: vec![1], body: 0..0, header_shortened: false };
    assert!(matches!(queued.embed(&[&window], &|_, _| ()), Err(EncoderError::Stopped)));
    rig.inference.shared.close();
    assert!(matches!(waits.1.blocking_recv(), Ok(Err(EncoderError::Stopped))));
    let wanted = Queued::new(rig.inference.clone(), Class::Request, Arc::default());
    assert!(matches!(wanted.embed(&[&window], &|_, _| ()), Err(EncoderError::Stopped)));
    rig.go(9);
}
