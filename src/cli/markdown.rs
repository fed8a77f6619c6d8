//! The pictures of a Markdown text.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// `![alt](target)`, `![alt](<a target> "title")`, `![alt][label]`, `![label]`, `<img src="target">`. No part runs past the next
/// beginning of its like, so that the time is linear in the text, whatever it holds.
static IMAGE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"!\[(?<alt>[^\[\]]*)\](?:\(\s*(?:<(?<angled>[^<>\n]+)>|(?<bare>(?:[^\s()<>]|\([^\s()<>]*\))+))|\[(?<label>[^\[\]]*)\])?",
        r#"|(?i:<img\s[^<>]*?src\s*=\s*["'](?<source>[^"'<>]+)["'])"#,
    ))
});

/// `[label]: target`, alone on its line.
static DEFINITION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^ {0,3}\[(?<label>[^\[\]\n]+)\]:[ \t]*(?:<(?<angled>[^<>\n]+)>|(?<bare>[^\s<>]+))"));

#[expect(clippy::expect_used, reason = "a constant pattern, compiled by the tests")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

/// The targets of a text's picture links, each once, in order. What stands in code is none.
pub fn image_links(text: &str) -> Vec<String> {
    let text = &without_code(text);
    let mut targets: HashMap<String, &str> = HashMap::new();
    for it in DEFINITION.captures_iter(text) {
        if let Some(target) = group(&it, "angled").or(group(&it, "bare")) {
            targets.entry(normal(&it["label"])).or_insert(target);
        }
    }
    let mut seen = HashSet::new();
    let links = IMAGE.captures_iter(text).filter_map(|it| {
        let label = || group(&it, "label").filter(|it| !it.is_empty()).or(group(&it, "alt"));
        let target = ["angled", "bare", "source"].into_iter().find_map(|name| group(&it, name));
        target.or_else(|| targets.get(&normal(label()?)).copied())
    });
    links.filter(|link| seen.insert(*link)).map(str::to_owned).collect()
}

fn group<'a>(captures: &Captures<'a>, name: &str) -> Option<&'a str> {
    captures.name(name).map(|it| it.as_str())
}

