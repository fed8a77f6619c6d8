//! Repositories for tests: folders that are made, filled and, if wanted, put under git.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sightline::snapshot::{Options, Snapshot, SnapshotError, read};

/// A temporary folder with a work tree in it. What the user's own git settings say doesn't count.
pub(crate) struct Repository {
    scratch: tempfile::TempDir,
    /// The work tree.
    pub(crate) root: PathBuf,
}

impl Repository {
    /// A folder without git.
    pub(crate) fn plain() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("work");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(scratch.path().join("excludes"), "").unwrap();
        Repository { scratch, root }
    }

    /// A work tree without commits.
    pub(crate) fn git() -> Self {
        Repository::initialised(&[])
    }

    pub(crate) fn initialised(options: &[&str]) -> Self {
        let repository = Repository::plain();
        repository.run(&[&["init", "-q", "-b", "main"], options].concat());
        repository.use_own_settings(&repository.root);
        repository
    }

    /// Keeps the settings of whoever runs the tests out.
    pub(crate) fn use_own_settings(&self, repository: &Path) {
        let excludes = self.scratch.path().join("excludes");
        self.run_in(repository, &["config", "core.excludesFile", excludes.to_str().unwrap()]);
    }

    /// A path beside the work tree.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        write_at(&self.root.join(path), content);
        self
    }

    /// Runs git in the work tree and gives its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.run_in(&self.root, arguments)
    }

    pub(crate) fn run_in(&self, directory: &Path, arguments: &[&str]) -> String {
        output_of(self.command(directory, arguments).stdin(Stdio::null()), arguments)
    }

    /// Runs git in the work tree with something to read.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> String {
        std::fs::write(self.beside("input"), input).unwrap();
        let input = std::fs::File::open(self.beside("input")).unwrap();
        output_of(self.command(&self.root, arguments).stdin(input), arguments)
    }

    #[expect(clippy::disallowed_methods, reason = "a git hook that runs the tests sets GIT_* for another repository")]
    fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(name);
        }
        command
            .args(["-c", "protocol.file.allow=always"])
            .args(arguments)
            .current_dir(directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.scratch.path())
            .env("XDG_CONFIG_HOME", self.scratch.path())
            .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.org")])
            .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.org")]);
        command
    }

    /// Commits everything and gives the hash.
    pub(crate) fn commit(&self) -> String {
        self.run(&["add", "-A", "-f"]);
        self.run(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.run(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    pub(crate) fn read(&self) -> Snapshot {
        self.read_at(None)
    }

    pub(crate) fn read_at(&self, revision: Option<&str>) -> Snapshot {
        read_at(&self.root, revision).unwrap()
    }
}

fn output_of(command: &mut Command, arguments: &[&str]) -> String {
    let output = command.output().expect("git is needed to make repositories for these tests");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes a file and the directories above it.
pub(crate) fn write_at(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

pub(crate) fn read_at(root: &Path, revision: Option<&str>) -> Result<Snapshot, SnapshotError> {
    read(root, revision, &Options::default(), &|_, _| ())
}

/// The paths of a snapshot's files.
pub(crate) fn paths(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.sources.iter().map(|source| &*source.path).collect()
}

/// The functions of a snapshot, as `path:name start-end`.
pub(crate) fn functions(snapshot: &Snapshot) -> Vec<String> {
    let functions = snapshot.candidates.iter().filter(|candidate| candidate.name.is_some());
    functions
        .map(|it| format!("{}:{} {}-{}", it.path(), it.name.as_deref().unwrap(), it.lines.start, it.lines.end))
        .collect()
}

/// Asserts the files of a snapshot and what was skipped, as `path: reason`; a reason may be cut short.
pub(crate) fn check(snapshot: &Snapshot, expected_paths: &[&str], expected_skipped: &[&str]) {
    assert_eq!(paths(snapshot), expected_paths);
    let skipped: Vec<String> = snapshot.skipped.iter().map(|it| format!("{}: {}", it.path, it.reason)).collect();
    let is_as_expected = skipped.len() == expected_skipped.len()
        && skipped.iter().zip(expected_skipped).all(|(it, expected)| it.starts_with(expected));
    assert!(is_as_expected, "skipped {skipped:#?}, expected {expected_skipped:#?}");
}
