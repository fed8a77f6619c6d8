//! Functions of a source text, by tree-sitter.
//!
//! A language's query marks definitions with these captures; one match describes one definition:
//!
//! * `@function`, `@container`: the definition; a container (a class, a trait) lends its name to what it encloses.
//!   A function encloses too: a nested function is `outer.inner`.
//! * `@name`: the node that holds the name, possibly written with separators (`A::b`).
//! * `@lead`: a node at which the span begins although it stands before the definition (a signature of its own).
//! * `@receiver`: a type that is written outside the name but belongs before it (Go).
//! * `(#set! name "init")`: a name that stands nowhere in the text; `(#set! name.container "")`: the enclosing
//!   container's own name (constructors).
//!
//! Several matches with the same `@name` node are one definition, and the widest span wins. Tree-sitter builds and
//! frees its trees without recursion and so does everything here: depth costs no stack.

use std::ops::{ControlFlow, Range};

use tree_sitter::{Node, ParseOptions, Parser, Query, QueryCursor, QueryCursorOptions, StreamingIterator, Tree};

use super::language::Grammar;

/// A function or method as it stands in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Qualified name: `name`, `Class.name`, `Outer.Inner.name`.
    pub name: String,
    /// Byte range of the definition, decorators and attributes included.
    pub range: Range<usize>,
}

/// Why a source has no function candidates although its language has a grammar. The file stays a candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseFailure {
    #[error("the {language} grammar does not work with this build: {message}")]
    Grammar { language: &'static str, message: String },
    #[error("parsing was given up after {steps} steps, so this file has no function candidates")]
    TooHard { steps: u64 },
}

/// Progress callbacks (about every hundred operations of the parser) that a byte of source may cost, and a floor.
/// Counted, not timed: the same file gives the same candidates on every machine. Ordinary source takes under 0.1 a byte.
const STEPS_PER_BYTE: u64 = 4;
const STEPS_FLOOR: u64 = 50_000;

/// Definitions nested deeper than this are left out: every level repeats the names around it, so a hostile nest of
/// functions would cost the square of its size. Written code stays under ten.
const MAX_NESTING: usize = 32;

/// The functions of `text`, in the order of their positions. `ranges` limits parsing to parts of the text.
pub fn functions(
    language: &'static str,
    grammar: &Grammar,
    text: &str,
    ranges: &[tree_sitter::Range],
) -> Result<Vec<Function>, ParseFailure> {
    let broken = |message: String| ParseFailure::Grammar { language, message };
    let mut parser = Parser::new();
    parser.set_language(&grammar.language()).map_err(|error| broken(error.to_string()))?;
    parser.set_included_ranges(ranges).map_err(|error| broken(error.to_string()))?;
    let query = grammar.query().map_err(|error| broken(error.to_string()))?;

    // The generated lexers take a zero byte for the end of the text; a space keeps every offset.
    let without_nul = text.contains('\0').then(|| text.replace('\0', " "));
    let text = without_nul.as_deref().unwrap_or(text);

    let mut budget = Budget::new(text.len());
    let tree = parse(&mut parser, text, &mut budget).ok_or(budget.failure())?;
    let definitions = definitions(grammar, query, &tree, text, &mut budget)?;
    Ok(qualified(definitions, grammar.joins_clauses))
}

/// A count of the steps that parsing and querying may still take.
struct Budget {
    total: u64,
    left: u64,
}

impl Budget {
    fn new(bytes: usize) -> Self {
        let total = (bytes as u64 * STEPS_PER_BYTE).max(STEPS_FLOOR);
        Budget { total, left: total }
    }

    fn step(&mut self) -> ControlFlow<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn failure(&self) -> ParseFailure {
        ParseFailure::TooHard { steps: self.total }
    }
}

fn parse(parser: &mut Parser, text: &str, budget: &mut Budget) -> Option<Tree> {
    let mut progress = |_: &tree_sitter::ParseState| budget.step();
    let mut chunk = |offset: usize, _: tree_sitter::Point| text.as_bytes().get(offset..).unwrap_or_default();
    parser.parse_with_options(&mut chunk, None, Some(ParseOptions::new().progress_callback(&mut progress)))
}

/// A definition before it knows what encloses it.
struct Definition {
    /// Components of its own name, receiver first; `None`: named as the enclosing container.
    parts: Option<Vec<String>>,
    range: Range<usize>,
    is_function: bool,
}

