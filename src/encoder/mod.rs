//! F2: text into vectors. The trait every encoder implements, over plain data, and the errors of the module.
//!
//! Knows nothing of repositories, indexes or ranking: a candidate is a header line and a body here, a query is an issue report.

mod batch;
mod bert;
mod bundled;
mod canary;
pub mod hub;
mod loading;
mod minilm;
pub mod qwen3_vl;
mod registry;
mod windows;
mod wordpiece;

use std::ops::Range;

use crate::device::Compute;
use crate::types::{IssueImage, IssueReport, Policy};

pub use bundled::{bundled, bundled_with};
pub use canary::{CANARY, canary_vector};
pub use loading::{Options, load, quantize};
pub use minilm::MiniLm;

/// A model that puts queries and candidates into one space, where cosine is similarity.
pub trait Encoder: Send + Sync {
    fn info(&self) -> &ModelInfo;

    /// SHA-256 (hex) over everything that a vector depends on besides the text: weights, tokenizer, configuration, pooling,
    /// instructions and the rules by which windows are cut. Vectors of different fingerprints must not meet. Computed when first
    /// asked for, which takes as long as reading the weights unless they are part of this program.
    fn fingerprint(&self) -> &str;

    /// The windows that a candidate is embedded in, at least one: each begins with the header, together they cover every byte of the
    /// body. The candidate scores by its best window.
    ///
    /// # Errors
    /// [`EncoderError::Tokenize`].
    fn windows(&self, header: &str, body: &str) -> Result<Vec<Window>, EncoderError>;

    /// One vector a window, in order, of length 1. Equal windows are computed once.
    ///
    /// # Errors
    /// [`EncoderError::Compute`] or [`EncoderError::Threads`].
    fn embed(&self, windows: &[&Window], progress: &Progress) -> Result<Vec<Vec<f32>>, EncoderError>;

    /// The vector that an issue is searched with, and how much of the issue it stands for.
    ///
    /// # Errors
    /// Those of [`Encoder::windows`] and [`Encoder::embed`].
    fn query(&self, issue: &IssueReport) -> Result<QueryEmbedding, EncoderError>;

    /// The same of several issues at once, in order; one that can't be embedded costs the others nothing.
    fn queries(&self, issues: &[&IssueReport]) -> Vec<Result<QueryEmbedding, EncoderError>> {
        issues.iter().map(|issue| self.query(issue)).collect()
    }

    /// A vector for each input, in order; an input that can't be embedded is an error of its own and costs the others nothing.
    fn embed_inputs(&self, inputs: &[Input], progress: &Progress) -> Vec<Result<InputEmbedding, EncoderError>>;

    /// The text that tokens stand for.
    ///
    /// # Errors
    /// [`EncoderError::UnknownToken`] for a number that is none of the model's tokens.
    fn decode(&self, tokens: &[u32]) -> Result<String, EncoderError>;
}

/// Something to embed as it is: no windows are cut and no roles are known.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// What the model is told to do; `None` or blank for its default. Models without instructions refuse one.
    pub instruction: Option<String>,
    pub text: Option<String>,
    /// In the order in which the model sees them, before the text. Models that can't see refuse them.
    pub images: Vec<IssueImage>,
    /// Most tokens, those of the template and of the pictures included; `None` for the model's own limit.
    pub max_length: Option<usize>,
    /// Read all of it or nothing: an input of more tokens is [`EncoderError::TextTooLong`] and is not embedded, instead of losing its end.
    pub whole: bool,
    /// Fewest pixels that a picture is shown with.
    pub min_pixels: Option<u32>,
    /// Most pixels that a picture is shown with.
    pub max_pixels: Option<u32>,
}

/// An embedded [`Input`].
#[derive(Debug, Clone, PartialEq)]
pub struct InputEmbedding {
    /// Of length 1.
    pub vector: Vec<f32>,
    /// Tokens that the model read, those of the template and of the pictures included.
    pub tokens: usize,
    /// How many of them stand for pictures.
    pub image_tokens: usize,
    /// Tokens that there would have been without a limit, where that is more.
    pub truncated_from: Option<usize>,
}

