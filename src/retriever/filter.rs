//! Which candidates may be results: by patterns of paths, and by languages.

use gix::bstr::{BStr, ByteSlice};
use gix::glob::pattern::Case;
use gix::glob::{Pattern, wildmatch};

use crate::types::Candidate;

/// Patterns, and languages: each is tried on each candidate.
pub const MOST: usize = 256;

/// A choice of candidates. What is empty chooses all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    paths: Vec<Pattern>,
    languages: Vec<String>,
}

impl Filter {
    /// Candidates whose path matches one of `paths`, patterns as in a .gitignore file (`src/**`, `*.rs`, `/docs/`), and whose language is one
    /// of `languages`, by name in any case.
    ///
    /// # Errors
    /// The pattern that is none, or one too many.
    pub fn new(paths: &[String], languages: &[String]) -> Result<Self, String> {
        if let Some(over) = paths.get(MOST).or(languages.get(MOST)) {
            return Err(over.clone());
        }
        let pattern = |text: &String| Pattern::from_bytes_without_negation(text.as_bytes()).ok_or_else(|| text.clone());
        let paths = paths.iter().map(pattern).collect::<Result<_, _>>()?;
        Ok(Filter { paths, languages: languages.iter().map(|it| it.to_lowercase()).collect() })
    }

    pub fn is_all(&self) -> bool {
        self.paths.is_empty() && self.languages.is_empty()
    }

    pub fn accepts(&self, candidate: &Candidate) -> bool {
        let of_language = || self.languages.iter().any(|it| *it == candidate.source.language.to_lowercase());
        (self.languages.is_empty() || of_language()) && (self.paths.is_empty() || self.has(candidate.path()))
    }

    /// A pattern that matches a folder has all below it.
    fn has(&self, path: &str) -> bool {
        let folders = path.match_indices('/').map(|(at, _)| (&path[..at], true));
        folders.chain([(path, false)]).any(|(path, is_folder)| {
            let path: &BStr = path.as_bytes().as_bstr();
            let name = path.rfind_byte(b'/').map(|at| at + 1);
            let mode = wildmatch::Mode::NO_MATCH_SLASH_LITERAL;
            self.paths
                .iter()
                .any(|it| it.matches_repo_relative_path(path, name, Some(is_folder), Case::Sensitive, mode))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{Source, Text};

    #[track_caller]
    fn check(paths: &[&str], languages: &[&str], candidate: (&str, &str), expected: bool) {
        let owned = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let filter = Filter::new(&owned(paths), &owned(languages)).expect("patterns");
        let source = Arc::new(Source::new(candidate.0, candidate.1, Text::new("")));
        assert_eq!(filter.accepts(&Candidate::file(source)), expected, "{paths:?} {languages:?} {candidate:?}");
    }

    #[test]
    fn paths_match_as_git_ignores_them() {
        let file = ("src/web/app.ts", "TypeScript");
        check(&[], &[], file, true);
        for pattern in ["*.ts", "src/", "web", "/src", "src/**", "**/app.*", "src/web/app.ts"] {
            check(&[pattern], &[], file, true);
        }
        for pattern in ["*.js", "/web", "app", "src/*.ts", "SRC/"] {
            check(&[pattern], &[], file, false);
        }
        check(&["*.js", "*.ts"], &[], file, true);
    }

    #[test]
    fn languages_match_in_any_case_and_both_must_hold() {
        check(&[], &["typescript", "Go"], ("a.ts", "TypeScript"), true);
        check(&[], &["Go"], ("a.ts", "TypeScript"), false);
        check(&["*.js"], &["TypeScript"], ("a.ts", "TypeScript"), false);
    }

    #[test]
    fn a_pattern_of_nothing_is_named() {
        assert_eq!(Filter::new(&["a".to_owned(), String::new()], &[]).err().as_deref(), Some(""));
    }
}
