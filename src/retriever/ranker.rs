//! Evidence into one ordered list a level: lexical scores, mentions, what a file and its functions say of each other,
//! and the encoder's similarities.
//!
//! All parts are in one unit, the level's best lexical score: they add up to a result's score and can be shown as they
//! are.

use std::ops::Range;

use crate::fsio::FileError;
use crate::index::lexical::{FIELDS, LengthNorm, LexicalIndex, Matches, Scheme};
use crate::types::{Candidate, IssueReport, Level};

use super::demotion::{Purpose, Purposes};
use super::mentions::Mentions;
use super::pictures::{PictureWeight, Seen};
use super::query::Terms;

/// Weights of the evidence; the values in force stand in `configs/default.toml`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Saturation of a term's count in BM25.
    pub k1: f32,
    /// Length normalisation of plain BM25.
    pub b: f32,
    pub file_fields: FieldWeights,
    pub function_fields: FieldWeights,
    /// What an unambiguous mention adds.
    pub mention: f32,
    /// What a file's best three functions add to it, as a share of their mean score.
    pub functions_to_file: f32,
    /// What a file adds to each of its functions, as a share of its score.
    pub file_to_function: f32,
    /// Factor on the evidence for tests, documentation, examples and build output.
    pub demotion: f32,
    /// Weight of the encoder's z-score against the lexical one, for files.
    pub dense_file: f32,
    /// The same for functions.
    pub dense_function: f32,
}

/// At the ends of their ranges, a `k1` of 0 and a `b` of 1, the score of a term that counts nothing would be 0 / 0.
const LEAST_K1: f32 = f32::MIN_POSITIVE;
const MOST_B: f32 = 1.0 - f32::EPSILON;

/// BM25F weights and length normalisation by field.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldWeights {
    pub body: f32,
    pub path: f32,
    pub name: f32,
    pub body_b: f32,
    pub path_b: f32,
    pub name_b: f32,
}

impl Weights {
    /// Plain BM25 over one bag of words: path and content of a file; path, name and source of a function.
    pub fn plain_scheme(&self, level: Level) -> Scheme {
        // A file's names stand in its content already.
        let names = if level == Level::File { 0.0 } else { 1.0 };
        Scheme {
            k1: self.k1.max(LEAST_K1),
            weights: [1.0, 1.0, names],
            lengths: LengthNorm::Joined { b: self.b.min(MOST_B) },
        }
    }

    /// BM25F with this level's field weights.
    pub fn field_scheme(&self, level: Level) -> Scheme {
        let fields = match level {
            Level::File => &self.file_fields,
            Level::Function => &self.function_fields,
        };
        let weights: [f32; FIELDS] = [fields.body, fields.path, fields.name];
        Scheme {
            k1: self.k1.max(LEAST_K1),
            weights,
            lengths: LengthNorm::Fields { b: [fields.body_b, fields.path_b, fields.name_b].map(|b| b.min(MOST_B)) },
        }
    }
}

/// A candidate's evidence by part; the score is the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    pub lexical: f32,
    pub mention: f32,
    /// What pictures add: words and mentions.
    pub visual: f32,
    /// From the file's functions, or from the function's file.
    pub context: f32,
    /// Encoder similarity as a z-score in the lexical unit; 0 where there is no vector: the mean of the list.
    pub dense: f32,
}

impl Parts {
    pub fn score(&self) -> f32 {
        self.lexical + self.mention + self.visual + self.context + self.dense
    }
}

/// What is asked, in words.
#[derive(Clone, Copy)]
pub struct Asked<'q> {
    pub report: &'q IssueReport,
    pub terms: &'q Terms,
    pub seen: &'q Seen,
}

/// The evidence of every candidate, by position in the candidate list.
pub struct Evidence<'q> {
    pub parts: Vec<Parts>,
    /// How much each picture counts.
    pub pictures: Vec<PictureWeight>,
    /// What the query's terms find, by level.
    matches: [Matches<'q>; 2],
    /// The factor on this candidate's evidence: 1, or the demotion.
    factors: Vec<f32>,
}