/// Hears, from any thread, how many windows are embedded and how many there are.
pub type Progress<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// What a model is, for reports, caches and indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Name of the model, a row of `models/registry.toml`.
    pub id: String,
    /// Length of a vector.
    pub dimensions: usize,
    /// Most tokens in a window, those the model adds included.
    pub window_tokens: usize,
    /// Most tokens of an input, those the model adds included.
    pub max_tokens: usize,
    /// Whether the beginning of a vector, normalised again, is one too (Matryoshka).
    pub is_matryoshka: bool,
    /// How the vectors of tokens become one, as text-embeddings-inference calls it.
    pub pooling: &'static str,
    /// By which rules texts and pictures become what the model reads.
    pub policy: Policy,
    /// What its products are computed in.
    pub compute: Compute,
    /// Pictures of an issue that it sees; 0 for a model that reads text only.
    pub images: usize,
}

impl ModelInfo {
    /// A model that reads text only, by the one rule there is, in 32-bit floats.
    pub fn of_text(id: &str, dimensions: usize, window_tokens: usize) -> Self {
        let (policy, compute) = (Policy::Default, Compute::F32);
        let (id, max_tokens, is_matryoshka, pooling) = (id.to_owned(), window_tokens, false, "mean");
        ModelInfo { id, dimensions, window_tokens, max_tokens, is_matryoshka, pooling, policy, compute, images: 0 }
    }
}

/// A part of a candidate that fits the model: what is embedded, and so what a cache of vectors may be keyed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Everything the model reads: its special tokens, the header, a part of the body.
    pub tokens: Vec<u32>,
    /// Bytes of the body that the window covers, on character boundaries. Neighbours overlap.
    pub body: Range<usize>,
    /// The header took more than half of the window and only its end is in it.
    pub header_shortened: bool,
}

/// An embedded issue.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryEmbedding {
    /// Of length 1.
    pub vector: Vec<f32>,
    /// Tokens of title and body.
    pub tokens: usize,
    /// How many of them the vector stands for.
    pub tokens_used: usize,
    /// Tokens that stand for pictures; they count in neither of the above.
    pub image_tokens: usize,
    /// What became of each of the issue's pictures, in their order.
    pub images: Vec<ImageUse>,
}

/// What became of a picture of an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUse {
    /// How the user named it.
    pub name: String,
    /// Why the vector does not stand for it; `None` if it does.
    pub unused: Option<String>,
    /// Width and height as it came, where that is known.
    pub size: Option<(u32, u32)>,
}

/// Why text could not be embedded. Every message is one line that names the thing, the cause and the remedy; causes are in it, and so are
/// not sources of the error as well.
#[derive(Debug, thiserror::Error)]
pub enum EncoderError {
    #[error(
        "cannot read the model file {file}: {cause}; name a folder that holds config.json, tokenizer.json and model.safetensors"
    )]
    Unreadable { file: String, cause: std::io::Error },
    #[error("cannot write the model file {file}: {cause}; name a folder on a disk with room")]
    Unwritable { file: String, cause: std::io::Error },
    #[error("the model file {file} is damaged: {cause}; copy it again from where it came from")]
    Damaged { file: String, cause: String },
    #[error("the model file {file} is of a model that Sightline can't run: {cause}; use the files of {id}")]
    Foreign { file: String, cause: String, id: String },
    #[error("the 8-bit weights of {file} can't be used: {cause}; {remedy}")]
    Quantised { file: String, cause: String, remedy: &'static str },
    #[error("this build carries no model (feature `bundled-models` is off); name a folder that holds one")]
    NotBundled,
    #[error("the tokenizer failed on a text of {bytes} bytes: {cause}; leave that file out and report it")]
    Tokenize { bytes: usize, cause: String },
    #[error(
        "the model failed on a batch of {sequences} windows: {cause}; copy the model's files again, or rank without an encoder"
    )]
    Compute { sequences: usize, cause: String },
    #[error("the picture `{name}` can't be used: {cause}")]
    Image { name: String, cause: String, code: &'static str },
    #[error(
        "the input has {template} tokens of template and {images} of pictures, more than the limit of {limit} without any text; \
         leave out pictures, lower `max_pixels`, or raise the limit"
    )]
    TooLong { template: usize, images: usize, limit: usize },
    #[error("the input has {tokens} tokens, and {id} reads {limit}: shorten it, split it, or let its end be cut off")]
    TextTooLong { tokens: usize, limit: usize, id: String },
    #[error("{token} is no token of {id}, which has {tokens}: send the text, or the tokens of this model")]
    UnknownToken { token: u32, tokens: usize, id: String },
    #[error(
        "the prompt has {found} places for pictures instead of {expected}, because its text names <|image_pad|> or because it was \
         cut; leave that out of the text, raise the limit, or use the policy `default`"
    )]
    Misplaced { found: usize, expected: usize },
    #[error("`{option}` = {asked} does not fit {id}: {cause}; choose another value, or leave it out")]
    Unfit { option: &'static str, asked: usize, cause: String, id: String },
    #[error("{id} can't see, and the input has {images} pictures; leave them out, or use a vision-language model")]
    Blind { id: String, images: usize },
    #[error("{id} takes no instruction; leave it out, or use a model that does")]
    Uninstructed { id: String },
    #[error("a text of {bytes} bytes is more than the limit of {most}; give its beginning, or split it")]
    TooLarge { bytes: usize, most: usize },
    #[error("not embedded, because nobody waits for it any more or the program ends: ask again")]
    Stopped,
    #[error("no threads to embed on: {cause}; lower the number of threads or raise the limit of the system")]
    Threads { cause: String },
}

