//! `sightline quantize`: a model with 8-bit weights beside its other files, which loads at once.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use super::index::INTERRUPTED;
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
        remove_abandoned(out, &name);
        let folder = out.with_file_name(format!("{PREFIX}{}.{name}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("`{}` can't be made", folder.display()))?;
        let work = Work { folder: folder.clone() };
        let stop = move || {
            // What another thread makes meanwhile is removed by the next run.
            let _ = fs::remove_dir_all(&folder);
            std::process::exit(INTERRUPTED.into());
        };
        ctrlc::set_handler(stop).context("the system lets no program wait for Ctrl-C")?;
        Ok(work)
    }

    fn finish(self, out: &Path) -> anyhow::Result<()> {
        // An empty one may be in the way, and no other.
        let _ = fs::remove_dir(out);
        fs::rename(&self.folder, out).with_context(|| format!("`{}` can't be given its name", out.display()))
    }
}

/// How the name of a folder begins that is not whole.
const PREFIX: &str = ".writing-";

/// Removes what runs that were killed have left beside a folder of this name.
fn remove_abandoned(out: &Path, name: &str) {
    let Some(Ok(entries)) = out.parent().map(fs::read_dir) else { return };
    for entry in entries.flatten() {
        let writer = entry.file_name().to_str().and_then(|it| writer_of(it, name));
        if writer.is_some_and(|it| !is_running(it)) {
            // It costs room, and nothing else.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that writes a folder.
fn writer_of(entry: &str, name: &str) -> Option<u32> {
    entry.strip_prefix(PREFIX)?.strip_suffix(name)?.strip_suffix('.')?.parse().ok()
}

#[cfg(unix)]
fn is_running(process: u32) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else { return false };
    // SAFETY: signal 0 is none; the call only asks whether one could be sent.
    let result = unsafe { libc::kill(process, 0) };
    // One of another user is there as well.
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Where it can't be told, nothing is removed.
#[cfg(not(unix))]
fn is_running(_: u32) -> bool {
    true
}

impl Drop for Work {
    fn drop(&mut self) {
        // Gone already when it was finished.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().expect("a folder");
        let out = place.path().join("m");
        // No process has the highest number.
        let (dead, alive) = (i32::MAX, std::process::id());
        let names = [
            (format!(".writing-{dead}.m"), false),
            (format!(".writing-{alive}.m"), true),
            (format!(".writing-{dead}.other"), true),
            (".writing-x.m".to_owned(), true),
            ("m2".to_owned(), true),
        ];
        names.iter().for_each(|(name, _)| fs::create_dir(place.path().join(name)).expect("a folder"));
        remove_abandoned(&out, "m");
        for (name, is_left) in names {
            assert_eq!(place.path().join(&name).exists(), is_left, "{name}");
        }
    }
}
