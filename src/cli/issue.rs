//! An issue as a user has it: a Markdown file or standard input, with pictures named on the command line or linked in
//! the text.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, anyhow};

use super::markdown::image_links;
use super::{Failure, terminal};
use crate::imaging::ImageError;
use crate::types::{IssueImage, IssueReport};

/// An issue text longer than this is no issue.
const MAX_BYTES: u64 = 16 << 20;

/// An issue with what became of the pictures it names.
pub struct Issue {
    pub report: IssueReport,
    /// Names of the pictures that were not read, and why.
    pub unread_images: Vec<(String, String)>,
}

/// Linked files that are read, good or bad: an issue is text from anyone.
const MOST_LINKED: usize = 16;
/// Characters shown of a data URL.
const DATA_URL_WIDTH: usize = 40;

/// Reads an issue from `source` (`-`: standard input) and its pictures: `images`, then those that the text links to
/// by a relative path beside its file. Of a picture at most `max_bytes` are read.
pub fn read(source: &Path, images: &[PathBuf], max_bytes: u64) -> Result<Issue, Failure> {
    let text = read_text(source)?;
    let (title, body) = split(&text);
    if title.is_empty() {
        let source = source.display();
        return Err(Failure::usage(anyhow!(
            "the issue `{source}` is empty: give it a first line, the title, and a body"
        )));
    }
    let mut issue = Issue { report: IssueReport { title, body, ..IssueReport::default() }, unread_images: Vec::new() };
    for path in images {
        let picture = read_picture(path, max_bytes)
            .with_context(|| format!("the picture `{}` can't be read: check the path after --image", path.display()))
            .map_err(Failure::usage)?;
        issue.add_image(path.display().to_string(), picture.map_err(|error| error.to_string()));
    }
    issue.add_linked_images(&text, source, max_bytes);
    Ok(issue)
}

impl Issue {
    fn add_image(&mut self, name: String, picture: Result<Vec<u8>, String>) {
        match picture {
            Ok(bytes) => self.report.images.push(IssueImage { name, bytes }),
            Err(reason) => self.unread_images.push((name, reason)),
        }
    }

    fn add_linked_images(&mut self, text: &str, source: &Path, max_bytes: u64) {
        let folder = folder_of(source);
        let mut files = 0;
        for link in &image_links(text) {
            let picture = elsewhere(link).map_or(Ok(()), |reason| Err(reason.to_owned())).and_then(|()| {
                files += 1;
                if files > MOST_LINKED {
                    return Err(format!("only the first {MOST_LINKED} files that an issue links to are read"));
                }
                read_linked(link, folder, max_bytes)
            });
            let name = if is_data_url(link) { terminal::shortened(link, DATA_URL_WIDTH) } else { link.as_str().into() };
            self.add_image(name.into_owned(), picture);
        }
    }
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
    let (text, is_damaged) = decoded(&bytes);
    if is_damaged {
        terminal::warning(&format!("the issue `{}` is not UTF-8; what is not was replaced", source.display()));
    }
    Ok(text)
}

/// The text of an issue, and whether parts of it were no text: UTF-8, or UTF-16 with the byte order mark that some shells
/// write.
fn decoded(bytes: &[u8]) -> (String, bool) {
    let (text, _, is_damaged) = encoding_rs::UTF_8.decode(bytes);
    (text.replace("\r\n", "\n"), is_damaged)
}

/// The title is the first line that holds something, without the marks of a Markdown heading; the rest is the body.
fn split(text: &str) -> (String, String) {
    let text = text.trim_start();
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let title = first.trim_start_matches('#').trim();
    (if title.is_empty() { first.trim() } else { title }.to_owned(), rest.trim().to_owned())
}

fn folder_of(source: &Path) -> Option<&Path> {
    let folder = source.parent().filter(|_| source != Path::new("-"))?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

const OUTSIDE: &str = "outside the folder of the issue, where nothing is read: name it with --image";

/// Why a link is none to a file beside the issue.
fn elsewhere(link: &str) -> Option<&'static str> {
    let is_below = |it| matches!(it, Component::Normal(_) | Component::CurDir);
    if is_data_url(link) {
        Some("data URL: save the picture to a file and name it with --image")
    } else if link.contains("://") || link.starts_with("//") {
        Some("remote, and nothing is fetched: save it to a file and name it with --image")
    } else if !Path::new(link).components().all(is_below) {
        Some(OUTSIDE)
    } else {
        None
    }
}

