//! The preprocessor's lines in languages whose grammars don't expect them everywhere (Haskell, Swift).
//!
//! All branches of a conditional are the repository's code, so the directives alone are blanked. Knows nothing of macros:
//! what `#define` makes of the text is never expanded.

use super::rewrite::blanked;

/// Words after `#` that make a line a directive.
const DIRECTIVES: [&str; 11] =
    ["if", "ifdef", "ifndef", "else", "elif", "elseif", "endif", "define", "undef", "include", "error"];

/// The text with its directives turned into spaces, every other byte in its place; `None` when it has none.
pub(super) fn without_directives(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut continued = false;
    let mut found = false;
    for line in text.split_inclusive('\n') {
        continued = is_directive(line) || continued;
        if continued {
            found = true;
            plain.push_str(&blanked(line));
        } else {
            plain.push_str(line);
        }
        continued &= line.trim_end().ends_with('\\');
    }
    found.then_some(plain)
}

/// The text itself, for a second reading when the first was made without directives.
pub(super) fn as_written(text: &str) -> Option<String> {
    without_directives(text).map(|_| text.to_owned())
}

fn is_directive(line: &str) -> bool {
    let Some(directive) = line.trim_start().strip_prefix('#') else { return false };
    let word = directive.trim_start().split(|it: char| !it.is_ascii_alphabetic()).next().unwrap_or_default();
    DIRECTIVES.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(without_directives(text).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn directives_become_spaces_and_everything_else_keeps_its_place() {
        check("a\n#if X\nb\n#else\nc\n#endif\n", Some("a\n     \nb\n     \nc\n      \n"));
        check("  # ifdef é\nb", Some("            \nb"));
        check("#define A \\\n  b\nc", Some("           \n   \nc"));
    }

    #[test]
    fn a_text_without_directives_is_left_alone() {
        check("", None);
        check("x # if\n#foo\n#!/bin/sh\n#selector(a)\n", None);
    }
}
