//! WordPiece against the `tokenizers` crate's own.

use proptest::prelude::*;
use tokenizers::models::wordpiece::WordPiece as Reference;

use super::*;

const FILE: &str = r###"{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 12, "vocab": {"[UNK]": 0, "a": 1, "ab": 2, "##b": 3, "##ba": 4, "é": 5, "##\u00e9": 6,
    "\"": 7, "##\\": 8, "##": 9, "b": 10, "##abab": 11, "#": 12, "a": 13}}"###;

/// Ids and offsets.
fn pieces(model: &impl Model, word: &str) -> Vec<(u32, (usize, usize))> {
    let tokens = model.tokenize(word).expect("it has the unknown token");
    tokens.into_iter().map(|it| (it.id, it.offsets)).collect()
}

#[track_caller]
fn check(word: &str, expected: &[(u32, (usize, usize))]) {
    let model: WordPiece = serde_json::from_str(FILE).expect("a model");
    assert_eq!(pieces(&model, word), expected, "{word}");
}

#[test]
fn the_longest_piece_comes_first() {
    check("abba", &[(2, (0, 2)), (4, (2, 4))]);
    check("aé\\", &[(13, (0, 1)), (6, (1, 3)), (8, (3, 4))]);
    check("\"b", &[(7, (0, 1)), (3, (1, 2))]);
    check("#", &[(12, (0, 1))]);
    check("##", &[(9, (0, 2))]);
    check("", &[]);
}

#[test]
fn a_word_with_a_part_that_is_unknown_or_too_long_is_unknown() {
    check("abz", &[(0, (0, 3))]);
    check("bbbbbbbbbbbbb", &[(0, (0, 13))]);
}

#[test]
fn what_is_no_such_model_is_an_error() {
    for (from, to) in [
        ("\"WordPiece\"", "\"BPE\""),
        ("unk_token", "other"),
        ("\"vocab\"", "\"other\""),
        ("\"a\": 1,", "\"a\": -1,"),
        ("\"a\": 1,", "\"a\": \"b\","),
        ("\"a\": 1,", "\"a\","),
    ] {
        assert!(serde_json::from_str::<WordPiece>(&FILE.replacen(from, to, 1)).is_err(), "{to}");
    }
}

#[test]
fn an_empty_vocabulary_knows_nothing() {
    let at = FILE.find("{\"[UNK]").expect("the vocabulary");
    let model: WordPiece = serde_json::from_str(&format!("{}{{}}}}", &FILE[..at])).expect("a model");
    assert_eq!((model.token_to_id("a"), model.largest()), (None, 0));
    assert!(model.tokenize("a").is_err());
}

proptest! {
    #[test]
    fn words_are_split_as_by_the_reference(word in "[ab#é\\\\\"z]{0,14}") {
        let own: WordPiece = serde_json::from_str(FILE).expect("a model");
        let reference: Reference = serde_json::from_str(FILE).expect("a model");
        prop_assert_eq!(pieces(&own, &word), pieces(&reference, &word));
    }

    #[test]
    fn the_vocabulary_is_that_of_the_reference(token in "[ab#é]{0,4}", id in 0u32..16) {
        let own: WordPiece = serde_json::from_str(FILE).expect("a model");
        let reference: Reference = serde_json::from_str(FILE).expect("a model");
        prop_assert_eq!(own.token_to_id(&token), reference.token_to_id(&token));
        prop_assert_eq!(own.get_vocab().get(&token).copied(), reference.token_to_id(&token));
        if id != 1 {
            prop_assert_eq!(own.id_to_token(id), reference.id_to_token(id));
        }
    }
}
