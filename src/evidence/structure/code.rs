//! What names code: identifiers, files, frameworks.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use regex::Regex;

use super::extensions::is_file;
use super::frames::Found;
use super::frameworks;
use super::grammars::Style;
use super::lines::{Line, Shape};
use super::pattern;
use crate::types::CodeHint;

/// Identifiers, and files, that are kept: those that stand for something come first, so that what is left out tells least.
const MOST_NAMES: usize = 80;
/// Bytes of the longest name or path.
const LONGEST: usize = 200;

/// A definition's name, in the languages that have a word for it. OCR reads `class` as `c1ass`.
static DEFINITION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:def|func|fun|fn|functi[o0]n\*?|c[l1I|]ass|interface|struct|enum|trait|impl|record|object|protocol|extension|defmodule|defp|module|namespace|type|sub|proc|const|let|var|val)\s+(?:\([^()]{0,40}\)\s*)?(?:self\.)?([A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z_$][\w$]*)*[?!]?)",
    )
});
/// A method with its visibility and type before its name.
static METHOD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:public|private|protected|internal|static|override|virtual|async|void|int|bool|string|String)\s+(?:[\w<>\[\],?*&:]+\s+){0,4}([A-Za-z_$][\w$]*)\s*\(",
    )
});
/// `name(`, `Class.name(`, `ns::name(`, `$this->name(`; OCR leaves no space before the bracket where none is.
static CALL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"([A-Za-z_][\w$]*(?:(?:\.|::|#|->|\?\.)[A-Za-z_][\w$]*)*[?!]?)\("));
/// A component in markup: `<AppHeader`, `<app-header`.
static TAG: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:^|\W)</?([A-Z]\w+(?:\.\w+)*|[a-z]\w*(?:-\w+)+)"));
/// A word, or several with separators of languages between them.
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|#)[A-Za-z_$][\w$]*)*"));
/// A run of the characters of paths and globs.
static PATH_RUN: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:[A-Za-z]:[/\\]|@/)?[\w.@+~/\\*\[\]-]*[\w*\]]"));
/// The scheme and host of an address, or what is left of one.
static HOST: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:https?|webpack(?:-internal)?|file|ftp|wss?)?:/{2,3}(?:[\w.-]*\.[a-z]{2,}|localhost|[\d.]+)?(?::\d+)?/?",
    )
});

/// Words before a bracket that call nothing.
const KEYWORDS: &str = "
    if for while switch catch return function func fn def elif else when match with until unless and or not in is as typeof sizeof super this
    self new await async yield throw raise except assert del print import from class struct enum case do try finally let var const void int
    float double char bool string true false null none nil undefined public private static";
/// Products that are written like identifiers.
const PRODUCTS: &str = "
    GitHub GitLab JavaScript TypeScript CoffeeScript WordPress YouTube LinkedIn PayPal OpenAI ChatGPT macOS iOS iPhone iPad iPadOS tvOS watchOS
    PostgreSQL MySQL MongoDB GraphQL SQLite WebGL OpenGL WebSocket DevTools StackOverflow PowerShell FireFox WhatsApp TikTok eBay PyCharm
    IntelliJ WebStorm DirectX LaTeX BitBucket NodeJS VSCode PhpStorm CircleCI DockerHub HuggingFace McDonald OAuth IPv4 IPv6 WiFi";

static KEYWORD_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| KEYWORDS.split_whitespace().collect());
static PRODUCT_SET: LazyLock<HashSet<String>> =
    LazyLock::new(|| PRODUCTS.split_whitespace().map(str::to_lowercase).collect());

/// Distinct names in the order of their first appearance.
#[derive(Default)]
struct Names {
    seen: HashSet<String>,
    names: Vec<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        if self.names.len() < MOST_NAMES && name.len() <= LONGEST && !self.seen.contains(name) {
            self.seen.insert(name.to_owned());
            self.names.push(name.to_owned());
        }
    }
}

