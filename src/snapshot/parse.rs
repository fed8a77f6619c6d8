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

use super::grammar::{COMMENT, Grammar, LEADING, Rescue, WRAPPER};
use super::language::{self, Functions, Language};
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

impl Function {
    /// The same function in a text of which its own begins at `by`.
    pub(super) fn shifted(self, by: usize) -> Self {
        Function { range: self.range.start + by..self.range.end + by, ..self }
    }
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

/// Why functions of a source may be missing although its language has a grammar. The file stays a candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseFailure {
    #[error("the {language} grammar does not work with this build: {message}")]
    Grammar { language: &'static str, message: String },
    #[error("parsing was given up after {steps} steps, so functions of this file may be missing")]
    TooHard { steps: u64 },
    #[error("parsing was given up after {seconds} seconds, so functions of this file may be missing")]
    TooSlow { seconds: u64 },
}

/// Bytes of source that pay for a step, and how many steps any source may take. A progress callback (about a hundred
/// operations of the parser) and a piece of text read are one each. Counted first, not timed: the same file gives the
/// same candidates on every machine. Ordinary source takes a step for 50 to 200 bytes; among 10,000 files of 14 languages
/// none took 2,000 steps and one for each 16 bytes.
const BYTES_PER_STEP: u64 = 8;
const STEPS_FLOOR: u64 = 5_000;

/// An operation costs more the more readings of a broken text the parser keeps, up to milliseconds, which no count shows.
/// Ordinary source takes a second for each megabyte or less, even on a busy machine.
const SECONDS_FLOOR: u64 = 5;
const BYTES_PER_SECOND: u64 = 100_000;

/// Bytes of the text that the parser gets at a time.
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
            let (functions, failure) = functions(language.name, grammar, &content);
            Extracted { source: whole(content), functions, note: failure.map(|it| it.to_string()) }
        }
        Functions::Scripts => {
            let (functions, failure) = scripts::functions(&content);
            Extracted { source: whole(content), functions, note: failure.map(|it| it.to_string()) }
        }
        Functions::Notebook => notebook::extract(path, language.name, content),
    }
}

/// The functions of `text`, in the order of their positions, and why some may be missing.
pub fn functions(language: &'static str, grammar: &Grammar, text: &str) -> (Vec<Function>, Option<ParseFailure>) {
    let first = read(language, grammar, text, &readable(grammar, text), &Budget::new(text.len()));
    let (mut best, failure) = first.map_or_else(|failure| (Reading::nothing(text), Some(failure)), |it| (it, None));
    let budget = Budget::new(text.len());
    for rescue in grammar.rescues {
        if best.errors.is_empty() {
            break;
        }
        if let Some(other) = rescued(rescue, language, grammar, text, &budget) {
            best = best.merged(other);
        }
    }
    if !best.errors.is_empty() {
        best.add_islands(language, grammar, text, &budget);
    }
    (qualified(grammar, best.definitions.found), failure)
}

/// Another reading of a text that did not parse well; one that is given up leaves the first as it is.
fn rescued(rescue: &Rescue, language: &'static str, grammar: &Grammar, text: &str, budget: &Budget) -> Option<Reading> {
    match rescue {
        Rescue::Rewrite(rewrite) => read(language, grammar, text, &rewrite(text)?, budget).ok(),
        Rescue::Language(name) => {
            let Functions::Grammar(other) = &language::by_name(name)?.functions else { return None };
            read(name, other, text, &readable(other, text), budget).ok()
        }
    }
}

