//! F5: what tools are called with.

use std::path::{Path, PathBuf};

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::Options;
use super::error::ToolError;
use super::tools::Tool;
use crate::retriever::Granularity;
use crate::service::pictures::{Given, Source};

/// Results in each list at most: more is no help to who reads them.
pub const MOST_RESULTS: usize = 100;
/// Pictures of one question; the encoders read two.
pub const MOST_PICTURES: usize = 8;
/// No path is so long that is nothing but characters of base64; the smallest picture is longer.
const LONGEST_PATH: usize = 1024;

/// Of `locate_issue`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocateArguments {
    pub path: Option<String>,
    pub title: Option<String>,
    pub body: Option<String>,
    pub images: Option<Vec<String>>,
    pub k: Option<usize>,
    pub granularity: Option<Lists>,
    pub detail: Option<Detail>,
}

/// Of the others.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathArguments {
    pub path: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lists {
    File,
    Function,
    Both,
}

impl From<Lists> for Granularity {
    fn from(lists: Lists) -> Self {
        match lists {
            Lists::File => Granularity::File,
            Lists::Function => Granularity::Function,
            Lists::Both => Granularity::Both,
        }
    }
}

/// How much is told of each result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    #[default]
    Short,
    /// The lines that matched and the parts of the score too.
    Full,
}

/// Reads the arguments of a call; one that is not known is refused by its name.
pub fn read<T: DeserializeOwned>(tool: Tool, arguments: JsonObject) -> Result<T, ToolError> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let (path, cause) = (error.path().to_string(), error.inner().to_string());
        let is_named = path == "." || cause.contains(&format!("`{path}`"));
        let reason = if is_named { cause } else { format!("`{path}`: {cause}") };
        ToolError::Arguments { tool: tool.name(), reason }
    })
}

impl LocateArguments {
    /// # Errors
    /// What no list can have.
    pub fn check(&self) -> Result<(), ToolError> {
        let unusable = |reason: String| Err(ToolError::Arguments { tool: Tool::LocateIssue.name(), reason });
        match (self.k, self.images.as_ref().map_or(0, Vec::len)) {
            (Some(k), _) if !(1..=MOST_RESULTS).contains(&k) => {
                unusable(format!("`k` is {k}, and can be 1 to {MOST_RESULTS}"))
            }
            (_, images) if images > MOST_PICTURES => {
                unusable(format!("`images` has {images} pictures, and can have {MOST_PICTURES}"))
            }
            _ => Ok(()),
        }
    }
}

impl Options {
    /// The repository that a call names, as an absolute path without links; without one, the folder that the server was started in.
    pub fn repository(&self, path: Option<&str>) -> Result<PathBuf, ToolError> {
        let named = path.filter(|it| !it.trim().is_empty());
        // Some agents start their servers there, and nobody wants all of it indexed.
        let is_none = self.folder.parent().is_none() || self.home.as_ref() == Some(&self.folder);
        if named.is_none() && is_none {
            return Err(ToolError::NoRepository { folder: self.folder.clone() });
        }
        let path = named.map_or_else(|| self.folder.clone(), |it| self.absolute(it));
        let unusable = |reason: &str| ToolError::Folder { path: path.clone(), reason: reason.to_owned() };
        let resolved = path.canonicalize().map_err(|error| unusable(&error.to_string()))?;
        if resolved.is_dir() { Ok(resolved) } else { Err(unusable("it is a file")) }
    }

    fn absolute(&self, path: &str) -> PathBuf {
        let home = self.home.as_ref().and_then(|home| Some(home.join(Path::new(path).strip_prefix("~").ok()?)));
        home.unwrap_or_else(|| self.folder.join(path))
    }

    /// Where the bytes of the pictures are that a call names by path, or carries.
    pub async fn pictures(&self, images: &[String]) -> Result<Vec<Given>, ToolError> {
        let mut given = Vec::new();
        for (at, image) in images.iter().enumerate() {
            let param = format!("images[{at}]");
            let source = self.source(&param, image).await?;
            given.push(Given { param, source });
        }
        Ok(given)
    }

    async fn source(&self, param: &str, image: &str) -> Result<Source, ToolError> {
        let begins = |with: &str| image.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
        if begins("data:") || begins("http://") || begins("https://") {
            return Ok(Source::Url(image.to_owned()));
        }
        if image.len() > LONGEST_PATH {
            return Ok(Source::Data(image.to_owned()));
        }
        let path = self.absolute(image.strip_prefix("file://").unwrap_or(image));
        let bytes = self.file(&path).await;
        let unusable = |reason| ToolError::Picture { param: param.to_owned(), reason };
        bytes.map(Source::Bytes).map_err(|reason| unusable(format!("{} {reason}", path.display())))
    }

    /// The bytes of a file, which are not read beyond what is too long.
    async fn file(&self, path: &Path) -> Result<Vec<u8>, String> {
        let unreadable = |error: std::io::Error| format!("can't be read ({error})");
        // Opening a pipe would wait for whoever writes to it.
        if !tokio::fs::metadata(path).await.map_err(unreadable)?.is_file() {
            return Err("is no file".to_owned());
        }
        let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(self.picture_bytes + 1).read_to_end(&mut bytes).await.map_err(unreadable)?;
        Ok(bytes)
    }
}
