//! Names of functions: how they are written, and what stands before them because of where they stand.
//!
//! Knows nothing of parsing; what is a definition is found elsewhere.

use std::cmp::Reverse;

use tree_sitter::Node;

use super::grammar::Grammar;
use super::parse::{Definition, Function};

/// Functions nested deeper than this are left out: every level repeats the names around it, so a hostile nest of
/// functions would cost the square of its size. Written code stays under ten.
const MAX_NESTING: usize = 32;

/// Functions whose qualified names have more bytes than this are left out, for the same reason.
const MAX_NAME_BYTES: usize = 1024;

/// The selector of an Objective-C method: its identifiers, with a colon for each parameter.
pub(super) fn selector_of(method: Node, text: &str) -> String {
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
pub(super) fn components(grammar: &Grammar, written: &str) -> Vec<String> {
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

/// A definition that the next ones may stand in.
#[derive(Default)]
struct Enclosing {
    end: usize,
    /// Its qualified name; `None` when it is too long, and with it all names in it.
    path: Option<String>,
    /// Where in `path` the last component begins.
    last_component: usize,
    is_function: bool,
    /// Index of the last function directly inside, whose next clause may follow.
    last: Option<usize>,
}

impl Enclosing {
    /// The qualified name of what is called `parts` in here, and where its last component begins; `None` when it is too
    /// long.
    fn qualify(&self, parts: &[String]) -> Option<(String, usize)> {
        let mut path = self.path.clone()?;
        let mut last = 0;
        for part in parts {
            if path.len() + part.len() >= MAX_NAME_BYTES {
                return None;
            }
            if !path.is_empty() {
                path.push('.');
            }
            last = path.len();
            path.push_str(part);
        }
        Some((path, last))
    }

    /// The own name of this one, which a constructor without a name has too; none at the top.
    fn own_name(&self) -> Option<Vec<String>> {
        let Some(path) = &self.path else { return Some(Vec::new()) };
        Some(vec![path[self.last_component..].to_owned()]).filter(|_| !path.is_empty())
    }
}

/// Names definitions by what encloses them and keeps the functions; says how many are left out.
pub(super) fn qualified(grammar: &Grammar, mut definitions: Vec<Definition>) -> (Vec<Function>, usize) {
    definitions.sort_by_key(|it| (it.range.start, Reverse(it.range.end), it.name_at));
    let mut nest = Nest::new(grammar);
    definitions.into_iter().for_each(|it| nest.add(it));
    (nest.functions, nest.left_out)
}

/// The definitions that are open at a place of a text, outermost first, and the functions up to there.
struct Nest<'a> {
    grammar: &'a Grammar,
    open: Vec<Enclosing>,
    functions: Vec<Function>,
    left_out: usize,
}

impl<'a> Nest<'a> {
    fn new(grammar: &'a Grammar) -> Self {
        let top = Enclosing { end: usize::MAX, path: Some(String::new()), ..Enclosing::default() };
        Nest { grammar, open: vec![top], functions: Vec::new(), left_out: 0 }
    }

    fn add(&mut self, Definition { parts, range, is_function, .. }: Definition) {
        while self.open.last().is_some_and(|it| it.end < range.end) {
            self.open.pop();
        }
        if self.open.len() > MAX_NESTING {
            self.left_out += usize::from(is_function);
            return;
        }
        let nests = |it: &&mut Enclosing| self.grammar.nested_functions || !(is_function && it.is_function);
        let Some(outer) = self.open.iter_mut().rev().find(nests) else { return };
        let Some(own) = parts.or_else(|| outer.own_name()) else { return };
        let named = outer.qualify(&own);
        let mut inner = Enclosing { end: range.end, is_function, ..Enclosing::default() };
        match named {
            None => self.left_out += usize::from(is_function),
            Some((name, last_component)) => {
                let joined = outer.last.filter(|&it| self.grammar.joins_clauses && self.functions[it].name == name);
                if let Some(earlier) = joined {
                    self.functions[earlier].range.end = range.end;
                } else if is_function {
                    outer.last = Some(self.functions.len());
                    self.functions.push(Function { name: name.clone(), range });
                }
                (inner.path, inner.last_component) = (Some(name), last_component);
            }
        }
        self.open.push(inner);
    }
}

#[cfg(test)]
mod tests {
    use super::super::language::{self, Functions};
    use super::*;

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
}
