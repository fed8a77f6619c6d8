//! What an issue names outright: paths and file names, stack frames, identifiers in code marks.
//!
//! A mention is evidence only as far as it is specific: a name that many candidates share says little about each.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::LazyLock;

use regex::Regex;

use crate::index::lexical::LexicalIndex;
use crate::snapshot::language;
use crate::types::{Candidate, IssueReport, Level, VisualEvidence};

use super::near::{Alike, Near};

/// A file that an issue names, by a path or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileMention {
    /// Lower-case path components, last first.
    reversed: Vec<String>,
}

/// What an issue names.
#[derive(Debug, Default)]
pub struct Mentions {
    files: Vec<FileMention>,
    /// Components of each identifier, last first, as written.
    identifiers: Vec<Vec<String>>,
}

/// Bytes of the longest path or identifier that is taken for one. Blobs are longer; and finding paths in a run of path
/// characters takes time quadratic in its length.
const LONGEST: usize = 512;
/// Distinct files, and distinct identifiers, that count; more is no report but a listing.
const MOST_MENTIONS: usize = 1000;

/// A run of the characters of paths.
static PATH_RUN: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\w.@+~/\\-]+"));
/// `dir/file.ext`, `C:\dir\file.ext`, `file.ext`; what follows (a line number) is not needed.
static FILE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:[\w.@+~-]+[/\\]+)*[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9}"));
/// Inline code.
static CODE_SPAN: LazyLock<Regex> = LazyLock::new(|| pattern(r"`([^`\n]{1,200})`"));
/// A call, anywhere: `name(`, `Class.name(`, `ns::name(`, `$this->name(`.
static CALL: LazyLock<Regex> = LazyLock::new(|| pattern(r"([A-Za-z_]\w*(?:(?:\.|::|#|->|:)[A-Za-z_]\w*)*)\s?\("));
/// A Python frame (`line 12, in name`) and a Ruby one (`:in 'name'`).
static FRAME_IN: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:, in |:in [`'])([A-Za-z_][\w.#:]*)"));
/// An identifier, possibly qualified.
static IDENTIFIER: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Za-z_]\w*(?:(?:\.|::|#|->)[A-Za-z_]\w*)*"));

#[expect(clippy::expect_used, reason = "the patterns are constants of this file, compiled by its tests")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

impl Mentions {
    /// Reads an issue's title and body.
    pub fn of(report: &IssueReport) -> Self {
        Self::of_text(&format!("{}\n{}", report.title, report.body))
    }

    fn of_text(text: &str) -> Self {
        let runs = PATH_RUN.find_iter(text).map(|it| it.as_str()).filter(|it| it.len() <= LONGEST);
        let paths = runs.flat_map(|run| FILE.find_iter(run).map(|it| it.as_str()));
        let files = distinct(paths.filter_map(file_mention));

        let spans = CODE_SPAN.captures_iter(text).filter_map(|it| it.get(1));
        let in_spans = spans.flat_map(|span| IDENTIFIER.find_iter(span.as_str()).map(|it| it.as_str()));
        let calls = CALL
            .captures_iter(text)
            .chain(FRAME_IN.captures_iter(text))
            .filter_map(|it| it.get(1))
            .map(|it| it.as_str());
        let written = in_spans.chain(calls).filter(|it| it.len() <= LONGEST);
        Mentions { files, identifiers: distinct(written.map(reversed_identifier)) }
    }

    /// What a picture names: what its text, `said`, names as an issue's would, and what was found in it to be a name.
    pub fn seen(evidence: &VisualEvidence, said: &str) -> Self {
        let mut mentions = Self::of_text(said);
        let stack = evidence.error_signal.iter().flat_map(|it| &it.stack);
        let hint = &evidence.code_hint;
        let paths = stack.clone().filter_map(|it| it.path.as_ref()).chain(&hint.file_patterns);
        let names = stack.filter_map(|it| it.function.as_ref()).chain(&hint.function_names);
        mentions.files.extend(paths.filter(|it| it.len() <= LONGEST).filter_map(|it| file_mention(it)));
        mentions.identifiers.extend(names.filter(|it| it.len() <= LONGEST).map(|it| reversed_identifier(it)));
        mentions.files = distinct(mentions.files.into_iter());
        mentions.identifiers = distinct(mentions.identifiers.into_iter().filter(|it| !it.is_empty()));
        mentions
    }

    /// Adds the names of a repository that those that it lacks may have been misread for.
    pub fn resolve(&mut self, candidates: &[Candidate], index: &LexicalIndex) {
        let name = |at: usize| lower(last_of(candidates[at].path(), b'/'));
        let files = resolved(self.files.iter().map(|it| &it.reversed), index.documents(Level::File), name);
        self.files.extend(files.into_iter().map(|reversed| FileMention { reversed }));
        let name = |at: usize| Cow::Borrowed(last_of(candidates[at].name.as_deref().unwrap_or_default(), b'.'));
        let functions = index.documents(Level::Function);
        self.identifiers.extend(resolved(self.identifiers.iter(), functions, name));
    }

    /// How strongly the issue names each candidate, 0 to 1: an unambiguous mention is 1, one that fits n is 1/sqrt(n).
    pub fn strengths(&self, candidates: &[Candidate], index: &LexicalIndex) -> Vec<f32> {
        let mut strengths = vec![0.0_f32; candidates.len()];
        self.mark_files(candidates, index.documents(Level::File), &mut strengths);
        self.mark_functions(candidates, index.documents(Level::Function), &mut strengths);
        strengths
    }

    fn mark_files(&self, candidates: &[Candidate], files: &[usize], strengths: &mut [f32]) {
        let mut wanted = Wanted::of(self.files.iter().filter_map(|it| it.reversed.first()));
        wanted.find(files, |at| lower(last_of(candidates[at].path(), b'/')));
        for mention in &self.files {
            let same_name = mention.reversed.first().map_or(&[][..], |it| wanted.found(it));
            mark(strengths, &best(same_name, |at| shared_components(&mention.reversed, candidates[at].path())));
        }
    }

    fn mark_functions(&self, candidates: &[Candidate], functions: &[usize], strengths: &mut [f32]) {
        let mut wanted = Wanted::of(self.identifiers.iter().filter_map(|it| it.first()));
        let name = |at: usize| candidates[at].name.as_deref().unwrap_or_default();
        wanted.find(functions, |at| last_of(name(at), b'.').into());
        for mention in &self.identifiers {
            let same_name = mention.first().map_or(&[][..], |it| wanted.found(it));
            let shared = |at: usize| name(at).rsplit('.').zip(mention).take_while(|(a, b)| a == b).count();
            mark(strengths, &best(same_name, shared));
        }
    }
}

/// Mentions by names of the repository, beside those whose last component no candidate bears.
fn resolved<'n, 'm>(
    mentions: impl Iterator<Item = &'m Vec<String>> + Clone,
    candidates: &[usize],
    name_of: impl Fn(usize) -> Cow<'n, str>,
) -> Vec<Vec<String>> {
    let mut wanted = Wanted::of(mentions.clone().filter_map(|it| it.first()));
    wanted.find(candidates, &name_of);
    let unknown: Vec<&Vec<String>> =
        mentions.filter(|it| it.first().is_some_and(|it| wanted.found(it).is_empty())).collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut near = Near::of(unknown.iter().filter_map(|it| it.first()).map(String::as_str), Alike::Edited);
    candidates.iter().for_each(|&at| near.see(&name_of(at)));
    let named = |(names, mention): (Vec<String>, &&Vec<String>)| {
        let others = mention[1..].to_vec();
        names.into_iter().map(move |name| [vec![name], others.clone()].concat()).collect::<Vec<_>>()
    };
    near.found().into_iter().zip(&unknown).flat_map(named).collect()
}

/// Names that are looked for, and where they stand. All names of a repository pass here for each question, and hardly one of them
/// is wanted: that must cost next to nothing.
struct Wanted<'w> {
    positions: HashMap<&'w str, Vec<usize>>,
    /// A bit for each length, modulo 64, of the wanted names that end in a byte.
    lengths: [u64; 256],
}

impl<'w> Wanted<'w> {
    fn of(names: impl Iterator<Item = &'w String>) -> Self {
        let mut wanted = Wanted { positions: HashMap::new(), lengths: [0; 256] };
        for name in names {
            wanted.lengths[last_byte(name)] |= length_bit(name);
            wanted.positions.entry(name).or_default();
        }
        wanted
    }

    fn find<'n>(&mut self, candidates: &[usize], name_of: impl Fn(usize) -> Cow<'n, str>) {
        if self.positions.is_empty() {
            return;
        }
        for &at in candidates {
            let name = name_of(at);
            if self.lengths[last_byte(&name)] & length_bit(&name) != 0
                && let Some(positions) = self.positions.get_mut(&*name)
            {
                positions.push(at);
            }
        }
    }

    fn found(&self, name: &str) -> &[usize] {
        self.positions.get(name).map_or(&[], Vec::as_slice)
    }
}

fn last_byte(name: &str) -> usize {
    name.bytes().last().unwrap_or_default().into()
}

fn length_bit(name: &str) -> u64 {
    1 << (name.len() % 64)
}

/// What stands behind the last separator.
fn last_of(name: &str, separator: u8) -> &str {
    name.bytes().rposition(|it| it == separator).map_or(name, |at| &name[at + 1..])
}

fn lower(name: &str) -> Cow<'_, str> {
    let is_lower = name.bytes().all(|it| it.is_ascii() && !it.is_ascii_uppercase());
    if is_lower { name.into() } else { name.to_lowercase().into() }
}

/// The candidates that share the most components with a mention.
fn best(candidates: &[usize], shared: impl Fn(usize) -> usize) -> Vec<usize> {
    let most = candidates.iter().map(|&it| shared(it)).max().unwrap_or(0);
    candidates.iter().copied().filter(|&it| shared(it) == most).collect()
}

fn mark(strengths: &mut [f32], fitting: &[usize]) {
    let strength = 1.0 / (fitting.len() as f32).sqrt();
    for &at in fitting {
        strengths[at] = strengths[at].max(strength);
    }
}

/// The first distinct items.
fn distinct<T: Clone + Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|it| seen.insert(it.clone())).take(MOST_MENTIONS).collect()
}

fn file_mention(text: &str) -> Option<FileMention> {
    language::of_path(text)?;
    let reversed = text.rsplit(['/', '\\']).filter(|it| !it.is_empty() && *it != ".").map(str::to_lowercase).collect();
    Some(FileMention { reversed })
}

fn shared_components(reversed: &[String], path: &str) -> usize {
    path.rsplit('/').zip(reversed).take_while(|(a, b)| a.to_lowercase() == **b).count()
}

fn reversed_identifier(written: &str) -> Vec<String> {
    let parts = written.split(|it: char| !(it.is_alphanumeric() || it == '_')).filter(|it| !it.is_empty());
    let mut parts: Vec<String> = parts.map(str::to_owned).collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{Lines, Source, Text};

    /// Strengths of `path` or `path:function` candidates under an issue body.
    #[track_caller]
    fn check(body: &str, expected: &[(&str, f32)]) {
        let candidates: Vec<Candidate> = expected
            .iter()
            .map(|(candidate, _)| {
                let (path, function) = candidate.split_once(':').unwrap_or((candidate, ""));
                let source = Arc::new(Source::new(path, "Text", Text::new("")));
                if function.is_empty() {
                    Candidate::file(source)
                } else {
                    Candidate::function(source, function, 0..0, Lines { start: 1, end: 1 })
                }
            })
            .collect();
        let report = IssueReport { body: body.into(), ..IssueReport::default() };
        let strengths =
            Mentions::of(&report).strengths(&candidates, &LexicalIndex::build(&candidates).expect("in memory"));
        let wanted: Vec<f32> = expected.iter().map(|it| it.1).collect();
        assert_eq!(strengths, wanted, "{body}");
    }

    #[test]
    fn a_path_names_its_file_and_no_other_of_that_name() {
        check("see src/a/util.py", &[("src/a/util.py", 1.0), ("src/b/util.py", 0.0), ("src/a/other.py", 0.0)]);
        check(r"at C:\work\src\b\util.py:12", &[("src/a/util.py", 0.0), ("src/b/util.py", 1.0)]);
    }

    #[test]
    fn a_bare_file_name_counts_less_the_more_files_bear_it() {
        check("in util.py", &[("a/util.py", 0.5), ("b/util.py", 0.5), ("c/util.py", 0.5), ("d/util.py", 0.5)]);
    }

    #[test]
    fn stack_frames_name_files_and_functions() {
        check(
            "  File \"/usr/lib/pkg/lexer.py\", line 12, in next_token\n",
            &[("pkg/lexer.py", 1.0), ("pkg/lexer.py:Lexer.next_token", 1.0), ("pkg/lexer.py:Lexer.peek", 0.0)],
        );
        check(
            "  at com.acme.Lexer.peek(Lexer.java:32)",
            &[
                ("src/com/acme/Lexer.java", 1.0),
                ("src/com/acme/Lexer.java:Lexer.peek", 1.0),
                ("x/Other.java:Other.peek", 0.0),
            ],
        );
        check("    at peek (/app/src/lexer.ts:3:4)", &[("src/lexer.ts", 1.0), ("src/lexer.ts:peek", 1.0)]);
        check("lib/lexer.rb:9:in `peek'", &[("lib/lexer.rb", 1.0), ("lib/lexer.rb:Lexer.peek", 1.0)]);
    }

    #[test]
    fn identifiers_in_code_marks_name_functions() {
        check("`Lexer::peek` is slow", &[("a.cc:Lexer.peek", 1.0), ("a.cc:Parser.peek", 0.0)]);
        check("calling peek() twice", &[("a.cc:peek", 1.0), ("a.cc:next", 0.0)]);
        check("peek is plain prose here", &[("a.cc:peek", 0.0)]);
    }

    #[test]
    fn a_blob_is_no_path_and_the_text_around_it_counts() {
        let blob = "a/".repeat(300);
        check(&format!("{blob}util.py, util.py"), &[("a/util.py", 1.0)]);
        check(&format!("{blob}util.py"), &[("a/util.py", 0.0)]);
    }

    #[test]
    fn hostile_text_takes_linear_time_and_few_mentions() {
        let distinct_paths: String = (0..400_000).map(|it| format!("d{it}/a.c ")).collect();
        let distinct_calls: String = (0..400_000).map(|it| format!("f{it}()")).collect();
        let repeated =
            ["a.b~", "a.b", "a.b~a.b ", "a/", "a~", "a.", "a::", "a(", "a.a (", "`", "`a", "`a`", ", in a", "é.b~"];
        let texts = repeated.iter().map(|it| it.repeat((4 << 20) / it.len()));
        for body in texts.chain([distinct_paths, distinct_calls, "a".repeat(4 << 20)]) {
            let start = std::time::Instant::now();
            let mentions = Mentions::of(&IssueReport { body: body.clone(), ..IssueReport::default() });
            assert!(mentions.files.len() <= 1000 && mentions.identifiers.len() <= 1000);
            assert!(start.elapsed().as_secs() < 60, "{}: {:?}", &body[..12], start.elapsed());
        }
    }
}