impl<'q> Evidence<'q> {
    /// Everything that can be said without an encoder.
    ///
    /// # Errors
    /// When the index is damaged.
    pub fn gather(
        candidates: &[Candidate],
        index: &LexicalIndex,
        asked: Asked<'q>,
        weights: &Weights,
    ) -> Result<Self, FileError> {
        let Asked { report, terms, seen } = asked;
        let files = index.documents(Level::File);
        let find = |level| index.matches(level, &terms.all, &weights.field_scheme(level));
        let (found, (factors, mentions)) = rayon::join(
            || rayon::join(|| find(Level::File), || find(Level::Function)),
            || (factors(candidates, files, report, weights), Mentions::of(report).strengths(candidates, index)),
        );
        let mut matches = [found.0?, found.1?];
        let of_files: Vec<f32> = files.iter().map(|&at| factors[at]).collect();
        let pictures = seen.weigh(terms, &matches[Level::File as usize], &of_files);
        let counts: Vec<f32> = pictures.iter().map(|it| it.weight).collect();
        let shown = seen.mentions(&counts, candidates, index);
        let mut parts = vec![Parts::default(); candidates.len()];
        for level in [Level::File, Level::Function] {
            let matches = &mut matches[level as usize];
            let written = matches.scores();
            matches.weigh(&terms.weights(&counts));
            let all = if counts.is_empty() { written.clone() } else { matches.scores() };
            let best = all.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
            for ((&at, written), all) in index.documents(level).iter().zip(&written).zip(&all) {
                let named = mentions[at];
                let more = shown.get(at).map_or(0.0, |it| (it - named).max(0.0));
                parts[at].lexical = factors[at] * written / best;
                parts[at].mention = factors[at] * weights.mention * named;
                parts[at].visual = factors[at] * ((all - written) / best + weights.mention * more);
            }
        }
        couple(files, &mut parts, weights);
        Ok(Evidence { parts, pictures, matches, factors })
    }

    pub fn matches(&self, level: Level) -> &Matches<'q> {
        &self.matches[level as usize]
    }

    /// Adds the encoder's cosine similarities of some candidates of one level: a weighted sum of z-scores, written in
    /// the unit of the other evidence.
    ///
    /// A candidate without a similarity keeps its score, which is what the mean similarity of the list would give it.
    pub fn add_dense(&mut self, similarities: &[(usize, f32)], weight: f32) {
        let lexical = Moments::of(similarities.iter().map(|it| self.parts[it.0].score()));
        let dense = Moments::of(similarities.iter().map(|it| it.1));
        if dense.deviation < NOISE {
            return;
        }
        let unit = weight * lexical.deviation.max(LEAST_SPREAD * lexical.mean);
        for &(at, similarity) in similarities {
            let part = unit * (similarity - dense.mean) / dense.deviation;
            self.parts[at].dense = if part > 0.0 { part * self.factors[at] } else { part };
        }
    }
}

/// Similarities that differ by less are equal: a vector depends on its batch by as much, and z-scores would blow it up.
const NOISE: f32 = 1e-5;

/// The least spread of lexical scores, as a share of their mean: where the words can't tell candidates apart, the encoder does.
const LEAST_SPREAD: f32 = 0.01;

/// 1, or the demotion for a file that is not the product's own code, unless the issue's title asks for such files. `files` are the
/// positions of the files, whose functions follow them.
fn factors(candidates: &[Candidate], files: &[usize], report: &IssueReport, weights: &Weights) -> Vec<f32> {
    let by_purpose = Purpose::ALL.map(|it| if it.is_asked_for(&report.title) { 1.0 } else { weights.demotion });
    let mut factors = vec![1.0; candidates.len()];
    let mut purposes = Purposes::default();
    for file in groups(files, candidates.len()) {
        let purpose = purposes.of_path(candidates[file.start].path());
        factors[file].fill(by_purpose[purpose as usize]);
    }
    factors
}

