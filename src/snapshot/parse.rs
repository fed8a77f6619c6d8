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
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use tree_sitter::{Node, ParseOptions, Parser, Query, QueryCursor, QueryCursorOptions, StreamingIterator, Tree};

use super::budget::{Budget, Deadline, Losses, ParseFailure, Purse};
use super::grammar::{COMMENT, Grammar, LEADING, Rescue, WRAPPER};
use super::language::{self, Functions, Language};
use super::{names, notebook, scripts};
use crate::types::Text;

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

/// A decoded source with the functions that were found in it.
#[derive(Debug)]
pub struct Extracted {
    /// Name of the language, a row of [`language`].
    pub language: &'static str,
    pub text: Text,
    /// In the order of their positions in the text.
    pub functions: Vec<Function>,
    /// Why the functions are missing or incomplete, when they are.
    pub note: Option<String>,
}

/// Bytes of the text that the parser gets at a time.
const READ_AT_ONCE: usize = 4096;

/// Reads a decoded source (`\n` line ends, no byte order mark) as its language says. Never fails: what goes wrong costs
/// functions and is told in the note.
pub fn extract(language: &'static Language, content: String, deadline: Deadline) -> Extracted {
    let (functions, losses) = match &language.functions {
        Functions::None => (Vec::new(), Losses::default()),
        Functions::Grammar(grammar) => {
            functions(language.name, grammar, &content, &Budget::new(content.len(), deadline))
        }
        Functions::Scripts => scripts::functions(&content, &Budget::new(content.len(), deadline)),
        Functions::Notebook => return notebook::extract(language.name, content, deadline),
    };
    Extracted { language: language.name, text: Text::new(content), functions, note: losses.note() }
}

/// The functions of `text`, in the order of their positions, and what is missing.
pub(super) fn functions(
    language: &'static str,
    grammar: &Grammar,
    text: &str,
    budget: &Budget,
) -> (Vec<Function>, Losses) {
    let first = read(language, grammar, text, &readable(grammar, text), &budget.first);
    let (mut best, first) = first.map_or_else(|failure| (Reading::nothing(text), Some(failure)), |it| (it, None));
    let around_errors = best.improve(language, grammar, text, &budget.around_errors).err();
    let (functions, left_out) = names::qualified(grammar, best.definitions.found);
    (functions, Losses { first, around_errors, left_out })
}

/// Another reading of a text that did not parse well; `None` when the rescue makes no difference.
fn rescued(
    rescue: &Rescue,
    language: &'static str,
    grammar: &Grammar,
    text: &str,
    purse: &Purse,
) -> Option<Result<Reading, ParseFailure>> {
    match rescue {
        Rescue::Rewrite(rewrite) => Some(read(language, grammar, text, &rewrite(text)?, purse)),
        Rescue::Language(name) => {
            let Functions::Grammar(other) = &language::by_name(name)?.functions else { return None };
            Some(read(name, other, text, &readable(other, text), purse))
        }
    }
}

