//! F2: instruction, pictures and text as the token ids of one conversation.
//!
//! Knows nothing of pixels and networks. By the reference policy the conversation is written out and read as one text, so that a text
//! that names a special token is one, and what is too long loses its end. By the default policy a text can't leave its place: the
//! template's tokens are put around it by number, and what is too long loses the end of the text.

use regex::Regex;
use std::sync::LazyLock;
use tokenizers::models::bpe::BPE;
use tokenizers::{DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, TokenizerImpl};

use super::config::Config;
use super::positions::Span;
use crate::encoder::windows::{Frame, Tokens};
use crate::encoder::{EncoderError, Window, one_line};
use crate::types::Policy;

/// What an input without an instruction is read by.
pub(super) const DEFAULT_INSTRUCTION: &str = "Represent the user's input.";
/// What is read where there is neither a text nor a picture.
const NOTHING: &str = "NULL";
const USER: &str = "user\n";

/// Named by the type of its model: `tokenizers::Tokenizer` takes any, and reads all of them into a tree of values to tell them apart.
type Tokenizer = TokenizerImpl<BPE, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// An instruction, pictures and a text, to be read.
pub(super) struct Asked<'a> {
    /// As [`instruction`] gives it.
    pub instruction: &'a str,
    pub text: Option<&'a str>,
    /// Rows and columns of tokens of each picture.
    pub pictures: &'a [(usize, usize)],
    /// Most tokens.
    pub limit: usize,
}

/// What the network reads.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prompt {
    pub ids: Vec<u32>,
    /// The places of the pictures.
    pub spans: Vec<Span>,
    /// Tokens at the beginning that every prompt of this instruction shares; 0 if this one doesn't.
    pub shared: usize,
    /// Tokens of the user's text that were there, and that are in `ids`; an estimate by the reference policy, which may cut the template.
    pub text: (usize, usize),
    /// Tokens without a limit, where that is more.
    pub truncated_from: Option<usize>,
}

impl Prompt {
    pub(super) fn image_tokens(&self) -> usize {
        self.spans.iter().map(Span::len).sum()
    }
}

/// The tokens of the template.
struct Marks {
    start: u32,
    end: u32,
    vision_start: u32,
    vision_end: u32,
    image: u32,
}

/// Reads texts by one policy.
pub(super) struct Reader {
    tokenizer: Tokenizer,
    policy: Policy,
    marks: Marks,
    /// What the file's post-processor puts before and behind all.
    around: (Vec<u32>, Vec<u32>),
}

/// The instruction as it stands in the prompt: trimmed, with a full stop unless it ends in punctuation; the default if there is none.
pub(super) fn instruction(asked: Option<&str>) -> String {
    static ENDS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\p{P}$").ok());
    // Python's `strip` takes these four for white space too.
    let is_space = |it: char| it.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&it);
    let asked = asked.unwrap_or_default().trim_matches(is_space);
    match asked {
        "" => DEFAULT_INSTRUCTION.to_owned(),
        _ if ENDS.as_ref().is_some_and(|it| it.is_match(asked)) => asked.to_owned(),
        _ => format!("{asked}."),
    }
}

/// Why a tokenizer can't be used.
pub(super) enum Objection {
    Damaged(String),
    Foreign(String),
}

/// Tokens that a post-processor may add to a text; those of published models add one.
const MOST_ADDED: usize = 16;

impl Reader {
    /// Reads a `tokenizer.json` that must fit the network.
    pub(super) fn new(file: &[u8], config: &Config, policy: Policy) -> Result<Self, Objection> {
        let broken = |error: &dyn std::fmt::Display| Objection::Damaged(one_line(&error.to_string()));
        let mut tokenizer: Tokenizer = serde_json::from_slice(file).map_err(|error| broken(&error))?;
        // What the file says of lengths is for other uses.
        tokenizer.with_truncation(None).map_err(|error| broken(&error))?;
        tokenizer.with_padding(None);
        tokenizer.set_encode_special_tokens(policy == Policy::Default);
        let added = tokenizer.get_added_vocabulary().get_vocab().values().copied().max().unwrap_or(0);
        let largest = tokenizer.get_vocab(false).values().copied().max().unwrap_or(0).max(added);
        if largest as usize >= config.text.vocabulary {
            let cause = format!("it has the token id {largest}, and the network {} tokens", config.text.vocabulary);
            return Err(Objection::Foreign(cause));
        }
        let mark = |token: &str| {
            tokenizer.token_to_id(token).ok_or_else(|| Objection::Foreign(format!("it lacks the token {token}")))
        };
        let marks = Marks {
            start: mark("<|im_start|>")?,
            end: mark("<|im_end|>")?,
            vision_start: mark("<|vision_start|>")?,
            vision_end: mark("<|vision_end|>")?,
            image: mark("<|image_pad|>")?,
        };
        let own = [marks.image, marks.vision_start, marks.vision_end];
        let expected = [config.image_token, config.vision_start, config.vision_end];
        if own != expected {
            let cause = format!("its tokens for pictures are {own:?}, and those of config.json {expected:?}");
            return Err(Objection::Foreign(cause));
        }
        let mut reader = Reader { tokenizer, policy, marks, around: Default::default() };
        reader.around = reader.post_processed().map_err(|error| broken(&error))?;
        let added = || reader.around.0.iter().chain(&reader.around.1);
        if let Some(id) = added().find(|id| **id as usize >= config.text.vocabulary) {
            let cause = format!(
                "its post-processor adds the token id {id}, and the network has {} tokens",
                config.text.vocabulary
            );
            return Err(Objection::Foreign(cause));
        }
        if added().count() > MOST_ADDED {
            let cause = format!("its post-processor adds {} tokens to every text", added().count());
            return Err(Objection::Foreign(cause));
        }
        Ok(reader)
    }

