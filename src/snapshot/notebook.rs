//! A Jupyter notebook as source: its code cells, one after the other; outputs and prose are dropped.
//!
//! The content that candidates are made of is the cells' text; each of its lines knows its line in the file on disk. A
//! notebook that is not valid JSON (a merge conflict, mostly) stays a file candidate with its raw text.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::language::{self, Functions};
use super::parse::{self, Extracted, Function};
use crate::types::Source;

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
pub(super) fn extract(path: &str, language_name: &'static str, text: String) -> Extracted {
    let notebook: Notebook = match serde_json::from_str(&text) {
        Ok(notebook) => notebook,
        Err(error) => {
            let note = format!("not a valid notebook ({error}), so it is searched as plain text and has no functions");
            return Extracted {
                source: Source::new(path, language_name, text),
                functions: Vec::new(),
                note: Some(note),
            };
        }
    };
    let mut code = Code::default();
    let disk = Source::new(path, language_name, text.as_str());
    let cells = notebook.cells.iter().chain(notebook.worksheets.iter().flat_map(|it| &it.cells));
    for source in cells.filter(|cell| cell.cell_type == "code").filter_map(|cell| cell.source) {
        code.push_cell(source, |piece| disk.line_at(piece.as_ptr() as usize - text.as_ptr() as usize));
    }
    let (functions, note) = code.functions(notebook.metadata.language());
    let source = Source::extracted(path, language_name, code.text, code.disk_lines);
    Extracted { source, functions, note }
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
    fn functions(&self, language_name: &str) -> (Vec<Function>, Option<String>) {
        let row = language::LANGUAGES.iter().find(|row| row.name.eq_ignore_ascii_case(language_name));
        let Some((row, Functions::Grammar(grammar))) = row.map(|row| (row, &row.functions)) else {
            return (
                Vec::new(),
                Some(format!("no functions are known in notebooks of the language `{language_name}`")),
            );
        };
        let (mut all, mut note) = (Vec::new(), None);
        let ends = self.cells.iter().skip(1).copied().chain([self.text.len()]);
        for (&start, end) in self.cells.iter().zip(ends) {
            let (found, failure) = parse::functions(row.name, grammar, &without_magics(&self.text[start..end]));
            all.extend(found.into_iter().map(|function| function.shifted(start)));
            note = note.or(failure.map(|it| it.to_string()));
        }
        (all, note)
    }
}

/// A cell with what IPython reads itself (`%time`, `!ls`, `name?`, a `%%bash` cell) blanked, every byte in its place.
fn without_magics(cell: &str) -> String {
    /// Cell magics whose body is still the notebook's own language.
    const TRANSPARENT: [&str; 5] = ["%%time", "%%timeit", "%%capture", "%%prun", "%%snakeviz"];
    let first = cell.split_whitespace().next().unwrap_or_default();
    let foreign = first.starts_with("%%") && !TRANSPARENT.contains(&first);
    let blank = |line: &str| line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect::<String>();
    cell.split_inclusive('\n')
        .map(|line| if foreign || is_magic(line) { blank(line) } else { line.to_owned() })
        .collect()
}

fn is_magic(line: &str) -> bool {
    let line = line.trim();
    // A continuation line may begin with the operator `%`, but then a space follows.
    let command = line.strip_prefix(['%', '!']).is_some_and(|rest| !rest.starts_with(|it: char| it.is_whitespace()));
    command || line.starts_with('?') || (line.ends_with('?') && !line.contains('#'))
}
