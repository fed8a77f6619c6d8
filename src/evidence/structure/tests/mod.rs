//! Traces, diagnostics, interfaces as pictures show them, whole and as OCR leaves them.

use super::*;
use crate::evidence::page::{Block, Line, Note, Page};
use crate::types::{Category, Frame, VisualEvidence};

/// A page of one block in a monospaced font: 8 pixels a character, 16 a line.
fn page(text: &str) -> Page {
    let mut blocks = Vec::new();
    let mut top = 0.0;
    for paragraph in text.split("\n\n") {
        let mut block = Block::default();
        for text in paragraph.lines() {
            let right = text.chars().count() as f32 * 8.0;
            let corners = [[0.0, top], [right, top], [right, top + 16.0], [0.0, top + 16.0]];
            block.lines.push(Line { text: text.into(), confidence: 0.9, corners });
            top += 16.0;
        }
        blocks.push(block);
        top += 16.0;
    }
    Page { width: 1000, height: 1000, blocks, notes: Vec::new() }
}

fn frame(written: &str) -> Frame {
    let parts: Vec<&str> = written.split(' ').collect();
    let some = |it: &str| (it != "-").then(|| it.to_owned());
    Frame { function: some(parts[0]), path: some(parts[1]), line: parts[2].parse().ok() }
}

fn read(text: &str) -> VisualEvidence {
    structure(&page(text))
}

/// Frames are `function path line`, `-` where one is not there; the error is `kind type message`, cut by `|`.
#[track_caller]
fn check(text: &str, error: &str, stack: &[&str]) {
    let signal = read(text).error_signal.unwrap_or_default();
    let field = |it: &Option<String>| it.clone().unwrap_or_default();
    assert_eq!(
        format!("{}|{}|{}", field(&signal.kind), field(&signal.type_name), field(&signal.message)),
        error,
        "{text}"
    );
    let expected: Vec<Frame> = stack.iter().map(|it| frame(it)).collect();
    assert_eq!(signal.stack, expected, "{text}");
}

mod evidence;
mod traces;
