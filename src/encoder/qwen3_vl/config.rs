//! F2: the `config.json` of a Qwen3-VL: all that the two towers depend on, checked before anything is sized by it.
//!
//! Knows nothing of weights and text. Both spellings of the rotary settings are read, `rope_scaling` beside `rope_theta` and the newer
//! `rope_parameters`. `tie_word_embeddings` is not: an encoder has no output layer.

use serde::Deserialize;

/// The whole network.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Config {
    pub text: Text,
    pub vision: Vision,
    /// The token that stands for a patch of a picture.
    pub image_token: u32,
    pub vision_start: u32,
    pub vision_end: u32,
}

/// The text tower.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub vocabulary: usize,
    pub hidden: usize,
    pub intermediate: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    /// `heads * head` may differ from `hidden`.
    pub head: usize,
    pub epsilon: f32,
    pub theta: f32,
    /// How many frequencies turn by time, by row and by column.
    pub sections: [usize; 3],
}

/// The vision tower.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Vision {
    pub depth: usize,
    pub hidden: usize,
    pub intermediate: usize,
    pub heads: usize,
    /// The text tower's `hidden`.
    pub out: usize,
    /// Pixels of a side.
    pub patch: usize,
    /// Patches of a side that become one token.
    pub merge: usize,
    /// Frames of a patch; a picture is so many equal ones.
    pub frames: usize,
    /// Rows of the table of positions, which is a square; and the columns.
    pub side: usize,
    /// Blocks after which the text tower's first layers are given something.
    pub deepstack: Vec<usize>,
}

impl Vision {
    pub(super) fn head(&self) -> usize {
        self.hidden / self.heads
    }

    /// Values of a patch: colour, frame, row, column.
    pub(super) fn patch_values(&self) -> usize {
        3 * self.frames * self.patch * self.patch
    }

    /// Patches of a token.
    pub(super) fn merged(&self) -> usize {
        self.merge * self.merge
    }
}

#[derive(Deserialize)]
struct File {
    model_type: String,
    image_token_id: u32,
    vision_start_token_id: u32,
    vision_end_token_id: u32,
    #[serde(default)]
    quantization_config: Option<serde::de::IgnoredAny>,
    text_config: TextFile,
    vision_config: VisionFile,
}

#[derive(Deserialize)]
struct TextFile {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    /// What the family's sizes all have, where it is left out.
    #[serde(default = "usual_head")]
    head_dim: usize,
    rms_norm_eps: f64,
    #[serde(default)]
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
    #[serde(default)]
    sliding_window: Option<usize>,
    #[serde(default)]
    rope_theta: Option<f64>,
    #[serde(default)]
    rope_scaling: Option<Rope>,
    #[serde(default)]
    rope_parameters: Option<Rope>,
}

#[derive(Default, Deserialize)]
struct Rope {
    #[serde(default)]
    rope_theta: Option<f64>,
    #[serde(default)]
    mrope_section: Option<Vec<usize>>,
    #[serde(default)]
    mrope_interleaved: Option<bool>,
    #[serde(default, alias = "type")]
    rope_type: Option<String>,
}

#[derive(Deserialize)]
struct VisionFile {
    depth: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_heads: usize,
    out_hidden_size: usize,
    patch_size: usize,
    spatial_merge_size: usize,
    temporal_patch_size: usize,
    num_position_embeddings: usize,
    deepstack_visual_indexes: Vec<usize>,
    #[serde(default)]
    in_channels: Option<usize>,
    #[serde(default)]
    hidden_act: Option<String>,
}

fn usual_head() -> usize {
    128
}

/// Why a configuration can't be used.
#[derive(Debug, PartialEq)]
pub(super) enum Objection {
    /// It is no such file.
    Damaged(String),
    /// It is of another network.
    Foreign(String),
}

/// Larger numbers are damage, and are refused before something is sized by them.
const MOST_WIDTH: usize = 1 << 17;
const MOST_LAYERS: usize = 512;
const MOST_VOCABULARY: usize = 1 << 22;