/// The text as the parser is to see it, every byte in its place.
fn readable<'a>(grammar: &Grammar, text: &'a str) -> Cow<'a, str> {
    grammar.prepare.and_then(|prepare| prepare(text)).map_or(Cow::Borrowed(text), Cow::Owned)
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
        let steps = bytes as u64 / BYTES_PER_STEP + STEPS_FLOOR;
        let seconds = SECONDS_FLOOR + bytes as u64 / BYTES_PER_SECOND;
        Budget { steps, left: Cell::new(steps), seconds, start: Instant::now() }
    }

    fn is_spent(&self) -> bool {
        self.left.get() == 0 || self.start.elapsed().as_secs() >= self.seconds
    }

    fn step(&self) -> ControlFlow<()> {
        self.left.set(self.left.get().saturating_sub(1));
        if self.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn failure(&self) -> ParseFailure {
        match self.left.get() {
            0 => ParseFailure::TooHard { steps: self.steps },
            _ => ParseFailure::TooSlow { seconds: self.seconds },
        }
    }
}

/// A part of a text that the grammar could make no sense of.
struct Error {
    range: Range<usize>,
    /// End of the outermost construct around it: what follows the error up to there may be misread.
    reach: usize,
}

/// What one parse of a text gave.
struct Reading {
    definitions: Definitions,
    /// In the order of their positions.
    errors: Vec<Error>,
}

impl Reading {
    /// A text of which nothing could be read.
    fn nothing(text: &str) -> Self {
        Reading { definitions: Definitions::default(), errors: vec![Error { range: 0..text.len(), reach: text.len() }] }
    }

    fn broken_bytes(&self) -> usize {
        self.errors.iter().map(|it| it.range.len().max(1)).sum()
    }

    /// The definitions of two readings of the same text: those of the better one, and the other's further functions.
    fn merged(self, other: Reading) -> Reading {
        let (mut better, worse) =
            if other.broken_bytes() < self.broken_bytes() { (other, self) } else { (self, other) };
        worse.definitions.found.into_iter().for_each(|it| better.definitions.add_further(it));
        better
    }

    /// Reads what may be misread again, in pieces that begin at the left margin after an empty line: so the functions
    /// after an unfinished one are found. A function that seemed to reach into such a piece ends before it.
    fn add_islands(&mut self, language: &'static str, grammar: &Grammar, text: &str, budget: &Budget) {
        for piece in islands(text, &self.errors) {
            let part = &text[piece.clone()];
            let Ok(island) = read(language, grammar, part, &readable(grammar, part), budget) else { continue };
            for definition in island.definitions.found {
                let definition = definition.shifted(piece.start);
                if self.definitions.is_further(&definition) {
                    self.definitions.clip_functions(piece.start, text);
                    self.definitions.add(definition);
                }
            }
        }
    }
}

/// The parts of a text that may be misread, in pieces that begin at the left margin after an empty line.
fn islands(text: &str, errors: &[Error]) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut next = 0;
    for error in errors {
        if next < error.range.start {
            next = island_after(text, error.range.start);
        }
        while next < error.reach {
            let end = island_after(text, next + 1);
            pieces.push(next..end);
            next = end;
        }
    }
    pieces
}

/// Where the first island at or after `from` begins; the end of the text when there is none.
fn island_after(text: &str, from: usize) -> usize {
    let is_start = |at: usize| text[at..].starts_with(|it: char| !it.is_whitespace());
    if from == 0 && is_start(0) {
        return 0;
    }
    let bytes = text.as_bytes();
    let at = (from.max(2)..bytes.len()).find(|&at| bytes[at - 2..at] == *b"\n\n" && is_start(at));
    at.unwrap_or(text.len())
}

/// Parses `parsed_text`, which is `text` or a rewriting of it with every byte in its place; names are taken from `text`.
fn read(
    language: &'static str,
    grammar: &Grammar,
    text: &str,
    parsed_text: &str,
    budget: &Budget,
) -> Result<Reading, ParseFailure> {
    let broken = |message: String| ParseFailure::Grammar { language, message };
    let mut parser = Parser::new();
    parser.set_language(&grammar.language()).map_err(|error| broken(error.to_string()))?;
    let query = grammar.query().map_err(|error| broken(error.to_string()))?;
    // The generated lexers take a zero byte for the end of the text.
    let without_nul = parsed_text.contains('\0').then(|| parsed_text.replace('\0', " "));
    let tree = parse(&mut parser, without_nul.as_deref().unwrap_or(parsed_text), budget).ok_or(budget.failure())?;
    Ok(Reading { definitions: definitions(grammar, query, &tree, text, budget)?, errors: errors(&tree) })
}