/// Labels are compared without regard to case and white space.
fn normal(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The text with spaces for its blocks and spans of code.
fn without_code(text: &str) -> Cow<'_, str> {
    if !text.contains('`') && !text.contains("~~~") {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut paragraph = 0..0;
    let mut fence: Option<(char, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let here = at..at + line.len();
        at = here.end;
        let own = fence_of(line);
        let is_code = fence.is_some() || own.is_some();
        if is_code || line.trim().is_empty() {
            mask_spans(&text[paragraph.clone()], &mut masked);
            // Of a block of code nothing is left but the end of the line, of a line without text all.
            masked.push_str(if is_code { "\n" } else { line });
            paragraph = here.end..here.end;
            fence = match (fence, own) {
                (None, Some(opening)) => Some((opening.mark, opening.count)),
                (Some((mark, count)), Some(own)) if own.mark == mark && own.count >= count && own.is_bare => None,
                (fence, _) => fence,
            };
        } else {
            paragraph.end = here.end;
        }
    }
    mask_spans(&text[paragraph], &mut masked);
    Cow::Owned(masked)
}

/// What begins or ends a block of code.
struct Fence {
    mark: char,
    count: usize,
    /// Whether nothing is behind it, as it must be at the end of a block.
    is_bare: bool,
}

fn fence_of(line: &str) -> Option<Fence> {
    let text = line.trim_start_matches(' ');
    let mark = text.chars().next().filter(|it| "`~".contains(*it) && line.len() - text.len() <= 3)?;
    let rest = text.trim_start_matches(mark);
    let count = text.len() - rest.len();
    let is_fence = count >= 3 && (mark == '~' || !rest.contains('`'));
    is_fence.then(|| Fence { mark, count, is_bare: rest.trim().is_empty() })
}

/// Copies a paragraph, with a space for each span of code: from some backticks to the next that are as many.
fn mask_spans(paragraph: &str, masked: &mut String) {
    let runs = backticks(paragraph);
    // Of each run the next that is as long.
    let (mut closing, mut latest) = (vec![None; runs.len()], HashMap::new());
    for (at, run) in runs.iter().enumerate().rev() {
        closing[at] = latest.insert(run.len(), at);
    }
    let (mut copied, mut at) = (0, 0);
    while at < runs.len() {
        let is_escaped = paragraph[..runs[at].start].ends_with('\\');
        match closing[at].filter(|_| !is_escaped) {
            Some(end) => {
                masked.push_str(&paragraph[copied..runs[at].start]);
                masked.push(' ');
                (copied, at) = (runs[end].end, end + 1);
            }
            None => at += 1,
        }
    }
    masked.push_str(&paragraph[copied..]);
}

fn backticks(text: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.match_indices('`') {
        match runs.last_mut().filter(|it| it.end == at) {
            Some(run) => run.end += 1,
            None => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(image_links(text), expected, "{text}");
    }

    #[test]
    fn every_form_of_a_link_is_found() {
        check("![x](a.png \"t\") ![](<b c.png> 't') ![x](a.png)", &["a.png", "b c.png"]);
        check("![](shot[1](2).png)", &["shot[1](2).png"]);
        check("<IMG width=1 src='a.png'> <img\nsrc=\"b c.png\">", &["a.png", "b c.png"]);
        check("[no](a.png) ! [](b.png) ![x] ![x][y]", &[]);
    }

    #[test]
    fn a_label_stands_for_its_target() {
        check("![c][Ref A] ![ref  a][] ![Ref\na]\n\n  [ref a]: ./x.png \"t\"\n[ref a]: y.png\n", &["./x.png"]);
        check("![c][r]\n\n[r]: <a b.png>\n[q]: b.png", &["a b.png"]);
        check("![c][r]\n\n```\n[r]: a.png\n```\n", &[]);
    }

    #[test]
    fn what_is_in_code_is_no_link() {
        check("`![](a.png)` ![](b.png) ``![](c.png) ` ``", &["b.png"]);
        check("```md\n![](a.png)\n```\n![](b.png)\n~~~\n![](c.png)\n```\n", &["b.png"]);
        check("````\n```\n![](a.png)\n````\n![](b.png)", &["b.png"]);
        check("```\n![](a.png)\n``` x\n![](b.png)", &[]);
    }

    #[test]
    fn a_backtick_without_its_like_begins_nothing() {
        check("it's a ` ![](a.png)\n\n` ![](b.png)", &["a.png", "b.png"]);
        check("\\` ![](a.png) `", &["a.png"]);
        check("` ![](a.png) ``", &["a.png"]);
        check("``` not a fence ``` ![](a.png)", &["a.png"]);
    }

    #[test]
    fn hostile_links_take_linear_time() {
        for pattern in [
            "![<img src='a'>",
            "![](a b ",
            "![](a(b",
            "![](a(b)",
            "![](a)(",
            "![](a",
            "![](",
            "![x]",
            "![](<",
            "<img ",
            "<img src=\"",
            "<img src='a'![",
            "![",
            "![a][",
            "![a][b]",
            "[a]: <",
            "`",
            "`` ` ",
            "```\n",
            "~~~\n![a](b)\n",
            "\n`![](a)`\n\n",
        ] {
            let start = std::time::Instant::now();
            image_links(&pattern.repeat((4 << 20) / pattern.len()));
            assert!(start.elapsed().as_secs() < 60, "{pattern}: {:?}", start.elapsed());
        }
        let start = std::time::Instant::now();
        let distinct: String = (0..200_000).map(|it| format!("![](https://h/{it})")).collect();
        assert_eq!(image_links(&distinct).len(), 200_000);
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    }
}
