//! How fast are windows of source code embedded, and what is gained over candle-transformers' BERT on the same windows?
//!
//! `cargo bench --bench embed`. The windows are those of this crate's own sources: half from whole files, half from paragraphs, which
//! stand for functions. Each figure is the median of five runs; the machine should be idle. Needs the feature `bundled-models`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use sightline::encoder::{self, Encoder, Window};
use sightline::types::IssueReport;

const RUNS: usize = 5;
const WINDOWS: usize = 256;

fn main() -> anyhow::Result<()> {
    let model = encoder::bundled()?;
    let windows = windows(&model)?;
    let windows: Vec<&Window> = windows.iter().collect();
    let tokens: usize = windows.iter().map(|window| window.tokens.len()).sum();
    println!("question   how fast are windows of source code embedded?");
    println!("size       {} windows, {tokens} tokens", windows.len());
    println!("machine    {}, {} threads", processor(), rayon::current_num_threads());

    let load = median(|| encoder::bundled().map(drop).map_err(Into::into))?;
    println!("load       {:.0} ms", load * 1e3);
    let issue = IssueReport {
        title: "Tooltip is cut off".to_owned(),
        body: "It should flip to the left.\n".repeat(40),
        ..IssueReport::default()
    };
    let query = median(|| model.query(&issue).map(drop).map_err(Into::into))?;
    println!("query      {:.0} ms ({} tokens)", query * 1e3, model.query(&issue)?.tokens);
    let own = median(|| model.embed(&windows, &|_, _| ()).map(drop).map_err(Into::into))?;
    report("embed", own, windows.len(), tokens);
    let peer = Peer::load(Path::new(env!("CARGO_MANIFEST_DIR")).join("models/all-MiniLM-L6-v2"))?;
    let theirs = median(|| peer.embed(&windows))?;
    report("candle-transformers, padded batches of 8 sorted by length", theirs, windows.len(), tokens);
    println!("gain       {:.2} times", theirs / own);
    Ok(())
}

fn report(what: &str, seconds: f64, windows: usize, tokens: usize) {
    println!(
        "{:.0} tokens/s, {:.1} windows/s, {seconds:.2} s   {what}",
        tokens as f64 / seconds,
        windows as f64 / seconds
    );
}

/// Seconds that a run takes, after one to warm up.
fn median(mut run: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    run()?;
    let mut seconds = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[RUNS / 2])
}

fn windows(model: &dyn Encoder) -> anyhow::Result<Vec<Window>> {
    let mut files = Vec::new();
    let mut paragraphs = Vec::new();
    for path in sources(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))? {
        let text = std::fs::read_to_string(&path)?;
        let path = path.display();
        files.extend(model.windows(&format!("File: {path}"), &text)?);
        for (number, paragraph) in text.split("\n\n").enumerate() {
            paragraphs.extend(model.windows(&format!("Function: {path}:paragraph{number}"), paragraph)?);
        }
    }
    let half = |windows: Vec<Window>| windows.into_iter().take(WINDOWS / 2);
    Ok(half(files).chain(half(paragraphs)).collect())
}

/// Rust files below a folder, ordered by path.
fn sources(folder: PathBuf) -> anyhow::Result<Vec<PathBuf>> {
    let (mut folders, mut files) = (vec![folder], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
    name.trim_start_matches([' ', '\t', ':']).to_owned()
}

/// candle-transformers' BERT as its examples use it.
struct Peer {
    model: BertModel,
}

impl Peer {
    fn load(folder: PathBuf) -> anyhow::Result<Self> {
        let config: Config = serde_json::from_slice(&std::fs::read(folder.join("config.json"))?)?;
        let weights = candle_core::safetensors::load(folder.join("model.safetensors"), &Device::Cpu)?;
        let weights = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
        Ok(Peer { model: BertModel::load(weights, &config)? })
    }

    fn embed(&self, windows: &[&Window]) -> anyhow::Result<()> {
        let mut windows = windows.to_vec();
        windows.sort_by_key(|window| window.tokens.len());
        for batch in windows.chunks(8) {
            let length = batch.last().context("a chunk holds something")?.tokens.len();
            let padded = |window: &&Window, fill: fn(u32) -> u32| {
                window
                    .tokens
                    .iter()
                    .map(|&id| fill(id))
                    .chain([0].into_iter().cycle())
                    .take(length)
                    .collect::<Vec<u32>>()
            };
            let tensor = |fill: fn(u32) -> u32| {
                let values: Vec<u32> = batch.iter().flat_map(|window| padded(window, fill)).collect();
                Tensor::from_vec(values, (batch.len(), length), &Device::Cpu)
            };
            let (ids, mask) = (tensor(|id| id)?, tensor(|_| 1)?);
            let states = self.model.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
            let mask = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
            let mean = states.broadcast_mul(&mask)?.sum(1)?.broadcast_div(&mask.sum(1)?)?;
            mean.broadcast_div(&mean.sqr()?.sum_keepdim(1)?.sqrt()?)?.to_vec2::<f32>()?;
        }
        Ok(())
    }
}
