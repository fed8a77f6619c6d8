//! `sightline quantize`: a model with 8-bit weights beside its other files, which loads at once.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use super::{Failure, model, progress, terminal};
use crate::config::Settings;
use crate::encoder;

/// Write a model with 8-bit weights into a folder of its own, so that they need not be made each time it is loaded.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The model: a folder with its files, or one of the hub as owner/name or owner/name@revision.
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// The folder to write; it must be new or empty.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Files of a model that are copied as they are, where it has them: what is read, and what its licence may ask for.
const COPIED: [&str; 10] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
    "chat_template.jinja",
    "README.md",
    "LICENSE",
    "LICENSE.txt",
    "NOTICE",
];

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let out = std::path::absolute(&arguments.out)?;
    check_free(&out)?;
    let mut settings = settings.clone();
    settings.model.id.clone_from(&arguments.model);
    let Some(folder) = model::place(&settings)?.folder else {
        return Err(Failure::usage(anyhow!(
            "{} is in the program as it is: name a folder, or a model of the hub",
            arguments.model
        )));
    };
    let work = Work::begin(&out)?;
    copy(&folder, &work.folder)?;
    {
        let bar = progress::Bar::new("quantising", "tensors");
        encoder::quantize(&folder, &work.folder, &|done, total| bar.at(done, total))?;
    }
    work.finish(&out)?;
    let bytes = |it: &Path| fs::metadata(it.join("model.safetensors")).map_or(0, |it| it.len());
    terminal::remark(&format!("{} of 8-bit weights in {}", terminal::bytes(bytes(&out)), out.display()));
    Ok(())
}

/// Nothing is written over.
fn check_free(out: &Path) -> Result<(), Failure> {
    match fs::read_dir(out).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Failure::usage(anyhow!("the folder `{}` is not empty: name a new one", out.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::usage(anyhow!("`{}` can't be the folder to write: {error}", out.display()))),
    }
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for name in COPIED.iter().filter(|it| from.join(it).is_file()) {
        fs::copy(from.join(name), to.join(name))
            .with_context(|| format!("`{name}` can't be copied to `{}`", to.display()))?;
    }
    Ok(())
}

/// A folder beside the one that is wanted, which takes its name when it is whole; removed if it never is.
struct Work {
    folder: PathBuf,
}

impl Work {
    fn begin(out: &Path) -> anyhow::Result<Self> {
        let name = out.file_name().context("the folder to write has no name")?.to_string_lossy();
        let folder = out.with_file_name(format!(".writing-{}.{name}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("`{}` can't be made", folder.display()))?;
        Ok(Work { folder })
    }

    fn finish(self, out: &Path) -> anyhow::Result<()> {
        // An empty one may be in the way, and no other.
        let _ = fs::remove_dir(out);
        fs::rename(&self.folder, out).with_context(|| format!("`{}` can't be given its name", out.display()))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Gone already when it was finished.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
