//! F2: prompts and their pictures through the network, in batches.
//!
//! Knows nothing of files and templates.

use std::collections::HashMap;

use super::batches::{Load, batches};
use super::pictures::{Picture, USUAL_PIXELS};
use super::prompt::{self, Asked, Prompt};
use super::text::Sequence;
use super::{Qwen3Vl, one_line};
use crate::encoder::{EncoderError, Input, InputEmbedding, Window};
use crate::imaging::PixelRange;
use crate::vector;

/// Bytes of a text that is looked at: counting its tokens takes some hundred bytes of memory for each, and no model reads more than
/// the beginning.
const MOST_TEXT: usize = 4 << 20;

/// An input that is ready for the network.
pub(super) struct Item<'a> {
    pub prompt: Prompt,
    pub pictures: Vec<Picture<'a>>,
}

impl Item<'_> {
    /// A window as it was cut, behind the tokens that all of its kind begin with.
    pub(super) fn of_window(window: &Window, opening: &[u32]) -> Self {
        let ids = window.tokens.clone();
        let shared = if ids.starts_with(opening) && ids.len() > opening.len() { opening.len() } else { 0 };
        let prompt = Prompt { text: (ids.len(), ids.len()), ids, spans: Vec::new(), shared, truncated_from: None };
        Item { prompt, pictures: Vec::new() }
    }

    /// What its pictures hold in memory.
    pub(super) fn bytes(&self) -> usize {
        self.pictures.iter().map(Picture::bytes).sum()
    }

    fn embedding(&self, vector: Vec<f32>) -> InputEmbedding {
        InputEmbedding {
            vector,
            tokens: self.prompt.ids.len(),
            image_tokens: self.prompt.image_tokens(),
            truncated_from: self.prompt.truncated_from,
        }
    }
}

type Read<'a> = Result<Item<'a>, EncoderError>;

