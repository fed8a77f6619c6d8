//! A row of `sightline embed`: a line of JSON as an input of an encoder, or what is wrong with it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::cli::issue::read_picture;
use crate::encoder::Input;
use crate::types::IssueImage;

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// For programs; it doesn't change.
    pub code: &'static str,
    pub message: String,
}

impl RowError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        RowError { code, message: message.into() }
    }

    pub fn too_long(most: u64) -> Self {
        RowError::new(
            "line_too_long",
            format!("it has more than {most} bytes: name pictures by their paths, and split texts"),
        )
    }

    /// Says where it is, for a row that can't be known by its id.
    pub fn at(self, line: usize) -> Self {
        RowError { message: format!("line {line}: {}", self.message), ..self }
    }
}

/// A row that is one, with its id as it was given.
#[derive(Debug)]
pub struct Row {
    pub id: Box<RawValue>,
    input: Input,
    images: Vec<String>,
}

/// The id, where there is one, and the error.
pub type Failed = (Option<Box<RawValue>>, RowError);

/// The keys of a row.
const KEYS: [&str; 7] = ["id", "instruction", "text", "images", "max_length", "min_pixels", "max_pixels"];

impl Row {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, Failed> {
        let nameless = |error: RowError| (None, error);
        let text = std::str::from_utf8(line).map_err(|error| {
            nameless(RowError::new("invalid_utf8", format!("it is not UTF-8 behind byte {}", error.valid_up_to())))
        })?;
        let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).map_err(|error| {
            let message = format!("it is no JSON object ({error}); each line has to be one");
            nameless(RowError::new("invalid_json", message))
        })?;
        let id = fields
            .remove("id")
            .ok_or_else(|| nameless(RowError::new("missing_id", "it has no `id`: add a text or a number")))?;
        if !id.get().starts_with(|it: char| it == '"' || it == '-' || it.is_ascii_digit()) {
            return Err(nameless(RowError::new("invalid_field", "`id` is neither a text nor a number")));
        }
        match Fields(fields).read() {
            Ok((input, images)) => Ok(Row { id, input, images }),
            Err(error) => Err((Some(id), error)),
        }
    }

    /// The input with its pictures, read from a folder.
    ///
    /// # Errors
    /// A picture that can't be read.
    pub fn input(self, folder: &Path, max_bytes: u64) -> Result<Input, RowError> {
        let Row { mut input, images, .. } = self;
        let mut left = MOST_PICTURES * max_bytes;
        for name in images {
            let picture = read_picture(&folder.join(&name), max_bytes.min(left));
            let bytes = match picture {
                Ok(Ok(bytes)) => bytes,
                Ok(Err(error)) => {
                    return Err(RowError::new("image_too_large", format!("the picture `{name}`: {error}")));
                }
                Err(error) => {
                    let message = format!(
                        "the picture `{name}` can't be read: {error}; name a file from the folder of the rows on"
                    );
                    return Err(RowError::new("image_unreadable", message));
                }
            };
            left -= bytes.len() as u64;
            input.images.push(IssueImage { name, bytes });
        }
        Ok(input)
    }
}

/// The pictures of a row may take so much memory together, as multiples of what one may.
const MOST_PICTURES: u64 = 4;

struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    fn read(mut self) -> Result<(Input, Vec<String>), RowError> {
        let input = Input {
            instruction: self.take("instruction", "a text")?,
            text: self.take("text", "a text")?,
            images: Vec::new(),
            max_length: self.take_number("max_length")?.map(|it| it as usize),
            whole: false,
            min_pixels: self.take_number("min_pixels")?,
            max_pixels: self.take_number("max_pixels")?,
        };
        let images = self.take("images", "a list of paths")?.unwrap_or_default();
        match self.0.into_keys().next() {
            None => Ok((input, images)),
            Some(key) => {
                let message =
                    format!("the field `{key}` is not known: leave it out, or name one of {}", KEYS.join(", "));
                Err(RowError::new("unknown_field", message))
            }
        }
    }

    /// The value of a field; one that is null is as good as none.
    fn take<T: DeserializeOwned>(&mut self, key: &str, kind: &str) -> Result<Option<T>, RowError> {
        let Some(value) = self.0.remove(key) else { return Ok(None) };
        serde_json::from_str(value.get()).map_err(|_| RowError::new("invalid_field", format!("`{key}` is not {kind}")))
    }

    fn take_number(&mut self, key: &str) -> Result<Option<u32>, RowError> {
        let kind = "a whole number from 1 to 4294967295";
        match self.take(key, kind)? {
            Some(0) => Err(RowError::new("invalid_field", format!("`{key}` is not {kind}"))),
            number => Ok(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, id: &str, expected: &Input, images: &[&str]) {
        let row = Row::parse(line.as_bytes()).expect("a row");
        assert_eq!(row.id.get(), id);
        assert_eq!(format!("{:?}", row.input), format!("{expected:?}"));
        assert_eq!(row.images, images);
    }

    #[test]
    fn a_row_is_read_as_it_is_written() {
        let text = |text: &str| Input { text: Some(text.to_owned()), ..Input::default() };
        check(r#"{"id": "a", "text": "b\n"}"#, "\"a\"", &text("b\n"), &[]);
        // Numbers that no machine number holds are kept.
        check(
            r#"{"text": "", "id": 123456789012345678901234567890.50}"#,
            "123456789012345678901234567890.50",
            &text(""),
            &[],
        );
        check(
            r#"{"id": -1, "text": null, "images": ["x.png", "x.png"]}"#,
            "-1",
            &Input::default(),
            &["x.png", "x.png"],
        );
        let all = Input {
            instruction: Some("i".to_owned()),
            max_length: Some(5),
            min_pixels: Some(1),
            max_pixels: Some(4_294_967_295),
            ..Input::default()
        };
        check(
            r#"{"id": 1, "instruction": "i", "max_length": 5, "min_pixels": 1, "max_pixels": 4294967295}"#,
            "1",
            &all,
            &[],
        );
    }

    #[track_caller]
    fn check_error(line: &[u8], id: Option<&str>, code: &str, part: &str) {
        let (found, error) = Row::parse(line).expect_err("no row");
        assert_eq!((found.as_ref().map(|it| it.get()), error.code), (id, code), "{error:?}");
        assert!(error.message.contains(part) && !error.message.contains('\n'), "{error:?}");
    }

    #[test]
    fn what_is_no_row_says_why() {
        check_error(b"{\"id\": 1, \"text\": \"\xff\"}", None, "invalid_utf8", "byte 19");
        check_error(b"{\"id\": 1", None, "invalid_json", "no JSON object");
        check_error(b"[1]", None, "invalid_json", "no JSON object");
        check_error(b"{}", None, "missing_id", "`id`");
        check_error(b"{\"id\": [1]}", None, "invalid_field", "`id`");
        check_error(b"{\"id\": null}", None, "invalid_field", "`id`");
        check_error(b"{\"id\": 1, \"image\": \"x\"}", Some("1"), "unknown_field", "`image`");
        check_error(b"{\"id\": \"a\", \"text\": 5}", Some("\"a\""), "invalid_field", "`text` is not a text");
        check_error(b"{\"id\": 1, \"text\": \"\\ud800\"}", Some("1"), "invalid_field", "`text`");
        check_error(b"{\"id\": 1, \"images\": \"x\"}", Some("1"), "invalid_field", "`images` is not a list of paths");
        for number in ["0", "-1", "1.5", "4294967296", "\"5\""] {
            check_error(
                format!("{{\"id\": 1, \"max_length\": {number}}}").as_bytes(),
                Some("1"),
                "invalid_field",
                "`max_length`",
            );
        }
    }

    #[test]
    fn pictures_are_read_from_the_folder_within_limits() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.png"), [0; 100]).expect("writable");
        let input = |images: &str, limit| {
            let row = Row::parse(format!("{{\"id\": 1, \"images\": {images}}}").as_bytes()).expect("a row");
            row.input(folder.path(), limit).map(|it| it.images.len()).map_err(|it| (it.code, it.message))
        };
        assert_eq!(input("[\"a.png\", \"./a.png\"]", 100), Ok(2));
        let code = |images: &str, limit| input(images, limit).expect_err("refused");
        assert_eq!(code("[\"a.png\"]", 99).0, "image_too_large");
        assert_eq!(code("[\"a.png\", \"a.png\", \"a.png\", \"a.png\", \"a.png\"]", 100).0, "image_too_large");
        let (kind, message) = code("[\"b.png\"]", 100);
        assert!(kind == "image_unreadable" && message.contains("`b.png`"), "{message}");
        assert_eq!(code("[\".\"]", 100).0, "image_unreadable");
    }
}
