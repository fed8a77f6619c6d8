//! What reading one source, and all sources of a snapshot, may cost: bounds for texts that make a parser run away.
//!
//! Knows nothing of parsers or languages: who works asks before each step whether there is more to spend.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Why functions of a source may be missing although its language has a grammar. The file stays a candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseFailure {
    #[error("the {language} grammar does not work with this build: {message}")]
    Grammar { language: &'static str, message: String },
    #[error("given up after {steps} steps")]
    TooHard { steps: u64 },
    #[error("given up after {seconds} seconds")]
    TooSlow { seconds: u64 },
    #[error("given up because all files together took more than {seconds} seconds")]
    TooSlowInAll { seconds: u64 },
}

/// Bytes of source that pay for a step, and how many steps any source may take. A progress callback (about a hundred
/// operations of the parser) and a piece of text read are one each. Counted first, not timed, so that on all but
/// pathological input the same file gives the same candidates on every machine. Ordinary source takes a step for 50 to
/// 200 bytes; among 10,000 files of 14 languages none took 2,000 steps and one for each 16 bytes.
const BYTES_PER_STEP: u64 = 8;
const STEPS_FLOOR: u64 = 5_000;

/// An operation costs more the more readings of a broken text the parser keeps, up to milliseconds, which no count shows.
/// The clock is the backstop for that: where it cuts in, what is found depends on the machine, and a note says so.
/// Ordinary source takes a second for five megabytes, and for one on a busy machine.
const SECONDS_FLOOR: u64 = 5;
const BYTES_PER_SECOND: u64 = 200_000;

/// The same for all files of a snapshot together, in wall-clock time: thousands of files that each stay within their own
/// bounds could take days.
const SECONDS_FLOOR_IN_ALL: u64 = 60;
const BYTES_PER_SECOND_IN_ALL: u64 = 250_000;

/// Until when the files of a snapshot may be parsed.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    start: Instant,
    seconds: u64,
}

impl Deadline {
    /// For sources of so many bytes in all, counted from now.
    pub fn of(bytes: u64) -> Self {
        Deadline { start: Instant::now(), seconds: SECONDS_FLOOR_IN_ALL + bytes / BYTES_PER_SECOND_IN_ALL }
    }

    fn is_over(&self) -> bool {
        self.start.elapsed().as_secs() >= self.seconds
    }
}

/// What the parses of one file may still cost: those of its texts as they are, and those that look for more around
/// errors. A file of many texts (cells, scripts) has one of these, too.
pub(super) struct Budget {
    pub(super) first: Purse,
    pub(super) around_errors: Purse,
}

impl Budget {
    /// For a source of so many bytes.
    pub(super) fn new(bytes: usize, deadline: Deadline) -> Self {
        Budget { first: Purse::new(bytes, deadline), around_errors: Purse::new(bytes, deadline) }
    }
}

/// Steps and seconds that may still be spent. The seconds count only while something is [`Purse::timed`].
pub(super) struct Purse {
    steps: u64,
    left: Cell<u64>,
    seconds: u64,
    /// Spent before the work that is under way.
    spent: Cell<Duration>,
    start: Cell<Option<Instant>>,
    deadline: Deadline,
}

impl Purse {
    fn new(bytes: usize, deadline: Deadline) -> Self {
        let steps = bytes as u64 / BYTES_PER_STEP + STEPS_FLOOR;
        let seconds = SECONDS_FLOOR + bytes as u64 / BYTES_PER_SECOND;
        let (left, spent, start) = (Cell::new(steps), Cell::default(), Cell::default());
        Purse { steps, left, seconds, spent, start, deadline }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left.get() == 0 || self.elapsed().as_secs() >= self.seconds || self.deadline.is_over()
    }

    fn elapsed(&self) -> Duration {
        self.spent.get() + self.start.get().map_or(Duration::ZERO, |it| it.elapsed())
    }

