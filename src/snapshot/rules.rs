//! Ignore files: patterns in git's syntax, with git's meaning, for a directory and what is below it.
//!
//! Knows nothing of file systems; who reads the files says in which order they count.

use std::path::Path;
use std::sync::Arc;

use gix::bstr::BStr;
use gix::glob::pattern::Case;
use gix::glob::search::Pattern as _;
use gix::glob::search::pattern::List;
use gix_ignore::search::{Ignore, pattern_matching_relative_path};

use super::Note;

/// Ignore files of more bytes than this, alone or with all that count in the same place, are not applied: no one wrote
/// them.
pub(super) const IGNORE_BYTES: u64 = 1 << 20;

/// The ignore files of one kind that apply to a directory, weakest first.
#[derive(Clone)]
pub(super) struct Rules {
    lists: Arc<Vec<Arc<List<Ignore>>>>,
    case: Case,
    /// Bytes of the files.
    bytes: u64,
}

/// What ignore files say of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ignored,
    /// A negated pattern asks for it.
    Wanted,
    Unsaid,
}

impl Rules {
    pub(super) fn new(case: Case) -> Self {
        Rules { lists: Arc::default(), case, bytes: 0 }
    }

    /// Adds an ignore file, whose rules are stronger than these. `directory` is where it lies, relative to the top and
    /// without a slash at the end. When it can't be read or is too long, that is noted for `path`.
    pub(super) fn add(&mut self, file: Result<Vec<u8>, String>, directory: &str, path: String) -> Option<Note> {
        let too_long = |bytes| bytes > IGNORE_BYTES;
        let error = match file {
            Err(error) => error,
            Ok(file) if too_long(self.bytes + file.len() as u64) => {
                format!("with the ignore files above it, it has more than {IGNORE_BYTES} bytes")
            }
            Ok(file) => {
                self.add_text(&file, directory);
                return None;
            }
        };
        Some(Note { path, message: format!("this ignore file is not applied: {error}") })
    }

    fn add_text(&mut self, file: &[u8], directory: &str) {
        let patterns = Ignore::default().bytes_to_patterns(file, Path::new(""));
        if patterns.is_empty() {
            return;
        }
        let base = (!directory.is_empty()).then(|| format!("{directory}/").into());
        Arc::make_mut(&mut self.lists).push(Arc::new(List { patterns, source: None, base }));
        self.bytes += file.len() as u64;
    }

    /// What the rules say of a path relative to the top, taken alone: that a directory above it may be ignored is for
    /// the caller to know.
    pub(super) fn verdict(&self, path: &str, is_directory: bool) -> Verdict {
        let basename = path.rfind('/').map(|slash| slash + 1);
        let path: &BStr = path.into();
        let found = self
            .lists
            .iter()
            .rev()
            .find_map(|list| pattern_matching_relative_path(list, path, basename, Some(is_directory), self.case));
        match found {
            None => Verdict::Unsaid,
            Some(found) if found.pattern.is_negative() => Verdict::Wanted,
            Some(_) => Verdict::Ignored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Ignored, Unsaid, Wanted};

    fn rules(case: Case, files: &[(&str, &str)]) -> Rules {
        let mut rules = Rules::new(case);
        files.iter().for_each(|(directory, text)| rules.add_text(text.as_bytes(), directory));
        rules
    }

    fn check(files: &[(&str, &str)], path: &str, expected: Verdict) {
        let rules = rules(Case::Sensitive, files);
        let is_directory = path.ends_with('/');
        assert_eq!(rules.verdict(path.trim_end_matches('/'), is_directory), expected, "{files:?} {path}");
    }

    // Expected values are from the manual page gitignore(5).
    #[test]
    fn patterns_mean_what_they_mean_to_git() {
        check(&[("", "plugins/*\n!plugins/foo/\n")], "plugins/bar/", Ignored);
        check(&[("", "plugins/*\n!plugins/foo/\n")], "plugins/foo/", Wanted);
        check(&[("", "*.o\n")], "deep/down/a.o", Ignored);
        check(&[("", "/only-top.py")], "sub/only-top.py", Unsaid);
        check(&[("", "build/")], "build", Unsaid);
        check(&[("", "build/")], "a/build/", Ignored);
        check(&[("", "\\#a\n# comment\n\\!b\n")], "!b", Ignored);
        check(&[("", "a/**/z.py")], "a/b/c/z.py", Ignored);
        check(&[("", "x[!0-9].py")], "xa.py", Ignored);
        check(&[("", "{a,b}.py")], "a.py", Unsaid);
    }

    #[test]
    fn the_nearest_file_and_its_last_line_win() {
        check(&[("", "*.py\n"), ("sub", "!keep.py\n")], "sub/keep.py", Wanted);
        check(&[("", "*.py\n"), ("sub", "!keep.py\n")], "keep.py", Ignored);
        check(&[("", "!a.py\na.py\n")], "a.py", Ignored);
        check(&[("sub", "/a.py\n")], "sub/a.py", Ignored);
        check(&[("sub", "/a.py\n")], "sub/x/a.py", Unsaid);
    }

    #[test]
    fn letter_case_is_folded_on_request() {
        let rules = rules(Case::Fold, &[("", "Build/")]);
        assert_eq!(rules.verdict("build", true), Ignored);
    }

    #[test]
    fn a_pattern_of_many_stars_does_not_hang() {
        let stars = rules(Case::Sensitive, &[("", &format!("{}b", "*a".repeat(100)))]);
        assert_eq!(stars.verdict(&"a".repeat(255), false), Unsaid);
        let double_stars = rules(Case::Sensitive, &[("", &format!("{}b", "**/a".repeat(60)))]);
        assert_eq!(double_stars.verdict(&"a/".repeat(500), false), Unsaid);
    }

    #[test]
    fn ignore_files_that_no_one_wrote_are_not_applied() {
        let mut rules = Rules::new(Case::Sensitive);
        let long = "a\n".repeat(300_000).into_bytes();
        assert_eq!(rules.add(Ok(long.clone()), "", "x".to_owned()), None);
        let message = "this ignore file is not applied: with the ignore files above it, it has more than 1048576 bytes";
        assert_eq!(
            rules.add(Ok(long), "y", "y/x".to_owned()),
            Some(Note { path: "y/x".to_owned(), message: message.to_owned() })
        );
        assert_eq!(rules.verdict("a", false), Ignored);
    }
}
