//! Functions of a source text, by tree-sitter.
//!
//! A language's query marks definitions with these captures; one match describes one definition:
//!
//! * `@function`, `@container`: the definition; a container (a class, a trait) lends its name to what it encloses.
//!   A function encloses too: a nested function is `outer.inner`.
//! * `@name`: the node that holds the name, possibly written with separators (`A::b`); several are read as one name.
//! * `@lead`: a node at which the span begins although it stands before the definition (a signature of its own).
//! * `@receiver`: a type that is written outside the name but belongs before it (Go).
//! * `@selector`: one of the pieces of a method's selector (Objective-C).
//! * `(#set! name "init")`: a name that stands nowhere in the text; `(#set! name.container "")`: the enclosing
//!   container's own name (constructors).
//!
//! Several matches with the same `@name` node are one definition: the widest span wins, then the longest name.
//! Tree-sitter builds and frees its trees without recursion and so does everything here: depth costs no stack.
//! Knows nothing of how a language is written; that is in the rows of `language` and in the queries.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::time::Instant;

use tree_sitter::{Node, ParseOptions, Parser, Query, QueryCursor, QueryCursorOptions, StreamingIterator, Tree};

use super::language::{Functions, Grammar, Language};
use super::{notebook, scripts};
use crate::types::Source;

/// A function or method as it stands in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Qualified name: `name`, `Class.name`, `Outer.Inner.name`.
    pub name: String,
    /// Byte range of the definition, decorators and attributes included.
    pub range: Range<usize>,
}

/// A source with the functions that were found in it.
#[derive(Debug)]
pub struct Extracted {
    pub source: Source,
    /// In the order of their positions in `source.content`.
    pub functions: Vec<Function>,
    /// Why the functions are missing or incomplete, when they are.
    pub note: Option<String>,
}

/// Why a source has no function candidates although its language has a grammar. The file stays a candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseFailure {
    #[error("the {language} grammar does not work with this build: {message}")]
    Grammar { language: &'static str, message: String },
    #[error("parsing was given up after {steps} steps, so this file has no function candidates")]
    TooHard { steps: u64 },
    #[error("parsing was given up after {seconds} seconds, so this file has no function candidates")]
    TooSlow { seconds: u64 },
}

/// What a parse may cost, in steps: a progress callback (about every hundred operations of the parser) and a piece of
/// text read are one each. Counted first, not timed: the same file gives the same candidates on every machine. Among
/// 10,000 ordinary files of 14 languages none took 2,000 steps and one for each 16 bytes.
const BYTES_PER_STEP: u64 = 8;
const STEPS_FLOOR: u64 = 5_000;

/// An operation costs more the more readings of a broken text the parser keeps, up to milliseconds, which no count shows.
/// Ordinary source takes a second for each megabyte or less, even on a busy machine.
const SECONDS_FLOOR: u64 = 5;
const BYTES_PER_SECOND: u64 = 100_000;

/// Bytes of the text that the parser gets at a time; each time counts as a step.
const READ_AT_ONCE: usize = 4096;

/// Definitions nested deeper than this are left out: every level repeats the names around it, so a hostile nest of
/// functions would cost the square of its size. Written code stays under ten.
const MAX_NESTING: usize = 32;

/// Reads a decoded source (`\n` line ends, no byte order mark) as its language says. Never fails: what goes wrong costs
/// functions and is told in the note.
pub fn extract(path: &str, language: &'static Language, content: String) -> Extracted {
    let whole = |content: String| Source::new(path, language.name, content);
    match &language.functions {
        Functions::None => Extracted { source: whole(content), functions: Vec::new(), note: None },
        Functions::Grammar(grammar) => {
            let (functions, note) = noted(functions(language.name, grammar, &content));
            Extracted { source: whole(content), functions, note }
        }
        Functions::Scripts => {
            let (functions, note) = noted(scripts::functions(&content));
            Extracted { source: whole(content), functions, note }
        }
        Functions::Notebook => notebook::extract(path, language.name, content),
    }
}

fn noted(result: Result<Vec<Function>, ParseFailure>) -> (Vec<Function>, Option<String>) {
    match result {
        Ok(functions) => (functions, None),
        Err(failure) => (Vec::new(), Some(failure.to_string())),
    }
}

