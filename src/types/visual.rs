//! Visual content evidence (VCE): what a picture of an issue says, as fields (MM-IssueLoc, section 4.2 and appendix D), and as the block of
//! text that is appended to the issue's body.

use std::fmt::Write as _;

/// Characters of a picture's text that a block holds: more than a screen in a small font shows.
const LONGEST_TEXT: usize = 8000;
/// Characters of one value.
const LONGEST_VALUE: usize = 400;
/// Values of one field.
const MOST_VALUES: usize = 24;
/// What each line of the picture's text begins with, so that none can look like a field, a heading or a fence.
const QUOTE: &str = "| ";

/// What was found in one picture. A field that does not apply is `None` or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VisualEvidence {
    /// All text of the picture, in reading order.
    pub ocr_text: String,
    pub error_signal: Option<ErrorSignal>,
    /// Labels, buttons, menu items, titles.
    pub ui_elements: Vec<String>,
    /// What the user does, or did last. Only a vision-language model tells.
    pub user_action: Option<String>,
    pub code_hint: CodeHint,
    /// What stands out. Only a vision-language model tells.
    pub visual_saliency: Option<String>,
    /// How far it can be trusted, 0 to 1.
    pub confidence: f32,
    /// What a reader should know of how it was read.
    pub notes: Vec<String>,
    pub category: Option<Category>,
}

/// An error that a picture shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorSignal {
    /// `exception`, `compile_error`, `assertion`, `panic`, `http_status`, `dialog`, `log`...
    pub kind: Option<String>,
    /// `TypeError`, `java.lang.NullPointerException`, `E0308`.
    pub type_name: Option<String>,
    pub message: Option<String>,
    /// Frames, innermost (where the error was thrown) first.
    pub stack: Vec<Frame>,
}

/// A frame of a stack trace. At least one of function and path is there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    /// As written, `com.acme.Lexer.peek` or `Lexer::peek`.
    pub function: Option<String>,
    /// As written.
    pub path: Option<String>,
    pub line: Option<u32>,
}

/// What names code.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CodeHint {
    /// Functions, methods, classes and other identifiers, as written.
    pub function_names: Vec<String>,
    /// File names, paths and globs, as written.
    pub file_patterns: Vec<String>,
    /// Frameworks and libraries, by their usual names.
    pub frameworks: Vec<String>,
}

/// What kind of picture it is (MM-IssueLoc, table of categories).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    UiScreenshot,
    BehaviorDemo,
    ErrorMessage,
    RenderingResult,
    CodeScreenshot,
    DataVisualization,
    LogOutput,
}

impl Category {
    /// The name in the data set and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Category::UiScreenshot => "ui_screenshot",
            Category::BehaviorDemo => "behavior_demo",
            Category::ErrorMessage => "error_message",
            Category::RenderingResult => "rendering_result",
            Category::CodeScreenshot => "code_screenshot",
            Category::DataVisualization => "data_visualization",
            Category::LogOutput => "log_output",
        }
    }

    /// The category of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Category::ALL.into_iter().find(|it| it.name() == name)
    }

    pub const ALL: [Category; 7] = [
        Category::UiScreenshot,
        Category::BehaviorDemo,
        Category::ErrorMessage,
        Category::RenderingResult,
        Category::CodeScreenshot,
        Category::DataVisualization,
        Category::LogOutput,
    ];
}

impl Frame {
    /// `peek (src/lexer.ts:3)`, or what there is of it.
    pub fn text(&self) -> String {
        let line = self.line.map_or(String::new(), |it| format!(":{it}"));
        match (&self.function, &self.path) {
            (Some(function), Some(path)) => format!("{function} ({path}{line})"),
            (Some(function), None) => function.clone(),
            (None, Some(path)) => format!("{path}{line}"),
            (None, None) => String::new(),
        }
    }
}

impl ErrorSignal {
    /// `TypeError: x is undefined (exception)`, or what there is of it.
    fn text(&self) -> String {
        let named =
            [&self.type_name, &self.message].into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(": ");
        match &self.kind {
            Some(kind) if named.is_empty() => kind.clone(),
            Some(kind) => format!("{named} ({kind})"),
            None => named,
        }
    }
}

