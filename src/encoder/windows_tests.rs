//! Cutting with a tokenizer of words and single other characters, so that every expected value can be counted by hand.

use proptest::prelude::*;

use super::*;

const OPENING: u32 = 1;
const CLOSING: u32 = 2;

fn frame(window: usize) -> Frame {
    Frame { window, opening: vec![OPENING], closing: vec![CLOSING] }
}

/// A token for each word or other visible character; its id is a hash of its text.
fn tokens(text: &str) -> Tokens {
    let mut tokens = Tokens::default();
    let mut in_word = false;
    for (at, character) in text.char_indices() {
        let word = character.is_alphanumeric();
        if !(character.is_whitespace() || word && in_word) {
            let end = text[at..].find(|next: char| !next.is_alphanumeric()).map_or(text.len(), |length| at + length);
            let token = if word { &text[at..end] } else { &text[at..at + character.len_utf8()] };
            tokens.ids.push(100 + (fnv(token.as_bytes()) % 1_000_000) as u32);
            tokens.starts.push(at);
        }
        in_word = word;
    }
    tokens
}

fn cut(window: usize, header: &str, text: &str) -> Vec<Window> {
    frame(window).windows(&tokens(header).ids, text, &tokens(text))
}

/// The text of each window, without what it repeats from the one before.
fn fresh<'a>(text: &'a str, windows: &[Window]) -> Vec<&'a str> {
    let mut from = 0;
    let mut part = |window: &Window| {
        let part = &text[from..window.body.end];
        from = window.body.end;
        part
    };
    windows.iter().map(&mut part).collect()
}

/// Cuts at a window of 16: two tokens of header and two of overlap leave 10 for each piece.
fn check(text: &str, expected: &[&str]) {
    let windows = cut(16, "File x", text);
    assert_eq!(fresh(text, &windows), expected);
}

#[test]
fn what_fits_is_one_window() {
    // 14 - 2 = 12 tokens fit under the header when nothing is repeated.
    let text = "a b c d e f\ng h i j k l\n";
    check(text, &[text]);
}

#[test]
fn a_cut_falls_on_the_least_indented_line_start() {
    let text = "a b c\n  d e f\n g h\n  i j\n  k l m n\n";
    check(text, &["a b c\n  d e f\n", " g h\n  i j\n  k l m n\n"]);
}

#[test]
fn a_window_does_not_begin_with_a_closing_bracket_where_it_can_help_it() {
    // Lines start at tokens 6, 8 and 9; all are in the second half of the budget, and one of them would begin with the bracket.
    check("a b c d e f\n}}\n}\ng h i j k l m n\n", &["a b c d e f\n}}\n}\n", "g h i j k l m n\n"]);
}

#[test]
fn a_line_is_whole_if_it_fits() {
    // The second line ends beyond the budget of 10, and no line starts in the second half of it: the cut moves to before that line.
    check("a b c d\ne f g h i j k l m\nn o", &["a b c d\n", "e f g h i j k l m\n", "n o"]);
}

#[test]
fn a_line_longer_than_a_window_is_cut_inside() {
    let text = "a b c d e f g h i j k l m n o p q r s t u v w x y z";
    let windows = cut(16, "File x", text);
    let parts = fresh(text, &windows);
    assert!(parts.len() >= 3, "{parts:?}");
    assert!(parts.iter().all(|part| tokens(part).ids.len() <= 10), "{parts:?}");
    assert_eq!(parts.concat(), text);
}

#[test]
fn each_window_begins_with_the_header_and_repeats_the_end_of_the_one_before() {
    let text = "a b c d e f\ng h i j k l\nm n o p q r\n";
    let all = tokens(text).ids;
    let header = tokens("File x").ids;
    let windows = cut(16, "File x", text);
    let expected: Vec<Vec<u32>> = [(0, 6), (4, 12), (10, 18)]
        .map(|(from, to)| [&[OPENING], &header[..], &all[from..to], &[CLOSING]].concat())
        .to_vec();
    assert_eq!(windows.iter().map(|window| window.tokens.clone()).collect::<Vec<_>>(), expected);
    // `e` is at byte 8, `k` at byte 20; lines are 12 bytes long.
    assert_eq!(windows.iter().map(|window| window.body.clone()).collect::<Vec<_>>(), [0..12, 8..24, 20..36]);
}

#[test]
fn a_header_longer_than_half_a_window_keeps_its_end_and_says_so() {
    let header = "one two three four five six seven eight nine ten";
    let windows = cut(16, header, "a b c d e f g h");
    assert!(windows.iter().all(|window| window.header_shortened));
    assert_eq!(windows[0].tokens[1..9], tokens("three four five six seven eight nine ten").ids);
    assert!(!cut(16, header, "a b c d")[0].header_shortened, "it is whole where the body leaves room");
}

#[test]
fn a_body_without_tokens_is_one_window() {
    for text in ["", " \n\t\n"] {
        let windows = cut(16, "File x", text);
        assert_eq!(windows.len(), 1);
        assert_eq!(windows[0].body, 0..text.len());
    }
}

/// A made-up source of `functions` functions.
fn source(functions: usize) -> String {
    let body = |function: usize| {
        let line =
            |line: usize| format!("    value{line} = compute{function}(value{}, {function} + {line})\n", line / 2);
        (0..3 + function % 9).map(line).collect::<String>()
    };
    (0..functions).map(|function| format!("def function{function}(a, b):\n{}\n", body(function))).collect()
}

#[test]
fn an_edit_at_the_top_leaves_later_windows_alone() {
    let old = source(60);
    for edit in ["import os\n", "x = 1\ny = 2\nz = [1, 2, 3]\n", "def added(a):\n    return a\n\n"] {
        let new = format!("{edit}{old}");
        let before: Vec<_> = cut(128, "File: a.py", &old).into_iter().map(|window| window.tokens).collect();
        let after: Vec<_> = cut(128, "File: a.py", &new).into_iter().map(|window| window.tokens).collect();
        let kept = after.iter().filter(|window| before.contains(window)).count();
        assert!(kept * 10 >= after.len() * 8, "{kept} of {} windows are the same after adding {edit:?}", after.len());
    }
}

/// Text that stresses cutting: long and short lines, blank ones, any characters.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof!["[ \t]{0,6}[a-z0-9(){};=. ]{0,60}\n", "\\PC{0,40}", "\n{1,4}", "(ab ){50,90}"],
        0..40,
    )
    .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn windows_cover_every_byte_and_fit(text in text(), header in "[a-z/ ]{0,60}", window in 16usize..80) {
        let windows = cut(window, &header, &text);
        let mut covered = 0;
        for part in &windows {
            prop_assert!(part.tokens.len() <= window);
            prop_assert!(part.body.start <= covered && part.body.end >= covered);
            prop_assert!(text.get(part.body.clone()).is_some());
            covered = part.body.end;
        }
        prop_assert_eq!(covered, text.len());
    }

    #[test]
    fn windows_hold_every_token_in_order(text in text(), window in 16usize..80) {
        let (header, all) = (tokens("File x"), tokens(&text));
        let mut next = 0;
        for part in cut(window, "File x", &text) {
            prop_assert_eq!(&part.tokens[1..3], &header.ids[..]);
            let body = &part.tokens[3..part.tokens.len() - 1];
            let from = all.starts.partition_point(|&start| start < part.body.start);
            prop_assert!(from <= next);
            prop_assert_eq!(body, &all.ids[from..from + body.len()]);
            next = from + body.len();
        }
        prop_assert_eq!(next, all.ids.len());
    }
}
