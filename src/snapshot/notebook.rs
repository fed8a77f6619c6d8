//! A Jupyter notebook as source: its code cells, one after the other; outputs and prose are dropped.
//!
//! The content that candidates are made of is the cells' text; each of its lines knows its line in the file on disk. A
//! notebook that is not valid JSON (a merge conflict, mostly) stays a file candidate with its raw text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::budget::{Budget, Deadline, Losses};
use super::language::{self, Functions};
use super::parse::{self, Extracted, Function};
use super::rewrite::blanked;
use crate::types::Text;

/// The parts of nbformat 3 and 4 that hold code.
#[derive(Deserialize)]
struct Notebook<'a> {
    #[serde(borrow, default)]
    cells: Vec<Cell<'a>>,
    /// nbformat 3.
    #[serde(borrow, default)]
    worksheets: Vec<Worksheet<'a>>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Worksheet<'a> {
    #[serde(borrow, default)]
    cells: Vec<Cell<'a>>,
}

#[derive(Deserialize)]
struct Cell<'a> {
    #[serde(default)]
    cell_type: String,
    /// A string, or a list of strings that are lines: raw, because where it stands in the file gives the lines on disk.
    #[serde(borrow, alias = "input")]
    source: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    kernelspec: Option<Kernel>,
    language_info: Option<Kernel>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Kernel {
    /// In `kernelspec`.
    language: Option<String>,
    /// The language in `language_info`, the kernel in `kernelspec`.
    name: Option<String>,
}

impl Metadata {
    /// Name of the notebook's language; Python when it names none, as Jupyter itself assumes.
    fn language(&self) -> &str {
        let info = self.language_info.as_ref().and_then(|it| it.name.as_deref());
        info.or_else(|| self.kernelspec.as_ref()?.language.as_deref()).unwrap_or("Python")
    }
}

/// The code cells of a notebook and their functions.
pub(super) fn extract(language: &'static str, text: String, deadline: Deadline) -> Extracted {
    let notebook: Notebook = match serde_json::from_str(&text) {
        Ok(notebook) => notebook,
        Err(error) => {
            let note = format!("not a valid notebook ({error}), so it is searched as plain text and has no functions");
            return Extracted { language, text: Text::new(text), functions: Vec::new(), note: Some(note) };
        }
    };
    let mut code = Code::default();
    let disk = Text::new(text.as_str());
    let cells = notebook.cells.iter().chain(notebook.worksheets.iter().flat_map(|it| &it.cells));
    for source in cells.filter(|cell| cell.cell_type == "code").filter_map(|cell| cell.source) {
        code.push_cell(source, |piece| disk.line_at(piece.as_ptr() as usize - text.as_ptr() as usize));
    }
    let (functions, note) = code.functions(notebook.metadata.language(), deadline);
    Extracted { language, text: Text::extracted(code.text, code.disk_lines), functions, note }
}

/// The code of a notebook as it is put together.
#[derive(Default)]
struct Code {
    text: String,
    /// Line on disk of each line of `text`.
    disk_lines: Vec<u32>,
    /// Byte offset in `text` at which each cell begins.
    cells: Vec<usize>,
}

