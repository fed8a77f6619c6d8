//! Functions in the `<script>` elements of HTML, Vue and Svelte documents.
//!
//! Finds the elements as an HTML tokenizer does (a script's text ends at the next `</script`) and hands each to the
//! grammar that its `lang` or `type` names. Knows nothing of templates, styles or of attributes that hold code.

use std::ops::Range;

use super::budget::{Budget, Losses};
use super::language::{self, Functions};
use super::parse::{self, Function};

/// A script of a document.
#[derive(Debug, PartialEq, Eq)]
struct Script {
    /// Byte range of the script's text in the document.
    range: Range<usize>,
    /// Name of its language, a row of the table.
    language: &'static str,
}

/// The functions of every script, in the order of their positions, with ranges in the whole document, and what is
/// missing.
pub(super) fn functions(document: &str, budget: &Budget) -> (Vec<Function>, Losses) {
    let (mut all, mut losses) = (Vec::new(), Losses::default());
    for script in scripts(document).into_iter().filter(|it| !document[it.range.clone()].trim().is_empty()) {
        let Some(row) = language::by_name(script.language) else { continue };
        let Functions::Grammar(grammar) = &row.functions else { continue };
        let (found, lost) = parse::functions(row.name, grammar, &document[script.range.clone()], budget);
        all.extend(found.into_iter().map(|function| function.shifted(script.range.start)));
        losses = losses.and(lost);
    }
    (all, losses)
}

/// The scripts that hold a language of the table; data blocks and templates are left out.
fn scripts(document: &str) -> Vec<Script> {
    // Lower case keeps every byte in its place only for ASCII, and that is all a tag's name is.
    let lower = document.to_ascii_lowercase();
    let mut scripts = Vec::new();
    let mut at = 0;
    while let Some(start) = lower[at..].find('<').map(|found| at + found) {
        let rest = &lower[start..];
        if rest.starts_with("<!--") {
            let Some(end) = rest.find("-->") else { break };
            at = start + end;
        } else if let Some(tag) = rest.strip_prefix("<script").filter(|tag| !tag.starts_with(is_name)) {
            let Some(length) = tag_length(tag) else { break };
            let text = start + "<script".len() + length;
            let attributes = &lower[start + "<script".len()..text - 1];
            at = text;
            if attributes.ends_with('/') {
                continue;
            }
            at = lower[text..].find("</script").map_or(lower.len(), |found| text + found);
            if let Some(language) = script_language(attributes) {
                scripts.push(Script { range: text..at, language });
            }
        } else {
            at = start + 1;
        }
    }
    scripts
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '-' || character == '_'
}

/// Bytes of a start tag after its name, the closing `>` included; one in quotes does not close it.
fn tag_length(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// The language that a script's attributes (in lower case) name; `None` when it is data or a template.
fn script_language(attributes: &str) -> Option<&'static str> {
    let named = attribute(attributes, "lang").or_else(|| attribute(attributes, "type"));
    match named.unwrap_or_default().trim() {
        "" | "module" | "js" | "jsx" | "javascript" | "ecmascript" | "babel" => Some("JavaScript"),
        "ts" | "typescript" => Some("TypeScript"),
        "tsx" => Some("TSX"),
        mime => match mime.split_once('/')?.1 {
            "javascript" | "x-javascript" | "ecmascript" | "babel" | "jsx" => Some("JavaScript"),
            "typescript" | "x-typescript" => Some("TypeScript"),
            _ => None,
        },
    }
}

/// The value of an attribute, with or without quotes.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = attributes;
    while let Some(at) = rest.find(name) {
        let before = rest[..at].chars().next_back();
        let after = rest[at + name.len()..].trim_start();
        rest = &rest[at + name.len()..];
        let Some(value) = after.strip_prefix('=').filter(|_| before.is_none_or(char::is_whitespace)) else { continue };
        let value = value.trim_start();
        return match value.chars().next()? {
            quote @ ('"' | '\'') => value[1..].split(quote).next(),
            _ => value.split(|it: char| it.is_whitespace() || it == '/').next(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::budget::{Deadline, ParseFailure};
    use super::*;

    #[track_caller]
    fn check(document: &str, expected: &[(&str, &str)]) {
        let found: Vec<_> = scripts(document).into_iter().map(|it| (it.language, &document[it.range])).collect();
        assert_eq!(found, expected, "{document}");
    }

    #[test]
    fn scripts_end_where_a_browser_ends_them() {
        check("<script>a</script><p><SCRIPT>b</Script >", &[("JavaScript", "a"), ("JavaScript", "b")]);
        check("<script>a", &[("JavaScript", "a")]);
        check("<script", &[]);
        check("<scripted>a</scripted>", &[]);
        check("<!-- <script>a</script> --><script>b</script>", &[("JavaScript", "b")]);
        check("<!--><script>b</script>", &[("JavaScript", "b")]);
        check("<script>s = '<script>'; <!-- x --></script>", &[("JavaScript", "s = '<script>'; <!-- x -->")]);
        check("<script src='a.js' /><script>b</script>", &[("JavaScript", "b")]);
    }

    #[test]
    fn the_language_is_named_by_lang_or_type() {
        check("<script setup lang=\"ts\">a</script>", &[("TypeScript", "a")]);
        check("<script lang='tsx' generic=\"T extends Array<U>\">a</script>", &[("TSX", "a")]);
        check("<script data-lang=ts type = module>a</script>", &[("JavaScript", "a")]);
        check("<script type=\"text/babel\">a</script>", &[("JavaScript", "a")]);
        check("<script type=\"application/json\">{}</script>", &[]);
        check("<script type='text/x-template'><script></script>", &[]);
    }

    #[test]
    fn a_document_takes_time_in_proportion_to_its_size() {
        for pattern in ["<script/>", "<script></script>", "<!-->", "<script ", "<script lang", "<"] {
            let document = pattern.repeat((4 << 20) / pattern.len());
            let clock = std::time::Instant::now();
            let found = functions(&document, &Budget::new(document.len(), Deadline::of(0))).0;
            assert_eq!(found, [], "{pattern}");
            assert!(clock.elapsed().as_secs() < 60, "{pattern}");
        }
    }

    #[test]
    fn scripts_share_what_a_document_may_cost() {
        let document = "<script>a</script>".repeat(6_000);
        let (_, losses) = functions(&document, &Budget::new(0, Deadline::of(0)));
        assert_eq!(losses.first, Some(ParseFailure::TooHard { steps: 5_000 }));
    }
}
