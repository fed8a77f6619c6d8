//! Which files are not the code that an issue could be about: copies, outputs and data that look like source by name.
//!
//! Each rule errs on the side of keeping: a file lost here can't be found, one kept in vain costs a place in a list. A
//! user overrules them by a negated line (`!vendor/`) in `.sightlineignore`. Knows nothing of file systems or git.

use super::SkipReason;

/// Directories that package managers fill. Their names are theirs alone, or nearly so.
const VENDORED: &[&str] = &[
    "node_modules",
    "bower_components",
    "jspm_packages",
    "vendor",
    "third_party",
    "Pods",
    "Carthage",
    "site-packages",
    ".venv",
    ".tox",
    ".nox",
    ".yarn",
];

/// Bytes of control characters per byte of text, at most; compressed and random data have one in ten.
const CONTROL_SHARE: f64 = 0.05;
/// The same where the bytes are not UTF-8: a legacy encoding uses none, so only strays in string literals are left.
const CONTROL_SHARE_LEGACY: f64 = 0.01;

/// A minified file is at least this long, in bytes: below, a single long line is just a short program.
const MINIFIED_BYTES: usize = 4096;
/// No one writes lines of this many bytes, so they are machine-made ...
const LONG_LINE: usize = 1000;
/// ... and when lines are this long on average, in bytes, there is no hand-written part of any size beside them.
const MEAN_LINE: usize = 300;

/// A generator says so at the top: at most so many lines down, in so many bytes.
const HEADER_LINES: usize = 12;
const HEADER_BYTES: usize = 2048;

/// Whether a directory of this name holds other people's code.
pub(super) fn is_vendored(directory_name: &str) -> bool {
    VENDORED.contains(&directory_name)
}

/// A reason to skip a file that its name alone gives.
pub(super) fn by_name(path: &str) -> Option<SkipReason> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let stem = may_be_minified(&name).then(|| name.rsplit_once('.')).flatten()?.0;
    let is_minified = name.contains(".min.") || stem.ends_with("-min");
    is_minified.then_some(SkipReason::Minified)
}

/// A reason to skip a file that its bytes give, before they are decoded.
pub(super) fn by_bytes(bytes: &[u8]) -> Option<SkipReason> {
    if is_lfs_pointer(bytes) {
        return Some(SkipReason::LfsPointer);
    }
    (!super::text::is_utf16(bytes) && is_binary(bytes)).then_some(SkipReason::Binary)
}

/// A reason to skip a file that its text gives.
pub(super) fn by_text(path: &str, text: &str) -> Option<SkipReason> {
    if is_binary(text.as_bytes()) {
        return Some(SkipReason::Binary);
    }
    if may_be_minified(&path.to_ascii_lowercase()) && is_minified(text) {
        return Some(SkipReason::Minified);
    }
    generated_marker(text).map(|marker| SkipReason::Generated { marker: marker.to_owned() })
}

fn may_be_minified(lower_case_path: &str) -> bool {
    [".js", ".cjs", ".mjs", ".css"].iter().any(|ending| lower_case_path.ends_with(ending))
}

/// A pointer file of Git LFS: a few `key value` lines that stand for content kept elsewhere.
fn is_lfs_pointer(bytes: &[u8]) -> bool {
    let Some(text) = (bytes.len() < 1024).then(|| std::str::from_utf8(bytes).ok()).flatten() else { return false };
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    let is_oid = |oid: &str| oid.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64);
    text.starts_with("version ") && value("oid").is_some_and(is_oid) && value("size").is_some()
}

/// A few control characters in otherwise valid text are text: a raw zero byte stands in many a string literal.
fn is_binary(bytes: &[u8]) -> bool {
    let controls = bytes.iter().filter(|&&byte| is_control(byte)).count();
    if controls == 0 {
        return false;
    }
    let share = controls as f64 / bytes.len() as f64;
    match std::str::from_utf8(bytes) {
        Ok(_) => controls > 2 && share > CONTROL_SHARE,
        Err(_) => share > CONTROL_SHARE_LEGACY,
    }
}

/// Control characters that text has no use for; tabs, line ends, form feeds and escapes it has.
fn is_control(byte: u8) -> bool {
    matches!(byte, 0..=7 | 0x0E..=0x1A | 0x1C..=0x1F | 0x7F)
}

