//! F2: what a model wrote -> fields of visual evidence, or what is wrong with it.
//!
//! Strict in what it says (fields, types, ranges), lenient in what stands around it (reasoning, prose, code fences).

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::types::{Category, CodeHint, ErrorSignal, Frame, VisualEvidence};

/// Characters of the text of a picture that are kept: several screens full.
const MOST_TEXT: usize = 20_000;
/// Characters of any other field.
const MOST_FIELD: usize = 1_000;
/// Entries of any list.
const MOST_ENTRIES: usize = 100;
/// Braces of prose before the object that are tried.
const MOST_BRACES: usize = 32;

/// What is wrong with an answer. It is told to the model, and to the user when the second answer is no better.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Fault {
    #[error("it holds no JSON object with the fields that were asked for")]
    NoObject,
    #[error("it is not the JSON object that was asked for ({0})")]
    Json(String),
    #[error("its confidence is {0}, and has to be from 0 to 1")]
    Confidence(f64),
    #[error("its category `{0}` is none of those that were named")]
    Category(String),
    #[error("it was cut off because it was too long")]
    Cut,
}

/// Reads the text of an answer.
pub(super) fn read(text: &str) -> Result<VisualEvidence, Fault> {
    let object = object(without_reasoning(text))?;
    let answer: Answer = serde_json::from_str(object).map_err(|it| Fault::Json(it.to_string()))?;
    answer.evidence()
}

/// What stands behind the thoughts that some models write first. Templates may leave out the opening tag.
fn without_reasoning(text: &str) -> &str {
    text.rfind("</think>").map_or(text, |at| &text[at + "</think>".len()..])
}

/// The first JSON object that has a field of ours. Behind it anything may stand.
fn object(text: &str) -> Result<&str, Fault> {
    let mut first_error = None;
    for (at, _) in text.match_indices('{').take(MOST_BRACES) {
        let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter::<IgnoredAny>();
        match stream.next() {
            Some(Ok(_)) => {
                let object = &text[at..at + stream.byte_offset()];
                if object.contains("\"confidence\"") {
                    return Ok(object);
                }
            }
            Some(Err(error)) => {
                first_error.get_or_insert_with(|| error.to_string());
            }
            None => {}
        }
    }
    Err(first_error.map_or(Fault::NoObject, Fault::Json))
}

/// The object as models write it; lists that are empty may be `null`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    ocr_text: Option<String>,
    error_signal: Option<Signal>,
    ui_elements: Option<Vec<String>>,
    user_action: Option<String>,
    code_hint: Option<Hint>,
    visual_saliency: Option<String>,
    confidence: f64,
    notes: Option<Notes>,
    category: Option<String>,
}

