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
    let written = fsio::write_atomically(&file, |out| {
        out.write_all(&header(&tensors)?)?;
        for (at, (name, stored)) in tensors.iter().enumerate() {
            if !is_matrix(name, stored) {
                out.write_all(stored.bytes())?;
            } else if let Err(error) = Quantised::of(stored).map(|it| write(&it, out)) {
                bad = Some((*name, error.to_string()));
                return Err(io::ErrorKind::InvalidData.into());
            }
            progress(at + 1, tensors.len());
        }
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

fn write(it: &Quantised, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&it.tiles)?;
    it.scales.iter().try_for_each(|it| out.write_all(&it.to_le_bytes()))?;
    it.sums.iter().try_for_each(|it| out.write_all(&it.to_le_bytes()))
}

fn is_matrix(name: &str, stored: &Stored) -> bool {
    stored.shape().len() == 2 && MATRICES.iter().any(|end| name.ends_with(end))
}

/// Length and table of contents, in the order in which the tensors are written.
fn header(tensors: &[(&str, &Stored)]) -> io::Result<Vec<u8>> {
    let mut contents = serde_json::Map::new();
    contents.insert("__metadata__".to_owned(), serde_json::json!({ FORMAT_NOTE: FORMAT }));
    let mut next = 0;
    let mut add = |name: String, dtype: Dtype, shape: Vec<usize>, bytes: usize| {
        let info = TensorInfo { dtype, shape, data_offsets: (next, next + bytes) };
        next += bytes;
        serde_json::to_value(info).map(|info| drop(contents.insert(name, info)))
    };
    for (name, stored) in tensors {
        match stored.shape() {
            &[outputs, inner] if is_matrix(name, stored) => {
                let tiles = q8::packed_size(outputs, inner);
                add(format!("{name}{TILES}"), Dtype::U8, vec![tiles], tiles)?;
                add(format!("{name}{SCALES}"), Dtype::F32, vec![outputs], 4 * outputs)?;
                add(format!("{name}{SUMS}"), Dtype::I32, vec![outputs], 4 * outputs)?;
            }
            shape => add((*name).to_owned(), stored.kind(), shape.to_vec(), stored.bytes().len())?,
        }
    }
    let mut contents = serde_json::to_vec(&contents)?;
    // The values begin at a multiple of eight bytes, as other programs write them.
    contents.resize(contents.len().next_multiple_of(8), b' ');
    Ok([&(contents.len() as u64).to_le_bytes()[..], &contents].concat())
}

#[cfg(test)]
#[path = "quantize_tests.rs"]
mod tests;
