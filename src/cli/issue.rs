//! An issue as a user has it: a Markdown file or standard input, with pictures named on the command line or linked in
//! the text.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, anyhow};
use regex::Regex;

use super::{Failure, terminal};
use crate::types::{IssueImage, IssueReport};

/// An issue text longer than this is no issue.
const MAX_BYTES: u64 = 16 << 20;

/// An issue with what became of the pictures it names.
pub struct Issue {
    pub report: IssueReport,
    /// Linked pictures that could not be read, and why.
    pub missing_images: Vec<(String, String)>,
}

/// `![alt](target)`, `![alt](<target> "title")`, `<img src="target">`.
static IMAGE_LINK: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a constant pattern, compiled by the tests")]
    Regex::new(r#"!\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|(?i:<img\s[^>]*?src\s*=\s*["']([^"']+)["'])"#)
        .expect("a constant pattern")
});

/// Reads an issue from `source` (`-`: standard input) and its pictures: `images`, then those that the text links to
/// by a relative path beside its file.
pub fn read(source: &Path, images: &[PathBuf]) -> Result<Issue, Failure> {
    let text = read_text(source)?;
    let (title, body) = split(&text);
    if title.is_empty() {
        let source = source.display();
        return Err(Failure::usage(anyhow!(
            "the issue `{source}` is empty: give it a first line, the title, and a body"
        )));
    }
    let mut issue = Issue { report: IssueReport { title, body, images: Vec::new() }, missing_images: Vec::new() };
    for path in images {
        let bytes = std::fs::read(path)
            .with_context(|| format!("the picture `{}` can't be read: check the path after --image", path.display()))
            .map_err(Failure::usage)?;
        issue.report.images.push(IssueImage { name: path.display().to_string(), bytes });
    }
    add_linked_images(&mut issue, &text, source);
    Ok(issue)
}

fn read_text(source: &Path) -> Result<String, Failure> {
    let unreadable =
        || format!("the issue `{}` can't be read: name a text file, or - for standard input", source.display());
    let mut bytes = Vec::new();
    let mut limited: Box<dyn Read> = if source == Path::new("-") {
        Box::new(std::io::stdin().lock().take(MAX_BYTES + 1))
    } else {
        Box::new(std::fs::File::open(source).with_context(unreadable).map_err(Failure::usage)?.take(MAX_BYTES + 1))
    };
    limited.read_to_end(&mut bytes).with_context(unreadable).map_err(Failure::usage)?;
    if bytes.len() as u64 > MAX_BYTES {
        let source = source.display();
        return Err(Failure::usage(anyhow!(
            "the issue `{source}` is longer than {} MiB: give the report, not its attachments",
            MAX_BYTES >> 20
        )));
    }
    let text = String::from_utf8_lossy(&bytes);
    if matches!(text, std::borrow::Cow::Owned(_)) {
        terminal::warning(&format!("the issue `{}` is not UTF-8; what is not was replaced", source.display()));
    }
    Ok(text.trim_start_matches('\u{feff}').replace("\r\n", "\n"))
}

/// The title is the first line that holds something, without the marks of a Markdown heading; the rest is the body.
fn split(text: &str) -> (String, String) {
    let text = text.trim_start();
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let title = first.trim_start_matches('#').trim();
    (if title.is_empty() { first.trim() } else { title }.to_owned(), rest.trim().to_owned())
}

fn add_linked_images(issue: &mut Issue, text: &str, source: &Path) {
    let Some(folder) = source.parent().filter(|_| source != Path::new("-")) else { return };
    let mut names: Vec<&str> = Vec::new();
    for link in IMAGE_LINK.captures_iter(text).filter_map(|it| it.get(1).or(it.get(2))).map(|it| it.as_str()) {
        let is_local = !link.contains("://") && !link.starts_with("data:") && Path::new(link).is_relative();
        if is_local && !names.contains(&link) {
            names.push(link);
        }
    }
    for name in names {
        match std::fs::read(folder.join(name)) {
            Ok(bytes) => issue.report.images.push(IssueImage { name: name.to_owned(), bytes }),
            Err(error) => issue
                .missing_images
                .push((name.to_owned(), format!("linked in the issue, but not readable beside it: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, title: &str, body: &str) {
        assert_eq!(split(text), (title.to_owned(), body.to_owned()));
    }

    #[test]
    fn the_first_line_is_the_title() {
        check("# Crash on start\n\nIt crashes.\n", "Crash on start", "It crashes.");
        check("\n\n  Crash on start", "Crash on start", "");
        check("#\nbody", "#", "body");
        check(" \n ", "", "");
    }

    #[test]
    fn linked_pictures_are_read_from_beside_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("issue.md");
        std::fs::write(folder.path().join("a.png"), b"pixels").expect("a file");
        std::fs::write(&file, "T\n![x](a.png \"t\") ![y](https://host/b.png) <img width=1 src='gone.png'> ![x](a.png)")
            .expect("a file");
        let issue = read(&file, &[]).map_err(|it| it.error).expect("an issue");
        assert_eq!(issue.report.images.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["a.png"]);
        assert_eq!(issue.missing_images.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["gone.png"]);
    }
}
