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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::imaging::Limits;
    use crate::retriever::RetrieverKind;
    use crate::service::Usual;
    use crate::service::pictures::{Pictures, Web};

    fn object(value: Value) -> JsonObject {
        value.as_object().expect("an object").clone()
    }

    #[track_caller]
    fn check_refused(arguments: Value, expected: &[&str]) {
        let read = read::<LocateArguments>(Tool::LocateIssue, object(arguments)).and_then(|it| it.check());
        let message = read.expect_err("refused").for_agents();
        for part in expected {
            assert!(message.contains(part), "`{message}` lacks `{part}`");
        }
        assert_eq!(message.lines().count(), 1, "{message}");
    }

    #[test]
    fn a_bad_argument_is_refused_by_its_name() {
        check_refused(json!({"titel": "x"}), &["locate_issue", "unknown field `titel`", "`title`"]);
        check_refused(json!({"title": 3}), &["`title`", "expected a string"]);
        check_refused(json!({"images": ["a", 3]}), &["`images[1]`", "expected a string"]);
        check_refused(json!({"images": "a.png"}), &["`images`", "expected a sequence"]);
        check_refused(json!({"granularity": "line"}), &["`granularity`", "`line`", "`function`"]);
        check_refused(json!({"detail": "long"}), &["`detail`", "`short`"]);
        check_refused(json!({"k": 0}), &["`k` is 0", "1 to 100"]);
        check_refused(json!({"k": 101}), &["`k` is 101"]);
        check_refused(json!({"k": -1}), &["`k`"]);
        check_refused(json!({"k": "5"}), &["`k`"]);
        check_refused(json!({"images": vec!["a"; 9]}), &["9 pictures"]);
    }

    #[test]
    fn what_is_null_or_missing_is_not_given() {
        let arguments = json!({"title": null, "k": null, "images": null, "path": null});
        let read: LocateArguments = read(Tool::LocateIssue, object(arguments)).expect("read");
        read.check().expect("usable");
        assert!(read.title.is_none() && read.k.is_none() && read.detail.is_none());
    }

    fn options(folder: &Path, home: Option<&Path>) -> Options {
        let limits = Limits { max_bytes: 10, max_pixels: 100 };
        Options {
            usual: Usual {
                retriever: RetrieverKind::Hybrid,
                granularity: Granularity::Both,
                results: 10,
                rerank: 100,
                mode: None,
            },
            pictures: Pictures::new(limits, Web::new(&[]).expect("no hosts")),
            picture_bytes: 10,
            folder: folder.to_owned(),
            home: home.map(Path::to_owned),
        }
    }

    #[test]
    fn a_repository_is_a_folder_that_is_named_or_the_own_one() {
        let scratch = tempfile::tempdir().expect("a folder");
        let own = scratch.path().canonicalize().expect("there");
        std::fs::create_dir(own.join("inner")).expect("writable");
        std::fs::write(own.join("file"), "").expect("writable");
        let options = options(&own, Some(Path::new("/nobody")));
        let found = |path: Option<&str>| options.repository(path).map_err(|error| error.for_agents());
        assert_eq!(found(None).as_ref(), Ok(&own));
        assert_eq!(found(Some(" ")).as_ref(), Ok(&own));
        assert_eq!(found(Some("inner/..")).as_ref(), Ok(&own));
        let inner = own.join("inner");
        assert_eq!(found(inner.to_str()), Ok(inner.clone()));
        assert!(found(Some("file")).expect_err("a file").contains("it is a file"));
        let gone = found(Some("gone")).expect_err("nothing");
        assert!(gone.contains("`path`") && gone.contains("gone") && gone.contains("absolute path"), "{gone}");
    }

    #[test]
    fn all_of_a_home_or_a_disk_is_nobodys_repository_unless_named() {
        let scratch = tempfile::tempdir().expect("a folder");
        let home = scratch.path().canonicalize().expect("there");
        std::fs::create_dir(home.join("code")).expect("writable");
        let options = options(&home, Some(&home));
        let error = options.repository(None).expect_err("a home").for_agents();
        assert!(error.contains("no `path` was given"), "{error}");
        assert_eq!(options.repository(Some("~/code")).expect("named"), home.join("code"));
        assert!(super::tests::options(Path::new("/"), None).repository(None).is_err());
    }

    #[tokio::test]
    async fn a_picture_is_a_path_a_data_url_or_base64() {
        let scratch = tempfile::tempdir().expect("a folder");
        std::fs::write(scratch.path().join("a.png"), b"picture").expect("writable");
        std::fs::write(scratch.path().join("long.png"), [0; 50]).expect("writable");
        let options = options(scratch.path(), None);
        let path = scratch.path().join("a.png").to_str().expect("UTF-8").to_owned();
        let bytes = Source::Bytes(b"picture".to_vec());
        let base64 = "A".repeat(2000);
        for (image, expected) in [
            ("a.png", bytes.clone()),
            (path.as_str(), bytes.clone()),
            (&format!("file://{path}"), bytes),
            // As much as shows that it is too long.
            ("long.png", Source::Bytes(vec![0; 11])),
            ("data:image/png;base64,AA", Source::Url("data:image/png;base64,AA".to_owned())),
            ("https://example.org/a.png", Source::Url("https://example.org/a.png".to_owned())),
            (&base64, Source::Data(base64.clone())),
        ] {
            let given = options.pictures(&[image.to_owned()]).await.expect("a picture");
            assert_eq!(given, [Given { param: "images[0]".to_owned(), source: expected }]);
        }
        let images = ["a.png".to_owned(), "b.png".to_owned()];
        let error = options.pictures(&images).await.expect_err("nothing").for_agents();
        assert!(error.contains("`images[1]`") && error.contains("b.png") && error.contains("data URL"), "{error}");
        let error = options.pictures(&[".".to_owned()]).await.expect_err("a folder").for_agents();
        assert!(error.contains("is no file"), "{error}");
    }
}
