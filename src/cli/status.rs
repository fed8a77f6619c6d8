//! `sightline status`: which repositories are indexed, and how well.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use super::terminal::{DIM, NAME, PATH, PLAIN, Page};
use super::{Failure, index, json, model, place, terminal};
use crate::config::Settings;
use crate::fsio::FileError;
use crate::index::build::{Manifest, Rules, Target};
use crate::index::directory::{RepositoryDirectory, SourceRecord};
use crate::retriever::ingest::{self, Changes, Found, IngestError};
use crate::snapshot;

/// List the indexes there are; of one repository, what was skipped too.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A repository, to see what is known of it alone.
    #[arg(value_name = "PATH")]
    repository: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is known of a repository.
pub struct Known {
    pub directory: RepositoryDirectory,
    pub source: Option<SourceRecord>,
    pub builds: Vec<KnownBuild>,
    /// Why it can't be told what there is.
    pub damage: Option<String>,
    pub bytes: u64,
}

impl Known {
    /// Why the last run built nothing, or why what there is can't be told.
    pub fn failure(&self) -> Option<&str> {
        self.damage.as_deref().or(self.source.as_ref()?.failure.as_deref())
    }
}

/// A build, or why it can't be read.
pub struct KnownBuild {
    pub target: String,
    pub manifest: Result<Manifest, FileError>,
    /// What has changed since; none where it is unknown.
    pub staleness: Option<Staleness>,
    /// Of one repository alone: paths with what is said of them.
    pub skipped: Vec<(String, String)>,
    pub notes: Vec<(String, String)>,
}

/// Whether a build is what the repository is now.
pub enum Staleness {
    Changed(Changes),
    /// Another version of the program or other settings made it.
    OtherRules,
    /// Why it can't be told.
    Unknown(String),
    /// What of the index is not as it was written.
    Damaged(String),
}

impl KnownBuild {
    /// In a word: what the build is good for.
    pub fn state(&self) -> &'static str {
        match &self.manifest {
            _ if matches!(self.staleness, Some(Staleness::Damaged(_))) => "damaged",
            Err(_) => "damaged",
            Ok(manifest) if manifest.counts.is_complete() => "ready",
            Ok(_) => "partial",
        }
    }

    pub fn is_stale(&self) -> bool {
        match &self.staleness {
            Some(Staleness::Changed(changes)) => !changes.is_empty(),
            Some(Staleness::OtherRules | Staleness::Unknown(_) | Staleness::Damaged(_)) => true,
            None => false,
        }
    }
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let data = place::data_directory(&settings.index.data_dir)?;
    let (directories, details) = match &arguments.repository {
        None => (data.repositories()?, false),
        Some(path) => (vec![data.repository(&place::resolved(path))], true),
    };
    let known: Vec<Known> = directories.into_iter().map(|it| known(it, settings, details)).collect();
    if arguments.json {
        return Ok(json::print(&json::Status::of(data.path(), &known))?);
    }
    let mut page = terminal::output();
    for known in &known {
        print(&mut page, known, details)?;
    }
    page.flush()?;
    if known.iter().all(|it| it.source.is_none() && it.builds.is_empty() && it.damage.is_none()) {
        terminal::remark("nothing is indexed here; `sightline index PATH` does that");
    }
    Ok(())
}

fn known(directory: RepositoryDirectory, settings: &Settings, details: bool) -> Known {
    let (mut damage, source) = (None, directory.source());
    let source = source.unwrap_or_else(|error| {
        damage = Some(error.to_string());
        None
    });
    let manifests = directory.manifests().unwrap_or_else(|error| {
        damage = Some(error.to_string());
        Vec::new()
    });
    let mut builds = Vec::new();
    for (target, manifest) in manifests {
        let staleness = manifest
            .as_ref()
            .ok()
            .zip(source.as_ref())
            .map(|(manifest, source)| staleness(&directory, source, manifest, settings));
        let (mut skipped, mut notes) = (Vec::new(), Vec::new());
        if let (true, Ok(manifest)) = (details, &manifest)
            && let Ok(Some(build)) = directory.build(&manifest.target)
        {
            (skipped, notes) = (build.skipped, build.notes);
        }
        builds.push(KnownBuild { target, manifest, staleness, skipped, notes });
    }
    let bytes = directory.bytes();
    Known { directory, source, builds, damage, bytes }
}

