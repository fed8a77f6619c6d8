//! An index as a file for other tools: JSON lines, or tensors.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::anyhow;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::{Failure, json};
use crate::fsio;
use crate::index::view::{Vectors, View, ViewedWindow};
use crate::types::Candidate;

/// The form of the file, by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    JsonLines,
    Safetensors,
}

impl Format {
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|it| !it.is_dir()) {
            return Err(Failure::usage(anyhow!(
                "there is no folder `{}` to export to: make it, or name another",
                folder.display()
            )));
        }
        match path.extension().and_then(|it| it.to_str()) {
            Some("jsonl") => Ok(Format::JsonLines),
            Some("safetensors") => Ok(Format::Safetensors),
            _ => Err(Failure::usage(anyhow!(
                "`{}` says no form to export in: name a file that ends in .jsonl or .safetensors",
                path.display()
            ))),
        }
    }
}

/// Writes all candidates of an index with the vectors of their windows.
pub fn write(view: &View, path: &Path, format: Format) -> anyhow::Result<()> {
    let vectors = view.vectors.as_ref().ok_or_else(|| anyhow!("the index has no vectors to export"))?;
    let written = match format {
        Format::JsonLines => fsio::write_atomically(path, |out| write_lines(view, vectors, out)),
        Format::Safetensors => {
            let tensors = tensors(view, vectors)?;
            fsio::write_atomically(path, |out| out.write_all(&tensors))
        }
    };
    written
        .map_err(|error| anyhow!("`{}` can't be written: {error}; name a file in a folder with room", path.display()))
}

fn windows(vectors: &Vectors, at: usize, candidate: &Candidate) -> io::Result<Vec<ViewedWindow>> {
    vectors.windows(candidate.level, at).map_err(io::Error::other)
}

fn write_lines(view: &View, vectors: &Vectors, out: &mut BufWriter<&std::fs::File>) -> io::Result<()> {
    json::write_line(out, &json::ExportHead::of(view, &vectors.model))?;
    for (at, candidate) in view.candidates.iter().enumerate() {
        let windows = windows(vectors, at, candidate)?;
        let windows = windows.into_iter().map(|(body, vector)| json::ExportedWindow {
            start: body.start,
            end: body.end,
            vector: vector.map(|it| it.iter().map(|it| it.to_f32()).collect()),
        });
        let line = json::Exported { candidate: json::CandidateLine::candidate(candidate), windows: windows.collect() };
        json::write_line(out, &line)?;
    }
    Ok(())
}

/// `vectors` (rows, dimensions) as 16-bit floats, and for each row `candidate` (rows), its number, and `body` (rows, 2), the bytes of
/// the candidate's body that it is of. The metadata has the head of the JSON lines, and `candidates` in the form of their lines.
fn tensors(view: &View, vectors: &Vectors) -> anyhow::Result<Vec<u8>> {
    let (mut values, mut owners, mut bodies, mut rows) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (at, candidate) in view.candidates.iter().enumerate() {
        for (body, vector) in windows(vectors, at, candidate)? {
            let Some(vector) = vector else { continue };
            values.extend(vector.iter().flat_map(|it| it.to_le_bytes()));
            owners.extend((at as u32).to_le_bytes());
            bodies.extend([body.start, body.end].iter().flat_map(|it| it.to_le_bytes()));
            rows += 1;
        }
    }
    let lines: Vec<json::CandidateLine> = view.candidates.iter().map(json::CandidateLine::candidate).collect();
    let mut metadata = json::ExportHead::of(view, &vectors.model).metadata();
    metadata.insert("candidates".to_owned(), serde_json::to_string(&lines)?);
    let tensors: HashMap<&str, TensorView> = [
        ("vectors", TensorView::new(Dtype::F16, vec![rows, vectors.model.dimensions], &values)?),
        ("candidate", TensorView::new(Dtype::U32, vec![rows], &owners)?),
        ("body", TensorView::new(Dtype::U32, vec![rows, 2], &bodies)?),
    ]
    .into();
    Ok(safetensors::serialize(tensors, Some(metadata))?)
}
