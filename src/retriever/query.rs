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
pub fn all_terms(title: &str, body: &str) -> Vec<QueryTerm> {
    weighted(tokens::terms(title).into_iter().chain(tokens::terms(body)))
}

/// The terms that can point at code: stop words, single letters and numbers left out, the title counted twice because
/// its few words are the reporter's own summary.
pub fn telling_terms(title: &str, body: &str) -> Vec<QueryTerm> {
    let twice = tokens::terms(title);
    let all = twice.iter().cloned().chain(twice.iter().cloned()).chain(tokens::terms(body));
    let telling = weighted(all.filter(|term| is_telling(term)));
    // An issue of nothing but common words is still a question.
    if telling.is_empty() { all_terms(title, body) } else { telling }
}

/// The telling terms of an issue, and what each of its pictures adds to them.
pub struct Terms {
    /// All of them. Those of the pictures alone weigh nothing.
    pub all: Vec<QueryTerm>,
    /// By picture: what it adds to the weight of each. With it the weights are those of one text that holds both.
    pub added: Vec<Vec<f32>>,
}

impl Terms {
    /// `pictures` are the texts of the pictures.
    pub fn of(report: &IssueReport, pictures: &[String]) -> Self {
        let mut all = telling_terms(&report.title, &report.body);
        let mut places: HashMap<String, usize> = all.iter().enumerate().map(|(at, it)| (it.text.clone(), at)).collect();
        let mut added = Vec::new();
        for text in pictures {
            let mut weights = vec![0.0; all.len()];
            for QueryTerm { text, weight } in weighted(tokens::terms(text).into_iter().filter(|term| is_telling(term)))
            {
                let at = *places.entry(text.clone()).or_insert_with(|| {
                    all.push(QueryTerm { text, weight: 0.0 });
                    all.len() - 1
                });
                weights.resize(all.len(), 0.0);
                weights[at] = weight.min(COUNT_CAP as f32 - all[at].weight);
            }
            added.push(weights);
        }
        added.iter_mut().for_each(|it| it.resize(all.len(), 0.0));
        Terms { all, added }
    }

    /// The weights of the issue's own text.
    pub fn written(&self) -> Vec<f32> {
        self.all.iter().map(|it| it.weight).collect()
    }

    /// How many terms the issue's own text has.
    pub fn count_written(&self) -> usize {
        self.all.iter().filter(|it| it.weight > 0.0).count()
    }

    /// The weights of all, where the pictures count by these factors.
    pub fn weights(&self, factors: &[f32]) -> Vec<f32> {
        let mut weights = self.written();
        for (added, factor) in self.added.iter().zip(factors) {
            weights.iter_mut().zip(added).for_each(|(weight, added)| *weight += factor * added);
        }
        weights.iter_mut().for_each(|it| *it = it.min(COUNT_CAP as f32));
        weights
    }
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

    #[test]
    fn plain_terms_are_counted_up_to_the_cap() {
        check(all_terms("The lexer", "lexer lexer lexer a 1"), &[("the", 1.0), ("lexer", 3.0), ("a", 1.0), ("1", 1.0)]);
    }

    #[test]
    fn telling_terms_leave_out_grammar_and_count_the_title_twice() {
        check(
            telling_terms("The lexer fails", "expected: 12 tokens x"),
            &[("lexer", 2.0), ("fails", 2.0), ("tokens", 1.0)],
        );
    }

    #[test]
    fn an_issue_of_nothing_but_grammar_keeps_it() {
        check(telling_terms("It does not", ""), &[("it", 1.0), ("does", 1.0), ("not", 1.0)]);
    }

    #[test]
    fn a_script_without_spaces_keeps_its_characters() {
        check(telling_terms("修复", ""), &[("修", 2.0), ("复", 2.0)]);
    }

    #[test]
    fn pictures_add_what_one_text_of_both_would_have() {
        let report = IssueReport { title: "lexer".into(), body: "lexer token".into(), ..IssueReport::default() };
        let pictures = ["lexer lexer token parse", "the parse parse"].map(str::to_owned);
        let terms = Terms::of(&report, &pictures);
        // The title counts twice, and three is the most.
        check(terms.all.clone(), &[("lexer", 3.0), ("token", 1.0), ("parse", 0.0)]);
        assert_eq!(terms.added, [[0.0, 1.0, 1.0], [0.0, 0.0, 2.0]]);
        assert_eq!(
            (terms.weights(&[0.0, 0.0]), terms.weights(&[1.0, 0.5])),
            (vec![3.0, 1.0, 0.0], vec![3.0, 2.0, 2.0])
        );
        assert_eq!(terms.weights(&[1.0, 1.0])[2], 3.0);
        assert_eq!(terms.count_written(), 2);
    }
}