fn parse(parser: &mut Parser, text: &str, budget: &Budget) -> Option<Tree> {
    let mut progress = |_: &tree_sitter::ParseState| budget.step();
    // A grammar's own scanner may look for the end of a comment from every byte that is skipped after an error, to the
    // end of the text: what is read counts too, and the text ends early for who has read too much. A piece never ends
    // within a character: the lexer would ask for the rest, and reads on even when it gets nothing.
    let mut chunk = |offset: usize, _: tree_sitter::Point| match budget.step() {
        ControlFlow::Break(()) => &[],
        ControlFlow::Continue(()) => {
            let end = text.floor_char_boundary(offset.saturating_add(READ_AT_ONCE));
            text.as_bytes().get(offset..end).unwrap_or_default()
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut chunk, None, Some(options)).filter(|_| !budget.is_spent())
}

fn definitions(
    grammar: &Grammar,
    query: &Query,
    tree: &Tree,
    text: &str,
    budget: &Budget,
) -> Result<Definitions, ParseFailure> {
    let mut definitions = Definitions::default();
    let mut surroundings = Surroundings::default();
    let mut cursor = QueryCursor::new();
    let mut gave_up = false;
    let mut progress = |_: &tree_sitter::QueryCursorState| {
        let flow = budget.step();
        gave_up |= flow.is_break();
        flow
    };
    let options = QueryCursorOptions::new().progress_callback(&mut progress);
    let mut matches = cursor.matches_with_options(query, tree.root_node(), text.as_bytes(), options);
    while let Some(found) = matches.next() {
        match definition(grammar, query, found, text) {
            Some(definition) => definitions.add(definition),
            None => surroundings.add(query, found),
        }
    }
    drop(matches);
    for definition in &mut definitions.found {
        let Range { start, end } = surroundings.extended(definition.node, definition.range.clone());
        // Grammars of indented languages end a block where the next statement begins.
        definition.range = start..start + text[start..end].trim_end().len();
    }
    if gave_up { Err(budget.failure()) } else { Ok(definitions) }
}

/// What wraps and what leads the nodes of a tree. Gathered by the query, because asking a node for its parent walks down
/// from the root.
#[derive(Default)]
struct Surroundings {
    wrappers: HashMap<usize, (usize, Range<usize>)>,
    /// The sibling before a node, and where it begins if it belongs to the node: a comment does not.
    before: HashMap<usize, (usize, Option<usize>)>,
}

impl Surroundings {
    fn add(&mut self, query: &Query, found: &tree_sitter::QueryMatch) {
        let [outer, inner] = found.captures else { return };
        let (outer_id, range) = (outer.node.id(), outer.node.byte_range());
        match query.capture_names()[outer.index as usize] {
            WRAPPER => drop(self.wrappers.insert(inner.node.id(), (outer_id, range))),
            LEADING => drop(self.before.insert(inner.node.id(), (outer_id, Some(range.start)))),
            COMMENT => drop(self.before.insert(inner.node.id(), (outer_id, None))),
            _ => {}
        }
    }

    /// The range of a node with its wrappers and what leads it.
    fn extended(&self, mut node: usize, mut range: Range<usize>) -> Range<usize> {
        while let Some((wrapper, wider)) = self.wrappers.get(&node) {
            (node, range) = (*wrapper, wider.clone());
        }
        while let Some((before, start)) = self.before.get(&node) {
            node = *before;
            range.start = start.unwrap_or(range.start);
        }
        range
    }
}

/// A definition before it knows what encloses it.
struct Definition {
    /// Identity of its node in the tree that it was found in.
    node: usize,
    /// Byte at which its name stands: what two matches for one definition have in common.
    name_at: usize,
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

    fn shifted(self, by: usize) -> Self {
        Definition { name_at: self.name_at + by, range: self.range.start + by..self.range.end + by, ..self }
    }
}

/// Definitions by the byte at which their names stand.
#[derive(Default)]
struct Definitions {
    found: Vec<Definition>,
    by_name: HashMap<usize, usize>,
}

impl Definitions {
    /// Whether another reading's definition is a function that this one has not.
    fn is_further(&self, definition: &Definition) -> bool {
        definition.is_function && !self.by_name.contains_key(&definition.name_at)
    }

    fn add_further(&mut self, definition: Definition) {
        if self.is_further(&definition) {
            self.add(definition);
        }
    }

    /// Ends before `at` the functions that began before it.
    fn clip_functions(&mut self, at: usize, text: &str) {
        for it in self.found.iter_mut().filter(|it| it.is_function && it.range.start < at && it.range.end > at) {
            it.range.end = it.range.start + text[it.range.start..at].trim_end().len();
        }
    }

    fn add(&mut self, definition: Definition) {
        let at = *self.by_name.entry(definition.name_at).or_insert(self.found.len());
        match self.found.get_mut(at) {
            None => self.found.push(definition),
            Some(earlier) if definition.weight() > earlier.weight() => *earlier = definition,
            Some(_) => {}
        }
    }
}

/// The definition that a match describes.
fn definition(grammar: &Grammar, query: &Query, found: &tree_sitter::QueryMatch, text: &str) -> Option<Definition> {
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
    let name_at = names.first().unwrap_or(&node).start_byte();
    let range = lead.unwrap_or(node.start_byte())..node.end_byte();
    Some(Definition { node: node.id(), name_at, parts, range, is_function })
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

/// The outermost error nodes, and the tokens that the parser had to make up.
fn errors(tree: &Tree) -> Vec<Error> {
    let mut cursor = tree.walk();
    let mut errors = Vec::new();
    let mut reach = 0;
    loop {
        let node = cursor.node();
        if cursor.depth() <= 1 {
            reach = node.end_byte();
        }
        if node.is_error() || node.is_missing() {
            errors.push(Error { range: node.byte_range(), reach });
        } else if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return errors;
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
    definitions.sort_by_key(|it| (it.range.start, std::cmp::Reverse(it.range.end), it.name_at));
    let mut enclosing = vec![Enclosing { end: usize::MAX, path: Vec::new(), is_function: false, last: None }];
    let mut functions: Vec<Function> = Vec::new();
    for Definition { parts, range, is_function, .. } in definitions {
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
    use std::fs;
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;

    use super::*;

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/languages");

    fn read_text(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The source fixtures, without their lists of expected functions.
    fn fixtures() -> Vec<PathBuf> {
        let entries = fs::read_dir(FIXTURES).expect("the folder of fixtures");
        let paths = entries.map(|entry| entry.expect("an entry of the folder").path());
        let mut sources: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_none_or(|it| it != "expected")).collect();
        sources.sort();
        sources
    }

    fn extract_as(path: &str, text: String) -> Extracted {
        let language = language::detect(path, &text).or_else(|| language::of_path(path));
        extract(path, language.unwrap_or_else(|| panic!("{path} has no language")), text)
    }

    /// One line for each function: `start-end qualified.name`.
    fn listed(extracted: &Extracted) -> String {
        let line = |it: &Function| {
            let lines = extracted.source.lines_of(it.range.clone());
            format!("{}-{} {}\n", lines.start, lines.end, it.name)
        };
        extracted.functions.iter().map(line).collect()
    }

    #[track_caller]
    fn check(path: &str, text: &str, expected: &str) {
        assert_eq!(listed(&extract_as(path, text.to_owned())), expected, "{path}: {text}");
    }

    #[test]
    #[cfg(feature = "heavy-grammars")]
    fn fixtures_give_exactly_the_expected_functions() {
        let sources = fixtures();
        assert!(sources.len() > 25, "only {} fixtures in {FIXTURES}", sources.len());
        for path in sources {
            let expected = read_text(&PathBuf::from(format!("{}.expected", path.display())));
            let text = read_text(&path).replace("\r\n", "\n");
            let extracted = extract_as(&path.to_string_lossy(), text);
            assert_eq!(listed(&extracted), expected, "{}", path.display());
            assert_eq!(extracted.note, None, "{}", path.display());
        }
    }

    #[test]
    fn operators_are_named_as_they_are_called() {
        let named = |written: &str| match &language::by_name("C++").expect("a row").functions {
            Functions::Grammar(grammar) => components(grammar, written).join("."),
            _ => panic!("C++ has a grammar"),
        };
        for (written, expected) in [
            ("A<B<int>, C>::f", "A.f"),
            ("A::operator bool() const", "A.operator bool"),
            ("operator ()", "operator()"),
            ("A<T>::operator <<", "A.operator<<"),
            ("operator new[]", "operator new[]"),
            ("operatorName", "operatorName"),
            ("my_operator", "my_operator"),
        ] {
            assert_eq!(named(written), expected, "{written}");
        }
    }

    #[test]
    fn functions_are_found_beside_what_is_too_deep_or_too_broken() {
        check(
            "a.cpp",
            &format!("int a() {{}}\n\nint t[] = {{{}0}};\n\nint b() {{}}\n", "1 + ".repeat(15_512)),
            "1-1 a\n5-5 b\n",
        );
        let nested = format!("def a(): pass\n\nx = {}\n\ndef b(): pass\n", "(".repeat(20_000));
        check("a.py", &nested, "1-1 a\n5-5 b\n");
    }

    #[test]
    fn a_zero_byte_is_no_end() {
        check("a.ts", "const a = `\0`;\nfunction b() {}\n", "2-2 b\n");
    }

    #[test]
    fn a_million_bytes_on_one_line_are_read() {
        let text = format!("function a() {{ return [{}]; }} function b() {{}}", "1,".repeat(500_000));
        check("a.js", &text, "1-1 a\n1-1 b\n");
    }

    /// Ranges are in order, within the text and on character boundaries.
    fn assert_sound(path: &str, text: String) {
        let extracted = extract_as(path, text);
        let content = &extracted.source.content;
        let mut last = 0;
        for function in &extracted.functions {
            assert!(content.get(function.range.clone()).is_some_and(|it| !it.is_empty()), "{path}: {function:?}");
            assert!(function.range.start >= last, "{path}: {function:?}");
            last = function.range.start;
        }
    }

    fn with_replaced(bytes: &[u8], at: usize, length: usize, with: &[u8], times: usize) -> String {
        let at = at % (bytes.len() + 1);
        let end = (at + length).min(bytes.len());
        let mut changed = bytes[..at].to_vec();
        changed.extend(with.repeat(times));
        changed.extend(&bytes[end..]);
        String::from_utf8_lossy(&changed).into_owned()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_a_source(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for row in language::LANGUAGES.iter() {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if let Some(extension) = row.extensions.first() {
                    assert_sound(&format!("a.{extension}"), text);
                }
            }
        }

        #[test]
        fn any_change_of_a_source_is_a_source(
            at in any::<usize>(),
            length in 0..80usize,
            with in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'('), Just(b'{'), Just(b'"'), Just(b'\n')], 0..4),
            times in 0..300usize,
        ) {
            for path in fixtures() {
                let bytes = fs::read(&path).expect("a fixture");
                assert_sound(&path.to_string_lossy(), with_replaced(&bytes, at, length, &with, times));
            }
        }
    }

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
        check_given_up("Dart", "日本".repeat(20_000));
        check_given_up("R", "/*\\--".repeat(4_000));
    }
}
