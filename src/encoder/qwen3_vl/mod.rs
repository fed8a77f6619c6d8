//! F2: Qwen3-VL-Embedding: an instruction, pictures and a text to one vector.
//!
//! The files are those of the published checkpoints (QwenLM/Qwen3-VL-Embedding); what a vector is follows its reference class on
//! transformers 4.57. Own code rather than `candle_transformers::models::qwen3_vl` (0.11), which has no causal mask over a whole prompt, no
//! positions by three axes and no way to the states. Knows nothing of repositories.

mod batches;
mod config;
mod items;
mod pictures;
mod positions;
mod prompt;
mod quantize;
mod text;
mod vision;
mod weights;

use std::path::Path;
use std::sync::OnceLock;

use batches::Beginnings;
use config::Config;
use items::Item;
use pictures::{Picture, Pictures, USUAL_PIXELS};
use prompt::{Asked, Prompt, Reader};
use text::{Prefix, TextTower};
use vision::VisionTower;
use weights::{Files, Objection, Weights};

pub use quantize::{is_quantised, quantize};

use super::bundled::{read, sha256};
use super::registry::Checkpoint;
use super::windows::{Frame, RULES};
use super::{
    Encoder, EncoderError, ImageUse, Input, InputEmbedding, ModelInfo, Options, Progress, QueryEmbedding, Window,
    one_line,
};
use crate::device::Compute;
use crate::device::tensors::{Bytes, TensorFile};
use crate::imaging::Cut;
use crate::types::IssueReport;

/// Pictures of an issue that are read: as many as the model was trained with.
const QUERY_IMAGES: usize = 2;
/// The shortest window: the template takes up to a third of it.
const LEAST_WINDOW: usize = 128;
/// The longest text that the published models were trained with.
const MOST_TOKENS: usize = 8192;
/// Pixels of pictures that inputs in hand may hold, in bytes.
const HELD_BYTES: usize = 64 << 20;

/// A loaded Qwen3-VL-Embedding. Cheap to share, not to make.
pub struct Qwen3Vl {
    info: ModelInfo,
    row: Checkpoint,
    max_tokens: usize,
    reader: Reader,
    /// Around the windows of candidates.
    frame: Frame,
    network: Network,
    pictures: Pictures,
    beginnings: Beginnings<Prefix>,
    /// What the fingerprint is made of.
    files: [Bytes; 2],
    weights: Vec<Bytes>,
    fingerprint: OnceLock<String>,
}

struct Network {
    text: TextTower,
    vision: VisionTower,
}

impl Network {
    fn load(tensors: &TensorFile, config: &Config, compute: Compute) -> Result<Self, Objection> {
        weights::check_quantised(tensors, compute)?;
        let bare = tensors.has("language_model.embed_tokens.weight");
        let prefix = if bare { String::new() } else { "model.".to_owned() };
        let weights = Weights { tensors, prefix, compute };
        Ok(Network {
            text: TextTower::load(&weights.at("language_model"), &config.text)?,
            vision: VisionTower::load(&weights.at("visual"), &config.vision)?,
        })
    }
}

/// Reads the two files of a model that are not text, as loading it does; for fuzzing.
///
/// # Errors
/// What is wrong with them.
pub fn check_files(config: &[u8], weights: &[u8]) -> Result<(), EncoderError> {
    let damaged = |file: &str, cause: String| EncoderError::Damaged { file: file.to_owned(), cause: one_line(&cause) };
    let config = read_config(config, "config.json")?;
    let tensors = TensorFile::open(&weights.to_vec().into());
    let tensors = tensors.map_err(|error| damaged("model.safetensors", error.to_string()))?;
    let network = Network::load(&tensors, &config, Compute::F32);
    network.map(drop).map_err(|objection| objection.about("model.safetensors".to_owned()))
}

fn read_config(bytes: &[u8], file: &str) -> Result<Config, EncoderError> {
    Config::read(bytes).map_err(|objection| match objection {
        config::Objection::Damaged(cause) => EncoderError::Damaged { file: file.to_owned(), cause: one_line(&cause) },
        config::Objection::Foreign(cause) => foreign(file.to_owned(), cause),
    })
}

