//! F2: a file of 8-bit weights, which loads without being computed.
//!
//! Knows nothing of the network beyond which of its tensors are matrices. The file is written a matrix at a time, so that memory holds
//! one of them.

use std::io::{self, Write};
use std::path::Path;

use safetensors::tensor::TensorInfo;

use super::config::Config;
use super::weights::{FORMAT, FORMAT_NOTE, Files, SCALES, SUMS, TILES};
use crate::device::cpu::q8;
use crate::device::cpu::share::{Line, bytes};
use crate::device::linear::Quantised;
use crate::device::tensors::{Dtype, Stored};
use crate::encoder::{EncoderError, Progress};
use crate::fsio;

/// How the names of matrices end that a token or a patch is multiplied with. The rest stays as it is: vectors, tables that are read by
/// row, and the kernel that reads pixels.
const MATRICES: [&str; 11] = [
    "q_proj.weight",
    "k_proj.weight",
    "v_proj.weight",
    "o_proj.weight",
    "gate_proj.weight",
    "up_proj.weight",
    "down_proj.weight",
    "attn.qkv.weight",
    "attn.proj.weight",
    "linear_fc1.weight",
    "linear_fc2.weight",
];

/// Not read by an encoder.
const OUTPUT_LAYER: &str = "lm_head.";

/// Whether the weights in a folder are of 8 bits. Files that can't be read are none; loading them says what is wrong.
pub fn is_quantised(folder: &Path) -> bool {
    Files::open(folder).is_ok_and(|it| it.tensors.note(FORMAT_NOTE).is_some())
}

/// Writes `model.safetensors` with 8-bit weights of the model in `folder` into the folder `out`.
///
/// # Errors
/// As for loading the model, and when the file can't be written.
pub fn quantize(folder: &Path, out: &Path, progress: &Progress) -> Result<(), EncoderError> {
    let (config, file) = crate::encoder::bundled::read(folder, "config.json")?;
    let _: Config = super::read_config(&config, &file)?;
    let files = Files::open(folder)?;
    let all = files.tensors.all();
    let tensors: Vec<_> = all.into_iter().filter(|(name, _)| !name.starts_with(OUTPUT_LAYER)).collect();
    let file = out.join("model.safetensors");
    let mut bad = None;
    let (matrices, others): (Vec<_>, Vec<_>) = tensors.iter().partition(|(name, stored)| is_matrix(name, stored));
    let written = fsio::write_atomically(&file, |out| {
        out.write_all(&header(&matrices, &others)?)?;
        let mut beside = Vec::new();
        for (at, (name, stored)) in matrices.iter().enumerate() {
            match Quantised::of(stored) {
                Ok(Quantised { tiles, scales, sums }) => {
                    out.write_all(bytes(&tiles))?;
                    beside.extend(scales.iter().flat_map(|it| it.to_le_bytes()));
                    beside.extend(sums.iter().flat_map(|it| it.to_le_bytes()));
                }
                Err(error) => {
                    bad = Some((*name, error.to_string()));
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
            progress(at + 1, tensors.len());
        }
        out.write_all(&beside)?;
        others.iter().try_for_each(|(_, stored)| out.write_all(stored.bytes()))?;
        progress(tensors.len(), tensors.len());
        Ok(())
    });
    match (written, bad) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some((name, cause))) => {
            let file = folder.display().to_string();
            Err(EncoderError::Damaged { file, cause: format!("tensor `{name}`: {}", crate::encoder::one_line(&cause)) })
        }
        (Err(cause), None) => Err(EncoderError::Unwritable { file: file.display().to_string(), cause }),
    }
}

fn is_matrix(name: &str, stored: &Stored) -> bool {
    stored.shape().len() == 2 && MATRICES.iter().any(|end| name.ends_with(end))
}

/// Length and table of contents, in the order in which the tensors are written: the tiles of all matrices first, which so begin where
/// lines of the cache do, their scales and sums, then the others.
fn header(matrices: &[(&str, &Stored)], others: &[(&str, &Stored)]) -> io::Result<Vec<u8>> {
    let mut contents = serde_json::Map::new();
    contents.insert("__metadata__".to_owned(), serde_json::json!({ FORMAT_NOTE: FORMAT }));
    let mut next = 0;
    let mut add = |name: String, dtype: Dtype, shape: &[usize], bytes: usize| {
        let info = TensorInfo { dtype, shape: shape.to_vec(), data_offsets: (next, next + bytes) };
        next += bytes;
        serde_json::to_value(info).map(|info| drop(contents.insert(name, info)))
    };
    let sized =
        matrices.iter().filter_map(|(name, stored)| Some((*name, <[usize; 2]>::try_from(stored.shape()).ok()?)));
    for (name, [outputs, inner]) in sized.clone() {
        let tiles = q8::packed_size(outputs, inner);
        add(format!("{name}{TILES}"), Dtype::U8, &[tiles], tiles)?;
    }
    for (name, [outputs, _]) in sized {
        add(format!("{name}{SCALES}"), Dtype::F32, &[outputs], 4 * outputs)?;
        add(format!("{name}{SUMS}"), Dtype::I32, &[outputs], 4 * outputs)?;
    }
    for (name, stored) in others {
        add((*name).to_owned(), stored.kind(), stored.shape(), stored.bytes().len())?;
    }
    let mut contents = serde_json::to_vec(&contents)?;
    let length = size_of::<u64>();
    contents.resize((length + contents.len()).next_multiple_of(size_of::<Line>()) - length, b' ');
    Ok([&(contents.len() as u64).to_le_bytes()[..], &contents].concat())
}

#[cfg(test)]
#[path = "quantize_tests.rs"]
mod tests;
