//! `sightline cache`: how much the vectors and indexes take, and giving that back.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::anyhow;
use clap::Subcommand;

use super::terminal::{DIM, NAME, PATH, PLAIN};
use super::{Failure, json, place, terminal};
use crate::config::Settings;
use crate::index::directory::{DataDirectory, RepositoryDirectory};
use crate::index::store::Store;

/// Show what is kept on disk, or remove some of it.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Remove the vectors that were not used for longest from the store.
    Prune {
        /// Bytes that the store may take, 0 to empty it [default: the setting index.store_bytes].
        #[arg(long, value_name = "BYTES")]
        to: Option<u64>,
    },
    /// Remove the indexes of a repository; its vectors stay in the store.
    Forget {
        /// The repository, by its path or by the name that `sightline status` shows.
        #[arg(value_name = "PATH|NAME")]
        repository: PathBuf,
        /// Only the index of this commit (the full hash), or `worktree`.
        #[arg(long, value_name = "TARGET")]
        target: Option<String>,
    },
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let data = place::data_directory(&settings.index.data_dir)?;
    match &arguments.action {
        None => show(&data, arguments.json),
        Some(Action::Prune { to }) => prune(&data, to.unwrap_or(settings.index.store_bytes), arguments.json),
        Some(Action::Forget { repository, target }) => forget(&data, repository, target.as_deref(), arguments.json),
    }
}

fn show(data: &DataDirectory, as_json: bool) -> Result<(), Failure> {
    let stats = Store::open_read_only(&data.store())?.stats()?;
    let repositories: Vec<(String, u64)> =
        data.repositories()?.into_iter().map(|it| (it.id.clone(), it.bytes())).collect();
    if as_json {
        return Ok(json::print(&json::Cache::of(data.path(), &stats, &repositories))?);
    }
    let mut page = terminal::output();
    page.line(&[(PATH, &data.path().display().to_string())])?;
    page.line(&[(NAME, "store"), (PLAIN, &format!("  {}", terminal::bytes(stats.file_bytes)))])?;
    for model in &stats.models {
        let fingerprint = &model.fingerprint[..model.fingerprint.len().min(12)];
        let text = format!(
            "  {}: {} of {} dimensions, {}",
            model.id,
            terminal::counted(model.vectors as usize, "vector"),
            model.dimensions,
            terminal::bytes(model.bytes)
        );
        page.line(&[(PLAIN, &text), (DIM, &format!("  {fingerprint}"))])?;
    }
    for (id, bytes) in &repositories {
        page.line(&[(NAME, id), (PLAIN, &format!("  {}", terminal::bytes(*bytes)))])?;
    }
    Ok(page.flush()?)
}

fn prune(data: &DataDirectory, to: u64, as_json: bool) -> Result<(), Failure> {
    let store = place::store(data)?;
    let removed = store.evict(to, SystemTime::now() + FUTURE)?;
    if as_json {
        return Ok(json::print(&json::Pruned { vectors: removed.vectors, bytes: removed.bytes })?);
    }
    let vectors = terminal::counted(removed.vectors as usize, "vector");
    terminal::remark(&format!("{vectors} removed, {}", terminal::bytes(removed.bytes)));
    Ok(())
}

/// Nothing is spared for having been used just now.
const FUTURE: std::time::Duration = std::time::Duration::from_secs(86_400);

fn forget(
    data: &DataDirectory,
    repository: &std::path::Path,
    target: Option<&str>,
    as_json: bool,
) -> Result<(), Failure> {
    let directory = find(data, repository)?;
    let lock = directory.lock()?;
    let bytes = directory.bytes();
    match target {
        None => directory.clone().remove(lock)?,
        Some(target) if directory.forget(&lock, target)? => drop(lock),
        Some(target) => {
            return Err(Failure::usage(anyhow!(
                "{} has no index of `{target}`: `sightline status` lists them",
                directory.id
            )));
        }
    }
    let freed = bytes.saturating_sub(directory.bytes());
    if as_json {
        return Ok(json::print(&json::Pruned { vectors: 0, bytes: freed })?);
    }
    terminal::remark(&format!("{} freed", terminal::bytes(freed)));
    Ok(())
}

fn find(data: &DataDirectory, repository: &std::path::Path) -> Result<RepositoryDirectory, Failure> {
    let known = data.repositories()?;
    let by_path = data.repository(&place::resolved(repository)).id;
    let found = known.into_iter().find(|it| it.id == by_path || repository.to_str() == Some(it.id.as_str()));
    found.ok_or_else(|| {
        Failure::usage(anyhow!("no repository `{}` is indexed: `sightline status` lists them", repository.display()))
    })
}
