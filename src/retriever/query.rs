//! An issue's text as weighted query terms.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::index::lexical::QueryTerm;
use crate::index::tokens;
use crate::types::IssueReport;

/// A term that stands in an issue more often than this counts as often as this: a pasted log repeats, its words don't
/// matter more for it.
const COUNT_CAP: u32 = 3;

/// Words that say that something is an issue, or are grammar; one list a line of `stop_words.txt`.
static STOP_WORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("stop_words.txt").split_whitespace().collect());

/// Every term of title and body, weighted by its capped count: the query of plain BM25.
pub fn all_terms(report: &IssueReport) -> Vec<QueryTerm> {
    weighted(tokens::terms(&report.title).into_iter().chain(tokens::terms(&report.body)))
}

/// The terms that can point at code: stop words, single letters and numbers left out, the title counted twice because
/// its few words are the reporter's own summary.
pub fn telling_terms(report: &IssueReport) -> Vec<QueryTerm> {
    let title = tokens::terms(&report.title);
    let all = title.iter().cloned().chain(title.iter().cloned()).chain(tokens::terms(&report.body));
    let telling = weighted(all.filter(|term| is_telling(term)));
    // An issue of nothing but common words is still a question.
    if telling.is_empty() { all_terms(report) } else { telling }
}

fn is_telling(term: &str) -> bool {
    let single_letter = term.len() == 1;
    let number = term.bytes().all(|byte| byte.is_ascii_digit());
    !(single_letter || number || STOP_WORDS.contains(term))
}

/// Counts terms, in the order of their first appearance.
fn weighted(terms: impl Iterator<Item = String>) -> Vec<QueryTerm> {
    let mut counts: Vec<(String, u32)> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for term in terms {
        match seen.get(&term) {
            Some(&at) => counts[at].1 += 1,
            None => {
                seen.insert(term.clone(), counts.len());
                counts.push((term, 1));
            }
        }
    }
    counts.into_iter().map(|(text, count)| QueryTerm { text, weight: count.min(COUNT_CAP) as f32 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(terms: Vec<QueryTerm>, expected: &[(&str, f32)]) {
        let actual: Vec<(&str, f32)> = terms.iter().map(|it| (it.text.as_str(), it.weight)).collect();
        assert_eq!(actual, expected);
    }

    fn report(title: &str, body: &str) -> IssueReport {
        IssueReport { title: title.into(), body: body.into(), images: Vec::new() }
    }

    #[test]
    fn plain_terms_are_counted_up_to_the_cap() {
        check(
            all_terms(&report("The lexer", "lexer lexer lexer a 1")),
            &[("the", 1.0), ("lexer", 3.0), ("a", 1.0), ("1", 1.0)],
        );
    }

    #[test]
    fn telling_terms_leave_out_grammar_and_count_the_title_twice() {
        check(
            telling_terms(&report("The lexer fails", "expected: 12 tokens x")),
            &[("lexer", 2.0), ("fails", 2.0), ("tokens", 1.0)],
        );
    }

    #[test]
    fn an_issue_of_nothing_but_grammar_keeps_it() {
        check(telling_terms(&report("It does not", "")), &[("it", 1.0), ("does", 1.0), ("not", 1.0)]);
    }

    #[test]
    fn a_script_without_spaces_keeps_its_characters() {
        check(telling_terms(&report("修复", "")), &[("修", 2.0), ("复", 2.0)]);
    }
}