/// The functions of `text`, in the order of their positions.
pub fn functions(language: &'static str, grammar: &Grammar, text: &str) -> Result<Vec<Function>, ParseFailure> {
    let broken = |message: String| ParseFailure::Grammar { language, message };
    let mut parser = Parser::new();
    parser.set_language(&grammar.language()).map_err(|error| broken(error.to_string()))?;
    let query = grammar.query().map_err(|error| broken(error.to_string()))?;
    let mut reader = Reader { grammar, query, parser, text, budget: Budget::new(text.len()) };

    let first = reader.read(&readable(grammar, text))?;
    let definitions = match grammar.rescue.filter(|_| first.broken > 0).and_then(|rescue| rescue(text)) {
        Some(clearer) => first.merged(reader.read(&clearer)?),
        None => first.definitions,
    };
    Ok(qualified(grammar, definitions.found))
}

/// The text as the parser is to see it, every byte in its place.
fn readable<'a>(grammar: &Grammar, text: &'a str) -> Cow<'a, str> {
    let prepared = grammar.prepare.and_then(|prepare| prepare(text)).map_or(Cow::Borrowed(text), Cow::Owned);
    // The generated lexers take a zero byte for the end of the text.
    if prepared.contains('\0') { Cow::Owned(prepared.replace('\0', " ")) } else { prepared }
}

/// What parsing and querying may still cost.
struct Budget {
    steps: u64,
    left: Cell<u64>,
    seconds: u64,
    start: Instant,
}

impl Budget {
    fn new(bytes: usize) -> Self {
        let steps = (bytes as u64 / BYTES_PER_STEP).max(STEPS_FLOOR);
        let seconds = SECONDS_FLOOR + bytes as u64 / BYTES_PER_SECOND;
        Budget { steps, left: Cell::new(steps), seconds, start: Instant::now() }
    }

    fn spent(&self) -> bool {
        self.left.get() == 0 || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.start.elapsed().as_secs() >= self.seconds
    }

    fn step(&self) -> ControlFlow<()> {
        self.left.set(self.left.get().saturating_sub(1));
        if self.spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn failure(&self) -> ParseFailure {
        match self.left.get() {
            0 => ParseFailure::TooHard { steps: self.steps },
            _ => ParseFailure::TooSlow { seconds: self.seconds },
        }
    }
}

/// What is needed to read a text, once or twice.
struct Reader<'a> {
    grammar: &'a Grammar,
    query: &'a Query,
    parser: Parser,
    /// The text as it is written: names are taken from here.
    text: &'a str,
    budget: Budget,
}

/// What one parse of a text gave.
struct Reading {
    definitions: Definitions,
    /// Bytes that the grammar could make no sense of.
    broken: usize,
}

impl Reading {
    /// The definitions of two readings of the same text: those of the better one, and the other's further functions.
    fn merged(self, other: Reading) -> Definitions {
        let (mut better, worse) =
            if other.broken < self.broken { (other.definitions, self) } else { (self.definitions, other) };
        for (key, at) in worse.definitions.by_name {
            let definition = &worse.definitions.found[at];
            if definition.is_function && !better.by_name.contains_key(&key) {
                better.add(key, definition.clone());
            }
        }
        better
    }
}

impl Reader<'_> {
    fn read(&mut self, parsed_text: &str) -> Result<Reading, ParseFailure> {
        let tree = self.parse(parsed_text).ok_or(self.budget.failure())?;
        Ok(Reading { definitions: self.definitions(&tree)?, broken: broken_bytes(&tree) })
    }

    fn parse(&mut self, text: &str) -> Option<Tree> {
        let budget = &self.budget;
        let mut progress = |_: &tree_sitter::ParseState| budget.step();
        // A grammar's own scanner may look for the end of a comment from every byte that is skipped after an error, to
        // the end of the text: what is read counts too, and the text ends early for who has read too much. A piece never
        // ends within a character: the lexer would ask for the rest, and reads on even when it gets nothing.
        let mut chunk = |offset: usize, _: tree_sitter::Point| match budget.step() {
            ControlFlow::Break(()) => &[],
            ControlFlow::Continue(()) => {
                let end = text.floor_char_boundary(offset.saturating_add(READ_AT_ONCE));
                text.as_bytes().get(offset..end).unwrap_or_default()
            }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let tree = self.parser.parse_with_options(&mut chunk, None, Some(options)).filter(|_| !budget.spent());
        // A parse that was given up would be continued by the next one.
        self.parser.reset();
        tree
    }

    fn definitions(&mut self, tree: &Tree) -> Result<Definitions, ParseFailure> {
        let mut definitions = Definitions::default();
        let mut cursor = QueryCursor::new();
        let mut gave_up = false;
        let mut progress = |_: &tree_sitter::QueryCursorState| {
            let flow = self.budget.step();
            gave_up |= flow.is_break();
            flow
        };
        let options = QueryCursorOptions::new().progress_callback(&mut progress);
        let mut matches = cursor.matches_with_options(self.query, tree.root_node(), self.text.as_bytes(), options);
        while let Some(found) = matches.next() {
            if let Some((key, definition)) = definition(self.grammar, self.query, found, self.text) {
                definitions.add(key, definition);
            }
        }
        drop(matches);
        if gave_up { Err(self.budget.failure()) } else { Ok(definitions) }
    }
}