fn foreign(file: String, cause: String) -> EncoderError {
    EncoderError::Foreign { file, cause, id: "a Qwen3-VL-Embedding".to_owned() }
}

impl Qwen3Vl {
    /// Loads the model of a folder, whose instructions and window `row` names.
    pub(super) fn load(folder: &Path, row: Checkpoint, options: &Options) -> Result<Self, EncoderError> {
        let (config_bytes, config_file) = read(folder, "config.json")?;
        let (tokenizer_bytes, tokenizer_file) = read(folder, "tokenizer.json")?;
        let config = read_config(&config_bytes, &config_file)?;
        let info = info(folder, &row, options, &config)?;
        let reader = || {
            Reader::new(&tokenizer_bytes, &config, options.policy).map_err(|objection| match objection {
                prompt::Objection::Damaged(cause) => EncoderError::Damaged { file: tokenizer_file.clone(), cause },
                prompt::Objection::Foreign(cause) => foreign(tokenizer_file.clone(), cause),
            })
        };
        let network = || {
            let files = Files::open(folder)?;
            let network = Network::load(&files.tensors, &config, options.compute);
            let network = network.map_err(|objection| files.refused(objection))?;
            Ok::<_, EncoderError>((network, files.parts.into_iter().map(|it| it.bytes).collect()))
        };
        let (reader, network) = rayon::join(reader, network);
        let (reader, (network, weights)) = (reader?, network?);
        let vision = &config.vision;
        let cut = Cut { patch: vision.patch as u32, merge: vision.merge as u32, temporal: vision.frames as u32 };
        Ok(Qwen3Vl {
            frame: reader.frame(&prompt::instruction(Some(&row.candidate_instruction)), info.window_tokens)?,
            info,
            row,
            max_tokens: options.max_tokens,
            reader,
            network,
            pictures: Pictures::new(options.policy, options.images.clone(), cut),
            beginnings: Beginnings::default(),
            files: [config_bytes, tokenizer_bytes],
            weights,
            fingerprint: OnceLock::new(),
        })
    }
}

/// What the model is under some options.
fn info(folder: &Path, row: &Checkpoint, options: &Options, config: &Config) -> Result<ModelInfo, EncoderError> {
    let id = options.id.clone().unwrap_or_else(|| name(folder));
    let unfit = |option, asked, cause: String| Err(EncoderError::Unfit { option, asked, cause, id: id.clone() });
    let hidden = config.text.hidden;
    if options.id.as_ref() == Some(&row.id) && row.dimensions != hidden {
        let file = folder.join("config.json").display().to_string();
        return Err(foreign(file, format!("{hidden} dimensions instead of the {} of {}", row.dimensions, row.id)));
    }
    let dimensions = options.dimensions.unwrap_or(hidden);
    if !(1..=hidden).contains(&dimensions) {
        return unfit(
            "dimensions",
            dimensions,
            format!("its vectors have {hidden}, and any number from 1 on can be kept"),
        );
    }
    if !(LEAST_WINDOW..=MOST_TOKENS).contains(&options.max_tokens) {
        return unfit(
            "max_tokens",
            options.max_tokens,
            format!("it reads from {LEAST_WINDOW} to {MOST_TOKENS} tokens"),
        );
    }
    let window = options.window.unwrap_or(row.window.min(options.max_tokens));
    if !(LEAST_WINDOW..=options.max_tokens).contains(&window) {
        return unfit("window", window, format!("it reads from {LEAST_WINDOW} to {} tokens", options.max_tokens));
    }
    let (policy, compute) = (options.policy, options.compute);
    let (window_tokens, max_tokens, images) = (window, options.max_tokens, QUERY_IMAGES);
    let (is_matryoshka, pooling) = (true, "last_token");
    Ok(ModelInfo { id, dimensions, window_tokens, max_tokens, is_matryoshka, pooling, policy, compute, images })
}

