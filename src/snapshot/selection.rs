//! Which files of a repository count, by patterns that the user gave.
//!
//! Patterns mean what they mean in an ignore file at the root. Knows nothing of file systems.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use gix::bstr::BStr;
use gix::glob::pattern::Case;
use gix::glob::search::Pattern as _;
use gix::glob::search::pattern::List;
use gix_ignore::search::{Ignore, pattern_matching_relative_path};

use super::{Options, SkipReason, Skipped, SnapshotError};

/// Each pattern is tried on each path.
const MOST_PATTERNS: usize = 256;
const MOST_PATTERN_BYTES: usize = 1024;

/// The patterns of [`Options`].
#[derive(Clone, Default)]
pub(super) struct Selection {
    include: Patterns,
    exclude: Patterns,
}

impl Selection {
    /// # Errors
    /// A pattern that can't match anything.
    pub(super) fn new(options: &Options) -> Result<Self, SnapshotError> {
        Ok(Selection { include: Patterns::new(&options.include)?, exclude: Patterns::new(&options.exclude)? })
    }

    /// Why a path is excluded, taken alone: that a directory above it may be is for the caller to know.
    pub(super) fn excluded(&self, path: &str, is_directory: bool) -> Option<SkipReason> {
        let found = self.exclude.find(path, is_directory)?;
        (!found.is_negated).then(|| SkipReason::Excluded { pattern: found.text.to_owned() })
    }

    /// Whether a file is among those that the user wants: the patterns that match it decide, or else those that match the nearest
    /// directory above it that any does.
    pub(super) fn includes(&self, path: &str) -> bool {
        if self.include.is_empty() {
            return true;
        }
        let above = std::iter::successors(Some(path), |it| it.rsplit_once('/').map(|(above, _)| above));
        let found = above.enumerate().find_map(|(steps, it)| self.include.find(it, steps > 0));
        found.is_some_and(|it| !it.is_negated)
    }
}

/// What became of paths that are not included: of each directory without a file that is, one row.
pub(super) fn not_included<'a>(left_out: &[String], kept: impl Iterator<Item = &'a str>) -> Vec<Skipped> {
    let kept: HashSet<&str> = kept.flat_map(directories).collect();
    let row = |path: &String| {
        let directory = directories(path).find(|it| !kept.contains(it));
        (directory.unwrap_or(path).to_owned(), SkipReason::NotIncluded)
    };
    let rows: BTreeMap<String, SkipReason> = left_out.iter().map(row).collect();
    rows.into_iter().map(|(path, reason)| Skipped { path, reason }).collect()
}

/// The directories above a path, the outermost first.
fn directories(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Patterns in the order in which they were given, of which the last that matches counts.
#[derive(Clone, Default)]
struct Patterns {
    list: List<Ignore>,
    texts: Vec<String>,
}

/// The pattern that counts for a path.
struct Found<'a> {
    text: &'a str,
    is_negated: bool,
}

impl Patterns {
    fn new(texts: &[String]) -> Result<Self, SnapshotError> {
        if texts.len() > MOST_PATTERNS {
            return Err(SnapshotError::Patterns { limit: MOST_PATTERNS });
        }
        let mut list = List { patterns: Vec::new(), source: None, base: None };
        for (at, text) in texts.iter().enumerate() {
            check(text).map_err(|fault| SnapshotError::Pattern { pattern: text.clone(), fault })?;
            let parsed = Ignore::default().bytes_to_patterns(text.as_bytes(), Path::new(""));
            list.patterns.extend(parsed.into_iter().take(1).map(|it| numbered(it, at)));
        }
        Ok(Patterns { list, texts: texts.to_vec() })
    }

    fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    fn find(&self, path: &str, is_directory: bool) -> Option<Found<'_>> {
        let basename = path.rfind('/').map(|slash| slash + 1);
        let path: &BStr = path.into();
        let found = pattern_matching_relative_path(&self.list, path, basename, Some(is_directory), Case::Sensitive)?;
        let text = self.texts.get(found.sequence_number).map_or("", String::as_str);
        Some(Found { text, is_negated: found.pattern.is_negative() })
    }
}

type Mapping = gix::glob::search::pattern::Mapping<gix_ignore::Kind>;

fn numbered(pattern: Mapping, at: usize) -> Mapping {
    Mapping { sequence_number: at, ..pattern }
}

/// What is wrong with a pattern. git takes anything for one; what can never match is a mistake that nobody would be told of.
fn check(text: &str) -> Result<(), &'static str> {
    let body = text.strip_prefix('!').unwrap_or(text);
    let mut names = body.split('/');
    match () {
        () if body.chars().all(|it| it == '/' || it.is_whitespace()) => Err("is empty"),
        () if text.starts_with('#') => Err("is a comment; write `\\#` for a name that begins so"),
        () if text.len() > MOST_PATTERN_BYTES => Err("is too long"),
        () if text.contains(['\n', '\r', '\0']) => Err("has a line end or a NUL"),
        () if names.any(|it| it == "." || it == "..") => Err("has `.` or `..`, and paths have none"),
        () if body.ends_with('\\') && !body.ends_with("\\\\") => Err("ends in a backslash"),
        () if !brackets_close(body.as_bytes()) => Err("has a `[` without its `]`"),
        () => Ok(()),
    }
}

/// Whether each `[` that isn't escaped has a `]` that isn't its first character.
fn brackets_close(pattern: &[u8]) -> bool {
    let mut rest = pattern;
    loop {
        match rest {
            [] => return true,
            [b'\\', _, after @ ..] => rest = after,
            [b'[', after @ ..] => match after_bracket(after) {
                Some(after) => rest = after,
                None => return false,
            },
            [_, after @ ..] => rest = after,
        }
    }
}