/// The text as the parser is to see it, every byte in its place.
fn readable<'a>(grammar: &Grammar, text: &'a str) -> Cow<'a, str> {
    grammar.prepare.and_then(|prepare| prepare(text)).map_or(Cow::Borrowed(text), Cow::Owned)
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

    /// Reads what is in error again, in every way that the grammar knows. Fails when that takes too much, with what was
    /// found until then.
    fn improve(
        &mut self,
        language: &'static str,
        grammar: &Grammar,
        text: &str,
        purse: &Purse,
    ) -> Result<(), ParseFailure> {
        let mut result = Ok(());
        for rescue in grammar.rescues {
            if self.errors.is_empty() {
                return result;
            }
            match rescued(rescue, language, grammar, text, purse) {
                Some(Ok(other)) => self.merge(other),
                Some(Err(failure)) => result = Err(failure),
                None => {}
            }
        }
        result.and(self.add_islands(language, grammar, text, purse))
    }

    /// The definitions of two readings of the same text: those of the better one, and the other's further functions.
    fn merge(&mut self, mut other: Reading) {
        if other.broken_bytes() < self.broken_bytes() {
            std::mem::swap(self, &mut other);
        }
        other.definitions.found.into_iter().for_each(|it| self.definitions.add_further(it));
    }

    /// Reads what may be misread again, in pieces that begin at the left margin after an empty line: so the functions
    /// after an unfinished one are found. A function that seemed to reach into such a piece ends before it.
    fn add_islands(
        &mut self,
        language: &'static str,
        grammar: &Grammar,
        text: &str,
        purse: &Purse,
    ) -> Result<(), ParseFailure> {
        let mut shores = Vec::new();
        let mut result = Ok(());
        for piece in islands(text, &self.errors) {
            let part = &text[piece.clone()];
            match read(language, grammar, part, &readable(grammar, part), purse) {
                Ok(island) => {
                    if self.definitions.add_shifted(island.definitions, piece.start) {
                        shores.push(piece.start);
                    }
                }
                Err(failure) => result = Err(failure),
            }
            if purse.is_spent() {
                break;
            }
        }
        self.definitions.clip_functions(&shores, text);
        result
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
    purse: &Purse,
) -> Result<Reading, ParseFailure> {
    if purse.is_spent() {
        return Err(purse.failure());
    }
    let broken = |message: String| ParseFailure::Grammar { language, message };
    let mut parser = Parser::new();
    parser.set_language(&grammar.language()).map_err(|error| broken(error.to_string()))?;
    let query = grammar.query().map_err(|error| broken(error.to_string()))?;
    // The generated lexers take a zero byte for the end of the text.
    let without_nul = parsed_text.contains('\0').then(|| parsed_text.replace('\0', " "));
    let parsed_text = without_nul.as_deref().unwrap_or(parsed_text);
    purse.timed(|| {
        let tree = parse(&mut parser, parsed_text, purse).ok_or_else(|| purse.failure())?;
        Ok(Reading { definitions: definitions(grammar, query, &tree, text, purse)?, errors: errors(&tree) })
    })
}

