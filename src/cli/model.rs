//! Which model a command runs with, and how: the one in the program, a folder, or one of the hub.

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::anyhow;

use super::progress::Transfer;
use super::{Failure, one_of, terminal};
use crate::config::{Dtype, Flag, ModelSettings, Settings};
use crate::device::Compute;
use crate::device::cpu::Level;
use crate::encoder::hub::{Hub, HubModel, ModelName, Pulled};
use crate::encoder::{self, Encoder, EncoderError, Options, qwen3_vl};
use crate::index::build::ModelRun;
use crate::types::Policy;

/// The flags that are settings of the model.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// The model: a folder with its files, or one of the hub as owner/name or owner/name@revision, which is downloaded once [default:
    /// all-MiniLM-L6-v2, which is in the program].
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// What the model computes in: f32 is exact, q8 has 8-bit weights and is several times as fast [default: auto, as suits model,
    /// policy and processor].
    #[arg(long, value_parser = one_of(Dtype::ALL, Dtype::name))]
    dtype: Option<Dtype>,
    /// How texts and pictures are read: as they are meant, or bit for bit as the model's authors do [default: default].
    #[arg(long, value_parser = one_of(Policy::ALL, Policy::name))]
    policy: Option<Policy>,
}

impl Flags {
    /// The first flag that was given, for a command that has no use for a model.
    pub fn given(&self) -> Option<&'static str> {
        let given =
            [("--model", self.model.is_some()), ("--dtype", self.dtype.is_some()), ("--policy", self.policy.is_some())];
        given.into_iter().find(|it| it.1).map(|it| it.0)
    }

    /// The flags as settings that were given by flags.
    pub fn settings(&self) -> Vec<Flag> {
        let flag = |key, name, value: Option<&str>| value.map(|it| Flag { key, name, value: it.into() });
        let flags = [
            flag("model.id", "--model", self.model.as_deref()),
            flag("model.dtype", "--dtype", self.dtype.map(Dtype::name)),
            flag("model.policy", "--policy", self.policy.map(Policy::name)),
        ];
        flags.into_iter().flatten().collect()
    }

    /// Puts the flags into the settings.
    pub fn apply(&self, settings: &mut Settings) {
        let model = &mut settings.model;
        model.id = self.model.clone().unwrap_or_else(|| std::mem::take(&mut model.id));
        model.dtype = self.dtype.unwrap_or(model.dtype);
        model.policy = self.policy.unwrap_or(model.policy);
    }
}

/// Where a model's files are.
#[derive(Debug, Clone)]
pub struct Place {
    /// `None` for the model in the program.
    pub folder: Option<PathBuf>,
    /// The name that it was published by, where that is known.
    pub id: Option<String>,
}

/// A name that a user gave.
///
/// # Errors
/// When it can be none.
pub fn named(name: &str, settings: &Settings) -> Result<ModelName, Failure> {
    ModelName::parse(name, settings.home.as_deref()).map_err(Failure::usage)
}

/// Where the model of the settings is. One of the hub that is not in the cache is downloaded.
///
/// # Errors
/// When it can't be had.
pub fn place(settings: &Settings) -> Result<Place, Failure> {
    match named(&settings.model.id, settings)? {
        ModelName::Bundled => Ok(Place { folder: None, id: None }),
        ModelName::Folder(folder) => Ok(Place { folder: Some(checked(folder)?), id: None }),
        ModelName::Hub(model) => {
            let folder = cached_or_pulled(&model, settings)?.folder;
            Ok(Place { folder: Some(folder), id: Some(model.id) })
        }
    }
}

/// A folder that a model can be in, by a path that ends in its name. What is no model at all is said before a
/// repository is read for nothing.
fn checked(folder: PathBuf) -> Result<PathBuf, Failure> {
    let lack = match (folder.is_dir(), folder.join(CONFIG).is_file()) {
        // `.` is no name.
        (true, true) if folder.file_name().is_none() => return Ok(folder.canonicalize().unwrap_or(folder)),
        (true, true) => return Ok(folder),
        (true, false) => format!("holds no {CONFIG}"),
        (false, _) => "is no folder".to_owned(),
    };
    let folder = folder.display();
    Err(Failure::usage(anyhow!(
        "the model `{folder}` {lack}: name a folder that holds {CONFIG}, tokenizer.json and model.safetensors"
    )))
}