/// Most of the text stands in lines that no one would write, and there is little else.
fn is_minified(text: &str) -> bool {
    if text.len() < MINIFIED_BYTES {
        return false;
    }
    let (mut lines, mut in_long_lines) = (0, 0);
    for line in text.lines() {
        lines += 1;
        in_long_lines += if line.len() > LONG_LINE { line.len() } else { 0 };
    }
    in_long_lines * 2 > text.len() && text.len() / lines.max(1) > MEAN_LINE
}

/// The line at the top of the text by which a generator signs.
fn generated_marker(text: &str) -> Option<&str> {
    let mut bytes = 0;
    text.lines()
        .take(HEADER_LINES)
        .take_while(|line| {
            bytes += line.len();
            bytes < HEADER_BYTES
        })
        .filter_map(comment)
        .find(|comment| is_generated_marker(&comment.to_ascii_lowercase()))
}

/// The text of a line that is a comment in some language, without the comment signs.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim();
    let signs = ["//", "/*", "*", "#", "--", ";", "<!--", "%", "(*", "{-", "\"\"\"", "'''"];
    signs.iter().find_map(|sign| line.strip_prefix(sign)).map(|rest| {
        rest.trim_start_matches(['/', '*', '#', '-', ';', '%', '!'])
            .trim_end_matches("*/")
            .trim_end_matches("-->")
            .trim()
    })
}