/// A definition before it knows what encloses it.
#[derive(Clone)]
struct Definition {
    /// Components of its own name, receiver first; `None`: named as the enclosing container.
    parts: Option<Vec<String>>,
    range: Range<usize>,
    is_function: bool,
}

impl Definition {
    /// Of two matches for one definition, the one with more of it.
    fn weight(&self) -> (usize, usize) {
        (self.range.len(), self.parts.as_ref().map_or(0, Vec::len))
    }
}

/// Definitions by the byte at which their names stand.
#[derive(Default)]
struct Definitions {
    found: Vec<Definition>,
    by_name: HashMap<usize, usize>,
}

impl Definitions {
    fn add(&mut self, key: usize, definition: Definition) {
        let at = *self.by_name.entry(key).or_insert(self.found.len());
        match self.found.get_mut(at) {
            None => self.found.push(definition),
            Some(earlier) if definition.weight() > earlier.weight() => *earlier = definition,
            Some(_) => {}
        }
    }
}

/// The definition that a match describes, with the byte at which its name stands.
fn definition(
    grammar: &Grammar,
    query: &Query,
    found: &tree_sitter::QueryMatch,
    text: &str,
) -> Option<(usize, Definition)> {
    let (mut node, mut is_function, mut selector) = (None, false, false);
    let (mut names, mut receiver, mut lead) = (Vec::new(), None, None);
    for capture in found.captures {
        match query.capture_names()[capture.index as usize] {
            "function" => (node, is_function) = (Some(capture.node), true),
            "container" => node = Some(capture.node),
            "name" => names.push(capture.node),
            "receiver" => receiver = Some(capture.node),
            "selector" => selector = true,
            "lead" => lead = Some(capture.node.start_byte()),
            _ => {}
        }
    }
    let node = node?;
    let setting = |key: &str| query.property_settings(found.pattern_index).iter().find(|it| &*it.key == key);
    let parts = if setting("name.container").is_some() {
        None
    } else if let Some(fixed) = setting("name").and_then(|it| it.value.as_deref()) {
        Some(vec![fixed.to_owned()])
    } else if selector {
        Some(vec![selector_of(node, text)])
    } else {
        let written: Vec<&str> = names.iter().map(|it| &text[it.byte_range()]).collect();
        let receiver = receiver.into_iter().flat_map(|it| components(grammar, &text[it.byte_range()]));
        let parts: Vec<String> = receiver.chain(components(grammar, &written.join(" "))).collect();
        (!parts.is_empty()).then_some(parts).map(Some)?
    };
    let key = names.first().unwrap_or(&node).start_byte();
    let range = extended(grammar, node);
    // Grammars of indented languages end a block where the next statement begins.
    let end = range.start + text[range.clone()].trim_end().len();
    Some((key, Definition { parts, range: lead.unwrap_or(range.start)..end, is_function }))
}

/// The selector of an Objective-C method: its identifiers, with a colon for each parameter.
fn selector_of(method: Node, text: &str) -> String {
    let mut selector = String::new();
    for child in method.children(&mut method.walk()) {
        match child.kind() {
            "identifier" => selector.push_str(&text[child.byte_range()]),
            "method_parameter" => selector.push(':'),
            _ => {}
        }
    }
    selector
}

/// The range of a definition with its wrappers and what leads it.
fn extended(grammar: &Grammar, mut node: Node) -> Range<usize> {
    if !grammar.wrappers.is_empty() {
        while let Some(parent) = node.parent().filter(|parent| grammar.wrappers.contains(&parent.kind())) {
            node = parent;
        }
    }
    let end = node.end_byte();
    if !grammar.leading.is_empty() {
        while let Some(before) = node.prev_sibling().filter(|it| grammar.leading.contains(&it.kind())) {
            node = before;
        }
    }
    node.start_byte()..end
}

/// The components of a name as it is written: separators taken apart, type arguments, quotes and white space removed.
fn components(grammar: &Grammar, written: &str) -> Vec<String> {
    let (qualifier, operator) = if grammar.exact_names { (written, None) } else { split_operator(written) };
    let mut plain = match grammar.exact_names {
        true => qualifier.trim().trim_matches('`').to_owned(),
        false => without_type_arguments(qualifier),
    };
    for separator in grammar.separators {
        plain = plain.replace(separator, "\0");
    }
    let parts = plain.split('\0').filter(|part| !part.is_empty()).map(str::to_owned);
    parts.chain(operator).collect()
}

