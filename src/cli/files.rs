//! Which files of a repository a command reads: flags that are settings too.

use super::Failure;
use crate::config::Settings;
use crate::snapshot;

/// The flags that choose files.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct FileFlags {
    /// Only files that this pattern names, or that lie in a folder that it names, count. Written as in a .gitignore at the top of what is
    /// read; may be repeated [default: all files].
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Files and folders that this pattern names don't count, even if git tracks them; may be repeated [default: none].
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
}

impl FileFlags {
    /// Puts the flags into the settings; flags take the place of a list there.
    ///
    /// # Errors
    /// A pattern, from wherever, that can't be used.
    pub fn apply(&self, settings: &mut Settings) -> Result<(), Failure> {
        let lists = [(&self.include, &mut settings.snapshot.include), (&self.exclude, &mut settings.snapshot.exclude)];
        for (given, list) in lists.into_iter().filter(|it| !it.0.is_empty()) {
            list.clone_from(given);
        }
        options(settings).check().map_err(Failure::usage)
    }
}

/// How a repository is read by the settings.
pub fn options(settings: &Settings) -> snapshot::Options {
    let (include, exclude) = (settings.snapshot.include.clone(), settings.snapshot.exclude.clone());
    let max_file_bytes = settings.snapshot.max_file_bytes;
    snapshot::Options { max_file_bytes, include, exclude, ..snapshot::Options::default() }
}

/// The words of a command line that choose the same files.
pub fn words(settings: &Settings) -> impl Iterator<Item = &str> {
    let include = settings.snapshot.include.iter().flat_map(|it| ["--include", it.as_str()]);
    include.chain(settings.snapshot.exclude.iter().flat_map(|it| ["--exclude", it.as_str()]))
}