/// Signatures of generators, in lower case: the two conventions, then tools with formulas of their own.
fn is_generated_marker(comment: &str) -> bool {
    let tag = |tag: &str| {
        comment.strip_prefix(tag).is_some_and(|rest| !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_'))
    };
    // The line is about its own file; one that speaks of what other files say begins otherwise.
    let openings = ["code generated", "generated", "auto", "this file", "this code", "file generated", "do not"];
    let asks_to_be_left = ["do not edit", "don't edit", "do not modify", "do not manually edit"];
    let is_signed_off = openings.iter().any(|it| comment.starts_with(it))
        && comment.contains("generated")
        && asks_to_be_left.iter().any(|it| comment.contains(it));
    let formulas = [
        "<auto-generated",
        "a bison parser, made by gnu bison",
        "a lexical scanner generated by flex",
        "generated by the protocol buffer compiler",
        "autogenerated by thrift compiler",
        "generated by cython",
        "meta object code from reading c++ file",
        "form generated from reading ui file",
        "this file was automatically generated by swig",
        "generated by jison",
    ];
    is_signed_off || tag("@generated") || formulas.iter().any(|formula| comment.starts_with(formula))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_bytes(bytes: &[u8], expected: Option<SkipReason>) {
        assert_eq!(by_bytes(bytes), expected, "{}", String::from_utf8_lossy(&bytes[..bytes.len().min(80)]));
    }

    fn check_text(path: &str, text: &str, expected: Option<SkipReason>) {
        assert_eq!(by_text(path, text), expected, "{path}: {}", &text[..text.len().min(80)]);
    }

    fn generated(marker: &str) -> Option<SkipReason> {
        Some(SkipReason::Generated { marker: marker.to_owned() })
    }

    #[test]
    fn zero_bytes_in_a_text_do_not_make_it_binary() {
        check_bytes(b"", None);
        check_bytes(b"const a = `\0`;", None);
        check_bytes("export const separator = `größer\0kleiner`;\n".as_bytes(), None);
        check_bytes(format!("// M\u{e9}\n{}", "let a = 1;\n".repeat(50)).replace('é', "\u{0}").as_bytes(), None);
        let latin1 = [b"/* \xFC */ char *s = \"".as_slice(), b"\0", "\";\nint a;\n".repeat(40).as_bytes()].concat();
        check_bytes(&latin1, None);
        check_bytes(b"\x1b[31mred\x1b[0m\tx\x0c\r\n", None);
    }

    #[test]
    fn bytes_of_programs_pictures_and_archives_are_binary() {
        check_bytes(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0", Some(SkipReason::Binary));
        check_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01", Some(SkipReason::Binary));
        check_bytes(&[0; 4096], Some(SkipReason::Binary));
        check_bytes(&b"some words\0\0\0\x01\x02".repeat(1000), Some(SkipReason::Binary));
        // A linear congruential generator stands in for compressed data: every byte equally likely.
        let mut state = 1u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        check_bytes(&noise.take(100_000).collect::<Vec<_>>(), Some(SkipReason::Binary));
    }

    #[test]
    fn utf16_is_not_binary_but_what_it_decodes_to_may_be() {
        check_bytes(b"\xFF\xFEa\0b\0\n\0", None);
        check_text("a.cs", "\0\u{1}\u{2}abc\u{3}", Some(SkipReason::Binary));
    }

    #[test]
    fn lfs_pointers_are_told_from_texts_about_them() {
        let oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        check_bytes(
            format!("version https://example.org/spec/v1\noid sha256:{oid}\nsize 12345\n").as_bytes(),
            Some(SkipReason::LfsPointer),
        );
        check_bytes(format!("version = 1\n# oid sha256:{oid}\n# size 12345\n").as_bytes(), None);
        check_bytes(b"version 2\noid sha256:short\nsize 1\n", None);
    }

    #[test]
    fn minified_names_count_where_files_are_minified() {
        for (path, minified) in [
            ("lib/jquery.min.js", true),
            ("a/style.MIN.css", true),
            ("yui/loader-min.js", true),
            ("x/a.min.mjs", true),
            ("src/min.js", false),
            ("src/admin.js", false),
            ("src/array.min.rs", false),
            ("a.min.js/real.js", false),
        ] {
            assert_eq!(by_name(path).is_some(), minified, "{path}");
        }
    }

    #[test]
    fn bundles_are_minified_and_code_with_a_long_literal_is_not() {
        let statement = "var a=function(b,c){return b+c};";
        let code = "function add(first, second) {\n  return first + second;\n}\n".repeat(400);
        check_text("public/bundles/app.js", &statement.repeat(40_000), Some(SkipReason::Minified));
        check_text(
            "app.js",
            &format!("/*! licence\n * text\n */\n{}\n", statement.repeat(1000)),
            Some(SkipReason::Minified),
        );
        check_text("theme.css", &".a{color:red}".repeat(1000), Some(SkipReason::Minified));
        check_text("app.js", &format!("{code}const logo = '{}';\n", "QUJD".repeat(10_000)), None);
        check_text("app.js", &code, None);
        check_text("one.js", &statement.repeat(60), None);
        check_text("table.py", &format!("TABLE = [{}]\n", "1, ".repeat(10_000)), None);
    }

    #[test]
    fn generators_sign_at_the_top_in_a_comment() {
        let go = "Code generated by protoc-gen-go. DO NOT EDIT.";
        check_text("a.pb.go", &format!("// {go}\n\npackage a\n"), generated(go));
        check_text("a.rs", "//! Docs.\n// @generated by a tool\nfn a() {}\n", generated("@generated by a tool"));
        check_text(
            "a_pb2.py",
            "# -*- coding: utf-8 -*-\n# Generated by the protocol buffer compiler.  DO NOT EDIT!\n",
            generated("Generated by the protocol buffer compiler.  DO NOT EDIT!"),
        );
        check_text(
            "y.tab.c",
            "/* A Bison parser, made by GNU Bison 3.8.2.  */\n\nint a;\n",
            generated("A Bison parser, made by GNU Bison 3.8.2."),
        );
        check_text("A.Designer.cs", "//------\n// <auto-generated>\n//     This code\n", generated("<auto-generated>"));
    }

    #[test]
    fn code_that_speaks_of_generated_code_is_kept() {
        check_text("a.go", "// Package gen writes generated code.\npackage gen\n", None);
        check_text("a.go", "const header = \"// Code generated by gen. DO NOT EDIT.\"\n", None);
        check_text("a.js", "// Tests that @generated files are skipped\n", None);
        check_text("a.js", "// @generatedBy is a tag\n", None);
        check_text("a.go", "// Writes files that begin with\n// \"// Code generated by gen. DO NOT EDIT.\"\n", None);
        check_text("a.py", "\"\"\"Checks for the line \"Code generated by X. DO NOT EDIT.\".\"\"\"\n", None);
        check_text("a.js", "// Skips auto-generated files (those that say \"do not edit\").\n", None);
        check_text("a.py", "# WARNING: do not edit the auto-generated section by hand; run this.\n", None);
        check_text("a.go", &format!("{}// Code generated by x. DO NOT EDIT.\n", "package a\n".repeat(20)), None);
        check_text("a.c", "#define GENERATED 1\n/* do not edit lightly */\n", None);
    }
}
