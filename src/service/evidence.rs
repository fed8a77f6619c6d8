//! F4: what was read of pictures, as it is served and printed; its shape is documented and stable.

use serde::Serialize;
use utoipa::ToSchema;

use crate::evidence::{Page, Reading, Source};
use crate::retriever::PictureWeight;
use crate::types::{ErrorSignal, Frame, VisualEvidence};

/// Characters of an error in a summary.
const SUMMARY: usize = 120;

/// Visual content evidence: what one picture says. What does not apply is null or empty.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Vce {
    /// The picture's.
    pub name: String,
    /// `ocr`: read on this machine. `endpoint`: by a vision-language model. `given`: by whoever asked.
    pub source: &'static str,
    /// The model behind the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub category: Option<&'static str>,
    pub ocr_text: String,
    pub error_signal: Option<ErrorView>,
    pub ui_elements: Vec<String>,
    pub user_action: Option<String>,
    pub code_hint: CodeView,
    pub visual_saliency: Option<String>,
    /// How far it can be trusted, 0 to 1.
    pub confidence: f32,
    pub notes: Option<String>,
    /// Why another source than the wanted one read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// How far what the picture adds finds the files that the text finds, 0 to 1; and what its evidence was multiplied with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f32>,
    /// Where the text stands in the picture, if it was read on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<LineView>>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ErrorView {
    pub kind: Option<String>,
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    pub message: Option<String>,
    /// `function (path:line)`, innermost first.
    pub stack_hint: Vec<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CodeView {
    pub function_names: Vec<String>,
    pub file_patterns: Vec<String>,
    pub frameworks: Vec<String>,
}

/// A line of text in a picture.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct LineView {
    pub text: String,
    pub confidence: f32,
    /// Of which block of lines it is, from 0.
    pub block: usize,
    /// Top left, top right, bottom right, bottom left; x and y in pixels.
    pub corners: [[f32; 2]; 4],
}

impl Vce {
    pub fn of(name: &str, reading: &Reading) -> Self {
        let VisualEvidence {
            ocr_text,
            error_signal,
            ui_elements,
            user_action,
            code_hint,
            visual_saliency,
            confidence,
            notes,
            category,
        } = &reading.evidence;
        let (source, model) = match &reading.source {
            Source::Ocr => ("ocr", None),
            Source::Endpoint { model } => ("endpoint", Some(model.clone())),
            Source::Given => ("given", None),
        };
        Vce {
            name: name.to_owned(),
            source,
            model,
            category: category.map(|it| it.name()),
            ocr_text: ocr_text.clone(),
            error_signal: error_signal.as_ref().map(ErrorView::of),
            ui_elements: ui_elements.clone(),
            user_action: user_action.clone(),
            code_hint: CodeView {
                function_names: code_hint.function_names.clone(),
                file_patterns: code_hint.file_patterns.clone(),
                frameworks: code_hint.frameworks.clone(),
            },
            visual_saliency: visual_saliency.clone(),
            confidence: *confidence,
            notes: (!notes.is_empty()).then(|| notes.join("; ")),
            warning: reading.warning.clone(),
            agreement: None,
            weight: None,
            lines: None,
        }
    }

    /// The same, with how much it counted in an answer.
    pub fn weighed(self, weight: Option<&PictureWeight>) -> Self {
        Vce { agreement: weight.map(|it| it.agreement), weight: weight.map(|it| it.weight), ..self }
    }

    /// One line: how much was read, the error if there is one, and how much it counted in an answer.
    pub fn summary(&self) -> String {
        let lines = self.ocr_text.lines().filter(|it| !it.trim().is_empty()).count();
        let mut said = format!("{lines} {} of text", if lines == 1 { "line" } else { "lines" });
        if let Some(error) = &self.error_signal {
            let named = [&error.type_name, &error.message].into_iter().flatten().map(String::as_str);
            // It goes to terminals and to agents, and whoever made the picture chose it.
            let plain = |it: &char| {
                !it.is_control()
                    && !matches!(it, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
            };
            let named: String = named.collect::<Vec<_>>().join(": ").chars().filter(plain).take(SUMMARY).collect();
            said = format!("{said}, the error \"{named}\"");
        }
        self.weight.map_or(said.clone(), |weight| format!("{said}; it counts {:.0} %", 100.0 * weight))
    }

    /// The same, with where its text stands.
    pub fn with_lines(self, page: Option<&Page>) -> Self {
        Vce { lines: page.map(lines), ..self }
    }
}

impl ErrorView {
    fn of(error: &ErrorSignal) -> Self {
        ErrorView {
            kind: error.kind.clone(),
            type_name: error.type_name.clone(),
            message: error.message.clone(),
            stack_hint: error.stack.iter().map(Frame::text).collect(),
        }
    }
}

fn lines(page: &Page) -> Vec<LineView> {
    let blocks = page.blocks.iter().enumerate();
    let line = |(block, line): (usize, &crate::evidence::Line)| LineView {
        text: line.text.clone(),
        confidence: line.confidence,
        block,
        corners: line.corners,
    };
    blocks.flat_map(|(at, block)| block.lines.iter().map(move |it| (at, it))).map(line).collect()
}