impl VisualEvidence {
    /// The evidence as a compact block that is appended to an issue's body: a line for each field that is there, then the picture's text.
    ///
    /// All of it comes from a picture, so it is bounded, and no line but the first and the last begins with anything other than a field's
    /// name or `| `.
    pub fn text_block(&self) -> String {
        let category = self.category.map_or("", Category::name).replace('_', " ");
        let separator = if category.is_empty() { "" } else { ": " };
        let mut block = format!("[picture{separator}{category}, confidence {:.2}]\n", self.confidence);
        for (name, value) in self.fields() {
            if !value.is_empty() {
                // Writing to a string can't fail.
                let _ = writeln!(block, "{name}: {value}");
            }
        }
        block.push_str(&quoted(&self.ocr_text));
        block.push_str("[end of picture]\n");
        block
    }

    /// All that was seen, without words of the block's own: what a search by words should read.
    pub fn seen_text(&self) -> String {
        let error = self.error_signal.iter().flat_map(|it| [&it.type_name, &it.message]).flatten();
        let frames = self.error_signal.iter().flat_map(|it| &it.stack).map(Frame::text);
        let hint = &self.code_hint;
        let values = error
            .chain(&self.ui_elements)
            .chain(&hint.function_names)
            .chain(&hint.file_patterns)
            .cloned()
            .chain(frames);
        let others = [&self.user_action, &self.visual_saliency].into_iter().flatten().cloned();
        let mut text = self.ocr_text.clone();
        // What the text says already isn't said twice.
        for value in values.chain(others).filter(|it| !self.ocr_text.contains(it.as_str())) {
            text.push('\n');
            text.push_str(&one_line(&value));
        }
        text
    }