/// What a model of unknown origin is called: as its folder is, or by the whole path of one without a name. Never as a published model.
fn name(folder: &Path) -> String {
    let whole = || folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let last = |path: &Path| path.file_name().map(|it| it.to_string_lossy().into_owned());
    last(folder).or_else(|| last(&whole())).unwrap_or_else(|| whole().display().to_string())
}

impl Encoder for Qwen3Vl {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// The weights by their tables of contents, their lengths and samples of their values: see `digest`.
    fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| self.fingerprint_by(&self.info.compute.arithmetic()))
    }

    fn windows(&self, header: &str, body: &str) -> Result<Vec<Window>, EncoderError> {
        self.reader.windows(&self.frame, header, body)
    }

    fn embed(&self, windows: &[&Window], progress: &Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        let items: Vec<Item> = windows.iter().map(|it| Item::of_window(it, &self.frame.opening)).collect();
        let mut finished = 0;
        self.vectors(&items.iter().collect::<Vec<_>>(), &mut |more| {
            finished += more;
            progress(finished, windows.len());
        })
    }

    fn query(&self, issue: &IssueReport) -> Result<QueryEmbedding, EncoderError> {
        let read = self.read(issue)?;
        let vector = self.vectors(&[&read.item], &mut |_| ())?.pop().unwrap_or_default();
        Ok(read.embedding(vector))
    }

    fn queries(&self, issues: &[&IssueReport]) -> Vec<Result<QueryEmbedding, EncoderError>> {
        let read: Vec<_> = issues.iter().map(|issue| self.read(issue)).collect();
        let items: Vec<&Item> = read.iter().flatten().map(|it| &it.item).collect();
        // The error is one of the batch, and is found out for each of its issues.
        let Ok(vectors) = self.vectors(&items, &mut |_| ()) else {
            return issues.iter().map(|issue| self.query(issue)).collect();
        };
        let mut vectors = vectors.into_iter();
        read.into_iter().map(|read| Ok(read?.embedding(vectors.next().unwrap_or_default()))).collect()
    }

    fn embed_inputs(&self, inputs: &[Input], progress: &Progress) -> Vec<Result<InputEmbedding, EncoderError>> {
        let mut results = Vec::with_capacity(inputs.len());
        let mut held = Vec::new();
        let mut bytes = 0;
        for (at, input) in inputs.iter().enumerate() {
            let item = self.item(input);
            bytes += item.as_ref().map_or(0, Item::bytes);
            held.push(item);
            if bytes > HELD_BYTES || at + 1 == inputs.len() {
                let before = results.len();
                results.extend(self.embedded(std::mem::take(&mut held), &|done| progress(before + done, inputs.len())));
                bytes = 0;
            }
        }
        results
    }

    fn decode(&self, tokens: &[u32]) -> Result<String, EncoderError> {
        self.reader.decode(tokens, &self.info.id)
    }
}

/// An issue that is ready for the network.
struct Read<'a> {
    item: Item<'a>,
    images: Vec<ImageUse>,
}

impl Read<'_> {
    fn embedding(self, vector: Vec<f32>) -> QueryEmbedding {
        let Prompt { text: (tokens, tokens_used), .. } = self.item.prompt;
        let image_tokens = self.item.prompt.image_tokens();
        QueryEmbedding { vector, tokens, tokens_used, image_tokens, images: self.images }
    }
}