impl Code {
    /// Adds a cell; `line_of` tells the line on disk of a piece of the notebook's text.
    fn push_cell(&mut self, source: &RawValue, line_of: impl Fn(&str) -> u32) {
        let pieces: Vec<&RawValue> = serde_json::from_str(source.get()).unwrap_or_else(|_| vec![source]);
        self.cells.push(self.text.len());
        for raw in pieces {
            let Ok(piece) = serde_json::from_str::<String>(raw.get()) else { continue };
            let line = line_of(raw.get());
            for part in piece.replace("\r\n", "\n").replace('\r', "\n").split_inclusive('\n') {
                if self.text.is_empty() || self.text.ends_with('\n') {
                    self.disk_lines.push(line);
                }
                self.text.push_str(part);
            }
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// The functions of every cell. Cells are parsed one by one: a broken one costs only its own functions.
    fn functions(&self, language_name: &str, deadline: Deadline) -> (Vec<Function>, Option<String>) {
        let row = language::LANGUAGES.iter().find(|row| row.name.eq_ignore_ascii_case(language_name));
        let Some((row, Functions::Grammar(grammar))) = row.map(|row| (row, &row.functions)) else {
            return (
                Vec::new(),
                Some(format!("no functions are known in notebooks of the language `{language_name}`")),
            );
        };
        let budget = Budget::new(self.text.len(), deadline);
        let (mut all, mut losses) = (Vec::new(), Losses::default());
        let ends = self.cells.iter().skip(1).copied().chain([self.text.len()]);
        for (&start, end) in self.cells.iter().zip(ends) {
            let written = &self.text[start..end];
            let cell = if row.name == "Python" { without_magics(written) } else { Cow::Borrowed(written) };
            if cell.trim().is_empty() {
                continue;
            }
            let (found, lost) = parse::functions(row.name, grammar, &cell, &budget);
            all.extend(found.into_iter().map(|function| function.shifted(start)));
            losses = losses.and(lost);
        }
        (all, losses.note())
    }
}

/// A cell with what IPython reads itself (`%time`, `!ls`, `name?`, a `%%bash` cell) blanked, every byte in its place.
fn without_magics(cell: &str) -> Cow<'_, str> {
    /// Cell magics whose body is still the notebook's own language.
    const TRANSPARENT: [&str; 5] = ["%%time", "%%timeit", "%%capture", "%%prun", "%%snakeviz"];
    let first = cell.split_whitespace().next().unwrap_or_default();
    let foreign = first.starts_with("%%") && !TRANSPARENT.contains(&first);
    if !foreign && !cell.lines().any(is_magic) {
        return Cow::Borrowed(cell);
    }
    let line_of = |line| if foreign || is_magic(line) { blanked(line) } else { Cow::Borrowed(line) };
    Cow::Owned(cell.split_inclusive('\n').map(line_of).collect())
}

/// Whether IPython takes a line for a command of its own or for a question (`?name`, `name??`, `%magic?`).
fn is_magic(line: &str) -> bool {
    let line = line.trim();
    // A continuation line may begin with the operator `%`, but then a space follows.
    let command = line.strip_prefix(['%', '!']).is_some_and(|rest| !rest.starts_with(|it: char| it.is_whitespace()));
    command || is_question(line)
}

/// A name, perhaps with wildcards, between question marks and nothing else.
fn is_question(line: &str) -> bool {
    let asked = line.trim_start_matches('?').trim_end_matches('?');
    let marks = line.len() - asked.len();
    let is_name = |it: char| it.is_alphanumeric() || matches!(it, '_' | '.' | '*' | '%');
    (1..=3).contains(&marks) && !asked.is_empty() && asked.chars().all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: &str, cell: &str, expected: &[&str]) {
        let metadata = serde_json::json!({ "language_info": { "name": language } });
        let cell = serde_json::json!({ "cell_type": "code", "source": cell });
        let notebook = serde_json::json!({ "cells": [cell], "metadata": metadata });
        let extracted = extract("Jupyter", notebook.to_string(), Deadline::of(0));
        let found: Vec<&str> = extracted.functions.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((found.as_slice(), extracted.note.as_deref()), (expected, None), "{cell}");
    }

    #[test]
    fn what_ipython_reads_itself_is_no_code() {
        for line in ["%time f()", "!ls", "f?", "f??", "?f", "??a.b", "*.load*?", "%time?", "  np.array?"] {
            check("python", &format!("{line}\ndef f():\n    pass\n"), &["f"]);
            assert!(is_magic(line), "{line}");
        }
        for line in ["\"\"\"Is this right?", "# right?", "", "?", "x = 'a?", "f(x)?", "% 2", "????f"] {
            assert!(!is_magic(line), "{line}");
        }
    }

    #[test]
    fn code_that_looks_like_magic_is_kept() {
        check("python", "def f():\n    \"\"\"Is this right?\n    \"\"\"\n    return 1\n", &["f"]);
        check("python", "x = (7\n % 2)\ndef f():\n    pass\n", &["f"]);
        check("ruby", "def empty?\n  true\nend\ndef b\nend\n", &["empty?", "b"]);
        check("javascript", "function f(x) {\n  return x ?\n    1 : 2;\n}\n!x && g();\n", &["f"]);
        check("javascript", "const f = function () {\n  return\n    !x && g(() => {\n  });\n};\n", &["f"]);
    }

    #[test]
    fn cells_share_what_a_file_may_cost() {
        let hostile = serde_json::json!({ "cell_type": "code", "source": "/".repeat(600) });
        let cells = vec![hostile; 300];
        let notebook = serde_json::json!({ "cells": cells, "metadata": { "language_info": { "name": "lua" } } });
        let extracted = extract("Jupyter", notebook.to_string(), Deadline::of(0));
        assert!(extracted.note.is_some_and(|it| it.contains("given up after 27537 steps")));
    }
}