fn definitions(
    grammar: &Grammar,
    query: &Query,
    tree: &Tree,
    text: &str,
    budget: &mut Budget,
) -> Result<Vec<Definition>, ParseFailure> {
    let mut found: Vec<Definition> = Vec::new();
    let mut by_name = std::collections::HashMap::new();
    let mut cursor = QueryCursor::new();
    let mut gave_up = false;
    let mut progress = |_: &tree_sitter::QueryCursorState| {
        let flow = budget.step();
        gave_up |= flow.is_break();
        flow
    };
    let options = QueryCursorOptions::new().progress_callback(&mut progress);
    let mut matches = cursor.matches_with_options(query, tree.root_node(), text.as_bytes(), options);
    while let Some(found_match) = matches.next() {
        let Some((definition, key)) = definition(grammar, query, found_match, text) else { continue };
        match by_name.entry(key) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(found.len());
                found.push(definition);
            }
            std::collections::hash_map::Entry::Occupied(entry) => {
                let earlier = &mut found[*entry.get()];
                if definition.range.len() > earlier.range.len() {
                    *earlier = definition;
                }
            }
        }
    }
    drop(matches);
    if gave_up { Err(budget.failure()) } else { Ok(found) }
}

/// The definition that a match describes, with the byte at which its name stands.
fn definition(
    grammar: &Grammar,
    query: &Query,
    found: &tree_sitter::QueryMatch,
    text: &str,
) -> Option<(Definition, usize)> {
    let (mut node, mut is_function, mut name, mut receiver, mut lead) = (None, false, None, None, None);
    for capture in found.captures {
        match query.capture_names()[capture.index as usize] {
            "function" => (node, is_function) = (Some(capture.node), true),
            "container" => node = Some(capture.node),
            "name" => name = Some(capture.node),
            "receiver" => receiver = Some(capture.node),
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
    } else {
        let receiver = receiver.into_iter().flat_map(|it| components(grammar, &text[it.byte_range()]));
        let parts: Vec<String> = receiver.chain(components(grammar, &text[name?.byte_range()])).collect();
        (!parts.is_empty()).then_some(parts).map(Some)?
    };
    let key = name.unwrap_or(node).start_byte();
    let range = extended(grammar, node);
    // Grammars of indented languages end a block where the next statement begins.
    let end = range.start + text[range.clone()].trim_end().len();
    Some((Definition { parts, range: lead.unwrap_or(range.start)..end, is_function }, key))
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
        let mut before = node.prev_sibling();
        while let Some(sibling) = before.filter(|it| it.is_extra() || grammar.leading.contains(&it.kind())) {
            // A comment belongs to the definition only when something that leads it stands before the comment.
            if !sibling.is_extra() {
                node = sibling;
            }
            before = sibling.prev_sibling();
        }
    }
    node.start_byte()..end
}

/// The components of a name as it is written: separators taken apart, type arguments, quotes and white space removed.
fn components(grammar: &Grammar, written: &str) -> Vec<String> {
    let plain =
        if grammar.exact_names { written.trim().trim_matches('`').to_owned() } else { without_arguments(written) };
    let apart = grammar.separators.iter().fold(plain, |plain, separator| plain.replace(separator, "\0"));
    apart.split('\0').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn without_arguments(written: &str) -> String {
    let mut plain = String::with_capacity(written.len());
    let mut depth = 0usize;
    for character in written.chars() {
        match character {
            '<' if !plain.ends_with("operator") => depth += 1,
            '>' if depth > 0 => depth -= 1,
            '"' | '\'' | '`' => {}
            _ if depth > 0 || character.is_whitespace() => {}
            _ => plain.push(character),
        }
    }
    plain
}

/// A definition whose end hasn't been passed yet, with the name that it lends to what it encloses.
struct Enclosing {
    end: usize,
    path: Vec<String>,
    /// Index of the last function directly inside, whose next clause may follow.
    last: Option<usize>,
}

/// Names definitions by what encloses them and keeps the functions.
fn qualified(mut definitions: Vec<Definition>, joins_clauses: bool) -> Vec<Function> {
    definitions.sort_by_key(|it| (it.range.start, std::cmp::Reverse(it.range.end)));
    let mut enclosing = vec![Enclosing { end: usize::MAX, path: Vec::new(), last: None }];
    let mut functions: Vec<Function> = Vec::new();
    for definition in definitions {
        while enclosing.last().is_some_and(|outer| outer.end < definition.range.end) {
            enclosing.pop();
        }
        let depth = enclosing.len();
        let Some(outer) = enclosing.last_mut().filter(|_| depth <= MAX_NESTING) else { continue };
        let own = definition.parts.or_else(|| outer.path.last().map(|name| vec![name.clone()]));
        let Some(own) = own else { continue };
        let path: Vec<String> = outer.path.iter().cloned().chain(own).collect();
        let name = path.join(".");
        let earlier = outer.last.filter(|&last| joins_clauses && functions[last].name == name);
        if let Some(earlier) = earlier {
            functions[earlier].range.end = definition.range.end;
        } else if definition.is_function {
            outer.last = Some(functions.len());
            functions.push(Function { name, range: definition.range.clone() });
        }
        enclosing.push(Enclosing { end: definition.range.end, path, last: None });
    }
    functions
}
