//! F2: what a user calls a model: a folder, a model of the hub, or the one in this program.

use std::fmt;
use std::path::{Path, PathBuf};

use super::HubError;
use crate::encoder::registry::{bundled_id, pinned};

/// A model as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelName {
    /// The one that is part of this program.
    Bundled,
    /// A folder with a model's files; the network is not asked about it.
    Folder(PathBuf),
    Hub(HubModel),
}

impl ModelName {
    /// Reads a name. What exists as a path, or begins like one (`.`, `/`, `~`), is a folder; `home` stands for a leading `~`. No name is
    /// the model in this program.
    ///
    /// # Errors
    /// [`HubError::Name`].
    pub fn parse(name: &str, home: Option<&Path>) -> Result<Self, HubError> {
        let bundled = bundled_id();
        if name.is_empty() || name == bundled {
            return Ok(ModelName::Bundled);
        }
        if let Some(below) = name.strip_prefix("~/").zip(home) {
            return Ok(ModelName::Folder(below.1.join(below.0)));
        }
        let path = Path::new(name);
        if path.is_absolute() || name.starts_with(['.', '/', '~']) || path.exists() {
            return Ok(ModelName::Folder(path.to_owned()));
        }
        HubModel::parse(name).map(ModelName::Hub).ok_or_else(|| HubError::Name { name: name.to_owned(), bundled })
    }
}

/// A model of the hub at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubModel {
    /// `owner/name`.
    pub id: String,
    /// What was asked for, or what the registry pins.
    revision: Option<String>,
}

impl HubModel {
    /// Reads `owner/name` or `owner/name@revision`.
    pub fn parse(name: &str) -> Option<Self> {
        let (id, revision) = name.split_once('@').map_or((name, None), |(id, revision)| (id, Some(revision)));
        let (owner, own) = id.split_once('/')?;
        let is_sound = is_plain(owner) && is_plain(own) && revision.is_none_or(is_revision);
        is_sound.then(|| HubModel { id: id.to_owned(), revision: revision.map(str::to_owned).or_else(|| pinned(id)) })
    }

    /// The same model at another revision; `None` if that can be none.
    pub fn at(&self, revision: &str) -> Option<Self> {
        is_revision(revision).then(|| HubModel { id: self.id.clone(), revision: Some(revision.to_owned()) })
    }

    /// A branch, a tag or a commit.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }
}

impl fmt::Display for HubModel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.revision {
            None => out.write_str(&self.id),
            Some(revision) => write!(out, "{}@{revision}", self.id),
        }
    }
}

/// A name that is a file or folder of its own wherever it is put.
pub(super) fn is_plain(name: &str) -> bool {
    let is_character = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    (1..=MOST_CHARACTERS).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_character)
}

/// Branches may have slashes in them.
fn is_revision(name: &str) -> bool {
    name.len() <= MOST_CHARACTERS && name.split('/').all(is_plain)
}

/// File systems take 255, with some behind it here.
const MOST_CHARACTERS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> Result<ModelName, HubError> {
        ModelName::parse(name, Some(Path::new("/home/me")))
    }

    #[track_caller]
    fn check_folder(name: &str, expected: &str) {
        assert_eq!(parsed(name).expect("a folder"), ModelName::Folder(expected.into()), "{name}");
    }

    #[test]
    fn what_looks_like_a_path_is_a_folder() {
        for name in ["./model", "../a/b", "/models/a", ".", "~other/x"] {
            check_folder(name, name);
        }
        check_folder("~/models/a", "/home/me/models/a");
        // Tests run in the folder of the package.
        check_folder("src/encoder", "src/encoder");
    }

    #[track_caller]
    fn check_hub(name: &str, id: &str, revision: &str) {
        match parsed(name).expect("a model of the hub") {
            ModelName::Hub(model) => assert_eq!((model.id.as_str(), model.revision()), (id, revision)),
            other => panic!("{name} is {other:?}"),
        }
    }

    #[test]
    fn an_owner_and_a_name_are_a_model_of_the_hub() {
        check_hub("someone/a-model_1.5", "someone/a-model_1.5", "main");
        check_hub("someone/model@v2.0", "someone/model", "v2.0");
        check_hub("someone/model@refs/pr/3", "someone/model", "refs/pr/3");
    }

    #[test]
    fn the_model_of_this_program_has_a_name() {
        assert_eq!(parsed("all-MiniLM-L6-v2").expect("known"), ModelName::Bundled);
        assert_eq!(parsed("").expect("the default"), ModelName::Bundled);
    }

    #[test]
    fn no_name_leads_out_of_the_cache() {
        for name in [
            "nothing",
            "a/b/c",
            "a/..",
            "a/.b",
            "a/b@",
            "a/b@../x",
            "a/b@x/../y",
            "a/b@/x",
            "a/b c",
            "a/b\n",
            "a/b?x",
            "a/b@x%2F",
            "a/",
            "ä/b",
        ] {
            let error = parsed(name).expect_err(name).to_string();
            assert!(error.contains(name.trim()) && error.contains("owner/name"), "{error}");
        }
        parsed(&format!("a/{}", "b".repeat(300))).expect_err("longer than any file name");
    }
}
