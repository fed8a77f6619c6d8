//! Names that OCR can't tell apart.
//!
//! A name's skeleton puts one letter for all that look alike, so that a name read from a picture is found by equality. What looks alike
//! was counted on 1,800 lines of made-up identifiers (44,000 characters) in five screen fonts of 11, 13 and 15 pixels, light and dark,
//! read by PP-OCRv6 small. Of 708 wrong places 648 are of the pairs below: O and 0; I, l and 1; a letter's case; `rn` for `m` and `vv`
//! for `w`. Not one S or B of 2,000 was read as 5 or 8, so those stay apart.

use std::collections::HashMap;

/// Names shorter than this are only found by equal skeletons: one edit makes most short names of each other.
const SHORTEST_NEAR: usize = 6;
/// With one edit somewhere, the first or the last so many bytes of a skeleton are untouched.
const END: usize = SHORTEST_NEAR / 2;

/// What a byte of ASCII becomes: 0 is left out.
static CLASS: [u8; 128] = classes();
/// By the last byte of a skeleton and the class of the next: what the last byte is then, with [`GROWS`] if it is a new one. A table,
/// because branches on letters can't be foretold.
static STEPS: [[u8; 128]; 128] = steps();
const GROWS: u8 = 0x80;

const fn classes() -> [u8; 128] {
    let mut classes = [0; 128];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = class(byte as u8);
        byte += 1;
    }
    classes
}

const fn steps() -> [[u8; 128]; 128] {
    let mut steps = [[0; 128]; 128];
    let mut at = 0;
    while at < 128 * 128 {
        steps[at / 128][at % 128] = step((at / 128) as u8, (at % 128) as u8);
        at += 1;
    }
    steps
}

const fn step(last: u8, class: u8) -> u8 {
    match (last, class) {
        (_, 0) => last,
        // Strokes without a gap run together, and a recogniser drops the second of two equal ones.
        (b'.', b'.') | (b'l', b'l') => last,
        (b'r', b'n') => b'm',
        (b'v', b'v') => b'w',
        _ => class | GROWS,
    }
}

const fn class(byte: u8) -> u8 {
    match byte {
        // One stroke in most screen fonts. The small i follows from I, whose case is as uncertain as that of any letter.
        b'l' | b'1' | b'I' | b'i' | b'|' | b'!' => b'l',
        b'0' | b'O' | b'o' => b'o',
        // A thin mark at the foot or in the middle of a line is lost, or read as a space.
        b'_' | b'-' | b' ' => 0,
        // One separator for all languages, `a::b`, `a->b`, `a#b`, `a/b`.
        b'.' | b':' | b'/' | b'\\' | b'#' | b'>' => b'.',
        // Big and small differ in size alone for c, o, s, v, w, x, z; and case is what names of a language's two conventions differ in.
        b'A'..=b'Z' => byte.to_ascii_lowercase(),
        b'a'..=b'z' | b'0'..=b'9' | b'$' => byte,
        _ => 0,
    }
}

/// What is left of a name when all that OCR can't tell apart is one. Separators of any language are one dot.
pub fn skeleton(name: &str) -> String {
    let mut skeleton = String::with_capacity(name.len());
    skeleton_into(name, &mut skeleton);
    skeleton
}

/// [`skeleton`] into a buffer that is cleared before. All names of a repository pass here for each question.
pub fn skeleton_into(name: &str, skeleton: &mut String) {
    let mut bytes = std::mem::take(skeleton).into_bytes();
    if name.is_ascii() {
        put_ascii(name.as_bytes(), &mut bytes)
    } else {
        put_letters(name, &mut bytes)
    }
    if bytes.last() == Some(&b'.') {
        bytes.pop();
    }
    // It is UTF-8: whole letters went in, and only ASCII is replaced or taken out.
    *skeleton = String::from_utf8(bytes).unwrap_or_default();
}

fn put_ascii(name: &[u8], skeleton: &mut Vec<u8>) {
    skeleton.resize(name.len(), 0);
    let mut length = 0;
    // A separator at the beginning separates nothing.
    let mut last = b'.';
    for &byte in name {
        let step = STEPS[usize::from(last)][usize::from(CLASS[usize::from(byte & 0x7f)])];
        length += usize::from(step >> 7);
        last = step & !GROWS;
        if let Some(place) = skeleton.get_mut(length.saturating_sub(1)) {
            *place = last;
        }
    }
    skeleton.truncate(length);
}