impl Qwen3Vl {
    /// Title, blank line and body as one input with the first two pictures that can be used. A text that is too long loses its end, and
    /// a picture that leaves no room for any text is left out.
    fn read<'a>(&self, issue: &'a IssueReport) -> Result<Read<'a>, EncoderError> {
        let text = match &*issue.whole_body() {
            "" => issue.title.clone(),
            body => format!("{}\n\n{body}", issue.title),
        };
        let (mut images, mut pictures) = self.seen(issue);
        let instruction = prompt::instruction(Some(&self.row.query_instruction));
        let prompt = loop {
            let shapes: Vec<_> = pictures.iter().map(|(_, picture)| picture.tokens).collect();
            let asked =
                Asked { instruction: &instruction, text: Some(&text), pictures: &shapes, limit: self.max_tokens };
            let no_room = |prompt: &Prompt| EncoderError::TooLong {
                template: prompt.ids.len() - prompt.image_tokens(),
                images: prompt.image_tokens(),
                limit: self.max_tokens,
            };
            let prompt = self.reader.prompt(&asked).and_then(|prompt| match prompt.text {
                (1.., 0) => Err(no_room(&prompt)),
                _ => Ok(prompt),
            });
            match (prompt, pictures.pop()) {
                (Ok(prompt), last) => {
                    pictures.extend(last);
                    break prompt;
                }
                (Err(error), Some((at, _))) => images[at].unused = Some(error.to_string()),
                (Err(error), None) => return Err(error),
            }
        };
        let item = Item { prompt, pictures: pictures.into_iter().map(|it| it.1).collect() };
        Ok(Read { item, images })
    }

    fn fingerprint_by(&self, arithmetic: &str) -> String {
        let ModelInfo { dimensions, window_tokens, policy, .. } = &self.info;
        let Checkpoint { pooling, query_instruction, candidate_instruction, .. } = &self.row;
        let files: Vec<String> =
            self.files.iter().map(|it| sha256(it)).chain(self.weights.iter().map(digest)).collect();
        let (policy, files) = (policy.name(), files.join(" "));
        let rules = format!("windows {RULES} of {window_tokens}, {pooling:?}, {policy}, {arithmetic}, {dimensions}");
        sha256(format!("{files} {rules} {query_instruction:?} {candidate_instruction:?}").as_bytes())
    }

    /// What becomes of the pictures of an issue, and those that can be used with their places among them.
    fn seen<'a>(&self, issue: &'a IssueReport) -> (Vec<ImageUse>, Vec<(usize, Picture<'a>)>) {
        let mut pictures = Vec::new();
        let mut uses = Vec::new();
        for (at, image) in issue.images.iter().enumerate() {
            let mut used = ImageUse { name: image.name.clone(), unused: None, size: None };
            if pictures.len() == QUERY_IMAGES {
                used.unused = Some(format!("the encoder {} reads the first {QUERY_IMAGES}", self.info.id));
            } else {
                match self.pictures.read(image, USUAL_PIXELS, self.max_tokens) {
                    Ok(picture) => {
                        used.size = Some(picture.size);
                        pictures.push((at, picture));
                    }
                    Err(EncoderError::Image { cause, .. }) => used.unused = Some(cause),
                    Err(error) => used.unused = Some(error.to_string()),
                }
            }
            uses.push(used);
        }
        (uses, pictures)
    }
}

/// Bytes of a sample of a tensor.
const SAMPLE: usize = 4 << 10;
/// Tensors up to so many bytes are read whole.
const WHOLE: usize = 64 << 10;

/// What a file of weights is known by: SHA-256 over its length, its table of contents and samples of every tensor. All of it would take
/// seconds. What is trained may be a few matrices, but a matrix that is trained changes everywhere.
fn digest(file: &Bytes) -> String {
    let Ok(tensors) = TensorFile::open(file) else { return sha256(file) };
    let contents = file.first_chunk().map_or(0, |it| u64::from_le_bytes(*it) as usize).saturating_add(size_of::<u64>());
    let contents = file.get(..contents).unwrap_or(file);
    let samples = tensors.all().into_iter().flat_map(|(_, stored)| samples(stored.bytes()));
    let parts: Vec<String> = std::iter::once(contents).chain(samples).map(sha256).collect();
    sha256(format!("{} {}", file.len(), parts.join(" ")).as_bytes())
}

/// The beginning, the middle and the end of a tensor, or all of a small one.
fn samples(bytes: &[u8]) -> Vec<&[u8]> {
    let (middle, end) = (bytes.len() / 2, bytes.len().saturating_sub(SAMPLE));
    match bytes.len() <= WHOLE {
        true => vec![bytes],
        false => vec![&bytes[..SAMPLE], &bytes[middle..middle + SAMPLE], &bytes[end..]],
    }
}

#[cfg(test)]
#[path = "qwen3_vl_tests.rs"]
mod tests;
