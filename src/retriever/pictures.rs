//! What pictures say, and how much it counts beside what is written.
//!
//! A picture that has nothing to do with the issue must not decide the answer. Whether it has is told by the repository: what the picture
//! adds should find the files that the text finds. A text of few words is no such judge.

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
    /// The cosine of the scores that the text and what the picture adds to it give the files: 0 to 1.
    pub agreement: f32,
    /// The factor on its evidence, 0 to 1.
    pub weight: f32,
}

/// A text of so many telling terms leaves a picture half of its weight, whatever they find.
const FEW_TERMS: f32 = 4.0;

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
        let written = scores(&terms.written());
        let little = FEW_TERMS / (FEW_TERMS + terms.count_written() as f32);
        let weigh = |(added, confidence): (&Vec<f32>, &f32)| {
            let agreement = cosine(&scores(added), &written);
            PictureWeight { agreement, weight: confidence * little.max(agreement * agreement) }
        };
        terms.added.iter().zip(&self.confidences).map(weigh).collect()
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

/// Of two lists of scores, none of which is negative; 0 where either has nothing.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { (dot(a, b) / lengths).min(1.0) as f32 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::index::lexical::{LengthNorm, Scheme};
    use crate::types::{Level, Source, Text, VisualEvidence};

    #[test]
    fn agreement_is_the_cosine_of_what_text_and_picture_find() {
        #[track_caller]
        fn check(a: &[f32], b: &[f32], expected: f32) {
            assert!((cosine(a, b) - expected).abs() < 1e-6, "{}", cosine(a, b));
        }
        check(&[3.0, 4.0], &[4.0, 3.0], 0.96);
        check(&[1.0, 0.0], &[5.0, 0.0], 1.0);
        check(&[1.0, 0.0], &[0.0, 5.0], 0.0);
        check(&[0.0, 0.0], &[1.0, 2.0], 0.0);
    }

    /// The weights of pictures of some texts, of confidence 0.5, to an issue about two files: `lexer` finds one, `parser` the other.
    #[track_caller]
    fn check_weights(body: &str, pictures: &[&str], expected: &[f32]) {
        let file = |path: &str, text: &str| Candidate::file(Arc::new(Source::new(path, "Text", Text::new(text))));
        let candidates = [file("a", "lexer token"), file("b", "parser tree")];
        let index = LexicalIndex::build(&candidates).expect("in memory");
        let evidence =
            |text: &&str| VisualEvidence { ocr_text: (*text).into(), confidence: 0.5, ..VisualEvidence::default() };
        let evidence = pictures.iter().map(evidence).collect();
        let report = IssueReport { body: body.into(), evidence, ..IssueReport::default() };
        let seen = Seen::of(&report, &candidates, &index).expect("in memory");
        let terms = Terms::of(&report, &seen.texts);
        let lengths = LengthNorm::Joined { b: 0.0 };
        let scheme = Scheme { k1: 1.2, weights: [1.0, 0.0, 0.0], lengths };
        let matches = index.matches(Level::File, &terms.all, &scheme).expect("sound");
        let found: Vec<f32> = seen.weigh(&terms, &matches, &[1.0; 2]).iter().map(|it| it.weight).collect();
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_near), "{found:?}");
    }

    #[test]
    fn a_picture_counts_by_its_confidence_and_its_agreement() {
        let four = "lexer w1 w2 w3";
        // One agrees; one finds the other file, and four telling words leave it half.
        check_weights(four, &["token", "parser tree"], &[0.5, 0.25]);
        // Both files: the cosine is the root of a half.
        check_weights(&format!("{four} x1 x2 x3"), &["token parser"], &[0.25]);
        check_weights("", &["token"], &[0.5]);
    }
}
