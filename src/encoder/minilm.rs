//! F2: a BERT sentence encoder (all-MiniLM-L6-v2): tokenizer, network, and the rules for candidates and queries that don't fit its window.
//!
//! Knows nothing of where its files come from. Text is never read as markup: `[SEP]` in a source is four ordinary tokens.

use std::sync::OnceLock;

use tokenizers::{DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, TokenizerImpl};

use super::bert::{Bert, Config};
use super::bundled::{Files, sha256};
use super::registry::Checkpoint;
use super::windows::{Frame, RULES, Tokens};
use super::wordpiece::WordPiece;
use super::{
    Encoder, EncoderError, ImageUse, Input, InputEmbedding, ModelInfo, Progress, QueryEmbedding, Window, batch,
    one_line,
};
use crate::device::tensors::TensorFile;
use crate::types::{IssueImage, IssueReport};
use crate::vector;

/// Windows of a long issue that its vector is the mean of. Issues that need more are mostly pasted logs.
const QUERY_WINDOWS: usize = 8;

/// Bytes of an input that is looked at: taking a text apart takes seconds for a megabyte, and no more than its beginning is read.
const MOST_TEXT: usize = 1 << 20;

/// Named by the type of its model: `tokenizers::Tokenizer` takes any, and reads all of them into a tree of values to tell them apart.
type Tokenizer = TokenizerImpl<WordPiece, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// A loaded sentence encoder. Cheap to share, not to make.
pub struct MiniLm {
    info: ModelInfo,
    checkpoint: Checkpoint,
    /// What was loaded, for the fingerprint: reading a folder again could find other files.
    files: Files,
    fingerprint: OnceLock<String>,
    tokenizer: Tokenizer,
    network: Bert,
    frame: Frame,
}

impl MiniLm {
    /// Reads the files of a model that must be what `checkpoint` says.
    pub(super) fn new(checkpoint: Checkpoint, files: Files) -> Result<Self, EncoderError> {
        let config = read_config(&checkpoint, &files)?;
        let (tokenizer, network) =
            rayon::join(|| read_tokenizer(&checkpoint, &files, &config), || read_network(&checkpoint, &files, &config));
        let (tokenizer, network) = (tokenizer?, network?);
        let special = |token: &str| {
            let lacking = || foreign(&checkpoint, &files, "tokenizer.json", format!("it lacks the token {token}"));
            tokenizer.token_to_id(token).ok_or_else(lacking)
        };
        let frame =
            Frame { window: checkpoint.window, opening: vec![special("[CLS]")?], closing: vec![special("[SEP]")?] };
        let info = ModelInfo::of_text(&checkpoint.id, checkpoint.dimensions, checkpoint.window);
        Ok(MiniLm { info, checkpoint, files, fingerprint: OnceLock::new(), tokenizer, network, frame })
    }

    fn tokens(&self, text: &str) -> Result<Tokens, EncoderError> {
        let encoding = self.tokenizer.encode(text, false).map_err(|error| EncoderError::tokenize(text, &error))?;
        Ok(Tokens::new(text, encoding.get_ids(), encoding.get_offsets()))
    }

    fn cut(&self, header: &str, body: &str) -> Result<Vec<Window>, EncoderError> {
        Ok(self.frame.windows(&self.tokens(header)?.ids, body, &self.tokens(body)?))
    }
}

impl Encoder for MiniLm {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| fingerprint(&self.checkpoint, &self.files))
    }

    fn windows(&self, header: &str, body: &str) -> Result<Vec<Window>, EncoderError> {
        self.cut(&format!("{}{header}", self.checkpoint.candidate_instruction), body)
    }

    fn embed(&self, windows: &[&Window], progress: &Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        let sequences: Vec<&[u32]> = windows.iter().map(|window| &window.tokens[..]).collect();
        self.embed_sequences(&sequences, progress)
    }

    /// The title and the body. If they don't fit one window: windows of the body that each begin with the title, the first eight of
    /// them, and the normalised mean of their vectors. A title longer than half a window is read as the beginning of the body.
    /// Images are not seen by this model.
    fn query(&self, issue: &IssueReport) -> Result<QueryEmbedding, EncoderError> {
        let read = self.read(issue)?;
        let vectors = self.embed(&read.windows.iter().collect::<Vec<_>>(), &|_, _| ())?;
        Ok(self.mean(issue, &read, &vectors))
    }

    fn queries(&self, issues: &[&IssueReport]) -> Vec<Result<QueryEmbedding, EncoderError>> {
        let read: Vec<_> = issues.iter().map(|issue| self.read(issue)).collect();
        let windows: Vec<&Window> = read.iter().flatten().flat_map(|it| &it.windows).collect();
        // The error names the batch, and so can't be given to one of its issues alone.
        let Ok(vectors) = self.embed(&windows, &|_, _| ()) else {
            return issues.iter().map(|issue| self.query(issue)).collect();
        };
        let mut rest = &vectors[..];
        let of_issue = |(issue, read): (&&IssueReport, Result<Read, EncoderError>)| {
            let read = read?;
            let (own, later) = rest.split_at(read.windows.len());
            rest = later;
            Ok(self.mean(issue, &read, own))
        };
        issues.iter().zip(read).map(of_issue).collect()
    }

    /// A text that is too long loses its end.
    fn embed_inputs(&self, inputs: &[Input], progress: &Progress) -> Vec<Result<InputEmbedding, EncoderError>> {
        let read: Vec<_> = inputs.iter().map(|input| self.sequence(input)).collect();
        let sequences: Vec<&[u32]> = read.iter().flatten().map(|it| &it.ids[..]).collect();
        let mut vectors = match self.embed_sequences(&sequences, progress) {
            Ok(vectors) => vectors.into_iter(),
            // The error names the batch, and so can't be given to one of its inputs alone.
            Err(_) => return inputs.iter().map(|input| self.embed_input(input)).collect(),
        };
        read.into_iter().map(|sequence| sequence.map(|it| it.embedding(vectors.next().unwrap_or_default()))).collect()
    }

    fn decode(&self, tokens: &[u32]) -> Result<String, EncoderError> {
        super::decode(&self.tokenizer, tokens, &self.info.id)
    }
}