/// The positions of each file and its functions.
fn groups(files: &[usize], candidates: usize) -> impl Iterator<Item = Range<usize>> {
    let ends = files.iter().skip(1).copied().chain([candidates]);
    files.iter().zip(ends).map(|(&start, end)| start..end)
}

/// Lets files and their functions support each other, both from what stood before either did.
fn couple(files: &[usize], parts: &mut [Parts], weights: &Weights) {
    for group in groups(files, parts.len()) {
        let Some((file, functions)) = parts[group].split_first_mut() else { continue };
        let own = file.score();
        let mut best = [f32::NEG_INFINITY; BEST_FUNCTIONS];
        for function in functions.iter_mut() {
            let score = function.score();
            if score > best[BEST_FUNCTIONS - 1] {
                let place = best.partition_point(|it| *it >= score);
                best[place..].rotate_right(1);
                best[place] = score;
            }
            function.context = weights.file_to_function * own;
        }
        let best = &best[..functions.len().min(BEST_FUNCTIONS)];
        file.context = weights.functions_to_file * best.iter().sum::<f32>() / BEST_FUNCTIONS as f32;
    }
}

/// A file counts by this many of its functions, so that a long one does not win by their number.
const BEST_FUNCTIONS: usize = 3;

/// Mean and standard deviation of some scores.
struct Moments {
    mean: f32,
    deviation: f32,
}

impl Moments {
    /// In f64, in which equal f32 values have themselves as their mean.
    fn of(values: impl Iterator<Item = f32> + Clone) -> Self {
        let count = values.clone().count().max(1) as f64;
        let mean = values.clone().map(f64::from).sum::<f64>() / count;
        let variance = values.map(|it| (f64::from(it) - mean).powi(2)).sum::<f64>() / count;
        Moments { mean: mean as f32, deviation: variance.sqrt() as f32 }
    }
}

