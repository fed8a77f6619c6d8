//! Folders that clients may name, and what in them must not lead elsewhere or never end: who may write there is not who runs the service.

use std::fs;
use std::path::{Path, PathBuf};

use crate::snapshot::SnapshotError;

/// Bytes of a file of git's that lists things, and of one that says something in a line or some.
const LONGEST_LIST: u64 = 1 << 30;
const LONGEST_NOTE: u64 = 4 << 20;
/// Files of references that are looked at.
const MOST_REFERENCES: usize = 200_000;

/// Where sources may be.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Below it nobody changes them, and there is no git.
    pub uploads: PathBuf,
    /// Those that clients may name.
    pub roots: Vec<PathBuf>,
}

impl Sources {
    /// Whether a folder without links is below one that clients may name.
    pub fn may_be_named(&self, folder: &Path) -> bool {
        self.roots.iter().any(|root| root.canonicalize().is_ok_and(|root| folder.starts_with(root)))
    }

    /// Checks a folder that was allowed once, before each time that it is read.
    ///
    /// # Errors
    /// When it is another by now, or its git repository leads out of the folders that clients may name.
    pub fn check(&self, folder: &Path) -> Result<(), SnapshotError> {
        if folder.starts_with(&self.uploads) {
            return Ok(());
        }
        // It was written down without links.
        if !folder.canonicalize().is_ok_and(|it| it == folder) {
            return Err(SnapshotError::Missing { path: folder.to_owned() });
        }
        // What the operator indexed is his own matter.
        if !self.may_be_named(folder) {
            return Ok(());
        }
        self.check_git(folder).map_err(|what| SnapshotError::Repository {
            path: folder.to_owned(),
            message: format!("{what}, which a service does not follow"),
        })
    }

    fn check_git(&self, folder: &Path) -> Result<(), String> {
        let named = folder.ancestors().take_while(|it| self.may_be_named(it));
        let mut gits = named.map(|it| it.join(".git")).filter(|it| fs::symlink_metadata(it).is_ok());
        let git = match gits.next() {
            Some(git) => self.git_directory(&git)?,
            // A bare repository, or none.
            None => folder.to_owned(),
        };
        let common = match note(&git.join("commondir"))? {
            None => git.clone(),
            Some(text) => self.inside(&git.join(text))?,
        };
        for directory in [&git, &common] {
            for name in ["HEAD", "config", "config.worktree", "shallow", "info/exclude", "objects/info/alternates"] {
                check_file(&directory.join(name), LONGEST_NOTE)?;
            }
            for name in ["index", "packed-refs"] {
                check_file(&directory.join(name), LONGEST_LIST)?;
            }
        }
        let objects = common.join("objects");
        if fs::symlink_metadata(&objects).is_ok() {
            self.inside(&objects)?;
        }
        check_references(common.join("refs"))
    }

    /// Where a `.git` leads.
    fn git_directory(&self, git: &Path) -> Result<PathBuf, String> {
        if git.is_dir() {
            return self.inside(git);
        }
        let text = note(git)?.unwrap_or_default();
        let path = text.strip_prefix("gitdir:").ok_or("its .git is no git directory")?.trim();
        self.inside(&git.with_file_name("").join(path))
    }

    /// A path without links that clients may name.
    fn inside(&self, path: &Path) -> Result<PathBuf, String> {
        let found = path.canonicalize().ok().filter(|it| self.may_be_named(it));
        found.ok_or_else(|| "its git repository leads out of the folders that may be named".to_owned())
    }
}

/// What stands in a small file, if it is there.
fn note(path: &Path) -> Result<Option<String>, String> {
    check_file(path, LONGEST_NOTE)?;
    Ok(fs::read_to_string(path).ok().map(|it| it.trim().to_owned()))
}