/// What is read of an issue.
struct Read {
    windows: Vec<Window>,
    tokens: usize,
    tokens_used: usize,
}

/// An input as the model reads it.
struct Sequence {
    ids: Vec<u32>,
    truncated_from: Option<usize>,
}

impl Sequence {
    fn embedding(self, vector: Vec<f32>) -> InputEmbedding {
        InputEmbedding { vector, tokens: self.ids.len(), image_tokens: 0, truncated_from: self.truncated_from }
    }
}

impl MiniLm {
    fn read(&self, issue: &IssueReport) -> Result<Read, EncoderError> {
        let _span = tracing::info_span!("tokenise").entered();
        let asked = Asked::of(issue, &self.checkpoint.query_instruction, &self.frame, |text| self.tokens(text))?;
        let mut windows = self.frame.windows(&asked.title.ids, &asked.body_text, &asked.body);
        windows.truncate(QUERY_WINDOWS);
        let end = windows.last().map_or(0, |window| window.body.end);
        let tokens_used = asked.title.ids.len() + asked.body.starts.partition_point(|&start| start < end);
        Ok(Read { windows, tokens: asked.title.ids.len() + asked.body.ids.len(), tokens_used })
    }

    /// The embedding of an issue by the vectors of its windows.
    fn mean(&self, issue: &IssueReport, read: &Read, vectors: &[Vec<f32>]) -> QueryEmbedding {
        let mut vector = vec![0.0; self.info.dimensions];
        for part in vectors {
            vector::add(&mut vector, part);
        }
        vector::normalise(&mut vector);
        let unused = |image: &IssueImage| ImageUse {
            name: image.name.clone(),
            unused: Some(format!("the encoder {} reads text only", self.info.id)),
            size: None,
        };
        let images = issue.images.iter().map(unused).collect();
        QueryEmbedding { vector, tokens: read.tokens, tokens_used: read.tokens_used, image_tokens: 0, images }
    }

    fn embed_sequences(&self, sequences: &[&[u32]], progress: &Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        batch::run(sequences, progress, |batch| {
            let failed = |error: candle_core::Error| EncoderError::Compute {
                sequences: batch.len(),
                cause: one_line(&error.to_string()),
            };
            self.network.embed(batch).map_err(failed)
        })
    }

    fn embed_input(&self, input: &Input) -> Result<InputEmbedding, EncoderError> {
        let sequence = self.sequence(input)?;
        let vector = self.embed_sequences(&[&sequence.ids], &|_, _| ())?.pop().unwrap_or_default();
        Ok(sequence.embedding(vector))
    }

    fn sequence(&self, input: &Input) -> Result<Sequence, EncoderError> {
        if !input.images.is_empty() {
            return Err(EncoderError::Blind { id: self.info.id.clone(), images: input.images.len() });
        }
        if input.instruction.as_deref().is_some_and(|it| !it.trim().is_empty()) {
            return Err(EncoderError::Uninstructed { id: self.info.id.clone() });
        }
        if let Some(bytes) = input.text.as_ref().map(String::len).filter(|it| *it > MOST_TEXT) {
            return Err(EncoderError::TooLarge { bytes, most: MOST_TEXT });
        }
        let text = {
            let _span = tracing::info_span!("tokenise").entered();
            self.tokens(input.text.as_deref().unwrap_or_default())?.ids
        };
        // Room for what opens and closes, at least.
        let limit = input.max_length.unwrap_or(self.frame.window).clamp(2, self.frame.window);
        let kept = text.len().min(limit - 2);
        if input.whole && kept < text.len() {
            return Err(EncoderError::TextTooLong { tokens: text.len() + 2, limit, id: self.info.id.clone() });
        }
        let ids = self.frame.around(&[&text[..kept]]);
        Ok(Sequence { ids, truncated_from: (kept < text.len()).then_some(text.len() + 2) })
    }
}

