//! What a picture says went wrong: kind, type and message.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::frames::{self, Found, Source};
use super::grammars::Style;
use super::pattern;
use crate::types::ErrorSignal;

/// Characters of a message that are kept.
const LONGEST_MESSAGE: usize = 400;
/// Lines of a message that is broken at the right edge.
const MOST_MESSAGE_LINES: usize = 4;
/// What a test expected stands within so many lines of its failure.
const COMPARED_WITHIN: usize = 12;

/// An error that a line announces.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Head {
    pub kind: Kind,
    pub type_name: Option<String>,
    pub message: Option<String>,
    pub line: usize,
}

/// What kind of error, those that say more of the code first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Exception,
    Panic,
    Sanitizer,
    Assertion,
    CompileError,
    Lint,
    Signal,
    HttpStatus,
    Log,
    Dialog,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exception => "exception",
            Kind::Panic => "panic",
            Kind::Sanitizer => "sanitizer",
            Kind::Assertion => "assertion",
            Kind::CompileError => "compile_error",
            Kind::Lint => "lint",
            Kind::Signal => "signal",
            Kind::HttpStatus => "http_status",
            Kind::Log => "log",
            Kind::Dialog => "dialog",
        }
    }
}

/// A way to announce an error, in groups `t` (type) and `m` (message).
struct Announcement {
    kind: Kind,
    pattern: Regex,
}

/// `TypeError`, with the letters that OCR takes for each other: `ERROR` stands for them in the patterns.
const ERROR: &str =
    r"(?:[Ee][rR]{2}[o0O][rR]|[Ee]xcept[il1I|][o0O]n|Fau[l1I|]t|Fa[il1I|]{2}ure|Interrupt|Vi[o0O][l1I|]ati[o0O]n)s?";

