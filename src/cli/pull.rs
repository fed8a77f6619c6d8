//! `sightline pull`: a model of the hub into the cache.

use anyhow::anyhow;

use super::{Failure, json, model, terminal};
use crate::config::Settings;
use crate::encoder::hub::{Hub, ModelName};

/// Download a model from the hub, so that it is there when it is needed.
///
/// What is there already is not downloaded again, and a download that broke off goes on where it ended. The cache is that of Python's
/// huggingface_hub; HF_HOME, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE mean what they mean there.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The model, as owner/name.
    #[arg(value_name = "MODEL")]
    model: String,
    /// A branch, a tag or a commit's full hash [default: what models/registry.toml pins, else main].
    #[arg(long, value_name = "REV")]
    revision: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let ModelName::Hub(model) = model::named(&arguments.model, settings)? else {
        return Err(Failure::usage(anyhow!(
            "`{}` is here already: only a model of the hub, owner/name, can be downloaded",
            arguments.model
        )));
    };
    let model = match &arguments.revision {
        None => model,
        Some(_) if arguments.model.contains('@') => {
            return Err(Failure::usage(anyhow!(
                "`{}` names a revision, and so does --revision: leave one of them out",
                arguments.model
            )));
        }
        Some(revision) => model.at(revision).ok_or_else(|| {
            Failure::usage(anyhow!("`{revision}` can be no revision: name a branch, a tag or a commit's full hash"))
        })?,
    };
    let pulled = model::pull(&Hub::new(&settings.hub), &model)?;
    if arguments.json {
        return Ok(json::print(&json::PulledModel::of(&model, &pulled))?);
    }
    let mut page = terminal::output();
    page.line(&[(terminal::PLAIN, &model::told(&model, &pulled))])?;
    Ok(page.flush()?)
}