/// An issue as it is cut into windows.
struct Asked {
    title: Tokens,
    body: Tokens,
    body_text: String,
}

impl Asked {
    fn of<F>(issue: &IssueReport, instruction: &str, frame: &Frame, tokens: F) -> Result<Self, EncoderError>
    where
        F: Fn(&str) -> Result<Tokens, EncoderError>,
    {
        let title_text = format!("{instruction}{}", issue.title);
        let issue_body = issue.whole_body();
        let (title, body) = (tokens(&title_text)?, tokens(&issue_body)?);
        let fits = title.ids.len() + body.ids.len() <= frame.room();
        if fits || title.ids.len() <= frame.window / 2 {
            return Ok(Asked { title, body, body_text: issue_body.into_owned() });
        }
        let body_text = format!("{title_text}\n{issue_body}");
        Ok(Asked { title: Tokens::default(), body: tokens(&body_text)?, body_text })
    }
}

fn read_config(checkpoint: &Checkpoint, files: &Files) -> Result<Config, EncoderError> {
    let config: Config =
        serde_json::from_slice(&files.config).map_err(|error| damaged(files, "config.json", error.to_string()))?;
    let objection = config.objection().or_else(|| {
        let fits = config.hidden_size == checkpoint.dimensions
            && (16..=config.max_position_embeddings).contains(&checkpoint.window);
        let (width, positions) = (config.hidden_size, config.max_position_embeddings);
        (!fits).then(|| {
            format!(
                "{width} dimensions and {positions} positions instead of {} and {} or more",
                checkpoint.dimensions, checkpoint.window
            )
        })
    });
    match objection {
        Some(cause) => Err(foreign(checkpoint, files, "config.json", cause)),
        None => Ok(config),
    }
}

/// The tokenizer without what its file says about truncation and padding, and with special tokens in a text left as plain text.
fn read_tokenizer(checkpoint: &Checkpoint, files: &Files, config: &Config) -> Result<Tokenizer, EncoderError> {
    let broken = |error: tokenizers::Error| damaged(files, "tokenizer.json", error.to_string());
    let unreadable = |error: serde_json::Error| damaged(files, "tokenizer.json", error.to_string());
    let mut tokenizer: Tokenizer = serde_json::from_slice(&files.tokenizer).map_err(unreadable)?;
    tokenizer.with_truncation(None).map_err(broken)?;
    tokenizer.with_padding(None);
    tokenizer.set_encode_special_tokens(true);
    let added = tokenizer.get_added_vocabulary().get_vocab().values().copied().max();
    let largest = tokenizer.get_model().largest().max(added.unwrap_or(0)) as usize;
    if largest >= config.vocab_size {
        let cause = format!("it has the token id {largest}, and the network {} tokens", config.vocab_size);
        return Err(foreign(checkpoint, files, "tokenizer.json", cause));
    }
    Ok(tokenizer)
}

fn read_network(checkpoint: &Checkpoint, files: &Files, config: &Config) -> Result<Bert, EncoderError> {
    let tensors =
        TensorFile::open(&files.weights).map_err(|error| damaged(files, "model.safetensors", error.to_string()))?;
    if files.sums.is_none()
        && let Some(name) = tensors.non_finite()
    {
        let cause = format!("tensor `{name}` holds values that are not finite");
        return Err(damaged(files, "model.safetensors", cause));
    }
    Bert::load(&tensors, config).map_err(|cause| foreign(checkpoint, files, "model.safetensors", cause))
}

/// SHA-256 over all that a vector depends on, the files by their own SHA-256, so that those that are known need not be read.
fn fingerprint(checkpoint: &Checkpoint, files: &Files) -> String {
    let Checkpoint { window, pooling, query_instruction, candidate_instruction, .. } = checkpoint;
    let policy = format!("windows {RULES} of {window}, {pooling:?}, {query_instruction:?}, {candidate_instruction:?}");
    let [config, tokenizer, weights] = files.digests();
    sha256(format!("{config} {tokenizer} {weights} {policy}").as_bytes())
}

fn damaged(files: &Files, name: &str, cause: String) -> EncoderError {
    EncoderError::Damaged { file: format!("{}/{name}", files.origin), cause: one_line(&cause) }
}

fn foreign(checkpoint: &Checkpoint, files: &Files, name: &str, cause: String) -> EncoderError {
    EncoderError::Foreign { file: format!("{}/{name}", files.origin), cause, id: checkpoint.id.clone() }
}

#[cfg(test)]
#[path = "minilm_tests.rs"]
mod tests;