impl Config {
    /// # Errors
    /// JSON that is none, lacks something, or describes a network that this one is not.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Objection> {
        let file: File = serde_json::from_slice(bytes).map_err(|error| Objection::Damaged(error.to_string()))?;
        let foreign = Objection::Foreign;
        if let Some(objection) = file.settings().or_else(|| file.sizes()) {
            return Err(foreign(objection));
        }
        let File { text_config: text, vision_config: vision, .. } = &file;
        let (theta, sections) = text.rope().map_err(foreign)?;
        let config = Config {
            text: Text {
                vocabulary: text.vocab_size,
                hidden: text.hidden_size,
                intermediate: text.intermediate_size,
                layers: text.num_hidden_layers,
                heads: text.num_attention_heads,
                kv_heads: text.num_key_value_heads,
                head: text.head_dim,
                epsilon: text.rms_norm_eps as f32,
                theta,
                sections,
            },
            vision: Vision {
                depth: vision.depth,
                hidden: vision.hidden_size,
                intermediate: vision.intermediate_size,
                heads: vision.num_heads,
                out: vision.out_hidden_size,
                patch: vision.patch_size,
                merge: vision.spatial_merge_size,
                frames: vision.temporal_patch_size,
                side: vision.num_position_embeddings.isqrt(),
                deepstack: vision.deepstack_visual_indexes.clone(),
            },
            image_token: file.image_token_id,
            vision_start: file.vision_start_token_id,
            vision_end: file.vision_end_token_id,
        };
        config.disagreement().map_or(Ok(config), |it| Err(foreign(it)))
    }

    /// What does not fit together, if something doesn't.
    fn disagreement(&self) -> Option<String> {
        let Config { text, vision, .. } = self;
        let rules = [
            (text.heads.is_multiple_of(text.kv_heads), "`num_attention_heads` is no multiple of `num_key_value_heads`"),
            (text.head.is_multiple_of(2), "`head_dim` is odd"),
            (
                text.sections.iter().sum::<usize>() == text.head / 2,
                "`mrope_section` does not sum to half of `head_dim`",
            ),
            (
                vision.hidden.is_multiple_of(vision.heads),
                "the vision tower's `hidden_size` does not divide into its heads",
            ),
            (vision.head().is_multiple_of(4), "the vision tower's heads have no multiple of 4 dimensions"),
            (vision.out == text.hidden, "`out_hidden_size` is not the text tower's `hidden_size`"),
            (vision.deepstack.is_sorted_by(|a, b| a < b), "`deepstack_visual_indexes` is not ascending"),
            (
                vision.deepstack.last().is_none_or(|&it| it < vision.depth),
                "`deepstack_visual_indexes` names a block beyond `depth`",
            ),
            (
                vision.deepstack.len() < text.layers,
                "`deepstack_visual_indexes` has as many values as there are text layers",
            ),
            (text.epsilon > 0.0 && text.epsilon < 1.0, "`rms_norm_eps` is not between 0 and 1"),
            (text.theta > 1.0 && text.theta.is_finite(), "`rope_theta` is not above 1"),
            (
                [self.image_token, self.vision_start, self.vision_end]
                    .iter()
                    .all(|&it| (it as usize) < text.vocabulary),
                "a token of pictures is beyond `vocab_size`",
            ),
        ];
        rules.iter().find(|rule| !rule.0).map(|rule| rule.1.to_owned())
    }
}