const CONFIG: &str = "config.json";

fn cached_or_pulled(model: &HubModel, settings: &Settings) -> Result<Pulled, Failure> {
    let hub = Hub::new(&settings.hub);
    if let Some(cached) = hub.cached(model) {
        return Ok(cached);
    }
    if !settings.hub.is_offline {
        terminal::remark(&format!("{model} is not in the cache, so it is downloaded, once"));
    }
    let pulled = pull(&hub, model)?;
    terminal::remark(&told(model, &pulled));
    Ok(pulled)
}

/// Loads a model as the settings say.
///
/// # Errors
/// Those of [`encoder::load`].
pub fn load(place: &Place, settings: &Settings) -> Result<Box<dyn Encoder>, EncoderError> {
    let ModelSettings { dtype, policy, dimensions, window, .. } = settings.model;
    let some = |number: usize| (number > 0).then_some(number);
    let options = Options {
        id: place.id.clone(),
        policy,
        compute: compute(dtype, policy, place),
        dimensions: some(dimensions),
        window: some(window),
        images: settings.images.clone(),
        ..Options::default()
    };
    let encoder = match &place.folder {
        None => Box::new(encoder::bundled_with(&options)?),
        Some(folder) => encoder::load(folder, &options)?,
    };
    let info = encoder.info();
    if dtype == Dtype::Q8 && info.compute != Compute::Q8 {
        terminal::warning(&format!(
            "--dtype q8 has no effect on {}, which computes in {}",
            info.id,
            info.compute.name()
        ));
    }
    if policy != info.policy {
        let (asked, id) = (policy.name(), &info.id);
        terminal::warning(&format!("--policy {asked} has no effect on {id}, which reads text by one rule"));
    }
    Ok(encoder)
}

/// What a model is to compute in. Left open, it is 8-bit integers where this machine is quicker by them; but the reference is exact, and
/// 8-bit weights can't be made anything else.
fn compute(dtype: Dtype, policy: Policy, place: &Place) -> Compute {
    match dtype {
        Dtype::F32 => Compute::F32,
        Dtype::Q8 => Compute::Q8,
        Dtype::Auto if place.folder.as_deref().is_some_and(qwen3_vl::is_quantised) => Compute::Q8,
        Dtype::Auto if policy == Policy::Reference || Level::best() < Level::Vnni => Compute::F32,
        Dtype::Auto => Compute::Q8,
    }
}

/// A model and how it is run, for people: `name (q8, policy default)`.
pub fn described(id: &str, run: &ModelRun) -> String {
    format!("{id} ({}, policy {})", run.dtype, run.policy)
}

/// A command line with the flags that make it run with the model of the settings.
pub fn command(words: &[&str], settings: &Settings) -> String {
    let ModelSettings { id, dtype, policy, .. } = &settings.model;
    let flags = [
        (!id.is_empty()).then_some(["--model", id]),
        (*dtype != Dtype::Auto).then_some(["--dtype", dtype.name()]),
        (*policy != Policy::Default).then_some(["--policy", policy.name()]),
    ];
    let words = words.iter().copied().chain(flags.into_iter().flatten().flatten());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |it: char| it.is_alphanumeric() || "-_./@:,+=~".contains(it);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

/// Downloads a model, with progress on a terminal.
///
/// # Errors
/// Those of [`Hub::pull`].
pub fn pull(hub: &Hub, model: &HubModel) -> Result<Pulled, Failure> {
    let bar = Transfer::new();
    Ok(hub.pull(model, &|file, done, total| bar.at(file, done, total))?)
}

/// What is said of a model that is here.
pub fn told(model: &HubModel, pulled: &Pulled) -> String {
    let (commit, folder) = (&pulled.commit, pulled.folder.display());
    format!("{}@{commit}, {}, in {folder}", model.id, terminal::bytes(pulled.bytes()))
}
