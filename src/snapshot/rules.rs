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

/// The ignore files of one kind that apply to a directory, weakest first.
#[derive(Clone)]
pub(super) struct Rules {
    lists: Arc<Vec<Arc<List<Ignore>>>>,
    case: Case,
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
        Rules { lists: Arc::default(), case }
    }

    /// These rules and the stronger ones of an ignore file. `directory` is where it lies, relative to the top and
    /// without a slash at the end.
    pub(super) fn with(&self, file: &[u8], directory: &str) -> Self {
        let patterns = Ignore::default().bytes_to_patterns(file, Path::new(""));
        if patterns.is_empty() {
            return self.clone();
        }
        let base = (!directory.is_empty()).then(|| format!("{directory}/").into());
        let mut lists = Vec::clone(&self.lists);
        lists.push(Arc::new(List { patterns, source: None, base }));
        Rules { lists: Arc::new(lists), case: self.case }
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

    fn check(files: &[(&str, &str)], path: &str, expected: Verdict) {
        let rules = files
            .iter()
            .fold(Rules::new(Case::Sensitive), |rules, (directory, text)| rules.with(text.as_bytes(), directory));
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
        let rules = Rules::new(Case::Fold).with(b"Build/", "");
        assert_eq!(rules.verdict("build", true), Ignored);
    }

    #[test]
    fn a_pattern_of_many_stars_does_not_hang() {
        let rules = Rules::new(Case::Sensitive).with(format!("{}b", "*a".repeat(100)).as_bytes(), "");
        assert_eq!(rules.verdict(&"a".repeat(255), false), Unsaid);
        let rules = Rules::new(Case::Sensitive).with(format!("{}b", "**/a".repeat(60)).as_bytes(), "");
        assert_eq!(rules.verdict(&"a/".repeat(500), false), Unsaid);
    }
}