/// The first that fits a line is taken.
const PATTERNS: &[(Kind, &str)] = &[
    (Kind::Panic, r"panicked\s*at\s*'(?P<m>.*)'\s*,"),
    (Kind::Panic, r"panicked\s*at\b"),
    (Kind::Panic, r"^\s*pan[il1I|]c:\s*(?P<m>\S.*)"),
    (Kind::Panic, r"^\s*fatal\s*error:\s*(?P<m>all goroutines .*|stack overflow|concurrent map .*)"),
    (Kind::Sanitizer, r"(?:ERR[O0]R|WARNING):\s*\w+Sanitizer:\s*(?P<t>[\w-]+(?: race)?)(?P<m>.*)"),
    (Kind::Sanitizer, r"\bruntime\s*error:\s*(?P<m>\S.*)"),
    (Kind::Assertion, r"Assertion\s*'(?P<m>[^']+)'?\s*failed"),
    (Kind::Assertion, r"^.{0,40}\b[Aa]ssertion\s*failed[:!]?\s*(?P<m>.*)"),
    (Kind::Assertion, r"^\s*assertion\s*(?P<m>'?\S.*failed.*)"),
    (Kind::Assertion, r"^\s*E\s+(?P<m>assert\s.*)"),
    (Kind::Assertion, r"(?P<m>expect\s*\(.*\)\s*\.\s*(?:not\s*\.\s*)?to\w+\(.*)"),
    (Kind::CompileError, r"\berror\s*\[(?P<t>E\d{4})\]\s*:\s*(?P<m>.*)"),
    (Kind::CompileError, r"(?i:\berror)\s*:?\s*(?P<t>(?:TS|CS|C|LNK|FS|BC|NG|MSB|NETSDK|NU)\d{3,6})\s*:\s*(?P<m>.*)"),
    (Kind::CompileError, r"\w:\d+(?::\d+)?:?\s*(?:fatal\s*)?error\s*:\s*(?P<m>.*)"),
    (
        Kind::CompileError,
        r"(?P<m>M[o0O]du[l1I|]e\s*not\s*found\s*:.*|Cannot find module\s.*|Failed to resolve import\s.*)",
    ),
    (Kind::CompileError, r"(?P<m>undefined reference to\s.*)"),
    (Kind::CompileError, r"^\s*e:\s.*?\.kts?:\s*\(?\d+[,:]\s*\d+\)?:?\s*(?P<m>.*)"),
    (Kind::Exception, r"^\W{1,5}\((?P<t>(?:[A-Z]\w*\.)*[A-Z]\w*ERROR)\)\s*(?P<m>.*)"),
    (Kind::Exception, r"in\s*'[^']+'?\s*:\s*(?P<m>.*)\((?P<t>[A-Z][\w:]+)\)\s*$"),
    (Kind::Exception, r"throwing\s*an\s*instance\s*of\s*'(?P<t>[^']+)"),
    (Kind::Exception, r"uncaught\s*exception\s*'(?P<t>[^']+)'?(?:,\s*reason:\s*'?(?P<m>.*))?"),
    (Kind::Exception, r"--->\s*(?P<t>(?:\w+\.)*[A-Z]\w*ERROR)\s*:\s*(?P<m>\S.*)"),
    (Kind::Exception, r"Unhandled\s*exception\s*[.:]\s*(?P<t>(?:\w+\.)*[A-Z]\w*ERROR)\s*:\s*(?P<m>\S.*)"),
    (Kind::Exception, r"The\s*following\s*(?P<t>\w+)\s*was\s*thrown\b\s*(?P<m>.*)"),
    (
        Kind::Exception,
        r"(?:^|[^\w.\\:$])(?P<t>(?:[A-Za-z_][\w$]*(?:\.|::|\\))*[A-Z][\w$]*ERROR)\s*(?:\[\w+\]|\(0x\w+\))?\s*:\s*(?P<m>\S.*)",
    ),
    (
        Kind::Exception,
        r"^\W*(?:Exception in thread\s*'?.*\s|Unhandled exception[.:]\s*|Caused\s*by:?\s*|Uncaught\s*(?:\(in promise\)\s*)?)?(?P<t>(?:[A-Za-z_][\w$]*(?:\.|::|\\))*[A-Z][\w$]*ERROR|(?:[a-z][\w$]*\.)+[A-Z][\w$]*ERROR)\s*[:.]?\s*$",
    ),
    (Kind::Exception, r"\b[Uu]ncaught\s*(?:\(in\s*promise\))?\s*:?\s*(?P<t>ERROR)\s*:\s*(?P<m>\S.*)"),
    (Kind::Exception, r"\b[Uu]ncaught\s*(?:\(in\s*promise\))?\s*:?\s*(?P<m>\S.*)"),
    (
        Kind::Exception,
        r"^\W{0,4}(?P<t>KeyboardInterrupt|StopIteration|SystemExit|GeneratorExit|TclError)\b:?\s*(?P<m>.*)",
    ),
    (
        Kind::Exception,
        r"^\W*(?P<t>(?:[A-Za-z_][\w$]*(?:\.|::|\\))*[A-Z][\w$]*ERROR)\s*(?:\((?P<m>.*)\)|in\s+[A-Z]\S*#\S+|at\s+/\S*)\s*$",
    ),
    (Kind::Exception, r"\bFullyQualifiedErrorId\s*:\s*(?P<t>[\w.]+)"),
    (Kind::Exception, r"^\W{0,4}(?:Thread \d+:\s*)?Fatal\s*error\s*:\s*(?P<m>\S.*)"),
    (Kind::Exception, r"(?:Fatal|Parse)\s*error\s*:\s*(?P<m>\S.*?)(?:\s+in\s+\S+\s+on\s+line\s.*)?$"),
    (Kind::Exception, r"^\s*(?:PHP\s*)?(?:Warning|Notice|Deprecated)\s*:\s*(?P<m>\S.*)\sin\s+\S+\.php\b"),
    (Kind::Exception, r"^\s*(?:lua\w*|luajit|E5\d+)\s*:\s*\S+?:\d+:\s*(?P<m>.*)"),
    (Kind::Exception, r"^\W*(?:E\s+)?(?P<t>Err[o0]r|Except[i1l]on)\s*:\s*(?P<m>\S.*)"),
    (Kind::Assertion, r"(?P<m>expected:?\s*<.*>\s*but was:?\s*<.*)"),
    (Kind::Assertion, r"^\W*FAIL(?:ED)?\b:?\s+(?P<m>\S.*)"),
    (Kind::Lint, r"^\s*\d+:\d+\s+(?:error|warning)\s+(?P<m>\S.*?)\s+(?P<t>@?[\w-]+(?:/[\w/-]+)?)\s*$"),
    (Kind::Lint, r"\w:\d+(?::\d+)?:\s*(?P<t>[A-Z]{1,4}\d{2,4})\b:?\s*(?P<m>.*)"),
    (Kind::Signal, r"(?P<t>SIG(?:SEGV|ABRT|BUS|ILL|FPE|TRAP|KILL))\b,?\s*(?P<m>.*)"),
    (
        Kind::Signal,
        r"(?P<m>(?:Segmentation\s*fault|double free or corruption|EXC_BAD_ACCESS|(?:malloc|free)\(\): \w|Bus error|core dumped).*)",
    ),
    (Kind::HttpStatus, r"HTTP/\d(?:\.\d)?\s*(?P<t>[45]\d\d)\b\s*(?P<m>.*)"),
    (Kind::HttpStatus, r"\b(?:status(?:\s*code)?(?:\s*of)?|responded with)\s*:?\s*(?P<t>[45]\d\d)\b\s*(?P<m>.*)"),
    (Kind::HttpStatus, r"\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+\S+\s+(?P<t>[45]\d\d)\b\s*(?P<m>.*)"),
    (
        Kind::HttpStatus,
        r"^\W*(?:Error\s*)?(?P<t>40[0-9]|41[0-8]|42[2-9]|431|451|50[0-8])\s*[:|-]?\s*(?P<m>(?:Bad|Unauthorized|Forbidden|Not|Method|Request|Conflict|Gone|Payload|Too|Unprocessable|Internal|Service|Gateway|Page|This)\b.*)",
    ),
    (Kind::Log, r"^(?P<m>.*)\b(?P<t>net::ERR_\w+)"),
    (Kind::Log, r"(?P<m>Access to .* has been blocked by CORS policy.*)"),
    (Kind::Log, r"^\s*make(?:\[\d+\])?:\s*\*\*\*\s*(?P<m>\S.*)"),
    (Kind::Log, r"^\s*(?P<m>Error\s+in\s+.*)"),
    (Kind::Log, r"^\s*npm\s*(?:ERR!|error)\s*(?:code\s*(?P<t>E\w+))?\s*(?P<m>.*)"),
    (
        Kind::Log,
        r"^\W*(?:[\d:.,TZ/ -]+\W*)?(?:\S{0,40}\s)?\W?(?:ERR[O0]R|FATAL|CRITICAL|SEVERE|level=error)\b[\]:|\s-]*(?P<m>\S.*)",
    ),
    (Kind::Log, r"^\W*(?:error|fatal|Error|Fatal)\s*[:!]\s*(?P<m>\S.*)"),
];