fn is_data_url(link: &str) -> bool {
    link.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

fn read_linked(link: &str, folder: Option<&Path>, max_bytes: u64) -> Result<Vec<u8>, String> {
    let folder = folder
        .ok_or("the issue came from standard input, so there is no folder to find it in: name it with --image")?;
    let unreadable = |error: io::Error| format!("linked in the issue, but not readable beside it: {error}");
    let path = match folder.join(link).canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // As an address has it, where no file has just that name.
            let decoded = percent_decoded(link).ok_or_else(|| unreadable(error))?;
            elsewhere(&decoded).map_or(Ok(()), |reason| Err(reason.to_owned()))?;
            folder.join(decoded).canonicalize().map_err(unreadable)?
        }
        path => path.map_err(unreadable)?,
    };
    if !path.starts_with(folder.canonicalize().map_err(unreadable)?) {
        return Err(OUTSIDE.to_owned());
    }
    read_picture(&path, max_bytes).map_err(unreadable)?.map_err(|error| error.to_string())
}

/// `sp%20ace.png` as `sp ace.png`; `None` where nothing is to be decoded, or it is no text then.
fn percent_decoded(link: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(link.len());
    let mut rest = link.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|it| *first == b'%' && it.iter().all(u8::is_ascii_hexdigit));
        let value = digits.and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok());
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { &behind[2..] } else { behind };
    }
    (bytes.len() < link.len()).then(|| String::from_utf8(bytes).ok())?
}