/// Models without a schema to follow write a sentence as often as a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Notes {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signal {
    kind: Option<String>,
    #[serde(rename = "type")]
    type_name: Option<String>,
    message: Option<String>,
    stack_hint: Option<Vec<Hit>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hit {
    function: Option<String>,
    path: Option<String>,
    line: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hint {
    function_names: Option<Vec<String>>,
    file_patterns: Option<Vec<String>>,
    frameworks: Option<Vec<String>>,
}

impl Answer {
    fn evidence(self) -> Result<VisualEvidence, Fault> {
        if !(0.0..=1.0).contains(&self.confidence) {
            return Err(Fault::Confidence(self.confidence));
        }
        let category = self.category.filter(|it| it != "null");
        let category = category.map(|it| Category::of_name(&it).ok_or(Fault::Category(it))).transpose()?;
        let notes = match self.notes {
            Some(Notes::One(note)) => vec![note],
            Some(Notes::Many(notes)) => notes,
            None => Vec::new(),
        };
        Ok(VisualEvidence {
            ocr_text: text(self.ocr_text.as_deref().unwrap_or_default()),
            error_signal: self.error_signal.and_then(signal),
            ui_elements: fields(self.ui_elements),
            user_action: field(self.user_action),
            code_hint: self.code_hint.map(hint).unwrap_or_default(),
            visual_saliency: field(self.visual_saliency),
            confidence: self.confidence as f32,
            notes: fields(Some(notes)),
            category,
        })
    }
}

/// An error of which something is said.
fn signal(signal: Signal) -> Option<ErrorSignal> {
    let stack = signal.stack_hint.unwrap_or_default().into_iter().map(frame);
    let found = ErrorSignal {
        kind: field(signal.kind),
        type_name: field(signal.type_name),
        message: field(signal.message),
        stack: stack.filter(|it| it.function.is_some() || it.path.is_some()).take(MOST_ENTRIES).collect(),
    };
    (found.type_name.is_some() || found.message.is_some() || !found.stack.is_empty()).then_some(found)
}

fn frame(hit: Hit) -> Frame {
    Frame { function: field(hit.function), path: field(hit.path), line: hit.line }
}

fn hint(hint: Hint) -> CodeHint {
    CodeHint {
        function_names: fields(hint.function_names),
        file_patterns: fields(hint.file_patterns),
        frameworks: fields(hint.frameworks),
    }
}

/// Lines without what would move a terminal's cursor.
fn text(text: &str) -> String {
    let visible = |it: &char| !it.is_control() || matches!(it, '\n' | '\t');
    let kept: String = text.replace("\r\n", "\n").chars().filter(visible).take(MOST_TEXT).collect();
    kept.trim_end().trim_start_matches('\n').to_owned()
}

/// One line; `None` where nothing is said, whatever word the model has for it.
fn field(text: Option<String>) -> Option<String> {
    let kept = one_line(&text?, MOST_FIELD);
    let is_nothing = ["", "null", "none", "n/a"].iter().any(|it| kept.eq_ignore_ascii_case(it));
    (!is_nothing).then_some(kept)
}

/// Each entry once.
fn fields(texts: Option<Vec<String>>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for text in texts.unwrap_or_default() {
        let text = one_line(&text, MOST_FIELD);
        if kept.len() < MOST_ENTRIES && !text.is_empty() && !kept.contains(&text) {
            kept.push(text);
        }
    }
    kept
}

/// The first characters of a text, as one line without control characters.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let words = text.split(|it: char| it.is_whitespace() || it.is_control()).filter(|it| !it.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"ocr_text": "TypeError: x is not a function\n  at go (src/go.ts:7:3)", "error_signal": {"kind": "exception",
        "type": "TypeError", "message": "x is not a function", "stack_hint": [{"function": "go", "path": "src/go.ts", "line": 7},
        {"function": null, "path": null, "line": 9}]}, "ui_elements": ["Run", "Run", " "], "user_action": null,
        "code_hint": {"function_names": ["go"], "file_patterns": ["src/go.ts"], "frameworks": null}, "visual_saliency": "none",
        "confidence": 0.75, "notes": "cut at the right", "category": "error_message"}"#;

    fn whole() -> VisualEvidence {
        let owned = |it: &str| Some(it.to_owned());
        VisualEvidence {
            ocr_text: "TypeError: x is not a function\n  at go (src/go.ts:7:3)".to_owned(),
            error_signal: Some(ErrorSignal {
                kind: owned("exception"),
                type_name: owned("TypeError"),
                message: owned("x is not a function"),
                stack: vec![Frame { function: owned("go"), path: owned("src/go.ts"), line: Some(7) }],
            }),
            ui_elements: vec!["Run".to_owned()],
            user_action: None,
            code_hint: CodeHint {
                function_names: vec!["go".to_owned()],
                file_patterns: vec!["src/go.ts".to_owned()],
                frameworks: Vec::new(),
            },
            visual_saliency: None,
            confidence: 0.75,
            notes: vec!["cut at the right".to_owned()],
            category: Some(Category::ErrorMessage),
        }
    }

    #[track_caller]
    fn check(text: &str) {
        assert_eq!(read(text), Ok(whole()));
    }

    #[track_caller]
    fn check_fault(text: &str, expected: &str) {
        let fault = read(text).expect_err("a fault").to_string();
        assert!(fault.contains(expected), "{fault}");
    }

    #[test]
    fn an_answer_is_found_in_what_stands_around_it() {
        check(WHOLE);
        check(&format!("```json\n{WHOLE}\n```\nI hope that helps {{you}}!"));
        check(&format!("Here is {{the}} object, {{\"a\": 1}} as you asked:\n{WHOLE}"));
        check(&format!("<think>\nMaybe {{\"confidence\": 0.1}}?\n</think>\n\n{WHOLE}"));
        check(&format!("The picture shows a trace.</think>{WHOLE}"));
    }

    #[test]
    fn a_fault_is_named() {
        check_fault("", "no JSON object");
        check_fault("I can't see a picture.", "no JSON object");
        check_fault(r#"{"a": 1}"#, "no JSON object");
        check_fault(&WHOLE[..WHOLE.len() - 1], "EOF");
        check_fault(&WHOLE.replace("0.75", "7"), "its confidence is 7, and has to be from 0 to 1");
        check_fault(&WHOLE.replace("0.75", "-0.1"), "its confidence is -0.1");
        check_fault(&WHOLE.replace("0.75", "\"high\""), "expected f64");
        check_fault(&WHOLE.replace("0.75", "null"), "expected f64");
        check_fault(&WHOLE.replace("user_action", "action"), "unknown field `action`");
        check_fault(&WHOLE.replace("frameworks", "libraries"), "unknown field `libraries`");
        check_fault(&WHOLE.replace("error_message", "selfie"), "its category `selfie` is none");
        check_fault(&WHOLE.replace("\"line\": 7", "\"line\": -7"), "invalid value");
        check_fault(&WHOLE.replace("\"user_action\"", "\"ocr_text\""), "duplicate field `ocr_text`");
        check_fault(&"{\"a\":".repeat(100_000), "EOF");
    }

    #[test]
    fn fields_are_bounded_and_hold_no_control_characters() {
        let long = WHOLE
            .replace("src/go.ts:7:3)", &"long line\\u001b[2J ".repeat(MOST_TEXT))
            .replace("x is not a function", &"y".repeat(MOST_FIELD + 1))
            .replace(
                "[\"Run\", \"Run\", \" \"]",
                &format!("{:?}", (0..1000).map(|it| it.to_string()).collect::<Vec<_>>()),
            );
        let read = read(&long).expect("sound");
        assert!(read.ocr_text.chars().count() <= MOST_TEXT && !read.ocr_text.contains('\u{1b}'));
        assert_eq!(read.error_signal.and_then(|it| it.message), Some("y".repeat(MOST_FIELD)));
        assert_eq!(read.ui_elements.len(), MOST_ENTRIES);
    }

    #[test]
    fn what_is_nothing_stays_nothing() {
        assert_eq!(read(r#"{"confidence": 0}"#), Ok(VisualEvidence::default()));
        let empty =
            r#"{"ocr_text": null, "confidence": 0, "error_signal": {"kind": "log", "type": "N/A", "stack_hint": []}}"#;
        assert_eq!(read(empty), Ok(VisualEvidence::default()));
    }
}