fn put_letters(name: &str, skeleton: &mut Vec<u8>) {
    skeleton.clear();
    let mut last = b'.';
    for letter in name.chars() {
        let letter = if letter == 'ı' { 'l' } else { letter.to_lowercase().next().unwrap_or(letter) };
        if !letter.is_ascii() && letter.is_alphanumeric() {
            skeleton.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            last = 0;
        } else if letter.is_ascii() {
            let step = STEPS[usize::from(last)][usize::from(CLASS[letter as usize])];
            match (step & GROWS, skeleton.last_mut()) {
                (GROWS, _) => skeleton.push(step & !GROWS),
                (_, Some(place)) if step != last => *place = step,
                _ => {}
            }
            last = step & !GROWS;
        }
    }
}

/// Whether a name that was read may be one that is written somewhere: equal skeletons, or for longer names skeletons that are one edit
/// apart. The edit is never one of a digit: OCR reads those right, and `utf8` isn't `utf16`.
pub fn is_near(read: &str, written: &str) -> bool {
    are_near(&skeleton(read), &skeleton(written))
}

/// [`is_near`] of two skeletons.
fn are_near(a: &str, b: &str) -> bool {
    a == b || (a.len().min(b.len()) >= SHORTEST_NEAR && is_one_edit(a.as_bytes(), b.as_bytes()))
}

/// Whether one byte was put in, left out or replaced.
fn is_one_edit(a: &[u8], b: &[u8]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if long.len() - short.len() > 1 {
        return false;
    }
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let Some(edited) = long.get(same) else { return true };
    let rest = if short.len() == long.len() { short.get(same + 1..) } else { short.get(same..) };
    let replaced = if short.len() == long.len() { short.get(same) } else { None };
    rest == long.get(same + 1..) && !edited.is_ascii_digit() && !replaced.is_some_and(u8::is_ascii_digit)
}

/// How a written name was found among names that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearName {
    /// Place in the list of names that were read.
    pub read: usize,
    /// Equal skeletons; otherwise one edit apart.
    pub is_equal: bool,
}

/// Names that were read, to be compared with many that are written.
#[derive(Debug, Default)]
pub struct ReadNames {
    skeletons: Vec<String>,
    equal: HashMap<String, usize>,
    /// By the first and by the last [`END`] bytes, see there.
    by_end: HashMap<End, Vec<usize>>,
    /// Hashes of the ends: hardly one written name is read, and it must cost next to nothing to see that it isn't.
    hashes: Vec<u64>,
}

/// Which end, and its bytes; zeros where a skeleton is shorter.
type End = [u8; END + 1];

/// Bits of the hashes of ends: few enough for the first cache, many enough for some dozens of names.
const BITS: usize = 1 << 13;

impl ReadNames {
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut read = ReadNames { hashes: vec![0; BITS / 64], ..ReadNames::default() };
        for (at, name) in names.into_iter().enumerate() {
            let skeleton = skeleton(name);
            for end in ends(&skeleton) {
                let (word, bit) = hash(end);
                read.hashes[word] |= bit;
                read.by_end.entry(end).or_default().push(at);
            }
            read.equal.entry(skeleton.clone()).or_insert(at);
            read.skeletons.push(skeleton);
        }
        read
    }

    /// The first name that was read with the same skeleton, or else the first that is one edit away. `buffer` is overwritten.
    pub fn find(&self, written: &str, buffer: &mut String) -> Option<NearName> {
        skeleton_into(written, buffer);
        let ends = ends(buffer);
        if buffer.is_empty() || !ends.iter().any(|&it| self.may_hold(it)) {
            return None;
        }
        if let Some(&read) = self.equal.get(buffer.as_str()) {
            return Some(NearName { read, is_equal: true });
        }
        let sharing = ends.iter().filter_map(|end| self.by_end.get(end)).flatten();
        let near = sharing.copied().filter(|&at| are_near(&self.skeletons[at], buffer)).min()?;
        Some(NearName { read: near, is_equal: false })
    }

    fn may_hold(&self, end: End) -> bool {
        let (word, bit) = hash(end);
        self.hashes.get(word).is_some_and(|it| it & bit != 0)
    }
}

