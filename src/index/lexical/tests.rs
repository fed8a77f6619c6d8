//! Scores by hand calculation; indexes of several parts against fresh ones; bytes that nobody wrote.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::types::{Lines, Source, Text};

const ONE: Lines = Lines { start: 1, end: 1 };

fn candidates(files: &[(&str, &str)]) -> Vec<Candidate> {
    files.iter().map(|(path, text)| Candidate::file(Arc::new(Source::new(*path, "Text", Text::new(*text))))).collect()
}

fn query(terms: &[&str]) -> Vec<QueryTerm> {
    terms.iter().map(|it| QueryTerm { text: (*it).to_owned(), weight: 1.0 }).collect()
}

fn plain() -> Scheme {
    Scheme { k1: 1.2, weights: [1.0, 0.0, 0.0], lengths: LengthNorm::Joined { b: 0.75 } }
}

fn by_fields() -> Scheme {
    Scheme { k1: 1.2, weights: [1.0, 3.0, 2.0], lengths: LengthNorm::Fields { b: [0.75, 0.3, 0.5] } }
}

fn scores(index: &LexicalIndex, level: Level, terms: &[&str], scheme: &Scheme) -> Vec<f32> {
    index.matches(level, &query(terms), scheme).expect("sound").scores()
}

#[track_caller]
fn check(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    for (a, b) in actual.iter().zip(expected) {
        assert!((a - b).abs() < 1e-4, "{actual:?} is not {expected:?}");
    }
}

/// By hand: N = 2, n = 1, idf = ln(1 + 1.5/1.5) = 0.693147; lengths 2 and 4, mean 3. For the first document
/// tf = 2 / (0.25 + 0.75 * 2/3) = 2.666667 and 2.2 * tf / (1.2 + tf) = 1.517241, times idf = 1.051672.
#[test]
fn plain_bm25_is_what_the_formula_gives() {
    let index =
        LexicalIndex::build(&candidates(&[("a", "red red"), ("b", "blue green blue blue")])).expect("in memory");
    check(&scores(&index, Level::File, &["red"], &plain()), &[1.051_672, 0.0]);
}

/// By hand, BM25F with the path weighing 3: "red" stands once in the path of `red` (length 1, mean 1) and once in
/// the body of `b` (length 2, mean 1.5). tf(a) = 3, tf(b) = 1 / (0.25 + 0.75 * 2/1.5) = 0.8; n = 2, N = 2:
/// idf = ln(1.2) = 0.182322; scores 0.182322 * 2.2 * 3 / 4.2 = 0.286505 and 0.182322 * 2.2 * 0.8 / 2 = 0.160443.
#[test]
fn fields_are_weighed_and_normalised_apart() {
    let index = LexicalIndex::build(&candidates(&[("red", "blue"), ("b", "red blue")])).expect("in memory");
    let scheme = Scheme { k1: 1.2, weights: [1.0, 3.0, 0.0], lengths: LengthNorm::Fields { b: [0.75, 0.3, 0.3] } };
    check(&scores(&index, Level::File, &["red"], &scheme), &[0.286_505, 0.160_443]);
}

#[test]
fn an_explanation_adds_up_to_the_score() {
    let index = LexicalIndex::build(&candidates(&[("a", "red blue red"), ("b", "blue green")])).expect("in memory");
    let terms = query(&["red", "blue", "absent"]);
    let matches = index.matches(Level::File, &terms, &plain()).expect("sound");
    let parts = matches.explain(0);
    assert_eq!(parts.iter().map(|it| it.0).collect::<Vec<_>>(), ["red", "blue"]);
    check(&[parts.iter().map(|it| it.1).sum()], &matches.scores()[..1]);
}

