//! F2: a file of 8-bit weights, which loads without being computed.
//!
//! Knows nothing of the network beyond which of its tensors are matrices. The file is written a matrix at a time, so that memory holds
//! one of them. What can't be loaded is not quantised.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use safetensors::tensor::TensorInfo;

use super::Network;
use super::config::Config;
use super::weights;
use super::weights::{CHECKSUM_NOTE, FORMAT, FORMAT_NOTE, Files, Objection, SCALES, SUMS, TILES, checksum};
use crate::device::Compute;
use crate::device::cpu::q8;
use crate::device::cpu::share::{Line, bytes};
use crate::device::linear::Quantised;
use crate::device::tensors::{Dtype, Stored, TensorFile};
use crate::encoder::{EncoderError, Progress, one_line};
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
    Files::open(folder).is_ok_and(|it| weights::is_quantised(&it.tensors))
}

/// Writes `model.safetensors` with 8-bit weights of the model in `folder` into the folder `out`.
///
/// # Errors
/// As for loading the model, and when the file can't be written.
pub fn quantize(folder: &Path, out: &Path, progress: &Progress) -> Result<(), EncoderError> {
    let (config, file) = crate::encoder::bundled::read(folder, "config.json")?;
    let config: Config = super::read_config(&config, &file)?;
    let files = Files::open(folder)?;
    check(&files.tensors, &config).map_err(|objection| files.refused(objection))?;
    let all = files.tensors.all();
    let tensors = all.into_iter().filter(|(name, _)| !name.starts_with(OUTPUT_LAYER));
    let (matrices, others): (Vec<_>, Vec<_>) = tensors.partition(|(name, stored)| is_matrix(name, stored));
    let file = out.join("model.safetensors");
    let mut bad = None;
    let written = fsio::write_atomically(&file, |out| write(out, &matrices, &others, progress, &mut bad));
    match (written, bad) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(objection)) => Err(files.refused(objection)),
        (Err(cause), None) => Err(EncoderError::Unwritable { file: file.display().to_string(), cause }),
    }
}

/// Looks for everything that loading the model looks for, and for 8-bit weights: what loads must be what was meant.
fn check(tensors: &TensorFile, config: &Config) -> Result<(), Objection> {
    if weights::is_quantised(tensors) {
        let cause = "they can't be quantised once more".to_owned();
        return Err(Objection::Quantised { cause, remedy: "name the folder that they were made from" });
    }
    Network::load(tensors, config, Compute::F32).map(drop)
}

/// Tensors by their names.
type Named<'a> = (&'a str, &'a Stored);

/// Writes a file; a matrix that can't be quantised stops it, and is put into `bad`. The table of contents is written again at the end,
/// when the checksum in it is known.
fn write<W: Write + Seek>(
    out: &mut W,
    matrices: &[Named],
    others: &[Named],
    progress: &Progress,
    bad: &mut Option<Objection>,
) -> io::Result<()> {
    let total = matrices.len() + others.len();
    out.write_all(&header(matrices, others, &checksum(Vec::new()))?)?;
    let mut beside: Vec<(String, Vec<u8>)> = Vec::new();
    for (at, (name, stored)) in matrices.iter().enumerate() {
        let Quantised { tiles, scales, sums } = Quantised::of(stored).map_err(|error| {
            let cause = format!("tensor `{name}`: {}", one_line(&error.to_string()));
            *bad = Some(Objection::Damaged { tensor: Some((*name).to_owned()), cause });
            io::ErrorKind::InvalidData
        })?;
        out.write_all(bytes(&tiles))?;
        beside.push((format!("{name}{SCALES}"), scales.iter().flat_map(|it| it.to_le_bytes()).collect()));
        beside.push((format!("{name}{SUMS}"), sums.iter().flat_map(|it| it.to_le_bytes()).collect()));
        progress(at + 1, total);
    }
    beside.iter().try_for_each(|(_, bytes)| out.write_all(bytes))?;
    others.iter().try_for_each(|(_, stored)| out.write_all(stored.bytes()))?;
    let checksum = checksum(beside.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect());
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&header(matrices, others, &checksum)?)?;
    progress(total, total);
    Ok(())
}

fn is_matrix(name: &str, stored: &Stored) -> bool {
    stored.shape().len() == 2 && MATRICES.iter().any(|end| name.ends_with(end))
}

/// Length and table of contents, in the order in which the tensors are written: the tiles of all matrices first, which so begin where
/// lines of the cache do, their scales and sums, then the others.
fn header(matrices: &[Named], others: &[Named], checksum: &str) -> io::Result<Vec<u8>> {
    let mut contents = serde_json::Map::new();
    contents.insert("__metadata__".to_owned(), serde_json::json!({ FORMAT_NOTE: FORMAT, CHECKSUM_NOTE: checksum }));
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