static ANNOUNCEMENTS: LazyLock<Vec<Announcement>> = LazyLock::new(|| {
    let compile = |(kind, text): &(Kind, &str)| {
        let pattern = pattern(&text.replace("ERROR)", &format!("{ERROR})")).replace("ERROR|(", &format!("{ERROR}|(")));
        Announcement { kind: *kind, pattern }
    };
    PATTERNS.iter().map(compile).collect()
});

/// Code that handles or raises an error announces none.
static HANDLING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:except|raise|throw|throws|catch|import|class|extends|new|instanceof|rescue|return|assertRaises|isinstance)\b\s*\(?|^\s*(?://|#\s|\*[\s/]|/\*)",
    )
});
/// A dialog's or a page's words for failure.
static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:error|failed|failure|fatal|exception|crash(?:ed)?|cannot|can't|could ?n[o']t|unable to|not responding|has stopped|went wrong|invalid|denied)\b",
    )
});
static SUFFIX: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("{ERROR}$")));
/// What a test expected and what came.
static COMPARED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(?:E\s|[\s>|])*((?i:expected|received|actual|left|right|got|want)\b[\w ]{0,12}:\s*\S.*)")
});
/// What stands between a message and its trace.
static TRACE_TITLE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^\s*(?:stack\s*(?:trace|backtrace|traceback)|traceback|backtrace|goroutine\s|note:)")
});
/// The place that a browser's console shows at the right edge.
static RIGHT_PLACE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\s+[\w.@-]+\.\w+:\d+(?::\d+)?$"));