/// Reads a regular file of at most `max_bytes`. Nothing else is opened: a pipe or a device may have no end.
pub fn read_picture(path: &Path, max_bytes: u64) -> io::Result<Result<Vec<u8>, ImageError>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut picture = Vec::new();
    if metadata.len() <= max_bytes {
        std::fs::File::open(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut picture)?;
    }
    let bytes = metadata.len().max(picture.len() as u64);
    Ok(if bytes > max_bytes { Err(ImageError::TooManyBytes { bytes, limit: max_bytes }) } else { Ok(picture) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, title: &str, body: &str) {
        assert_eq!(split(text), (title.to_owned(), body.to_owned()));
    }

    #[test]
    fn a_byte_order_mark_says_how_the_text_is_written() {
        assert_eq!(decoded("\u{feff}T\r\nb".as_bytes()), ("T\nb".to_owned(), false));
        assert_eq!(decoded(b"\xff\xfeT\0\r\0\n\0b\0"), ("T\nb".to_owned(), false));
        assert_eq!(decoded(b"\xfe\xff\0T"), ("T".to_owned(), false));
        assert_eq!(decoded(b"T\xff"), ("T\u{fffd}".to_owned(), true));
    }

    #[test]
    fn the_first_line_is_the_title() {
        check("# Crash on start\n\nIt crashes.\n", "Crash on start", "It crashes.");
        check("\n\n  Crash on start", "Crash on start", "");
        check("#\nbody", "#", "body");
        check(" \n ", "", "");
    }

    /// A folder with `a.png`, a link to a file outside, and a folder beside it with a secret.
    fn folder() -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(top.path().join("issue")).expect("a folder");
        std::fs::write(top.path().join("secret.png"), b"secret").expect("a file");
        std::fs::write(top.path().join("issue/a.png"), b"pixels").expect("a file");
        std::fs::write(top.path().join("issue/sp ace.png"), b"pixels").expect("a file");
        std::fs::write(top.path().join("issue/lit%20eral.png"), b"pixels").expect("a file");
        std::fs::write(top.path().join("issue/large.png"), [0; 101]).expect("a file");
        #[cfg(unix)]
        std::os::unix::fs::symlink("../secret.png", top.path().join("issue/link.png")).expect("a link");
        top
    }

    /// Names of the pictures that are read for a text of that folder, and the name and reason of each other.
    #[track_caller]
    fn check_pictures(text: &str, expected: &[&str], expected_unread: &[(&str, &str)]) {
        let top = folder();
        let file = top.path().join("issue/issue.md");
        std::fs::write(&file, format!("T\n{text}")).expect("a file");
        let issue = read(&file, &[], 100).map_err(|it| it.error).expect("an issue");
        assert_eq!(issue.report.images.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), expected, "{text}");
        assert_eq!(issue.unread_images.len(), expected_unread.len(), "{text}: {:?}", issue.unread_images);
        for ((name, reason), (expected_name, part)) in issue.unread_images.iter().zip(expected_unread) {
            assert!(name == expected_name && reason.contains(part), "{name}: {reason}, expected {part}");
        }
    }

    #[test]
    fn linked_pictures_are_read_from_beside_the_file_once() {
        check_pictures("![x](a.png \"t\") ![x](<./a.png>) ![x](a.png)", &["a.png", "./a.png"], &[]);
        check_pictures("![](shot[1](2).png)", &[], &[("shot[1](2).png", "not readable beside it")]);
        check_pictures("<IMG width=1 src='gone.png'>", &[], &[("gone.png", "not readable beside it")]);
    }

    #[test]
    fn names_with_spaces_are_read_as_they_are_written_in_addresses_too() {
        check_pictures("![](<sp ace.png>) ![](sp%20ace.png)", &["sp ace.png", "sp%20ace.png"], &[]);
        check_pictures("![](lit%20eral.png)", &["lit%20eral.png"], &[]);
        check_pictures("![a][x]\n\n[x]: a.png", &["a.png"], &[]);
        check_pictures("`![](a.png)`", &[], &[]);
        check_pictures("![](b%20c.png)", &[], &[("b%20c.png", "not readable beside it")]);
        check_pictures("![](100%.png)", &[], &[("100%.png", "not readable beside it")]);
        check_pictures("![](%2e%2e/secret.png)", &[], &[("%2e%2e/secret.png", "outside the folder")]);
    }

    #[test]
    fn what_is_elsewhere_is_reported() {
        check_pictures("![y](https://host/b.png)", &[], &[("https://host/b.png", "nothing is fetched")]);
        check_pictures("<img src=\"//host/b.png\">", &[], &[("//host/b.png", "nothing is fetched")]);
        check_pictures("![](data:image/png;base64,AA)", &[], &[("data:image/png;base64,AA", "data URL")]);
        let long = "A".repeat(100);
        let shown = format!("data:image/png;base64,{}...", &long[..18]);
        check_pictures(
            &format!("![](DATA:,)![](data:image/png;base64,{long})"),
            &[],
            &[("DATA:,", "data URL"), (&shown, "data URL")],
        );
    }

    #[test]
    fn nothing_outside_the_folder_is_read() {
        for link in ["../secret.png", "x/../../secret.png", "/dev/zero", "../../../../dev/zero"] {
            check_pictures(&format!("![]({link})"), &[], &[(link, "outside the folder")]);
        }
        #[cfg(unix)]
        check_pictures("![](link.png)", &[], &[("link.png", "outside the folder")]);
    }

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        check_pictures("![](large.png)", &[], &[("large.png", "101 bytes, more than the limit of 100")]);
        check_pictures("![](.)", &[], &[(".", "no regular file")]);
        let top = folder();
        let issue = top.path().join("issue/a.png");
        let large = top.path().join("issue/large.png");
        let found = read(&issue, &[large], 100).map_err(|it| it.error).expect("an issue");
        assert!(found.unread_images[0].1.contains("101 bytes"), "{:?}", found.unread_images);
        #[cfg(unix)]
        for device in ["/dev/zero", "/dev/tty"] {
            let refused = read(&issue, &[PathBuf::from(device)], 100).err().expect("refused");
            assert!(format!("{:#}", refused.error).contains(device), "{:#}", refused.error);
        }
    }

    #[test]
    fn the_seventeenth_file_is_reported_unread() {
        let links: String = (0..17).map(|it| format!("![](https://h/{it}) ![](./{}a.png)", "./".repeat(it))).collect();
        let top = folder();
        let file = top.path().join("issue/issue.md");
        std::fs::write(&file, format!("T\n{links}")).expect("a file");
        let issue = read(&file, &[], 100).map_err(|it| it.error).expect("an issue");
        assert_eq!((issue.report.images.len(), issue.unread_images.len()), (16, 18));
        assert!(issue.unread_images[17].1.contains("first 16"), "{:?}", issue.unread_images[17]);
    }
}