/// What follows the bracket that closes.
fn after_bracket(inside: &[u8]) -> Option<&[u8]> {
    let inside = inside.strip_prefix(b"!").or_else(|| inside.strip_prefix(b"^")).unwrap_or(inside);
    let mut rest = inside.strip_prefix(b"]").unwrap_or(inside);
    loop {
        rest = match rest {
            [] => return None,
            [b']', after @ ..] => return Some(after),
            [b'\\', _, after @ ..] => after,
            // A class of characters, as `[:digit:]`.
            [b'[', b':', after @ ..] => {
                let end = after.windows(2).position(|it| it == b":]");
                end.map_or(after, |end| &after[end + 2..])
            }
            [_, after @ ..] => after,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(include: &[&str], exclude: &[&str]) -> Result<Selection, SnapshotError> {
        let owned = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        Selection::new(&Options { include: owned(include), exclude: owned(exclude), ..Options::default() })
    }

    // Expected values are from the manual page gitignore(5), an include list being read as the list of what would be ignored.
    #[track_caller]
    fn check_included(include: &[&str], path: &str, expected: bool) {
        assert_eq!(selection(include, &[]).expect("sound").includes(path), expected, "{include:?} {path}");
    }

    #[test]
    fn what_a_pattern_or_one_for_a_directory_above_names_is_included() {
        check_included(&[], "a.py", true);
        check_included(&["*.py"], "src/deep/a.py", true);
        check_included(&["*.py"], "src/a.ts", false);
        check_included(&["/*.py"], "src/a.py", false);
        check_included(&["src"], "src/deep/a.py", true);
        check_included(&["src/"], "src/deep/a.py", true);
        check_included(&["src/"], "lib/src/a.py", true);
        check_included(&["/src/"], "lib/src/a.py", false);
        check_included(&["src/"], "src", false);
        check_included(&["src/**/*.ts"], "src/a/b/c.ts", true);
        check_included(&["src/*.ts"], "src/a/c.ts", false);
    }

    #[test]
    fn the_last_pattern_for_the_nearest_place_counts() {
        check_included(&["src/", "!src/generated/"], "src/generated/a.py", false);
        check_included(&["src/", "!src/generated/"], "src/a.py", true);
        check_included(&["src/", "!*.min.js"], "src/a.min.js", false);
        check_included(&["!src/", "src/"], "src/a.py", true);
        check_included(&["src/", "!src/a/", "src/a/b/"], "src/a/b/c.py", true);
        check_included(&["!src/"], "a.py", false);
    }

    #[track_caller]
    fn check_excluded(exclude: &[&str], path: &str, expected: Option<&str>) {
        let is_directory = path.ends_with('/');
        let found = selection(&[], exclude).expect("sound").excluded(path.trim_end_matches('/'), is_directory);
        assert_eq!(found, expected.map(|it| SkipReason::Excluded { pattern: it.to_owned() }), "{exclude:?} {path}");
    }

    #[test]
    fn the_last_pattern_that_excludes_is_named() {
        check_excluded(&[], "a.py", None);
        check_excluded(&["tests/"], "tests/", Some("tests/"));
        check_excluded(&["tests/"], "tests", None);
        check_excluded(&["*.py", "test_*"], "a/test_b.py", Some("test_*"));
        check_excluded(&["*.py", "!keep.py"], "a/keep.py", None);
        check_excluded(&["\\!a.py"], "!a.py", Some("\\!a.py"));
        check_excluded(&["[a-c].py"], "b.py", Some("[a-c].py"));
        check_excluded(&["A.py"], "a.py", None);
    }

    #[track_caller]
    fn check_refused(pattern: &str, expected: &str) {
        let message = selection(&[], &[pattern]).err().expect("refused").to_string();
        let is_as_expected = message.contains(expected) && message.contains(&format!("`{}`", pattern.escape_debug()));
        assert!(is_as_expected && !message.contains('\n'), "{message}");
        assert!(selection(&[pattern], &[]).is_err());
    }

    #[test]
    fn what_can_never_match_is_refused_by_name() {
        for pattern in ["", "  ", "!", "/", "!/"] {
            check_refused(pattern, "is empty");
        }
        check_refused("# tests", "is a comment");
        check_refused("./src", "has `.` or `..`");
        check_refused("../src", "has `.` or `..`");
        check_refused("a[b", "without its `]`");
        check_refused("a[]", "without its `]`");
        check_refused("a[[:digit:]", "without its `]`");
        check_refused("src\\", "ends in a backslash");
        check_refused("a\nb", "line end");
        check_refused(&"a".repeat(1025), "too long");
        assert!(selection(&vec!["a"; 257], &[]).is_err());
    }

    #[test]
    fn what_git_takes_for_a_pattern_is_one() {
        for pattern in
            ["a]", "a[]]b", "a[!]]", "[[:digit:]]", "\\[a", "a\\\\", "...", ".github/", "!x", "a b", "\\#a", "{a,b}"]
        {
            selection(&[pattern], &[pattern]).map(drop).expect(pattern);
        }
    }

    #[track_caller]
    fn check_rows(left_out: &[&str], kept: &[&str], expected: &[&str]) {
        let left_out: Vec<String> = left_out.iter().map(|it| (*it).to_owned()).collect();
        let rows = not_included(&left_out, kept.iter().copied());
        assert_eq!(rows.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_directory_that_gives_nothing_is_one_row() {
        check_rows(&["lib/a.py", "lib/x/b.py", "c.py"], &["src/a.py"], &["c.py", "lib"]);
        check_rows(&["src/x/a.py", "src/x/y/b.py", "src/c.py"], &["src/z/a.py"], &["src/c.py", "src/x"]);
        check_rows(&["a.py", "b/c.py"], &[], &["a.py", "b"]);
    }
}