/// Lines that announce an error, in their order.
pub(super) fn heads(lines: &[Source<'_>]) -> Vec<Head> {
    lines.iter().enumerate().filter_map(|(line, it)| head(it.text, line)).collect()
}

fn head(text: &str, line: usize) -> Option<Head> {
    ANNOUNCEMENTS.iter().find_map(|announcement| {
        let captures = announcement.pattern.captures(text)?;
        if announcement.kind == Kind::Exception && is_handled(text, &captures) {
            return None;
        }
        let group = |name: &str| captures.name(name).map(|it| it.as_str().trim()).filter(|it| !it.is_empty());
        let type_name = group("t").map(corrected);
        let message = group("m").map(str::to_owned);
        let is_assertion =
            announcement.kind == Kind::Exception && type_name.as_ref().is_some_and(|it| it.contains("Assert"));
        let kind = if is_assertion { Kind::Assertion } else { announcement.kind };
        Some(Head { kind, type_name, message, line })
    })
}

fn is_handled(text: &str, captures: &Captures<'_>) -> bool {
    let named = captures.name("t").or_else(|| captures.name("m")).map_or(0, |it| it.start());
    HANDLING.find_iter(&text[..named]).last().is_some_and(|it| {
        it.as_str().starts_with(['/', '#', '*']) || it.end() == named || text[it.end()..named].trim().is_empty()
    })
}

/// A type's name whose ending is spelled right: it is known what it is, `TypeErr0r`.
fn corrected(type_name: &str) -> String {
    let Some(suffix) = SUFFIX.find(type_name) else { return type_name.to_owned() };
    let (stem, read) = type_name.split_at(suffix.start());
    let plain = read.to_lowercase().replace(['0'], "o").replace(['1', '|'], "l");
    let right = ["error", "exception", "fault", "failure", "interrupt", "violation"]
        .into_iter()
        .find(|it| plain.replace('l', "i").starts_with(&it.replace('l', "i")));
    let Some(right) = right else { return type_name.to_owned() };
    let plural = if plain.len() > right.len() { "s" } else { "" };
    let first = if read.starts_with('e') { &right[..1] } else { &right[..1].to_uppercase() };
    format!("{stem}{first}{}{plural}", &right[1..])
}

/// The error that a page shows, if it shows one.
pub(super) fn signal(lines: &[Source<'_>], heads: &[Head], found: &[Found]) -> Option<ErrorSignal> {
    let calls = found.iter().filter(|it| it.style != Style::Place).count();
    let Some(head) = told(lines, heads, found) else {
        // The top of the trace is cut off.
        return (calls > 0).then(|| ErrorSignal {
            kind: Some(Kind::Exception.name().to_owned()),
            stack: frames::stack(found, lines),
            ..Default::default()
        });
    };
    let message = message(lines, head, found);
    Some(ErrorSignal {
        kind: Some(head.kind.name().to_owned()),
        type_name: head.type_name.clone(),
        message: Some(message).filter(|it| !it.is_empty()),
        stack: frames::stack(found, lines),
    })
}

/// The head that tells most: of the strongest kind, the cause of all others, or the first.
fn told<'h>(lines: &[Source<'_>], heads: &'h [Head], found: &[Found]) -> Option<&'h Head> {
    let strongest = heads.iter().map(|it| it.kind).min()?;
    let is_trace = |kind: Kind| matches!(kind, Kind::Exception | Kind::Assertion);
    let strong: Vec<&Head> =
        heads.iter().filter(|it| it.kind == strongest || is_trace(strongest) && is_trace(it.kind)).collect();
    let cause = strong.iter().rev().find(|it| frames::is_cause(lines[it.line].text));
    // Python's last traceback is what ended the program.
    let calls_last = found.iter().rev().find(|it| it.style == Style::CallLast).map_or(usize::MAX, |it| it.lines.end);
    let after = strong.iter().find(|it| it.line >= calls_last);
    cause.or(after).or(strong.iter().find(|it| it.type_name.is_some())).or(strong.first()).copied()
}

/// A head's message with the lines that it goes on in, and for a test what was expected.
fn message(lines: &[Source<'_>], head: &Head, found: &[Found]) -> String {
    let mut message = head.message.clone().unwrap_or_default();
    let is_frame = |line: usize| found.iter().any(|it| it.lines.contains(&line));
    let mut line = head.line;
    while let Some(next) = lines.get(line + 1)
        && line - head.line < MOST_MESSAGE_LINES
        && !is_frame(line + 1)
        && goes_on(&lines[line], next, message.is_empty())
        && self::head(next.text, line + 1).is_none()
    {
        line += 1;
        message = format!("{message} {}", next.text.trim());
    }
    if head.kind == Kind::Assertion {
        let following = lines[line + 1..].iter().take(COMPARED_WITHIN);
        let compared = following.filter_map(|it| COMPARED.captures(it.text.trim())?.get(1));
        compared.for_each(|it| message = format!("{message} {}", it.as_str()));
    }
    RIGHT_PLACE.replace(&message, "").trim().chars().take(LONGEST_MESSAGE).collect()
}

/// Whether a message goes on in the next line. A line that begins with a capital begins something else, unless nothing was said yet.
fn goes_on(line: &Source<'_>, next: &Source<'_>, is_empty: bool) -> bool {
    let is_new = next.text.trim_start().starts_with(char::is_uppercase);
    let may_go_on = is_empty || line.reaches_edge && line.block == next.block && !is_new;
    may_go_on && !TRACE_TITLE.is_match(next.text)
}

/// The failure that a dialog or a page tells of in words, for pages without a head.
pub(super) fn told_in_words(lines: &[Source<'_>]) -> Option<ErrorSignal> {
    let line = lines.iter().position(|it| FAILURE.is_match(it.text))?;
    let text = lines[line].text.trim();
    // A title of a word or two says nothing; what follows does.
    let next = lines.get(line + 1).filter(|_| text.split_whitespace().count() <= 3).map(|it| it.text.trim());
    let message = next.map_or_else(|| text.to_owned(), |next| format!("{text}: {next}"));
    let message = message.chars().take(LONGEST_MESSAGE).collect();
    Some(ErrorSignal { kind: Some(Kind::Dialog.name().to_owned()), message: Some(message), ..Default::default() })
}
