//! Bytes of a source file to text: UTF-8 without byte order mark, `\n` line ends, line numbers as on disk.
//!
//! Knows nothing of languages or paths; whether the bytes are text at all is `filter`'s to say.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};

/// Text of a file, and what had to be assumed to read it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) text: String,
    /// Set when the bytes were not plain UTF-8, or UTF-16 that says so.
    pub(super) note: Option<String>,
}

/// Decodes by byte order mark, else as UTF-8, else by the likeliest legacy encoding. Never fails: what can't be
/// decoded becomes U+FFFD and is noted.
pub(super) fn decode(bytes: Vec<u8>) -> Decoded {
    let Decoded { text, note } = match Encoding::for_bom(&bytes) {
        Some((encoding, mark)) => decode_marked(encoding, &bytes[mark..]),
        None => String::from_utf8(bytes)
            .map(|text| Decoded { text, note: None })
            .unwrap_or_else(|error| decode_guessed(error.as_bytes())),
    };
    Decoded { text: unix_line_ends(text), note }
}

/// Whether the bytes announce UTF-16: its zero bytes are not a sign of binary content.
pub(super) fn is_utf16(bytes: &[u8]) -> bool {
    Encoding::for_bom(bytes).is_some_and(|(encoding, _)| encoding != UTF_8)
}

fn decode_marked(encoding: &'static Encoding, bytes: &[u8]) -> Decoded {
    let (text, replaced) = encoding.decode_without_bom_handling(bytes);
    let note = replaced.then(|| format!("decoded as {}; what is invalid was replaced", encoding.name()));
    Decoded { text: text.into_owned(), note }
}

fn decode_guessed(bytes: &[u8]) -> Decoded {
    let damage = Utf8Damage::of(bytes);
    if damage.is_utf8_after_all() {
        let note = format!("decoded as UTF-8; {} invalid sequences were replaced", damage.invalid);
        return Decoded { text: String::from_utf8_lossy(bytes).into_owned(), note: Some(note) };
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    let (text, replaced) = encoding.decode_without_bom_handling(bytes);
    let damage = if replaced { "; what is invalid was replaced" } else { "" };
    Decoded { text: text.into_owned(), note: Some(format!("decoded as {}{damage}", encoding.name())) }
}

/// How much of some bytes is UTF-8.
struct Utf8Damage {
    /// Characters beyond ASCII that are valid.
    valid: usize,
    /// Sequences that are not.
    invalid: usize,
}

impl Utf8Damage {
    fn of(bytes: &[u8]) -> Self {
        let mut damage = Utf8Damage { valid: 0, invalid: 0 };
        for chunk in bytes.utf8_chunks() {
            damage.valid += chunk.valid().chars().filter(|it| !it.is_ascii()).count();
            damage.invalid += usize::from(!chunk.invalid().is_empty());
        }
        damage
    }

    /// In a legacy encoding few byte pairs happen to be UTF-8; in a damaged UTF-8 file most still are.
    fn is_utf8_after_all(&self) -> bool {
        self.valid > self.invalid
    }
}

/// `\r\n` becomes `\n`. A lone `\r` ends a line only in a file that has no other line ends: elsewhere editors and git
/// don't count it either.
fn unix_line_ends(text: String) -> String {
    let converted: Cow<str> = match (text.contains('\r'), text.contains('\n')) {
        (false, _) => return text,
        (true, true) => text.replace("\r\n", "\n").into(),
        (true, false) => text.replace('\r', "\n").into(),
    };
    converted.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(bytes: &[u8], text: &str, note: Option<&str>) {
        assert_eq!(decode(bytes.to_vec()), Decoded { text: text.to_owned(), note: note.map(str::to_owned) });
    }

    #[test]
    fn unicode_is_taken_as_it_is_without_its_mark() {
        check(b"", "", None);
        check("größe 日本\n".as_bytes(), "größe 日本\n", None);
        check(b"\xEF\xBB\xBFint x;\n", "int x;\n", None);
        check(b"\xFF\xFEa\0\r\0\n\0\xE9\0", "a\né", None);
        check(b"\xFE\xFF\0a\0\n\xD8\x3D\xDE\x00", "a\n😀", None);
    }

    #[test]
    fn text_with_a_zero_character_keeps_it() {
        check(b"const a = `x\0y`;\n", "const a = `x\0y`;\n", None);
    }

    // The bytes are those that Python's `str.encode` gives for the text in the named encoding.
    #[test]
    fn legacy_encodings_are_recognised_and_noted() {
        check(
            b"/* Author: J. W\xFCrkner, M\xFCnchen */\nint f(void) { return 0; }\n",
            "/* Author: J. Würkner, München */\nint f(void) { return 0; }\n",
            Some("decoded as windows-1252"),
        );
        check(
            b"# \x93\xFA\x96{\x8C\xEA\x82\xCC\x83R\x83\x81\x83\x93\x83g\x82\xC5\x82\xB7\x81B\n",
            "# 日本語のコメントです。\n",
            Some("decoded as Shift_JIS"),
        );
        check(b"// \xD6\xD0\xCE\xC4\xD7\xA2\xCA\xCD\xA3\xBA\xD5\xE2\xCA\xC7\xD2\xBB\xB8\xF6\xB2\xE2\xCA\xD4\xCE\xC4\xBC\xFE\xA1\xA3\n",
            "// 中文注释：这是一个测试文件。\n", Some("decoded as GBK"));
        check(
            b"# \xA4\xB3\xA4\xEC\xA4\xCF\xA5\xC6\xA5\xB9\xA5\xC8\xA4\xC7\xA4\xB9\xA1\xA3\n",
            "# これはテストです。\n",
            Some("decoded as EUC-JP"),
        );
        check(b"// \xFD\xF2\xEE \xEF\xF0\xEE\xE2\xE5\xF0\xEA\xE0 \xF2\xE5\xEA\xF1\xF2\xE0 \xED\xE0 \xF0\xF3\xF1\xF1\xEA\xEE\xEC\n",
            "// это проверка текста на русском\n", Some("decoded as windows-1251"));
    }

    #[test]
    fn a_damaged_utf8_file_stays_utf8() {
        check(
            b"// \xC3\xA9t\xC3\xA9, \xE6\x97\xA5\xE6\x9C\xAC, broken: \xE6\x97\n",
            "// été, 日本, broken: \u{FFFD}\n",
            Some("decoded as UTF-8; 1 invalid sequences were replaced"),
        );
    }

    #[test]
    fn line_ends_become_newlines_and_keep_the_line_count() {
        check(b"a\r\nb\r\n", "a\nb\n", None);
        check(b"a\rb\rc", "a\nb\nc", None);
        check(b"a\r\nprint('x\ry')\n", "a\nprint('x\ry')\n", None);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_and_keep_their_lines(bytes: Vec<u8>) {
            let newlines = bytes.iter().filter(|&&it| it == b'\n').count();
            let is_marked = Encoding::for_bom(&bytes).is_some();
            let decoded = decode(bytes);
            if newlines > 0 && !is_marked {
                prop_assert_eq!(decoded.text.matches('\n').count(), newlines);
            }
        }
    }
}