impl Qwen3Vl {
    pub(super) fn item<'a>(&self, input: &'a Input) -> Read<'a> {
        let limit = input.max_length.unwrap_or(self.max_tokens).min(self.max_tokens);
        let pixels = |own: Option<u32>, usual: u64| own.map_or(usual, u64::from);
        let range = PixelRange {
            min_pixels: pixels(input.min_pixels, USUAL_PIXELS.min_pixels),
            max_pixels: pixels(input.max_pixels, USUAL_PIXELS.max_pixels),
        };
        if let Some(text) = [&input.text, &input.instruction].into_iter().flatten().find(|it| it.len() > MOST_TEXT) {
            return Err(EncoderError::TooLarge { bytes: text.len(), most: MOST_TEXT });
        }
        // Whatever the input says, its pictures are not made larger together than the model can read.
        let mut tokens = 0;
        let mut pictures = Vec::new();
        let too_long = |images| EncoderError::TooLong { template: 0, images, limit: self.max_tokens };
        for image in &input.images {
            let picture = self.pictures.read(image, range, self.max_tokens - tokens).map_err(|error| match error {
                EncoderError::TooLong { images, .. } => too_long(tokens + images),
                error => error,
            })?;
            // One whose features are kept is read without a limit.
            tokens += picture.tokens.0 * picture.tokens.1;
            if tokens > self.max_tokens {
                return Err(too_long(tokens));
            }
            pictures.push(picture);
        }
        let instruction = prompt::instruction(input.instruction.as_deref());
        let shapes: Vec<_> = pictures.iter().map(|it| it.tokens).collect();
        let asked = Asked { instruction: &instruction, text: input.text.as_deref(), pictures: &shapes, limit };
        let prompt = self.reader.prompt(&asked)?;
        match prompt.truncated_from.filter(|_| input.whole) {
            Some(tokens) => Err(EncoderError::TextTooLong { tokens, limit, id: self.info.id.clone() }),
            None => Ok(Item { prompt, pictures }),
        }
    }

    /// An embedding or an error for each item; `done` hears how many there are.
    pub(super) fn embedded(&self, items: Vec<Read>, done: &dyn Fn(usize)) -> Vec<Result<InputEmbedding, EncoderError>> {
        let sound: Vec<&Item> = items.iter().flatten().collect();
        let mut finished = items.len() - sound.len();
        let vectors = self.vectors(&sound, &mut |more| {
            finished += more;
            done(finished);
        });
        let mut vectors = match vectors {
            Ok(vectors) => vectors.into_iter().map(Ok).collect::<Vec<_>>(),
            // The error is one of the batch, and is found out for each of its items.
            Err(_) => {
                let alone = |item: &&Item| Ok(self.vectors(&[item], &mut |_| ())?.pop().unwrap_or_default());
                sound.iter().map(alone).collect()
            }
        }
        .into_iter();
        let mut vector = || vectors.next().unwrap_or_else(|| Ok(Vec::new()));
        items.into_iter().map(|item| item.and_then(|item| Ok(item.embedding(vector()?)))).collect()
    }

    /// One vector for each item. Equal ones are computed once; `done` hears of each batch how many it was.
    pub(super) fn vectors(&self, items: &[&Item], done: &mut dyn FnMut(usize)) -> Result<Vec<Vec<f32>>, EncoderError> {
        let distinct = Distinct::of(items);
        let loads: Vec<Load> = distinct.items.iter().map(|(item, _)| load(item)).collect();
        let mut vectors = vec![Vec::new(); distinct.items.len()];
        for batch in batches(&loads) {
            let shared = loads[batch[0]].shared;
            let sharing = loads.iter().filter(|it| it.shared == shared).count();
            let of_batch: Vec<&Item> = batch.iter().map(|&at| distinct.items[at].0).collect();
            for (&at, vector) in batch.iter().zip(self.batch(&of_batch, shared, sharing)?) {
                vectors[at] = vector;
            }
            done(batch.iter().map(|&at| distinct.items[at].1).sum());
        }
        Ok(distinct.of_input.into_iter().map(|at| vectors[at].clone()).collect())
    }

    /// The vectors of items that begin with `shared`, as `sharing` of those at hand do.
    fn batch(&self, items: &[&Item], shared: &[u32], sharing: usize) -> Result<Vec<Vec<f32>>, EncoderError> {
        let failed = |error: candle_core::Error| EncoderError::Compute {
            sequences: items.len(),
            cause: one_line(&error.to_string()),
        };
        let sequences = items.iter().map(|item| self.sequence(item)).collect::<Result<Vec<_>, _>>()?;
        let text = &self.network.text;
        let beginning = self.beginnings.get(shared, sharing, |ids| text.prefix(ids)).map_err(failed)?;
        let states = text.states(&sequences.iter().collect::<Vec<_>>(), beginning.as_deref()).map_err(failed)?;
        let vectors: Vec<_> = states.into_iter().map(|state| self.vector(state)).collect();
        match vectors.iter().all(|it| (vector::dot(it, it) - 1.0).abs() < 1e-3) {
            true => Ok(vectors),
            false => Err(failed(candle_core::Error::msg("a vector that is not of length 1"))),
        }
    }

    fn sequence(&self, item: &Item) -> Result<Sequence, EncoderError> {
        let mut pictures = Vec::new();
        for (&span, picture) in item.prompt.spans.iter().zip(&item.pictures) {
            pictures.push((span, self.pictures.features(picture, &self.network.vision)?));
        }
        Ok(Sequence { ids: item.prompt.ids.clone(), pictures })
    }

    fn vector(&self, mut state: Vec<f32>) -> Vec<f32> {
        state.truncate(self.info.dimensions);
        vector::normalise(&mut state);
        state
    }
}

fn load<'a>(item: &'a Item) -> Load<'a> {
    let (shared, own) = item.prompt.ids.split_at(item.prompt.shared);
    Load { shared, rows: own.len() }
}

/// The different items of a list.
struct Distinct<'a, 'b> {
    /// Each with how often it is there.
    items: Vec<(&'a Item<'b>, usize)>,
    /// Which of them each is.
    of_input: Vec<usize>,
}

impl<'a, 'b> Distinct<'a, 'b> {
    fn of(list: &[&'a Item<'b>]) -> Self {
        let mut seen = HashMap::new();
        let mut distinct = Distinct { items: Vec::new(), of_input: Vec::new() };
        for &item in list {
            let pictures: Vec<_> = item.pictures.iter().map(|it| it.key).collect();
            let at = *seen.entry((&item.prompt.ids, pictures)).or_insert(distinct.items.len());
            if at == distinct.items.len() {
                distinct.items.push((item, 0));
            }
            distinct.items[at].1 += 1;
            distinct.of_input.push(at);
        }
        distinct
    }
}