#[test]
fn weights_can_be_changed_after_the_postings_were_read() {
    let index = LexicalIndex::build(&candidates(&[("a", "red"), ("b", "blue")])).expect("in memory");
    let terms = query(&["absent", "red", "blue"]);
    let mut matches = index.matches(Level::File, &terms, &plain()).expect("sound");
    let (red, blue) = (matches.scores()[0], matches.scores()[1]);
    check(&matches.scores_of(&[9.0, 2.0, 0.0]), &[2.0 * red, 0.0]);
    matches.weigh(&[9.0, 0.0, 3.0]);
    check(&matches.scores(), &[0.0, 3.0 * blue]);
    assert_eq!(matches.gains().map(|it| it.1 > 0.0).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn candidates_are_found_by_all_of_some_terms() {
    let index = LexicalIndex::build(&candidates(&[("a", "red blue"), ("b", "blue"), ("c", "blue red green")]))
        .expect("in memory");
    let holding = |terms: &[&str]| {
        let terms: Vec<String> = terms.iter().map(|it| (*it).to_owned()).collect();
        index.holding(Level::File, &terms).expect("sound")
    };
    assert_eq!((holding(&["blue"]), holding(&["red", "blue"])), (vec![0, 1, 2], vec![0, 2]));
    assert_eq!((holding(&["red", "absent"]), holding(&[])), (vec![], vec![]));
    let mut terms = Vec::new();
    index.each_term(&mut |it| terms.push(it.to_owned())).expect("sound");
    assert!(
        ["blue", "green", "red"].iter().all(|it| terms.contains(&(*it).to_owned())) && terms.is_sorted(),
        "{terms:?}"
    );
    assert!(index.has("red").expect("sound") && !index.has("re").expect("sound"));
}

#[test]
fn nothing_is_divided_by_zero() {
    let empty = LexicalIndex::build(&[]).expect("in memory");
    assert!(scores(&empty, Level::File, &["red"], &plain()).is_empty());
    assert!(scores(&LexicalIndex::open(Vec::new()).expect("sound"), Level::File, &["red"], &plain()).is_empty());
    let blank = LexicalIndex::build(&candidates(&[("", ""), ("", "")])).expect("in memory");
    check(&scores(&blank, Level::Function, &["red"], &plain()), &[]);
    check(&scores(&blank, Level::File, &["red"], &plain()), &[0.0, 0.0]);
}

#[test]
fn functions_are_counted_from_their_own_lines() {
    let source = Arc::new(Source::new("m.py", "Python", Text::new("def red(): pass\ndef other(): red()\n")));
    let all = [
        Candidate::file(source.clone()),
        Candidate::function(source.clone(), "red", 0..15, ONE),
        Candidate::function(source, "other", 16..34, ONE),
    ];
    let index = LexicalIndex::build(&all).expect("in memory");
    assert_eq!(index.documents(Level::Function), [1, 2]);
    let names = Scheme { weights: [0.0, 0.0, 1.0], ..plain() };
    let scores = scores(&index, Level::Function, &["red"], &names);
    assert!(scores[0] > 0.0 && scores[1] == 0.0, "{scores:?}");
}

/// A count that takes two bytes, one that is capped, and distances that take two.
#[test]
fn large_counts_and_distances_are_read_as_they_were_written() {
    let body = "red ".repeat(300) + &"blue ".repeat(70_000);
    let mut files = vec![("first", body.as_str())];
    files.resize(5000, ("none", "green"));
    files.push(("red", "blue"));
    let index = LexicalIndex::build(&candidates(&files)).expect("in memory");
    // Neither saturation nor lengths: with k1 of a billion a score is the count times the rarity.
    let counts = Scheme { k1: 1e9, weights: [1.0, 1000.0, 0.0], lengths: LengthNorm::Joined { b: 0.0 } };
    let rarity = (1.0_f32 + (5001.0 - 2.0 + 0.5) / 2.5).ln();
    let found = |term| scores(&index, Level::File, &[term], &counts);
    let is_near = |score: f32, count: f32| (score / (count * rarity) - 1.0).abs() < 1e-3;
    let (red, blue) = (found("red"), found("blue"));
    assert!(is_near(red[0], 300.0) && is_near(red[5000], 1000.0), "{} {}", red[0], red[5000]);
    assert!(is_near(blue[0], 65_535.0) && is_near(blue[5000], 1.0), "{} {}", blue[0], blue[5000]);
    assert_eq!(red.iter().filter(|it| **it > 0.0).count(), 2);
}

#[test]
fn every_term_of_many_blocks_is_found_and_no_other() {
    let words: Vec<String> = (0..1000).map(|it| format!("w{}x", it * 7)).collect();
    let index = LexicalIndex::build(&candidates(&[("f", &words.join(" "))])).expect("in memory");
    for word in &words {
        assert!(scores(&index, Level::File, &[word], &plain())[0] > 0.0, "{word}");
    }
    for word in ["", "a", "v", "w1x", "w0", "w6993xx", "zzz"] {
        assert_eq!(scores(&index, Level::File, &[word], &plain())[..], [0.0], "{word}");
    }
}

const WORDS: &[&str] = &["red", "blue", "redBlue", "green", "snake_red", "x1", "Ünïcode", "修"];

/// A file as random words; each line is a function.
fn file() -> impl Strategy<Value = Vec<Vec<usize>>> {
    prop::collection::vec(prop::collection::vec(0..WORDS.len(), 0..6), 0..5)
}

/// Files by number; `None` deletes one.
fn edits(most: usize) -> impl Strategy<Value = BTreeMap<usize, Option<Vec<Vec<usize>>>>> {
    prop::collection::btree_map(0..12_usize, prop::option::weighted(0.8, file()), 0..most)
}

fn candidates_of(number: usize, lines: &[Vec<usize>]) -> Vec<Candidate> {
    let (mut content, mut functions) = (String::new(), Vec::new());
    for line in lines {
        let start = content.len();
        line.iter().for_each(|&it| content = format!("{content}{} ", WORDS[it]));
        functions.push((line.first().map_or("none", |&it| WORDS[it]), start..content.len()));
        content.push('\n');
    }
    let source = Arc::new(Source::new(format!("{}/f{number:02}.rs", WORDS[number % 5]), "Text", Text::new(content)));
    let functions = functions.into_iter().map(|(name, range)| Candidate::function(source.clone(), name, range, ONE));
    std::iter::once(Candidate::file(source.clone())).chain(functions).collect()
}

/// A part for each round of edits, in which files that a later round changed are deleted; and the candidates that are left.
fn edited(rounds: &[BTreeMap<usize, Option<Vec<Vec<usize>>>>]) -> (Vec<Part>, Vec<Candidate>) {
    let last = |number: usize| rounds.iter().rposition(|it| it.contains_key(&number));
    let files = |round: usize| rounds[round].iter().filter_map(|(&number, lines)| Some((number, lines.as_ref()?)));
    let live = (0..12).filter_map(|number| {
        let lines = rounds[last(number)?].get(&number)?.as_ref()?;
        Some((number, candidates_of(number, lines)))
    });
    let mut starts = BTreeMap::new();
    let mut all = Vec::new();
    for (number, candidates) in live {
        starts.insert(number, all.len() as u32);
        all.extend(candidates);
    }
    let part = |round: usize| {
        let (mut positions, mut own) = (Vec::new(), Vec::new());
        for (number, lines) in files(round) {
            let candidates = candidates_of(number, lines);
            let is_live = last(number) == Some(round);
            let position = |at: u32| if is_live { starts[&number] + at } else { DELETED };
            positions.extend((0..candidates.len() as u32).map(position));
            own.extend(candidates);
        }
        Part { postings: encode(&own).expect("in memory").into(), positions }
    };
    ((0..rounds.len()).map(part).collect(), all)
}

proptest! {
    #[test]
    fn parts_with_deletions_find_what_a_fresh_index_finds(first in edits(12), second in edits(6), third in edits(3)) {
        let (parts, all) = edited(&[first, second, third]);
        let (index, fresh) = (LexicalIndex::open(parts).expect("sound"), LexicalIndex::build(&all).expect("in memory"));
        let terms = query(&["red", "blue", "redblue", "green", "snake", "x", "1", "rs", "ünïcode", "修", "absent"]);
        for (level, scheme) in [Level::File, Level::Function].into_iter().flat_map(|it| [(it, plain()), (it, by_fields())]) {
            assert_eq!(index.documents(level), fresh.documents(level));
            let found = index.matches(level, &terms, &scheme).expect("sound");
            let expected = fresh.matches(level, &terms, &scheme).expect("sound");
            assert_eq!(found.scores(), expected.scores());
            assert_eq!(found.gains().collect::<Vec<_>>(), expected.gains().collect::<Vec<_>>());
            for document in 0..index.documents(level).len() {
                assert_eq!(found.explain(document), expected.explain(document));
            }
        }
    }

    #[test]
    fn other_bytes_are_an_error_or_an_answer(
        first in edits(12),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let (_, all) = edited(&[first]);
        let mut bytes = encode(&all).expect("in memory");
        flips.iter().for_each(|(at, mask)| *at.get_mut(&mut bytes) ^= mask);
        bytes.truncate(cut.map_or(bytes.len(), |it| it.index(bytes.len())));
        check_hostile(bytes, 0..all.len() as u32);
    }
}

/// Nothing that stands in the bytes may do more than be refused.
fn check_hostile(bytes: Vec<u8>, positions: Range<u32>) {
    let index = LexicalIndex::open(vec![Part { postings: bytes.into(), positions: positions.collect() }]);
    let is_damage = |it: &FileError| matches!(it, FileError::Damaged { .. });
    let index = match index {
        Ok(index) => index,
        Err(error) => return assert!(is_damage(&error), "{error}"),
    };
    for level in [Level::File, Level::Function] {
        match index.matches(level, &query(&["red", "blue", "rs", "snake", "absent"]), &plain()) {
            Ok(matches) => assert_eq!(matches.scores().len(), index.documents(level).len()),
            Err(error) => assert!(is_damage(&error), "{error}"),
        }
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let whole = encode(&candidates(&[("a", "red"), ("b", "blue")])).expect("in memory");
    check_hostile(Vec::new(), 0..0);
    for at in 0..whole.len() {
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            check_hostile(bytes, 0..2);
        }
        let mut bytes = whole.clone();
        bytes[at..].fill(0xff);
        check_hostile(bytes, 0..2);
    }
}

#[track_caller]
fn check_positions(parts: &[&[u32]], is_sound: bool) {
    let part = |positions: &&[u32]| {
        let own: Vec<(&str, &str)> = (0..2).map(|_| ("a", "red")).collect();
        Part { postings: encode(&candidates(&own)).expect("in memory").into(), positions: positions.to_vec() }
    };
    assert_eq!(LexicalIndex::open(parts.iter().map(part).collect()).is_ok(), is_sound, "{parts:?}");
}

#[test]
fn positions_are_those_of_one_list() {
    check_positions(&[&[0, 1]], true);
    check_positions(&[&[0, 3], &[1, 2]], true);
    check_positions(&[&[DELETED, 0], &[1, DELETED]], true);
    check_positions(&[&[0]], false);
    check_positions(&[&[0, 1, 2]], false);
    check_positions(&[&[1, 0]], false);
    check_positions(&[&[0, 0]], false);
    check_positions(&[&[0, 2]], false);
    check_positions(&[&[0, 1], &[1, 2]], false);
}