/// The best of some documents, best first, that have parts as wanted; ties by position, so that equal runs give equal lists.
pub fn best(documents: &[usize], parts: &[Parts], most: usize, is_wanted: impl Fn(&Parts) -> bool) -> Vec<usize> {
    let wanted = documents.iter().filter(|at| is_wanted(&parts[**at]));
    let mut scored: Vec<(f32, usize)> = wanted.map(|&at| (parts[at].score(), at)).collect();
    let order = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if most < scored.len() {
        scored.select_nth_unstable_by(most, order);
        scored.truncate(most);
    }
    scored.sort_unstable_by(order);
    scored.into_iter().map(|it| it.1).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{Lines, Source, Text};

    fn weights() -> Weights {
        let fields = FieldWeights { body: 1.0, path: 1.0, name: 1.0, body_b: 0.5, path_b: 0.5, name_b: 0.5 };
        Weights {
            k1: 1.2,
            b: 0.75,
            file_fields: fields.clone(),
            function_fields: fields,
            mention: 0.3,
            functions_to_file: 0.6,
            file_to_function: 0.5,
            demotion: 0.4,
            dense_file: 1.0,
            dense_function: 1.0,
        }
    }

    /// A file with some functions, as candidates in the order of a snapshot.
    fn file(path: &str, functions: usize) -> Vec<Candidate> {
        let source = Arc::new(Source::new(path, "Text", Text::new("text")));
        let functions = (0..functions)
            .map(|at| Candidate::function(source.clone(), format!("f{at}"), 0..4, Lines { start: 1, end: 1 }));
        std::iter::once(Candidate::file(source.clone())).chain(functions).collect()
    }

    fn lexical(scores: &[f32]) -> Vec<Parts> {
        scores.iter().map(|&lexical| Parts { lexical, ..Parts::default() }).collect()
    }

    #[track_caller]
    fn check_values(found: &[f32], expected: &[f32]) {
        let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(close), "{found:?} != {expected:?}");
    }

    /// What files of so many functions, with these scores, give each other.
    #[track_caller]
    fn check_couple(functions: &[usize], scores: &[f32], expected: &[f32]) {
        let candidates: Vec<Candidate> =
            functions.iter().enumerate().flat_map(|(at, &count)| file(&format!("{at}.txt"), count)).collect();
        let mut parts = lexical(scores);
        let index = LexicalIndex::build(&candidates).expect("in memory");
        couple(index.documents(Level::File), &mut parts, &weights());
        check_values(&parts.iter().map(|it| it.context).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_file_and_its_functions_support_each_other() {
        check_couple(&[0], &[0.8], &[0.0]);
        // 0.6 * 0.9 / 3 up, 0.5 * 0.8 down.
        check_couple(&[1], &[0.8, 0.9], &[0.18, 0.4]);
        // The best three of four: 0.6 * (0.9 + 0.5 + 0.4) / 3.
        check_couple(&[4], &[0.2, 0.4, 0.1, 0.9, 0.5], &[0.36, 0.1, 0.1, 0.1, 0.1]);
        // The second file has nothing of the first.
        check_couple(&[1, 1], &[1.0, 0.0, 0.0, 0.5], &[0.0, 0.5, 0.1, 0.0]);
    }

    /// The dense parts after a fusion at weight 1, of candidates with these scores and factors.
    #[track_caller]
    fn check_dense(scores: &[f32], factors: &[f32], similarities: &[(usize, f32)], expected: &[f32]) {
        let mut evidence = Evidence {
            parts: lexical(scores),
            pictures: Vec::new(),
            matches: Default::default(),
            factors: factors.to_vec(),
        };
        evidence.add_dense(similarities, 1.0);
        check_values(&evidence.parts.iter().map(|it| it.dense).collect::<Vec<_>>(), expected);
        check_values(&evidence.parts.iter().map(|it| it.lexical).collect::<Vec<_>>(), scores);
    }

    #[test]
    fn similarities_count_as_z_scores_in_the_lexical_unit() {
        // Lexical deviation of 1.0 and 0.6: 0.2. The z-scores of two values are -1 and 1.
        check_dense(&[1.0, 0.6], &[1.0, 1.0], &[(0, 0.3), (1, 0.5)], &[-0.2, 0.2]);
        // A candidate without a vector keeps its score, and is not part of the mean.
        check_dense(&[1.0, 0.6, 0.1], &[1.0; 3], &[(0, 0.3), (1, 0.5)], &[-0.2, 0.2, 0.0]);
        // Deviation of 0, 3, 6 is the root of 6; of 1, 2, 3 that of 2/3: the z-scores are the root of 3/2 times -1, 0, 1.
        check_dense(&[0.0, 3.0, 6.0], &[1.0; 3], &[(0, 3.0), (1, 2.0), (2, 1.0)], &[3.0, 0.0, -3.0]);
    }

    #[test]
    fn a_demoted_candidate_gains_less_and_loses_as_much() {
        check_dense(&[1.0, 0.6], &[1.0, 0.4], &[(0, 0.3), (1, 0.5)], &[-0.2, 0.08]);
        check_dense(&[1.0, 0.6], &[0.4, 1.0], &[(0, 0.3), (1, 0.5)], &[-0.2, 0.2]);
    }

    #[test]
    fn similarities_that_do_not_differ_say_nothing() {
        check_dense(&[1.0], &[1.0], &[(0, 0.9)], &[0.0]);
        check_dense(&[1.0, 0.6], &[1.0, 1.0], &[], &[0.0, 0.0]);
        check_dense(&[1.0, 0.6, 0.2], &[1.0; 3], &[(0, 0.1), (1, 0.1), (2, 0.1)], &[0.0; 3]);
        // The same text in two batches.
        check_dense(&[1.0, 0.6], &[1.0; 2], &[(0, 0.5), (1, 0.500_001)], &[0.0; 2]);
    }

    #[test]
    fn the_encoder_orders_what_the_words_cannot() {
        // A hundredth of the mean stands for the deviation.
        check_dense(&[0.7, 0.7], &[1.0; 2], &[(0, 0.3), (1, 0.5)], &[-0.007, 0.007]);
    }

    #[track_caller]
    fn check_factor(path: &str, title: &str, expected: f32) {
        let report = IssueReport { title: title.to_owned(), ..IssueReport::default() };
        assert_eq!(factors(&file(path, 1), &[0], &report, &weights()), [expected; 2], "{path} for {title}");
    }

    #[test]
    fn what_is_not_the_product_is_demoted_unless_it_is_asked_for() {
        check_factor("src/lexer.py", "Lexer hangs", 1.0);
        check_factor("tests/test_lexer.py", "Lexer hangs", 0.4);
        check_factor("tests/test_lexer.py", "Flaky test", 1.0);
        check_factor("docs/conf.py", "Flaky test", 0.4);
    }

    #[test]
    fn equal_scores_keep_the_order_of_the_list() {
        let best = |most| best(&[0, 1, 2, 3, 4], &lexical(&[0.5, 0.9, 0.5, 0.9, 0.0]), most, |it| it.lexical > 0.0);
        assert_eq!(best(9), [1, 3, 0, 2]);
        assert_eq!(best(3), [1, 3, 0]);
        assert!(best(0).is_empty());
    }

    #[test]
    fn gathered_evidence_is_in_units_of_the_best_and_demoted() {
        let sources = [("a.txt", "lexer lexer"), ("tests/a.txt", "lexer lexer"), ("b.txt", "other")];
        let candidates =
            sources.map(|(path, text)| Candidate::file(Arc::new(Source::new(path, "Text", Text::new(text)))));
        let index = LexicalIndex::build(&candidates).expect("in memory");
        let report = IssueReport { body: "lexer".to_owned(), ..IssueReport::default() };
        let terms = Terms::of(&report, &[]);
        // No length normalisation and no path: the two files with the word score alike.
        let fields = FieldWeights { body: 1.0, path: 0.0, name: 0.0, body_b: 0.0, path_b: 0.0, name_b: 0.0 };
        let weights = Weights { file_fields: fields, ..weights() };
        let asked = Asked { report: &report, terms: &terms, seen: &Seen::default() };
        let evidence = Evidence::gather(&candidates, &index, asked, &weights).expect("sound");
        check_values(&evidence.parts.iter().map(|it| it.lexical).collect::<Vec<_>>(), &[1.0, 0.4, 0.0]);
        assert_eq!(best(index.documents(Level::File), &evidence.parts, 9, |_| true), [0, 1, 2]);
    }

    #[test]
    fn any_allowed_weights_give_finite_scores() {
        let candidates = file("lexer.txt", 1);
        let index = LexicalIndex::build(&candidates).expect("in memory");
        let report = IssueReport { body: "text lexer".to_owned(), ..IssueReport::default() };
        let terms = Terms::of(&report, &[]);
        let asked = Asked { report: &report, terms: &terms, seen: &Seen::default() };
        for (k1, weight) in [(0.0, 0.0), (0.0, 1.0), (1000.0, 1000.0), (1.2, 0.0)] {
            let fields = FieldWeights { body: weight, path: 0.0, name: weight, body_b: 1.0, path_b: 1.0, name_b: 1.0 };
            let weights =
                Weights { k1, file_fields: fields.clone(), function_fields: fields, mention: 1000.0, ..weights() };
            let evidence = Evidence::gather(&candidates, &index, asked, &weights).expect("sound");
            assert!(evidence.parts.iter().all(|it| it.score().is_finite()), "{k1} {weight}: {:?}", evidence.parts);
        }
    }
}