impl EncoderError {
    /// That a tokenizer failed on a text.
    fn tokenize(text: &str, cause: &dyn std::fmt::Display) -> Self {
        EncoderError::Tokenize { bytes: text.len(), cause: one_line(&cause.to_string()) }
    }

    /// A name for programs that doesn't change.
    pub fn code(&self) -> &'static str {
        match self {
            EncoderError::Unreadable { .. } => "model_unreadable",
            EncoderError::Unwritable { .. } => "model_unwritable",
            EncoderError::Damaged { .. } => "model_damaged",
            EncoderError::Foreign { .. } => "model_unsupported",
            EncoderError::Quantised { .. } => "model_quantised",
            EncoderError::NotBundled => "model_not_bundled",
            EncoderError::Tokenize { .. } => "tokenizer_failed",
            EncoderError::Compute { .. } => "model_failed",
            EncoderError::Image { code, .. } => code,
            EncoderError::TooLong { .. } | EncoderError::TextTooLong { .. } => "input_too_long",
            EncoderError::UnknownToken { .. } => "token_unknown",
            EncoderError::Misplaced { .. } => "image_tokens_misplaced",
            EncoderError::Unfit { .. } => "option_unsupported",
            EncoderError::Blind { .. } => "images_unsupported",
            EncoderError::Uninstructed { .. } => "instruction_unsupported",
            EncoderError::TooLarge { .. } => "text_too_large",
            EncoderError::Stopped => "stopped",
            EncoderError::Threads { .. } => "no_threads",
        }
    }
}

/// The text of tokens, special ones as they are written, by a tokenizer of any model.
fn decode<M, N, PT, PP, D>(
    tokenizer: &tokenizers::TokenizerImpl<M, N, PT, PP, D>,
    tokens: &[u32],
    id: &str,
) -> Result<String, EncoderError>
where
    M: tokenizers::Model,
    N: tokenizers::Normalizer,
    PT: tokenizers::PreTokenizer,
    PP: tokenizers::PostProcessor,
    D: tokenizers::Decoder,
{
    if let Some(&token) = tokens.iter().find(|it| tokenizer.id_to_token(**it).is_none()) {
        let tokens = tokenizer.get_vocab_size(true);
        return Err(EncoderError::UnknownToken { token, tokens, id: id.to_owned() });
    }
    let failed = |cause: tokenizers::Error| EncoderError::Tokenize { bytes: 0, cause: one_line(&cause.to_string()) };
    tokenizer.decode(tokens, false).map_err(failed)
}

/// The first line of a library's message: some carry a backtrace.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