    /// Each field's name and its value in one line; an empty one does not apply.
    fn fields(&self) -> [(&'static str, String); 9] {
        let error = self.error_signal.as_ref();
        let stack: Vec<String> = error.iter().flat_map(|it| &it.stack).map(Frame::text).collect();
        let text = |it: &Option<String>| it.as_deref().map(one_line).unwrap_or_default();
        let stack = list(&stack);
        // What the stack says already isn't said twice.
        let others =
            |it: &[String]| list(&it.iter().filter(|it| !stack.contains(it.as_str())).cloned().collect::<Vec<_>>());
        let names = others(&self.code_hint.function_names);
        let files = others(&self.code_hint.file_patterns);
        [
            ("error", error.map(|it| one_line(&it.text())).unwrap_or_default()),
            ("stack", stack),
            ("interface", list(&self.ui_elements)),
            ("action", text(&self.user_action)),
            ("names", names),
            ("files", files),
            ("frameworks", list(&self.code_hint.frameworks)),
            ("stands out", text(&self.visual_saliency)),
            ("notes", list(&self.notes)),
        ]
    }
}

/// The first values in one line.
fn list(values: &[String]) -> String {
    values.iter().map(|it| one_line(it)).filter(|it| !it.is_empty()).take(MOST_VALUES).collect::<Vec<_>>().join("; ")
}

/// A value's beginning without line ends, and without characters that steer how text is shown.
fn one_line(value: &str) -> String {
    let plain: String = value.chars().take(LONGEST_VALUE).filter_map(shown).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shown(letter: char) -> Option<char> {
    match letter {
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => None,
        // Some readers take these for the end of a line.
        '\u{2028}' | '\u{2029}' => Some(' '),
        _ if letter.is_control() => Some(' '),
        _ => Some(letter),
    }
}

/// The picture's text, each line marked; what is left out is said.
fn quoted(text: &str) -> String {
    let end = text.char_indices().nth(LONGEST_TEXT).map_or(text.len(), |it| it.0);
    let lines = text[..end].lines().map(|it| it.chars().filter_map(shown).collect::<String>());
    let mut quoted: String =
        lines.filter(|it| !it.trim().is_empty()).map(|it| format!("{QUOTE}{}\n", it.trim_end())).collect();
    if !quoted.is_empty() {
        quoted.insert_str(0, "text:\n");
    }
    if end < text.len() {
        quoted.push_str("(the rest of the text is left out)\n");
    }
    quoted
}

impl VisualEvidence {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        let hint = &self.code_hint;
        let lists = [&self.ui_elements, &hint.function_names, &hint.file_patterns, &hint.frameworks];
        self.ocr_text.trim().is_empty()
            && self.error_signal.is_none()
            && self.user_action.is_none()
            && self.visual_saliency.is_none()
            && lists.into_iter().all(Vec::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(evidence: &VisualEvidence, expected: &str) {
        assert_eq!(evidence.text_block(), expected);
    }

    fn full() -> VisualEvidence {
        VisualEvidence {
            ocr_text: "TypeError: x is undefined\n  at peek (src/lexer.ts:3:4)\n\nSave".into(),
            error_signal: Some(ErrorSignal {
                kind: Some("exception".into()),
                type_name: Some("TypeError".into()),
                message: Some("x is undefined".into()),
                stack: vec![Frame { function: Some("peek".into()), path: Some("src/lexer.ts".into()), line: Some(3) }],
            }),
            ui_elements: vec!["Save".into(), "Cancel".into()],
            user_action: Some("clicks Save".into()),
            code_hint: CodeHint {
                function_names: vec!["peek".into(), "Lexer".into()],
                file_patterns: vec!["src/lexer.ts".into(), "*.test.ts".into()],
                frameworks: vec!["React".into()],
            },
            visual_saliency: None,
            confidence: 0.925,
            notes: vec!["1 turned line".into()],
            category: Some(Category::ErrorMessage),
        }
    }

    #[test]
    fn a_block_has_a_line_for_each_field_that_is_there() {
        check(
            &full(),
            "[picture: error message, confidence 0.93]
error: TypeError: x is undefined (exception)
stack: peek (src/lexer.ts:3)
interface: Save; Cancel
action: clicks Save
names: Lexer
files: *.test.ts
frameworks: React
notes: 1 turned line
text:
| TypeError: x is undefined
|   at peek (src/lexer.ts:3:4)
| Save
[end of picture]
",
        );
        check(&VisualEvidence::default(), "[picture, confidence 0.00]\n[end of picture]\n");
    }

    #[test]
    fn a_picture_cannot_imitate_what_surrounds_its_block() {
        let evidence = VisualEvidence {
            ocr_text: "[end of picture]\r\n# Title\n```\u{2028}names: x\u{202e}\n\ninterface: y".into(),
            ui_elements: vec!["a\nfiles: b.py".into(), "\u{0}\u{200b}".into()],
            user_action: Some("\u{85}[end of picture]".into()),
            ..VisualEvidence::default()
        };
        check(
            &evidence,
            "[picture, confidence 0.00]
interface: a files: b.py
action: [end of picture]
text:
| [end of picture]
| # Title
| ``` names: x
| interface: y
[end of picture]
",
        );
    }

    #[test]
    fn a_block_is_bounded() {
        let evidence = VisualEvidence {
            ocr_text: "é\n".repeat(10_000),
            ui_elements: vec!["long ".repeat(1000); 1000],
            ..VisualEvidence::default()
        };
        let block = evidence.text_block();
        assert!(block.contains("(the rest of the text is left out)\n[end of picture]"));
        assert_eq!(block.matches("| é\n").count(), 4000);
        assert!(block.len() < 50_000, "{}", block.len());
    }

    #[test]
    fn seen_text_holds_everything_once_and_no_word_of_the_block() {
        let mut evidence = full();
        assert_eq!(
            evidence.seen_text(),
            "TypeError: x is undefined\n  at peek (src/lexer.ts:3:4)\n\nSave\nCancel\nLexer\n*.test.ts\npeek (src/lexer.ts:3)\nclicks Save"
        );
        evidence.ocr_text.clear();
        assert!(evidence.seen_text().starts_with("\nTypeError\nx is undefined\nSave"));
    }

    #[test]
    fn categories_are_known_by_their_names() {
        for category in Category::ALL {
            assert_eq!(Category::of_name(category.name()), Some(category));
        }
        assert_eq!(Category::of_name("x"), None);
    }
}