/// All that names code on a page.
pub(super) fn hint(lines: &[Line], found: &[Found], stack: &[crate::types::Frame]) -> CodeHint {
    CodeHint {
        function_names: identifiers(lines, stack),
        file_patterns: files(lines, found, stack),
        frameworks: frameworks(lines),
    }
}

/// Functions of the stack, then names that are defined, then called ones, then words that only code has.
fn identifiers(lines: &[Line], stack: &[crate::types::Frame]) -> Vec<String> {
    let mut names = Names::default();
    stack.iter().filter_map(|it| it.function.as_deref()).for_each(|it| names.add(it));
    let is_code = |line: &&Line| matches!(line.shape, Shape::Code | Shape::Prompt);
    for line in lines.iter().filter(is_code) {
        let defined = DEFINITION.captures_iter(&line.text).chain(METHOD.captures_iter(&line.text));
        let defined = defined.filter_map(|it| it.get(1)).map(|it| it.as_str());
        defined.filter(|it| it.len() > 1 && !is_keyword(it)).for_each(|it| names.add(it));
    }
    for line in lines {
        let without_files = without_paths(&line.text);
        called(&without_files, line.shape).for_each(|it| names.add(it));
        TAG.captures_iter(&without_files).filter_map(|it| it.get(1)).for_each(|it| names.add(it.as_str()));
    }
    for line in lines {
        let text = without_paths(&line.text);
        WORD.find_iter(&text).map(|it| it.as_str()).filter(|it| is_telling(it)).for_each(|it| names.add(it));
    }
    names.names
}

fn is_keyword(word: &str) -> bool {
    KEYWORD_SET.contains(word)
}

/// Names before an opening bracket. In prose and labels it may be a plural or a count.
fn called(text: &str, shape: Shape) -> impl Iterator<Item = &str> {
    CALL.captures_iter(text).filter_map(move |it| {
        let name = it.get(1)?;
        let rest = &text[name.end() + 1..];
        let inside = rest.split(')').next().unwrap_or(rest);
        let is_count = shape != Shape::Code && (matches!(inside, "s" | "es") || inside.parse::<u64>().is_ok());
        let is_name = name.len() > 1 && !is_keyword(name.as_str()) && (!is_count || is_telling(name.as_str()));
        is_name.then(|| name.as_str())
    })
}

/// Whether a word is written as only code writes: two humps, an inner underscore, or a path of names.
fn is_telling(word: &str) -> bool {
    let word = word.trim_matches('_');
    if word.len() < 4 || PRODUCT_SET.contains(&word.to_lowercase()) || is_file(word) {
        return false;
    }
    let letters: Vec<char> = word.chars().collect();
    let has_hump = letters.windows(2).any(|it| it[0].is_lowercase() && it[1].is_uppercase());
    let has_underscore =
        letters.windows(3).any(|it| it[1] == '_' && it[0].is_alphanumeric() && it[2].is_alphanumeric());
    has_hump || has_underscore || word.contains("::") || word.contains("->") || is_qualified(word)
}

/// `object.member`; two sentences without a space between them have a capital behind the dot only.
fn is_qualified(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let are_members = parts.iter().skip(1).all(|it| it.starts_with(|it: char| it.is_lowercase() || it == '_'));
    let are_words = parts.len() >= 2 && parts.iter().all(|it| it.len() >= 2);
    are_words && (parts.len() >= 3 || are_members) && !is_host(word)
}

/// Whether a name with dots is an address.
fn is_host(name: &str) -> bool {
    const TOP: &[&str] = &[
        "com", "org", "net", "io", "dev", "app", "edu", "gov", "co", "de", "fr", "uk", "cn", "jp", "ai", "me", "info",
    ];
    name.starts_with("www.") || name.rsplit('.').next().is_some_and(|it| TOP.contains(&it))
}

