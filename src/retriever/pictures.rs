//! What pictures say, and how much it counts beside what is written.
//!
//! A picture that has nothing to do with the issue must not decide the answer. Whether it has is told by the repository: what the picture
//! says should find, among other files, one of those that the text finds. A text of few words is no such judge.

use crate::index::lexical::{LexicalIndex, Matches};
use crate::types::{Candidate, IssueReport};

use super::RetrieverError;
use super::literals::Literals;
use super::mentions::Mentions;
use super::near;
use super::query::Terms;

/// How much the evidence of a picture counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PictureWeight {
    /// How well one of the files that the text finds first is found by the picture, in the unit of the file that it finds best: 0 to 1.
    pub agreement: f32,
    /// The factor on its evidence, 0 to 1.
    pub weight: f32,
}

/// The text's files that are asked whether a picture agrees: what a user looks at.
const JUDGES: usize = 5;
/// A text of so many telling terms leaves a picture half of its weight, whatever they find.
const FEW_TERMS: f32 = 8.0;

/// The pictures of an issue.
#[derive(Debug, Default)]
pub struct Seen {
    /// What each says, with the names of the repository that it may have been misread for.
    pub texts: Vec<String>,
    mentions: Vec<Mentions>,
    literals: Vec<Literals>,
    confidences: Vec<f32>,
}

impl Seen {
    /// # Errors
    /// When the index is damaged, or a text can't be had.
    pub fn of(report: &IssueReport, candidates: &[Candidate], index: &LexicalIndex) -> Result<Self, RetrieverError> {
        let mut seen = Seen::default();
        for evidence in &report.evidence {
            let mut text = evidence.seen_text();
            let mut mentions = Mentions::seen(evidence, &text);
            mentions.resolve(candidates, index);
            near::correct(&mut text, index)?;
            seen.literals.push(Literals::of(evidence, candidates, index)?);
            seen.texts.push(text);
            seen.mentions.push(mentions);
            seen.confidences.push(evidence.confidence.clamp(0.0, 1.0));
        }
        Ok(seen)
    }

    /// How much each counts. `factors` are those of the files.
    pub fn weigh(&self, terms: &Terms, files: &Matches, factors: &[f32]) -> Vec<PictureWeight> {
        if self.texts.is_empty() {
            return Vec::new();
        }
        let scores = |weights: &[f32]| -> Vec<f32> {
            files.scores_of(weights).iter().zip(factors).map(|(score, factor)| score * factor).collect()
        };
        let judges = first(&scores(&terms.written()), JUDGES);
        let little = FEW_TERMS / (FEW_TERMS + terms.count_written() as f32);
        let weigh = |(said, confidence): (&Vec<f32>, &f32)| {
            let agreement = agreement(&scores(said), &judges);
            PictureWeight { agreement, weight: confidence * little.max(agreement * agreement) }
        };
        terms.said.iter().zip(&self.confidences).map(weigh).collect()
    }

    /// How strongly the pictures name each candidate, each counting so much; empty without pictures.
    pub fn mentions(&self, weights: &[f32], candidates: &[Candidate], index: &LexicalIndex) -> Vec<f32> {
        let mut strongest = Vec::new();
        for ((mentions, literals), weight) in self.mentions.iter().zip(&self.literals).zip(weights) {
            strongest.resize(candidates.len(), 0.0_f32);
            let mut strengths = mentions.strengths(candidates, index);
            literals.mark(&mut strengths);
            strongest.iter_mut().zip(strengths).for_each(|(all, own)| *all = all.max(weight * own));
        }
        strongest
    }
}

/// The positions of the best scores above 0.
fn first(scores: &[f32], most: usize) -> Vec<usize> {
    let mut found: Vec<usize> = (0..scores.len()).filter(|&at| scores[at] > 0.0).collect();
    found.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    found.truncate(most);
    found
}

fn agreement(scores: &[f32], judges: &[usize]) -> f32 {
    let best = scores.iter().copied().fold(0.0, f32::max);
    let judged = judges.iter().map(|&at| scores[at]).fold(0.0, f32::max);
    if best > 0.0 { judged / best } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_what_a_picture_says_of_the_files_that_the_text_finds() {
        #[track_caller]
        fn check(written: &[f32], seen: &[f32], expected: f32) {
            let found = agreement(seen, &first(written, 2));
            assert!((found - expected).abs() < 1e-6, "{found}");
        }
        check(&[3.0, 2.0, 1.0], &[0.0, 4.0, 8.0], 0.5);
        check(&[3.0, 2.0, 1.0], &[1.0, 0.0, 0.0], 1.0);
        // The third is no judge, and neither is what the text does not find.
        check(&[3.0, 2.0, 1.0], &[0.0, 0.0, 1.0], 0.0);
        check(&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], 0.0);
        check(&[1.0], &[0.0], 0.0);
    }
}