    /// What the post-processor adds, seen on a text of one token.
    fn post_processed(&self) -> Result<(Vec<u32>, Vec<u32>), String> {
        let encode = |added| self.tokenizer.encode("a", added).map_err(|error| one_line(&error.to_string()));
        let (plain, whole) = (encode(false)?, encode(true)?);
        let (plain, whole) = (plain.get_ids(), whole.get_ids());
        let at = whole.windows(plain.len().max(1)).position(|ids| ids == plain);
        let at = at.ok_or("its post-processor changes the text's own tokens")?;
        Ok((whole[..at].to_vec(), whole[at + plain.len()..].to_vec()))
    }

    /// The tokens of a text with what it has of the template's, which are special by the reference policy only.
    fn tokens(&self, text: &str) -> Result<Tokens, EncoderError> {
        let encoding = self.tokenizer.encode(text, false).map_err(|error| EncoderError::tokenize(text, &error))?;
        Ok(Tokens::new(text, encoding.get_ids(), encoding.get_offsets()))
    }

    /// The text of tokens, for a model of this name.
    pub(super) fn decode(&self, tokens: &[u32], id: &str) -> Result<String, EncoderError> {
        crate::encoder::decode(&self.tokenizer, tokens, id)
    }

    fn ids(&self, text: &str) -> Result<Vec<u32>, EncoderError> {
        Ok(self.tokens(text)?.ids)
    }

    /// # Errors
    /// Pictures that leave no room for a template; by the reference policy, pictures that were cut or whose places the text names.
    pub(super) fn prompt(&self, asked: &Asked) -> Result<Prompt, EncoderError> {
        let _span = tracing::info_span!("tokenise").entered();
        let text = match asked.text {
            None if asked.pictures.is_empty() => NOTHING,
            text => text.unwrap_or_default(),
        };
        match self.policy {
            Policy::Default => self.guarded(asked, text),
            Policy::Reference => self.as_written(asked, text),
        }
    }

    /// The default policy.
    fn guarded(&self, asked: &Asked, text: &str) -> Result<Prompt, EncoderError> {
        let Marks { vision_start, vision_end, image, .. } = self.marks;
        let mut ids = self.before_user(asked.instruction)?;
        // Without a picture in between, line ends at the beginning of the text become one token with that of the template.
        let (user, shown) =
            if asked.pictures.is_empty() { (USER, format!("{USER}{text}")) } else { ("", text.to_owned()) };
        let mut spans = Vec::new();
        if !asked.pictures.is_empty() {
            ids.extend(self.ids(USER)?);
        }
        for &(rows, columns) in asked.pictures {
            ids.push(vision_start);
            spans.push(Span { start: ids.len(), rows, columns });
            ids.extend(std::iter::repeat_n(image, rows * columns));
            ids.push(vision_end);
        }
        let closing = self.after_user()?;
        let read = self.tokens(&shown)?;
        let own = read.starts.partition_point(|&start| start < user.len());
        let template = ids.len() + own + closing.len();
        let Some(room) = asked.limit.checked_sub(template) else {
            let images = spans.iter().map(Span::len).sum::<usize>();
            return Err(EncoderError::TooLong { template: template - images, images, limit: asked.limit });
        };
        let there = read.ids.len() - own;
        let kept = there.min(room);
        ids.extend(&read.ids[..own + kept]);
        ids.extend(closing);
        let shared = self.shared(asked.instruction, &ids)?;
        let truncated_from = (kept < there).then_some(template + there);
        Ok(Prompt { ids, spans, shared, text: (there, kept), truncated_from })
    }