impl File {
    /// The setting by which this is another network, if there is one.
    fn settings(&self) -> Option<String> {
        let File { text_config: text, vision_config: vision, .. } = self;
        let is = |value: &Option<String>, expected: &str| value.as_deref().is_none_or(|it| it == expected);
        let named = |value: &Option<String>| value.clone().unwrap_or_default();
        let rules = [
            (self.model_type == "qwen3_vl", format!("`model_type` is `{}` instead of `qwen3_vl`", self.model_type)),
            (self.quantization_config.is_none(), "its weights are quantised (`quantization_config`)".to_owned()),
            (is(&text.hidden_act, "silu"), format!("activation `{}` instead of `silu`", named(&text.hidden_act))),
            (
                is(&vision.hidden_act, "gelu_pytorch_tanh"),
                format!("activation `{}` instead of `gelu_pytorch_tanh`", named(&vision.hidden_act)),
            ),
            (!text.attention_bias, "`attention_bias` is true".to_owned()),
            (!(text.use_sliding_window && text.sliding_window.is_some()), "`use_sliding_window` is true".to_owned()),
            (vision.in_channels.is_none_or(|it| it == 3), "`in_channels` is not 3".to_owned()),
        ];
        rules.into_iter().find(|rule| !rule.0).map(|rule| rule.1)
    }

    /// The size that is out of bounds, if there is one.
    fn sizes(&self) -> Option<String> {
        let File { text_config: text, vision_config: vision, .. } = self;
        let side = vision.num_position_embeddings.isqrt();
        let square = side.checked_mul(side) == Some(vision.num_position_embeddings);
        let sizes = [
            ("vocab_size", text.vocab_size, MOST_VOCABULARY),
            ("hidden_size", text.hidden_size, MOST_WIDTH),
            ("intermediate_size", text.intermediate_size, MOST_WIDTH),
            ("num_hidden_layers", text.num_hidden_layers, MOST_LAYERS),
            ("num_attention_heads", text.num_attention_heads, 1024),
            ("num_key_value_heads", text.num_key_value_heads, 1024),
            ("head_dim", text.head_dim, 1024),
            ("depth", vision.depth, MOST_LAYERS),
            ("vision_config.hidden_size", vision.hidden_size, MOST_WIDTH),
            ("vision_config.intermediate_size", vision.intermediate_size, MOST_WIDTH),
            ("num_heads", vision.num_heads, 1024),
            ("out_hidden_size", vision.out_hidden_size, MOST_WIDTH),
            ("patch_size", vision.patch_size, 64),
            ("spatial_merge_size", vision.spatial_merge_size, 8),
            ("temporal_patch_size", vision.temporal_patch_size, 8),
            ("num_position_embeddings", vision.num_position_embeddings, 1 << 16),
        ];
        let beyond = sizes.iter().find(|(_, size, most)| !(1..=*most).contains(size));
        beyond
            .map(|(name, size, most)| format!("`{name}` is {size}, which is not within 1 and {most}"))
            .or_else(|| (!square).then(|| "`num_position_embeddings` is no square".to_owned()))
    }
}

impl TextFile {
    fn rope(&self) -> Result<(f32, [usize; 3]), String> {
        let none = Rope::default();
        let parts = [self.rope_parameters.as_ref().unwrap_or(&none), self.rope_scaling.as_ref().unwrap_or(&none)];
        if let Some(kind) =
            parts.iter().find_map(|it| it.rope_type.as_deref().filter(|it| !matches!(*it, "default" | "mrope")))
        {
            return Err(format!("rotary positions of type `{kind}` instead of `default`"));
        }
        if parts.iter().any(|it| it.mrope_interleaved == Some(false)) {
            return Err("`mrope_interleaved` is false".to_owned());
        }
        let theta = parts.iter().find_map(|it| it.rope_theta).or(self.rope_theta);
        let sections = parts.iter().find_map(|it| it.mrope_section.as_deref());
        let theta = theta.ok_or("it has neither `rope_theta` nor `rope_parameters`")?;
        let sections = sections.ok_or("it has no `mrope_section`")?;
        let sections: [usize; 3] =
            sections.try_into().map_err(|_| format!("`mrope_section` has {} values instead of 3", sections.len()))?;
        match sections.iter().all(|&it| it <= MOST_WIDTH) {
            true => Ok((theta as f32, sections)),
            false => Err("`mrope_section` does not sum to half of `head_dim`".to_owned()),
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