    /// Does some work whose time counts.
    pub(super) fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        self.start.set(Some(Instant::now()));
        let result = work();
        self.spent.set(self.elapsed());
        self.start.set(None);
        result
    }

    pub(super) fn step(&self) -> ControlFlow<()> {
        self.left.set(self.left.get().saturating_sub(1));
        if self.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// What ran out.
    pub(super) fn failure(&self) -> ParseFailure {
        if self.left.get() == 0 {
            ParseFailure::TooHard { steps: self.steps }
        } else if self.deadline.is_over() {
            ParseFailure::TooSlowInAll { seconds: self.deadline.seconds }
        } else {
            ParseFailure::TooSlow { seconds: self.seconds }
        }
    }
}

/// What is known to be missing of a source's functions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    pub(super) first: Option<ParseFailure>,
    pub(super) around_errors: Option<ParseFailure>,
    /// Functions nested too deep or with names too long.
    pub(super) left_out: usize,
}

impl Losses {
    /// Those of a file that has these and others.
    pub(super) fn and(self, other: Losses) -> Self {
        Losses {
            first: self.first.or(other.first),
            around_errors: self.around_errors.or(other.around_errors),
            left_out: self.left_out + other.left_out,
        }
    }

    /// In one line; `None` when there are none.
    pub(super) fn note(&self) -> Option<String> {
        let first = self.first.as_ref().map(|it| match it {
            ParseFailure::Grammar { .. } => it.to_string(),
            _ => format!("parsing was {it}, so functions of this file may be missing"),
        });
        // That the first reading failed says it already.
        let around = self.around_errors.as_ref().filter(|_| first.is_none());
        let around = around.map(|it| format!("reading around an error was {it}, so functions near it may be missing"));
        let left_out = (self.left_out > 0)
            .then(|| format!("{} functions nested too deep or with names too long are left out", self.left_out));
        let parts: Vec<String> = first.into_iter().chain(around).chain(left_out).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        first: Option<ParseFailure>,
        around_errors: Option<ParseFailure>,
        left_out: usize,
        expected: Option<&str>,
    ) {
        assert_eq!(Losses { first, around_errors, left_out }.note().as_deref(), expected);
    }

    #[test]
    fn losses_are_told_in_one_line() {
        let (hard, slow) = (ParseFailure::TooHard { steps: 7 }, ParseFailure::TooSlow { seconds: 3 });
        check(None, None, 0, None);
        check(None, None, 2, Some("2 functions nested too deep or with names too long are left out"));
        check(
            Some(hard.clone()),
            Some(slow.clone()),
            0,
            Some("parsing was given up after 7 steps, so functions of this file may be missing"),
        );
        let around = "reading around an error was given up after 3 seconds, so functions near it may be missing";
        check(None, Some(slow), 0, Some(around));
        let broken = ParseFailure::Grammar { language: "C", message: "x".to_owned() };
        check(Some(broken), None, 0, Some("the C grammar does not work with this build: x"));
    }

    #[test]
    fn steps_are_what_bytes_pay_for() {
        let purse = Purse::new(8_000, Deadline::of(0));
        let taken = (0..10_000).take_while(|_| purse.step().is_continue()).count();
        assert_eq!(taken, 5_999);
        assert_eq!(purse.failure(), ParseFailure::TooHard { steps: 6_000 });
    }

    #[test]
    fn nothing_is_left_after_the_deadline() {
        let deadline = Deadline { start: Instant::now(), seconds: 0 };
        let purse = Purse::new(8_000, deadline);
        assert!(purse.is_spent());
        assert_eq!(purse.failure(), ParseFailure::TooSlowInAll { seconds: 0 });
    }

    #[test]
    fn only_time_at_work_counts() {
        let purse = Purse::new(0, Deadline::of(0));
        purse.timed(|| std::thread::sleep(Duration::from_millis(20)));
        let spent = purse.elapsed();
        assert!(spent >= Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(purse.elapsed(), spent);
    }
}
