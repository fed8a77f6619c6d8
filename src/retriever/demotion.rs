//! Paths that hold code about the product rather than the product: tests, documentation, examples.

use std::collections::HashMap;

use crate::index::tokens;

/// What a file is there for. Of the names in a path the one that comes first here decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    Tests,
    Docs,
    Examples,
    BuildOutput,
    Product,
}

const TESTS: &[&str] = &[
    "test",
    "tests",
    "testing",
    "spec",
    "specs",
    "__tests__",
    "__mocks__",
    "fixtures",
    "testdata",
    "e2e",
    "testsuite",
];
const DOCS: &[&str] = &["doc", "docs", "documentation", "website"];
const EXAMPLES: &[&str] =
    &["example", "examples", "sample", "samples", "demo", "demos", "benchmark", "benchmarks", "bench", "benches"];
const BUILD_OUTPUT: &[&str] = &["dist", "build", "out", "generated"];

/// Purposes of the files of a list.
#[derive(Default)]
pub struct Purposes<'p> {
    /// By the name of a directory; there are few.
    by_name: HashMap<&'p str, Purpose>,
    /// The directories of the last file, which mostly are those of the next, and what they say.
    last: Option<(&'p str, Purpose)>,
}

impl<'p> Purposes<'p> {
    /// By the names in a path: a directory of tests, documentation or examples, or a file named as a test.
    pub fn of_path(&mut self, path: &'p str) -> Purpose {
        let (directories, file) = path.rsplit_once('/').unwrap_or(("", path));
        let purpose = match self.last {
            Some((last, purpose)) if last == directories => purpose,
            _ => self.of_directories(directories),
        };
        self.last = Some((directories, purpose));
        if is_test_file(file) { Purpose::Tests } else { purpose }
    }

    fn of_directories(&mut self, directories: &'p str) -> Purpose {
        let of_name = |name| *self.by_name.entry(name).or_insert_with(|| Purpose::of_directory(name));
        directories.split('/').map(of_name).min().unwrap_or(Purpose::Product)
    }
}

impl Purpose {
    pub const ALL: [Purpose; 5] =
        [Purpose::Tests, Purpose::Docs, Purpose::Examples, Purpose::BuildOutput, Purpose::Product];

    fn of_directory(name: &str) -> Purpose {
        let lower = name.to_lowercase();
        let is_of = |names: &[&str]| names.contains(&lower.as_str());
        if is_of(TESTS) || is_test_directory(name) {
            Purpose::Tests
        } else if is_of(DOCS) {
            Purpose::Docs
        } else if is_of(EXAMPLES) {
            Purpose::Examples
        } else if is_of(BUILD_OUTPUT) {
            Purpose::BuildOutput
        } else {
            Purpose::Product
        }
    }

    /// Whether an issue with this title is about such files themselves.
    pub fn is_asked_for(self, title: &str) -> bool {
        let words: &[&str] = match self {
            Purpose::Product => return true,
            Purpose::Tests => &["test", "tests", "testing", "testsuite", "spec", "specs", "flaky"],
            Purpose::Docs => &["doc", "docs", "documentation", "docstring", "readme", "website", "tutorial"],
            Purpose::Examples => {
                &["example", "examples", "sample", "samples", "demo", "demos", "benchmark", "benchmarks"]
            }
            Purpose::BuildOutput => &["dist", "build", "bundle", "generated"],
        };
        tokens::terms(title).iter().any(|term| words.contains(&term.as_str()))
    }
}

/// A directory named by several words of which the last is "test": `commonTest`, `integration-tests`, `Core.Tests`.
fn is_test_directory(name: &str) -> bool {
    tokens::terms(name).last().is_some_and(|it| matches!(it.as_str(), "test" | "tests"))
}

/// `test_x.py`, `x_test.go`, `x.test.ts`, `XTest.java`, `x_spec.rb`, `x.spec.js`, `conftest.py`.
fn is_test_file(file: &str) -> bool {
    // Few are, and no other letters than these have them as their small ones.
    let has = |word: &[u8]| file.as_bytes().windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    if !has(b"test") && !has(b"spec") {
        return false;
    }
    let stem = file.split('.').next().unwrap_or(file);
    let lower = file.to_lowercase();
    let words: Vec<String> = tokens::terms(stem);
    let parts = if words.len() > 1 { &words[1..] } else { &words[..] };
    let named = |it: Option<&String>| it.is_some_and(|it| matches!(it.as_str(), "test" | "tests" | "spec"));
    named(parts.first())
        || named(parts.last())
        || lower.contains(".test.")
        || lower.contains(".spec.")
        || stem == "conftest"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Purpose) {
        let mut purposes = Purposes::default();
        // What the list holds before changes nothing.
        for before in ["", path, "docs/tests/a.py", path, "src/a.py"] {
            purposes.of_path(before);
            assert_eq!(purposes.of_path(path), expected, "{path} after {before}");
        }
    }

    #[test]
    fn paths_tell_their_purpose() {
        check("src/lexer.rs", Purpose::Product);
        check("src/test/java/a/B.java", Purpose::Tests);
        check("lib/src/commonTest/kotlin/A.kt", Purpose::Tests);
        check("src/Core.Tests/A.cs", Purpose::Tests);
        check("pkg/lexer_test.go", Purpose::Tests);
        check("test_lexer.py", Purpose::Tests);
        check("app/LexerTest.kt", Purpose::Tests);
        check("app/lexer.spec.ts", Purpose::Tests);
        check("tests.py", Purpose::Tests);
        check("src/latest.py", Purpose::Product);
        check("src/contest/entry.py", Purpose::Product);
        check("src/attestation.rs", Purpose::Product);
        check("docs/conf.py", Purpose::Docs);
        check("demos/box/main.go", Purpose::Examples);
        check("dist/bundle.js", Purpose::BuildOutput);
        check("src/build.rs", Purpose::Product);
    }

    #[test]
    fn an_issue_about_tests_asks_for_tests() {
        assert!(Purpose::Tests.is_asked_for("Flaky test in lexer"));
        assert!(!Purpose::Tests.is_asked_for("Lexer loses the latest token"));
        assert!(Purpose::Docs.is_asked_for("Typo in the docs"));
    }
}