/// Parts a C++ or C# operator from what stands before it: `A<T>::operator bool() const` is `A<T>::` and `operator bool`.
fn split_operator(written: &str) -> (&str, Option<String>) {
    const KEYWORD: &str = "operator";
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let at = written.rfind(KEYWORD).filter(|&at| {
        let symbol = &written[at + KEYWORD.len()..];
        !symbol.trim_start().is_empty() && !symbol.starts_with(is_word) && !written[..at].ends_with(is_word)
    });
    let Some(at) = at else { return (written, None) };
    let symbol = written[at + KEYWORD.len()..].trim();
    let symbol = if symbol.starts_with('(') { "()" } else { symbol.split('(').next().unwrap_or_default() };
    let squeezed: String = symbol.split_whitespace().collect();
    let space = if squeezed.starts_with(is_word) { " " } else { "" };
    (&written[..at], Some(format!("{KEYWORD}{space}{squeezed}")))
}

fn without_type_arguments(written: &str) -> String {
    let mut plain = String::with_capacity(written.len());
    let mut depth = 0usize;
    for character in written.chars() {
        match character {
            // After anything but a word it is an operator's own name (`<=>`).
            '<' if depth > 0 || plain.ends_with(|it: char| it.is_alphanumeric() || it == '_') => depth += 1,
            '>' if depth > 0 => depth -= 1,
            '"' | '\'' | '`' => {}
            _ if depth > 0 || character.is_whitespace() => {}
            _ => plain.push(character),
        }
    }
    plain
}

/// Bytes in error nodes; a token that the parser had to make up counts as one.
fn broken_bytes(tree: &Tree) -> usize {
    let mut cursor = tree.walk();
    let mut broken = 0;
    loop {
        let node = cursor.node();
        if node.is_error() || node.is_missing() {
            broken += node.byte_range().len().max(1);
        } else if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return broken;
            }
        }
    }
}

/// A definition that the next ones may stand in.
struct Enclosing {
    end: usize,
    path: Vec<String>,
    is_function: bool,
    /// Index of the last function directly inside, whose next clause may follow.
    last: Option<usize>,
}

/// Names definitions by what encloses them and keeps the functions.
fn qualified(grammar: &Grammar, mut definitions: Vec<Definition>) -> Vec<Function> {
    definitions.sort_by_key(|it| (it.range.start, std::cmp::Reverse(it.range.end)));
    let mut enclosing = vec![Enclosing { end: usize::MAX, path: Vec::new(), is_function: false, last: None }];
    let mut functions: Vec<Function> = Vec::new();
    for Definition { parts, range, is_function } in definitions {
        while enclosing.last().is_some_and(|it| it.end < range.end) {
            enclosing.pop();
        }
        if enclosing.len() > MAX_NESTING {
            continue;
        }
        let nests = |it: &&mut Enclosing| grammar.nested_functions || !(is_function && it.is_function);
        let Some(outer) = enclosing.iter_mut().rev().find(nests) else { continue };
        let Some(own) = parts.or_else(|| outer.path.last().map(|name| vec![name.clone()])) else { continue };
        let path: Vec<String> = outer.path.iter().cloned().chain(own).collect();
        let name = path.join(".");
        let earlier = outer.last.filter(|&last| grammar.joins_clauses && functions[last].name == name);
        if let Some(earlier) = earlier {
            functions[earlier].range.end = range.end;
        } else if is_function {
            outer.last = Some(functions.len());
            functions.push(Function { name, range: range.clone() });
        }
        enclosing.push(Enclosing { end: range.end, path, is_function, last: None });
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::super::language;
    use super::*;

    #[track_caller]
    fn check_given_up(language: &str, text: String) {
        let language = language::by_name(language).expect("a row of the table");
        let extracted = extract("hostile", language, text);
        let note = extracted.note.expect("the parse is given up");
        assert!(note.contains("given up"), "{}: {note}", language.name);
        assert_eq!(extracted.functions, []);
    }

    #[test]
    fn a_scanner_that_reads_to_the_end_from_every_byte_is_stopped() {
        check_given_up("Lua", "/".repeat(60_000));
        check_given_up("Scala", "日本'${case日本".repeat(4_000));
        check_given_up("Dart", "日本".repeat(20_000));
        check_given_up("R", "/*\\--".repeat(4_000));
    }
}