/// A line whose paths, files and addresses are spaces.
fn without_paths(text: &str) -> String {
    let is_path = |it: &str| it.len() > LONGEST || it.contains('/') || it.contains('\\') || is_file(it);
    HOST.replace_all(
        &PATH_RUN.replace_all(
            text,
            |it: &regex::Captures<'_>| if is_path(&it[0]) { " ".to_owned() } else { it[0].to_owned() },
        ),
        " ",
    )
    .into_owned()
}

/// Files of the stack, of other places, then all others.
fn files(lines: &[Line], found: &[Found], stack: &[crate::types::Frame]) -> Vec<String> {
    let mut names = Names::default();
    let places = found.iter().filter(|it| it.style == Style::Place).map(|it| &it.frame);
    stack.iter().chain(places).filter_map(|it| it.path.as_deref()).for_each(|it| names.add(it));
    let mut known: HashSet<String> = names.names.iter().flat_map(|it| ending(it)).collect();
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).filter(|_| line.reaches_edge).map(|it| it.text.as_str());
        for (path, continuation) in paths(&line.text, next) {
            // The stack holds it in a longer form, or with its scheme.
            if known.insert(path.clone()) {
                names.add(&path);
            }
            known.extend(continuation);
        }
    }
    names.names
}

/// A path's shorter forms.
fn ending(path: &str) -> Vec<String> {
    let without_host = HOST.replace(path, "").into_owned();
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
    vec![path.to_owned(), without_host, name]
}

/// The files, globs and directories that a line names. The last may go on in the next line: then what it takes of that is there, too.
fn paths(text: &str, next: Option<&str>) -> Vec<(String, Option<String>)> {
    let text = HOST.replace_all(text, " ");
    let mut paths = Vec::new();
    for run in PATH_RUN.find_iter(&text).filter(|it| it.len() <= LONGEST) {
        let is_last = run.end() == text.trim_end().len();
        let broken = next.filter(|_| is_last && !is_file(run.as_str()) && run.as_str().contains(['/', '\\']));
        let continuation = broken.map(first_run).filter(|it| is_file(&format!("{}{it}", run.as_str())));
        let path = format!("{}{}", run.as_str(), continuation.unwrap_or_default());
        let path = without_preposition(path.trim_matches(['[', ']', '-']).trim_end_matches('.'));
        if is_file(path) && !is_host(path) || is_directory(path) {
            paths.push((path.to_owned(), continuation.map(str::to_owned)));
        }
    }
    paths
}

/// A path without the word before it, whose space was lost: `at./src/a.rs`.
fn without_preposition(path: &str) -> &str {
    let rest = path.strip_prefix("at").or_else(|| path.strip_prefix("in")).unwrap_or(path);
    if rest.starts_with(['/', '.', '~']) { rest } else { path }
}

fn first_run(text: &str) -> &str {
    let text = text.trim_start();
    PATH_RUN.find(text).filter(|it| it.start() == 0).map_or("", |it| it.as_str())
}

/// `./a/b`, `@/a/b`, `src/a/b`: three names, or a beginning that only paths have; a date or a choice of words is none.
fn is_directory(path: &str) -> bool {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|it| !it.is_empty()).collect();
    let is_named =
        parts.iter().all(|it| it.chars().any(|it| it.is_alphabetic() || matches!(it, '.' | '*' | '@' | '~')));
    let is_relative =
        path.starts_with("./") || path.starts_with("../") || path.starts_with("@/") || path.starts_with("~/");
    let least = if is_relative { 2 } else { 3 };
    parts.len() >= least && is_named && parts.iter().any(|it| it.len() >= 3)
}

/// Frameworks in the order of their first appearance.
fn frameworks(lines: &[Line]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for place in lines.iter().flat_map(|it| frameworks::places(&it.text)) {
        if seen.insert(place) {
            names.push(frameworks::name(place).to_owned());
        }
    }
    names
}