/// A pipe or a device would be read for ever.
fn check_file(path: &Path, most: u64) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() <= most => Ok(()),
        Ok(_) => Err("a file of its git repository is no file, or far too long".to_owned()),
        // It is not there.
        Err(_) => Ok(()),
    }
}

fn check_references(top: PathBuf) -> Result<(), String> {
    let (mut folders, mut seen) = (vec![top], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST_REFERENCES {
                return Err("its git repository has too many references".to_owned());
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => check_file(&entry.path(), LONGEST_NOTE)?,
            }
        }
    }
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    /// A root with a git repository in it, and one beside the root that must not be read.
    struct Place {
        _scratch: tempfile::TempDir,
        sources: Sources,
        own: PathBuf,
        secret: PathBuf,
    }

    fn place() -> Place {
        let scratch = tempfile::tempdir().expect("a folder");
        let top = scratch.path().canonicalize().expect("there");
        let (root, secret) = (top.join("root"), top.join("secret"));
        let own = root.join("own");
        for folder in [&own, &secret] {
            fs::create_dir_all(folder.join(".git/objects/info")).expect("writable");
            fs::create_dir_all(folder.join(".git/refs/heads")).expect("writable");
            fs::write(folder.join(".git/HEAD"), "ref: refs/heads/main\n").expect("writable");
        }
        let sources = Sources { uploads: top.join("uploads"), roots: vec![root] };
        Place { _scratch: scratch, sources, own, secret }
    }

    #[track_caller]
    fn check(change: impl Fn(&Place), is_allowed: bool) {
        let place = place();
        change(&place);
        let checked = place.sources.check(&place.own);
        assert_eq!(checked.is_ok(), is_allowed, "{checked:?}");
    }

    fn fifo(path: &Path) {
        let _ = fs::remove_file(path);
        assert!(Command::new("mkfifo").arg(path).status().expect("a system with pipes").success());
    }

    #[test]
    fn a_folder_is_read_while_it_is_itself_and_keeps_to_the_roots() {
        check(|_| (), true);
        check(|it| fs::remove_dir_all(it.own.join(".git")).expect("there"), true);
        check(|it| fs::remove_dir_all(&it.own).expect("there"), false);
        check(
            |it| {
                fs::remove_dir_all(&it.own).expect("there");
                symlink(&it.secret, &it.own).expect("a link");
            },
            false,
        );
    }

    #[test]
    fn a_git_repository_that_leads_out_is_not_followed() {
        let without_git = |it: &Place| fs::remove_dir_all(it.own.join(".git")).expect("there");
        check(
            |it| {
                without_git(it);
                fs::write(it.own.join(".git"), format!("gitdir: {}", it.secret.join(".git").display()))
                    .expect("writable");
            },
            false,
        );
        check(
            |it| {
                without_git(it);
                symlink(it.secret.join(".git"), it.own.join(".git")).expect("a link");
            },
            false,
        );
        let common = |it: &Place| it.secret.join(".git").display().to_string();
        check(|it| fs::write(it.own.join(".git/commondir"), common(it)).expect("writable"), false);
        check(
            |it| {
                fs::remove_dir_all(it.own.join(".git/objects")).expect("there");
                symlink(it.secret.join(".git/objects"), it.own.join(".git/objects")).expect("a link");
            },
            false,
        );
        // A worktree of a repository that may be named.
        check(
            |it| {
                let other = it.own.with_file_name("other");
                fs::rename(it.own.join(".git"), &other).expect("there");
                fs::write(it.own.join(".git"), "gitdir: ../other\n").expect("writable");
            },
            true,
        );
    }

    #[test]
    fn what_would_be_read_for_ever_is_refused() {
        for name in
            ["HEAD", "config", "index", "packed-refs", "commondir", "objects/info/alternates", "refs/heads/main"]
        {
            check(|it| fifo(&it.own.join(".git").join(name)), false);
        }
        check(|it| drop(symlink("/dev/zero", it.own.join(".git/config"))), false);
    }
}