/// Both ends of a skeleton.
fn ends(skeleton: &str) -> [End; 2] {
    let bytes = skeleton.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let last = bytes.len().saturating_sub(END);
    [[0, byte(0), byte(1), byte(2)], [1, byte(last), byte(last + 1), byte(last + 2)]]
}

/// The word and the bit of an end's hash: a multiplication by the golden ratio, whose high bits depend on all bytes.
fn hash(end: End) -> (usize, u64) {
    let bit = (u32::from_le_bytes(end).wrapping_mul(0x9e37_79b9) >> 19) as usize % BITS;
    (bit / 64, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_same(read: &str, written: &str) {
        assert_eq!(skeleton(read), skeleton(written), "{read} {written}");
        assert!(is_near(read, written));
    }

    #[track_caller]
    fn check_near(read: &str, written: &str, expected: bool) {
        assert_eq!(is_near(read, written), expected, "{read} {written}");
        assert_eq!(is_near(written, read), expected, "{written} {read}");
        let mut buffer = String::new();
        assert_eq!(ReadNames::new([read]).find(written, &mut buffer).is_some(), expected, "{read} {written}");
    }

    #[test]
    fn what_looks_alike_is_the_same() {
        check_same("ERR0R", "ERROR");
        check_same("0bject", "Object");
        check_same("JSoN.parse", "JSON.parse");
        check_same("lmageView", "ImageView");
        check_same("get1tem", "getItem");
        check_same("comer", "corner");
        check_same("saw", "savv");
        check_same("next token", "next_token");
        check_same("buildindex.ts", "build-index.ts");
        check_same("fil_path", "fill_path");
    }

    #[test]
    fn separators_of_languages_are_the_same_and_stay() {
        check_same("Lexer::peek", "Lexer.peek");
        check_same("Foo->bar", "Foo.bar");
        check_same("src\\a\\b.py", "src/a/b.py");
        assert_ne!(skeleton("a.bc"), skeleton("ab.c"));
        assert_eq!(skeleton("..a.."), "a");
    }

    #[test]
    fn names_in_other_scripts_keep_their_letters() {
        check_same("größe", "GRÖßE");
        check_near("größenwahn", "größenwahm", true);
    }

    #[test]
    fn longer_names_may_be_one_edit_apart() {
        check_near("nexttoken", "nexttokem", true);
        check_near("getUserNme", "getUserName", true);
        check_near("getUserNamme", "getUserName", true);
        check_near("xetUserName", "getUserName", true);
        check_near("getUserNamx", "getUserName", true);
        check_near("getUserNma", "getUserName", false);
        check_near("getter", "setter", true);
        check_near("node", "mode", false);
        check_near("", "a", false);
    }

    #[test]
    fn a_digit_is_never_the_edit() {
        check_near("handler2", "handler3", false);
        check_near("encode_utf7", "encode_utf", false);
    }

    #[test]
    fn equal_skeletons_come_before_near_ones() {
        let read = ReadNames::new(["getUserNome", "getUserName"]);
        let found = |name| read.find(name, &mut String::new());
        assert_eq!(found("get_user_name"), Some(NearName { read: 1, is_equal: true }));
        assert_eq!(found("get_user_nome"), Some(NearName { read: 0, is_equal: true }));
        assert_eq!(found("get_user_nume"), Some(NearName { read: 0, is_equal: false }));
        assert_eq!(found("other"), None);
    }

    proptest::proptest! {
        #[test]
        fn a_list_finds_what_pairs_find(read in "[a-fil1_.]{0,9}", written in "[a-fil1_.]{0,9}") {
            let found = ReadNames::new([read.as_str()]).find(&written, &mut String::new()).is_some();
            let expected = !skeleton(&written).is_empty() && is_near(&read, &written);
            proptest::prop_assert_eq!(found, expected);
        }

        #[test]
        fn both_ways_make_the_same(name in "[ -~]{0,20}") {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            put_ascii(name.as_bytes(), &mut one);
            put_letters(&name, &mut other);
            proptest::prop_assert_eq!(one, other);
        }

        #[test]
        fn a_skeleton_is_its_own(name in ".{0,20}") {
            let once = skeleton(&name);
            proptest::prop_assert_eq!(skeleton(&once), once);
        }
    }
}
