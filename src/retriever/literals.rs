//! What a picture shows an interface or an error to say, as it stands in the source: in quotes, between tags.

use std::collections::BTreeMap;

use crate::index::lexical::LexicalIndex;
use crate::index::tokens;
use crate::types::{Candidate, Level, VisualEvidence};

use super::RetrieverError;

/// Bytes of the shortest text that is looked for: `OK` stands everywhere.
const LEAST: usize = 6;
/// Texts of one picture that are looked for.
const MOST_TEXTS: usize = 40;
/// Files that have all words of a text are looked into, if they are no more.
const MOST_LOOKED: usize = 20;
/// A text that stands in more files names none.
const MOST_FILES: usize = 5;

/// Candidates that hold what a picture shows, and how much each says: 1 / sqrt(n) of a text that n files hold.
#[derive(Debug, Default)]
pub struct Literals {
    strengths: BTreeMap<usize, f32>,
}

impl Literals {
    /// Looks for the strings of an interface and for the message of an error.
    ///
    /// # Errors
    /// When the index is damaged, or a text can't be had.
    pub fn of(
        evidence: &VisualEvidence,
        candidates: &[Candidate],
        index: &LexicalIndex,
    ) -> Result<Self, RetrieverError> {
        let message = evidence.error_signal.as_ref().and_then(|it| it.message.as_ref());
        let texts = message.into_iter().chain(&evidence.ui_elements).map(|it| it.trim());
        let mut literals = Literals::default();
        for text in texts.filter(|it| it.len() >= LEAST).take(MOST_TEXTS) {
            literals.look_for(text, candidates, index)?;
        }
        Ok(literals)
    }

    fn look_for(&mut self, text: &str, candidates: &[Candidate], index: &LexicalIndex) -> Result<(), RetrieverError> {
        let terms = tokens::terms(text);
        let files = if terms.is_empty() { Vec::new() } else { index.holding(Level::File, &terms)? };
        if files.len() > MOST_LOOKED {
            return Ok(());
        }
        let mut places = Vec::new();
        for file in files {
            let body = candidates[file].body()?;
            let found: Vec<usize> =
                body.match_indices(text).map(|it| it.0).filter(|&at| is_literal(body, at, text)).collect();
            if !found.is_empty() {
                places.push((file, found));
            }
        }
        if places.is_empty() || places.len() > MOST_FILES {
            return Ok(());
        }
        let strength = 1.0 / (places.len() as f32).sqrt();
        for (file, found) in places {
            self.add(file, strength);
            // A file's functions follow it; those around the text.
            let functions = candidates.iter().enumerate().skip(file + 1).take_while(|it| it.1.level == Level::Function);
            let holds = |function: &Candidate| found.iter().any(|at| function.range.contains(at));
            functions.filter(|it| holds(it.1)).for_each(|it| self.add(it.0, strength));
        }
        Ok(())
    }

    fn add(&mut self, at: usize, strength: f32) {
        let known = self.strengths.entry(at).or_default();
        *known = known.max(strength);
    }

    /// Puts the strengths among others, by position.
    pub fn mark(&self, strengths: &mut [f32]) {
        for (&at, &strength) in &self.strengths {
            strengths[at] = strengths[at].max(strength);
        }
    }
}

/// Whether a text stands in quotes or between tags there, with nothing beside it but a mark of punctuation.
fn is_literal(body: &str, at: usize, text: &str) -> bool {
    let before = body[..at].trim_end().chars().next_back();
    let after = body[at + text.len()..].trim_start_matches(['.', '!', '?', ':', '…']).trim_start().chars().next();
    before.is_some_and(|it| "\"'`>".contains(it)) && after.is_some_and(|it| "\"'`<".contains(it))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{ErrorSignal, Lines, Source, Text};

    const MAILER: &str = "function open() {}\nfunction send() { alert(\"Could not send the mail\") }\n";

    fn candidates() -> Vec<Candidate> {
        let file = |path: &str, text: &str| Candidate::file(Arc::new(Source::new(path, "Text", Text::new(text))));
        let mailer = file("mailer.js", MAILER);
        let function = |name: &str| {
            let start = MAILER.find(&format!("function {name}")).expect("there");
            let end = start + MAILER[start..].find('\n').expect("a line");
            Candidate::function(Arc::clone(&mailer.source), name, start..end, Lines { start: 1, end: 1 })
        };
        let (open, send) = (function("open"), function("send"));
        vec![
            mailer,
            open,
            send,
            file("a.html", "<b>\n  Save changes.\n</b>"),
            file("b.html", "<i>Save changes</i> // Save changes, send mail"),
        ]
    }

    /// Strengths of mailer.js, open, send, a.html and b.html for a picture with these labels.
    #[track_caller]
    fn check(labels: &[&str], message: Option<&str>, expected: &[f32]) {
        let candidates = candidates();
        let index = LexicalIndex::build(&candidates).expect("in memory");
        let error_signal = message.map(|it| ErrorSignal { message: Some(it.to_owned()), ..ErrorSignal::default() });
        let ui_elements = labels.iter().map(|it| (*it).to_owned()).collect();
        let evidence = VisualEvidence { ui_elements, error_signal, ..VisualEvidence::default() };
        let mut strengths = vec![0.0; candidates.len()];
        Literals::of(&evidence, &candidates, &index).expect("texts in memory").mark(&mut strengths);
        assert_eq!(strengths, expected, "{labels:?}");
    }

    #[test]
    fn a_label_finds_the_files_that_hold_it_and_the_function_around_it() {
        let half = 0.5_f32.sqrt();
        check(&["Save changes"], None, &[0.0, 0.0, 0.0, half, half]);
        check(&[], Some("Could not send the mail"), &[1.0, 0.0, 1.0, 0.0, 0.0]);
        // All words, in another order; a label of a few letters; one that nobody knows.
        check(&["the mail Could not send", "send", "Quit now"], None, &[0.0; 5]);
        // A part of a longer text, and what stands in no quotes.
        check(&["not send", "send mail", "function send"], None, &[0.0; 5]);
    }
}