fn parse(parser: &mut Parser, text: &str, purse: &Purse) -> Option<Tree> {
    let mut progress = |_: &tree_sitter::ParseState| purse.step();
    // A grammar's own scanner may look for the end of a comment from every byte that is skipped after an error, to the
    // end of the text: what is read counts too, and the text ends early for who has read too much. A piece never ends
    // within a character: the lexer would ask for the rest, and reads on even when it gets nothing.
    let mut chunk = |offset: usize, _: tree_sitter::Point| match purse.step() {
        ControlFlow::Break(()) => &[],
        ControlFlow::Continue(()) => {
            let end = text.floor_char_boundary(offset.saturating_add(READ_AT_ONCE));
            text.as_bytes().get(offset..end).unwrap_or_default()
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut chunk, None, Some(options)).filter(|_| !purse.is_spent())
}

fn definitions(
    grammar: &Grammar,
    query: &Query,
    tree: &Tree,
    text: &str,
    purse: &Purse,
) -> Result<Definitions, ParseFailure> {
    let mut definitions = Definitions::default();
    let mut surroundings = Surroundings::default();
    let mut cursor = QueryCursor::new();
    let mut gave_up = false;
    let mut progress = |_: &tree_sitter::QueryCursorState| {
        let flow = purse.step();
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
    definitions.found.iter_mut().for_each(|it| surroundings.extend(it, text));
    if gave_up { Err(purse.failure()) } else { Ok(definitions) }
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

    /// Takes into a definition what wraps and leads it. Grammars of indented languages end a block where the next
    /// statement begins; the definition ends before the white space there.
    fn extend(&self, definition: &mut Definition, text: &str) {
        let Range { start, end } = self.extended(definition.node, definition.range.clone());
        definition.range = start..start + text[start..end].trim_end().len();
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
pub(super) struct Definition {
    /// Identity of its node in the tree that it was found in.
    node: usize,
    /// Byte at which its name stands: what two matches for one definition have in common.
    pub(super) name_at: usize,
    /// Components of its own name, receiver first; `None`: named as the enclosing container.
    pub(super) parts: Option<Vec<String>>,
    pub(super) range: Range<usize>,
    pub(super) is_function: bool,
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

    /// Adds the further functions of a part of the text that begins at `by`; tells whether there are any.
    fn add_shifted(&mut self, part: Definitions, by: usize) -> bool {
        let before = self.found.len();
        part.found.into_iter().map(|it| it.shifted(by)).for_each(|it| self.add_further(it));
        self.found.len() > before
    }

    /// Ends before the first of `shores` (in ascending order) after its start each function that reaches over it.
    fn clip_functions(&mut self, shores: &[usize], text: &str) {
        let mut from = 0;
        let ends: Vec<usize> = shores
            .iter()
            .map(|&shore| from + text[std::mem::replace(&mut from, shore)..shore].trim_end().len())
            .collect();
        for it in self.found.iter_mut().filter(|it| it.is_function) {
            let next = shores.partition_point(|&shore| shore <= it.range.start);
            if shores.get(next).is_some_and(|&shore| shore < it.range.end) {
                it.range.end = ends[next].max(it.range.start);
            }
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

/// The nodes of a match that describes a definition.
#[derive(Default)]
struct Captured<'tree> {
    node: Option<Node<'tree>>,
    is_function: bool,
    names: Vec<Node<'tree>>,
    receiver: Option<Node<'tree>>,
    has_selector: bool,
    /// Byte at which the span begins.
    lead: Option<usize>,
}

impl<'tree> Captured<'tree> {
    fn of(query: &Query, found: &tree_sitter::QueryMatch<'_, 'tree>) -> Self {
        let mut captured = Captured::default();
        for capture in found.captures {
            match query.capture_names()[capture.index as usize] {
                "function" => (captured.node, captured.is_function) = (Some(capture.node), true),
                "container" => captured.node = Some(capture.node),
                "name" => captured.names.push(capture.node),
                "receiver" => captured.receiver = Some(capture.node),
                "selector" => captured.has_selector = true,
                "lead" => captured.lead = Some(capture.node.start_byte()),
                _ => {}
            }
        }
        captured
    }

    /// The components of the name as it is written; empty when there is none.
    fn parts(&self, grammar: &Grammar, method: Node, text: &str) -> Vec<String> {
        if self.has_selector {
            return vec![names::selector_of(method, text)];
        }
        let written: Vec<&str> = self.names.iter().map(|it| &text[it.byte_range()]).collect();
        let receiver = self.receiver.into_iter().flat_map(|it| names::components(grammar, &text[it.byte_range()]));
        receiver.chain(names::components(grammar, &written.join(" "))).collect()
    }
}

/// The definition that a match describes.
fn definition(grammar: &Grammar, query: &Query, found: &tree_sitter::QueryMatch, text: &str) -> Option<Definition> {
    let captured = Captured::of(query, found);
    let node = captured.node?;
    let setting = |key: &str| query.property_settings(found.pattern_index).iter().find(|it| &*it.key == key);
    let parts = if setting("name.container").is_some() {
        None
    } else if let Some(fixed) = setting("name").and_then(|it| it.value.as_deref()) {
        Some(vec![fixed.to_owned()])
    } else {
        Some(captured.parts(grammar, node, text)).filter(|parts| !parts.is_empty()).map(Some)?
    };
    let name_at = captured.names.first().unwrap_or(&node).start_byte();
    let range = captured.lead.unwrap_or(node.start_byte())..node.end_byte();
    Some(Definition { node: node.id(), name_at, parts, range, is_function: captured.is_function })
}

/// The outermost error nodes, and the tokens that the parser had to make up.
fn errors(tree: &Tree) -> Vec<Error> {
    let mut cursor = tree.walk();
    let mut errors = Vec::new();
    // The cursor's own depth is counted anew at each call.
    let (mut depth, mut reach) = (0usize, 0);
    loop {
        let node = cursor.node();
        if depth <= 1 {
            reach = node.end_byte();
        }
        if node.is_error() || node.is_missing() {
            errors.push(Error { range: node.byte_range(), reach });
        } else if node.has_error() && cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return errors;
            }
            depth -= 1;
        }
    }
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
        extract(language.unwrap_or_else(|| panic!("{path} has no language")), text, Deadline::of(0))
    }

    /// One line for each function: `start-end qualified.name`.
    fn listed(extracted: &Extracted) -> String {
        let line = |it: &Function| {
            let lines = extracted.text.lines_of(it.range.clone());
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
        let content = &extracted.text.content;
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
        let extracted = extract(language, text, Deadline::of(0));
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

    /// Functions and note of 4 MiB or so that are made to cost more than they should.
    #[track_caller]
    fn check_hostile(path: &str, text: String, expected_functions: usize, expected_note: Option<&str>) {
        let start = std::time::Instant::now();
        let extracted = extract_as(path, text);
        let seconds = start.elapsed().as_secs();
        assert!(seconds < 60, "{path}: {seconds} s");
        assert_eq!(extracted.functions.len(), expected_functions, "{path}: {:?}", extracted.note);
        let note = extracted.note.unwrap_or_default();
        assert_eq!(note, expected_note.unwrap_or_default(), "{path}");
    }

    #[test]
    fn long_names_are_not_repeated_for_all_that_they_enclose() {
        let note = "190000 functions nested too deep or with names too long are left out";
        let long = "A".repeat(2 << 20);
        check_hostile("a.py", format!("class {long}:\n{}", " def a():0\n".repeat(190_000)), 0, Some(note));
        let inner = "function a() {}\n".repeat(190_000);
        let note = "190001 functions nested too deep or with names too long are left out";
        check_hostile("a.js", format!("const o = {{ \"{long}\": function () {{\n{inner}}} }};\n"), 0, Some(note));
        check_hostile("a.py", format!("class {}:\n def a():0\n", "A".repeat(1022)), 1, None);
    }

    #[test]
    fn functions_nested_too_deep_are_counted() {
        let text: String = (0..40).map(|depth| format!("{}def a():\n", " ".repeat(depth))).collect();
        let note = "8 functions nested too deep or with names too long are left out";
        check_hostile("a.py", format!("{text}{}pass\n", " ".repeat(40)), 32, Some(note));
    }

    #[test]
    fn a_failed_search_around_an_error_is_told() {
        let hostile = format!("int a() {{ return 0; }}\n\n#if A\n{{\n#else\n#endif\n{}", "(a*b<c>(d){[".repeat(30_000));
        let note = extract_as("a.cpp", hostile).note.unwrap_or_default();
        assert!(note.contains("given up"), "{note}");
    }

    #[test]
    fn many_islands_are_read_in_time() {
        let deadline = Deadline::of(0);
        let text = format!("x = (\n{}", "\n\ndef a():\n  0\n".repeat(40_000));
        let row = language::by_name("Python").expect("a row");
        let extracted = extract(row, text, deadline);
        assert!(extracted.functions.len() > 100 || extracted.note.is_some());
    }

    #[test]
    fn functions_end_before_the_first_island_that_they_reach_over() {
        let of = |range: Range<usize>, is_function: bool| Definition {
            node: 0,
            name_at: range.start,
            parts: None,
            range,
            is_function,
        };
        let text = "f {\n  a\n\n\ng\n\nh";
        let mut definitions = Definitions::default();
        for it in [of(0..14, true), of(0..14, false), of(4..7, true), of(10..14, true)] {
            definitions.found.push(it);
        }
        definitions.clip_functions(&[10, 13], text);
        let ranges: Vec<_> = definitions.found.iter().map(|it| it.range.clone()).collect();
        assert_eq!(ranges, [0..7, 0..14, 4..7, 10..11]);
    }
}