fn staleness(
    directory: &RepositoryDirectory,
    source: &SourceRecord,
    manifest: &Manifest,
    settings: &Settings,
) -> Staleness {
    // Which files it has is its own affair, and shown; whether it has them as they are now is the question.
    let max_file_bytes = settings.snapshot.max_file_bytes;
    let options = snapshot::Options { max_file_bytes, ..ingest::options(&manifest.rules) };
    if manifest.rules != ingest::rules(&options) {
        return Staleness::OtherRules;
    }
    let Target::WorkTree = manifest.target else { return Staleness::Changed(Changes::default()) };
    match ingest::open(directory, std::path::Path::new(&source.path), None, &options) {
        Ok(Found::Index(indexed)) => Staleness::Changed(indexed.changes),
        Ok(Found::Nothing | Found::OtherRules) => Staleness::OtherRules,
        Err(IngestError::Snapshot(error)) => Staleness::Unknown(error.to_string()),
        Err(error) => Staleness::Damaged(error.to_string()),
    }
}

fn print(page: &mut Page<impl std::io::Write>, known: &Known, details: bool) -> std::io::Result<()> {
    let is_nothing = known.source.is_none() && known.builds.is_empty() && known.damage.is_none();
    if is_nothing {
        return Ok(());
    }
    let path = known.source.as_ref().map_or("(its path is lost; indexing it again tells)", |it| it.path.as_str());
    let size = terminal::bytes(known.bytes);
    page.line(&[(NAME, &known.directory.id), (PLAIN, "  "), (PATH, path), (DIM, &format!("  {size}"))])?;
    if let Some(failure) = known.failure() {
        page.line(&[(PLAIN, &format!("  failed: {failure}"))])?;
    }
    for build in &known.builds {
        page.line(&[(PLAIN, &format!("  {}", line(build)))])?;
        if details {
            for (path, reason) in &build.skipped {
                page.line(&[(DIM, &format!("    skipped {path}: {reason}"))])?;
            }
            for (path, note) in &build.notes {
                page.line(&[(DIM, &format!("    note on {path}: {note}"))])?;
            }
        }
    }
    Ok(())
}

fn line(build: &KnownBuild) -> String {
    let manifest = match &build.manifest {
        Err(error) => return format!("{}: damaged ({error}); `sightline index` makes it again", build.target),
        Ok(manifest) => manifest,
    };
    let stale = match &build.staleness {
        Some(Staleness::Changed(changes)) if !changes.is_empty() => format!(", stale: {}", changed(changes)),
        Some(Staleness::OtherRules) => ", stale: made by another version or under other settings".to_owned(),
        Some(Staleness::Unknown(reason)) => format!(", can't be compared: {reason}"),
        Some(Staleness::Damaged(reason)) => format!(": {reason}"),
        Some(Staleness::Changed(_)) | None => String::new(),
    };
    let counts = manifest.counts;
    let model = match (&manifest.model, &manifest.run) {
        (None, _) => "no model".to_owned(),
        (Some(model), None) => model.id.clone(),
        (Some(model), Some(run)) => model::described(&model.id, run),
    };
    format!(
        "{}{}: {}{stale}; {}, {}, {} of {} vectors of {model}, {}",
        index::name_of(&manifest.target),
        chosen(&manifest.rules),
        build.state(),
        terminal::counted(counts.files, "file"),
        terminal::counted(counts.functions, "function"),
        counts.vectors,
        counts.windows,
        age(manifest.created),
    )
}

/// ` (only src/, without *_test.py)`, of an index that was made by patterns.
fn chosen(rules: &Rules) -> String {
    let lists = [("only", &rules.include), ("without", &rules.exclude)];
    let lists = lists.into_iter().filter(|it| !it.1.is_empty());
    let told: Vec<String> = lists.map(|(verb, patterns)| format!("{verb} {}", patterns.join(" "))).collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

/// `3 files changed (a.rs, b.rs, c.rs)`, with the first few named.
pub fn changed(changes: &Changes) -> String {
    let all: Vec<&str> =
        [&changes.changed, &changes.added, &changes.removed].into_iter().flatten().map(String::as_str).collect();
    let named = all[..all.len().min(NAMED)].join(", ");
    let more = if all.len() > NAMED { ", ..." } else { "" };
    format!("{} changed ({named}{more})", terminal::counted(all.len(), "file"))
}

/// Changed files that are named.
const NAMED: usize = 3;

/// `5 min ago`.
fn age(created: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    match now.saturating_sub(created) {
        seconds @ 0..=119 => format!("{seconds} s ago"),
        seconds @ 120..=7199 => format!("{} min ago", seconds / 60),
        seconds @ 7200..=172_799 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}