    /// The reference policy.
    fn as_written(&self, asked: &Asked, text: &str) -> Result<Prompt, EncoderError> {
        let Asked { instruction, pictures, limit, .. } = *asked;
        let places = "<|vision_start|><|image_pad|><|vision_end|>".repeat(pictures.len());
        let opening = format!("<|im_start|>system\n{instruction}<|im_end|>\n<|im_start|>{USER}");
        let written = format!("{opening}{places}{text}<|im_end|>\n<|im_start|>assistant\n");
        let written = self.ids(&written)?;
        let found = written.iter().filter(|&&id| id == self.marks.image).count();
        if !pictures.is_empty() && found != pictures.len() {
            return Err(EncoderError::Misplaced { found, expected: pictures.len() });
        }
        let (before, after) = &self.around;
        let (mut ids, mut spans) = (before.clone(), Vec::new());
        for id in written {
            match pictures.get(spans.len()) {
                Some(&(rows, columns)) if id == self.marks.image => {
                    spans.push(Span { start: ids.len(), rows, columns });
                    ids.extend(std::iter::repeat_n(id, rows * columns));
                }
                _ => ids.push(id),
            }
        }
        let whole = ids.len() + after.len();
        let kept = limit.saturating_sub(after.len()).min(ids.len());
        if kept <= before.len() {
            return Err(EncoderError::TooLong { template: before.len() + after.len() + 1, images: 0, limit });
        }
        ids.truncate(kept);
        if let Some(cut) = spans.iter().find(|span| span.start + span.len() > kept) {
            let found = spans.iter().map(|span| span.len().min(kept.saturating_sub(span.start))).sum();
            let expected = spans.iter().map(Span::len).sum::<usize>().max(cut.len());
            return Err(EncoderError::Misplaced { found, expected });
        }
        ids.extend(after);
        let shared = self.shared(instruction, &ids)?;
        let template = self.opening(instruction)?.len() + self.after_user()?.len();
        let there = whole.saturating_sub(template + spans.iter().map(|it| it.len() + 2).sum::<usize>());
        let kept = there.saturating_sub(whole - ids.len());
        Ok(Prompt { ids, spans, shared, text: (there, kept), truncated_from: (whole > limit).then_some(whole) })
    }

    /// How many tokens a prompt shares with all others of its instruction.
    fn shared(&self, instruction: &str, ids: &[u32]) -> Result<usize, EncoderError> {
        let opening = self.opening(instruction)?;
        Ok(if ids.starts_with(&opening) && ids.len() > opening.len() { opening.len() } else { 0 })
    }

    /// What prompts of an instruction begin with.
    fn opening(&self, instruction: &str) -> Result<Vec<u32>, EncoderError> {
        let mut ids = self.before_user(instruction)?;
        ids.extend(self.ids(USER)?);
        Ok(ids)
    }

    fn before_user(&self, instruction: &str) -> Result<Vec<u32>, EncoderError> {
        let Marks { start, end, .. } = self.marks;
        let system = self.ids(&format!("system\n{instruction}"))?;
        Ok([&self.around.0[..], &[start], &system, &[end], &self.ids("\n")?, &[start]].concat())
    }

    fn after_user(&self) -> Result<Vec<u32>, EncoderError> {
        let Marks { start, end, .. } = self.marks;
        Ok([&[end][..], &self.ids("\n")?, &[start], &self.ids("assistant\n")?, &self.around.1].concat())
    }

    /// What is around a candidate's windows.
    pub(super) fn frame(&self, instruction: &str, window: usize) -> Result<Frame, EncoderError> {
        Ok(Frame { window, opening: self.opening(instruction)?, closing: self.after_user()? })
    }

    /// The windows of a header line and a body: one that is read as the reference reads the candidate's string, if it fits.
    pub(super) fn windows(&self, frame: &Frame, header: &str, body: &str) -> Result<Vec<Window>, EncoderError> {
        let head = format!("{USER}{header}\n");
        let whole = self.tokens(&format!("{head}{body}"))?;
        let (user, at) = (self.ids(USER)?, whole.starts.partition_point(|&start| start < head.len()));
        let is_parted = whole.ids.starts_with(&user) && user.len() <= at;
        // The last line end of the header and the first ones of the body may be one token.
        let is_apart = is_parted && self.ids(&head)? == whole.ids[..at];
        let fits = is_parted && whole.ids.len() - user.len() <= frame.room();
        if !is_apart && !fits {
            return Ok(frame.windows(&self.ids(&format!("{header}\n"))?, body, &self.tokens(body)?));
        }
        let starts = whole.starts[at..].iter().map(|&start| start - head.len()).collect();
        let tokens = Tokens { ids: whole.ids[at..].to_vec(), starts };
        Ok(frame.windows(&whole.ids[user.len()..at], body, &tokens))
    }
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
