//! Source as its parser can read it: what a grammar stumbles over is blanked or joined, byte by byte.
//!
//! For C and C++ that is what the preprocessor would have removed, for Kotlin a line break. Nothing is expanded and no
//! macro's meaning is known here; names and positions stay what they are, because every other byte keeps its place.

use std::borrow::Cow;
use std::ops::Range;

/// Blanks the export macro of `class EXPORT Name {`, which a parser takes for a function `Name`; `None` when there is none.
pub(super) fn without_class_macros(text: &str) -> Option<String> {
    let mut blanked: Option<Vec<u8>> = None;
    for keyword in ["class", "struct"] {
        for (at, _) in text.match_indices(keyword) {
            if let Some((start, end)) = class_macro(text, at, keyword.len()) {
                blanked.get_or_insert_with(|| text.as_bytes().to_vec())[start..end].fill(b' ');
            }
        }
    }
    blanked.and_then(|bytes| String::from_utf8(bytes).ok())
}

/// Byte range of the macro between a class keyword and the class's name.
fn class_macro(text: &str, at: usize, keyword: usize) -> Option<(usize, usize)> {
    if text[..at].ends_with(is_word) {
        return None;
    }
    let (start, end) = word_after(text, at + keyword)?;
    let shouted = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
    if start == at + keyword || !text[start..end].chars().all(shouted) {
        return None;
    }
    let (_, mut name_end) = word_after(text, end).filter(|&(name, _)| name > end)?;
    if let Some((word, word_end)) = word_after(text, name_end).filter(|&(word, end)| &text[word..end] == "final") {
        name_end = if word > name_end { word_end } else { name_end };
    }
    let opens = text[name_end..].trim_start();
    (opens.starts_with('{') || (opens.starts_with(':') && !opens.starts_with("::"))).then_some((start, end))
}

/// Byte range of the word that follows `at` after white space.
fn word_after(text: &str, at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..];
    let start = at + (rest.len() - rest.trim_start().len());
    let length = text[start..].find(|it| !is_word(it)).unwrap_or(text.len() - start);
    (length > 0).then_some((start, start + length))
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Blanks preprocessor directives, and of a conditional group with a branch of unbalanced braces all branches but the
/// first: what is left has the nesting that one configuration has. `None` when the text has no directives.
pub(super) fn one_configuration(text: &str) -> Option<String> {
    let mut conditionals = Conditionals::default();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        conditionals.add(at, line);
    }
    conditionals.any_directive.then(|| {
        let blank = conditionals.blank_lines();
        text.split_inclusive('\n')
            .zip(blank)
            .map(|(line, blank)| if blank { blanked(line) } else { Cow::Borrowed(line) })
            .collect()
    })
}

/// One branch of a conditional group.
struct Branch {
    lines: Range<usize>,
    /// Opening braces less closing ones.
    braces: i64,
}

impl Branch {
    fn after(line: usize) -> Self {
        Branch { lines: line + 1..line + 1, braces: 0 }
    }
}

/// The conditional groups of a text that is read line by line.
#[derive(Default)]
struct Conditionals {
    /// The open groups, outermost first.
    groups: Vec<Vec<Branch>>,
    /// Lines to blank, by number.
    blank: Vec<Range<usize>>,
    /// The line before ended with a backslash.
    continued: bool,
    any_directive: bool,
}

impl Conditionals {
    fn add(&mut self, at: usize, line: &str) {
        let directive = line.trim_start().strip_prefix('#').filter(|_| !self.continued).map(|it| it.trim_start());
        let in_directive = self.continued || directive.is_some();
        self.continued = in_directive && line.trim_end().ends_with('\\');
        if in_directive {
            self.any_directive = true;
            self.blank.push(at..at + 1);
            self.directive(at, directive.unwrap_or_default());
        } else if let Some(branch) = self.branch() {
            branch.braces += braces(line);
        }
        if let Some(branch) = self.branch() {
            branch.lines.end = branch.lines.end.max(at + 1);
        }
    }

    /// The innermost branch.
    fn branch(&mut self) -> Option<&mut Branch> {
        self.groups.last_mut()?.last_mut()
    }

    fn directive(&mut self, at: usize, directive: &str) {
        match directive.split(|it: char| !it.is_ascii_alphabetic()).next().unwrap_or_default() {
            "if" | "ifdef" | "ifndef" => self.groups.push(vec![Branch::after(at)]),
            "else" | "elif" | "elifdef" | "elifndef" => {
                self.groups.last_mut().into_iter().for_each(|group| group.push(Branch::after(at)));
            }
            "endif" => self.close_group(),
            _ => {}
        }
    }

    fn close_group(&mut self) {
        let Some(group) = self.groups.pop() else { return };
        if group.iter().any(|it| it.braces != 0) {
            self.blank.extend(group[1..].iter().map(|it| it.lines.clone()));
        }
        if let Some(branch) = self.branch() {
            branch.braces += group.first().map_or(0, |it| it.braces);
        }
    }

    /// Whether each line is to be blanked. Groups nest, so their lines are not gone through one group after the other.
    fn blank_lines(mut self) -> impl Iterator<Item = bool> {
        self.blank.sort_unstable_by_key(|it| it.start);
        let (mut ranges, mut end) = (self.blank.into_iter().peekable(), 0);
        (0..).map(move |at| {
            while let Some(range) = ranges.next_if(|it| it.start <= at) {
                end = end.max(range.end);
            }
            at < end
        })
    }
}

/// Opening braces less closing ones, those in strings, characters and line comments aside.
fn braces(line: &str) -> i64 {
    let mut count = 0;
    let mut quote = None;
    let mut bytes = line.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => drop(bytes.next()),
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'/') if bytes.peek() == Some(&b'/') => return count,
            (None, b'{') => count += 1,
            (None, b'}') => count -= 1,
            _ => {}
        }
    }
    count
}

/// Spaces in place of a line's bytes.
pub(super) fn blanked(line: &str) -> Cow<'static, str> {
    line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// One configuration of a C++ text, without the export macros of its classes.
pub(super) fn one_cpp_configuration(text: &str) -> Option<String> {
    let one = one_configuration(text)?;
    Some(without_class_macros(&one).unwrap_or(one))
}

/// One configuration of an Objective-C text, in which the macro calls between the methods of an `@implementation` are
/// blanked, and those with a body (`EXPORT_METHOD(move:(int)x) {`) are methods. Bodies that close at the left margin are
/// blanked: they hold no functions, but in Objective-C++ what the grammar does not know.
pub(super) fn one_objc_configuration(text: &str) -> Option<String> {
    let one = one_configuration(text).unwrap_or_else(|| text.to_owned());
    let mut bytes = one.clone().into_bytes();
    let (mut inside, mut at, mut rewritten) = (false, 0, 0);
    for line in one.split_inclusive('\n') {
        inside = (inside || line.starts_with("@implementation")) && !line.starts_with("@end");
        if inside
            && at >= rewritten
            && let Some(call) = macro_call(&one, at)
        {
            rewrite_call(&one, call, &mut bytes);
            rewritten = call.2;
        }
        at += line.len();
    }
    String::from_utf8(bytes).ok().map(|it| without_bodies(&it)).filter(|rewritten| rewritten != text)
}

fn without_bodies(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        inside &= !line.starts_with('}');
        kept.push_str(&if inside { blanked(line) } else { Cow::Borrowed(line) });
        let signature = !line.starts_with(['@', '#', ' ', '\t', '}']) && line.contains('(') && !line.contains('}');
        inside |= line.trim_end() == "{" && line.starts_with('{') || signature && line.trim_end().ends_with('{');
    }
    kept
}

/// Where the parentheses of a macro call open and close that begins at `at`.
fn macro_call(text: &str, at: usize) -> Option<(usize, usize, usize)> {
    let shouted = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
    let name = text[at..].find(|it| !shouted(it)).filter(|&length| length > 2)?;
    let open = at + name;
    let end = skip_brackets(text, open, b'(', b')');
    (end > open).then_some((at, open, end))
}

fn rewrite_call(text: &str, (at, open, end): (usize, usize, usize), bytes: &mut [u8]) {
    const METHOD: &[u8] = b"-(void)";
    let keep_lines = |byte: &mut u8| *byte = if *byte == b'\n' { b'\n' } else { b' ' };
    if !text[end..].trim_start().starts_with('{') || open - at < METHOD.len() {
        bytes[at..end].iter_mut().for_each(keep_lines);
        return;
    }
    // The selector is the first argument.
    let selector = open + 1 + first_argument(&text[open + 1..end - 1]);
    bytes[at..=open].fill(b' ');
    bytes[at..at + METHOD.len()].copy_from_slice(METHOD);
    bytes[selector..end].iter_mut().for_each(keep_lines);
}

/// Bytes before the first comma that stands in no brackets.
fn first_argument(arguments: &str) -> usize {
    let mut depth = 0i64;
    for (at, character) in arguments.char_indices() {
        match character {
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => return at,
            _ => {}
        }
    }
    arguments.len()
}

/// Takes away what the Kotlin grammar does not know: the line breaks of `class Name⏎@Inject⏎internal constructor(`, where
/// it would end the class at the first line, and the last comma of `A,⏎B,⏎-> {`. `None` when there are none.
pub(super) fn plainer_kotlin(text: &str) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    for (at, _) in text.match_indices("class ").filter(|&(at, _)| !text[..at].ends_with(is_word)) {
        let Some((_, name_end)) = word_after(text, at + "class".len()) else { continue };
        let near = &text[..text.floor_char_boundary(name_end + LOOK_AHEAD)];
        if let Some(end) = header_end(near, name_end) {
            bytes[name_end..end].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        }
    }
    for (at, _) in text.match_indices("->") {
        let before = text[..at].trim_end();
        if before.ends_with(',') {
            bytes[before.len() - 1] = b' ';
        }
    }
    String::from_utf8(bytes).ok().filter(|plainer| plainer != text)
}

/// Where the keyword `constructor` stands that belongs to a class whose name ends at `at`.
fn header_end(text: &str, at: usize) -> Option<usize> {
    let mut at = skip_brackets(text, at, b'<', b'>');
    loop {
        let annotation = text[at..].trim_start().starts_with('@');
        let from = if annotation { at + text[at..].find('@')? + 1 } else { at };
        let (start, mut end) = word_after(text, from)?;
        if annotation {
            while text[end..].starts_with(['.', ':']) {
                end = word_after(text, end + 1)?.1;
            }
            end = skip_brackets(text, end, b'(', b')');
        }
        match &text[start..end] {
            "constructor" if !annotation => return Some(start),
            "private" | "internal" | "protected" | "public" => at = end,
            _ if annotation => at = end,
            _ => return None,
        }
    }
}

/// How far, in bytes, to look for the end of what begins somewhere. It may begin at every other byte, so looking to the
/// end of the text each time would take the square of its size; written headers and calls have a few hundred.
const LOOK_AHEAD: usize = 2048;

/// The byte after a bracketed text that begins at `at`; `at` when none begins there or it does not end nearby.
fn skip_brackets(text: &str, at: usize, open: u8, close: u8) -> usize {
    let mut depth = 0usize;
    for (offset, &byte) in text.as_bytes()[at..].iter().take(LOOK_AHEAD).enumerate() {
        if byte == open {
            depth += 1;
        } else if byte == close {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            return if offset == 0 { at } else { at + offset + 1 };
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected` is the text after the rewriting, in which a blanked byte is a space.
    #[track_caller]
    fn check(rewrite: fn(&str) -> Option<String>, text: &str, expected: Option<&str>) {
        let rewritten = rewrite(text);
        assert_eq!(rewritten.as_deref(), expected, "{text}");
        assert!(rewritten.is_none_or(|it| it.len() == text.len()), "{text}");
    }

    #[test]
    fn the_export_macro_of_a_class_is_blanked() {
        let check = |text, expected| check(without_class_macros, text, expected);
        check("class API Foo {", Some("class     Foo {"));
        check("struct X_API Foo final : Bar {", Some("struct       Foo final : Bar {"));
        check("class Foo {", None);
        check("class FOO {", None);
        check("struct FOO bar = {", None);
        check("subclass API Foo {", None);
        check("class API Foo::Bar", None);
        check("class", None);
    }

    #[test]
    fn one_branch_of_an_unbalanced_conditional_is_left() {
        let check = |text, expected| check(one_configuration, text, expected);
        check("int a;\n", None);
        check("#if A\nif (a) {\n#else\nif (b) {\n#endif\n}\n", Some("     \nif (a) {\n     \n        \n      \n}\n"));
        check("#if A\nf();\n#else\ng();\n#endif\n", Some("     \nf();\n     \ng();\n      \n"));
        check("#define A {\\\n x\ny\n", Some("            \n  \ny\n"));
        check("#if A\nc = '{';\ns = \"}\\\"\";\n#endif\n", Some("     \nc = '{';\ns = \"}\\\"\";\n      \n"));
        check("#endif\n#else\n", Some("      \n     \n"));
        check("#if A\né {\n#else\né\n#endif\n", Some("     \né {\n     \n  \n      \n"));
    }

    #[test]
    fn macro_calls_between_methods_are_blanked_or_methods() {
        let check = |text, expected| check(one_objc_configuration, text, expected);
        check("@implementation A\nEXPORT_MODULE(a)\n@end\n", Some("@implementation A\n                \n@end\n"));
        check(
            "@implementation A\nEXPORT_METHOD(move:(int)x to:(int)y) {\n}\n@end\nMACRO(a)\n",
            Some("@implementation A\n-(void)       move:(int)x to:(int)y  {\n}\n@end\nMACRO(a)\n"),
        );
        check(
            "@implementation A\nVIEW_PROPERTY(name, T, é)\n{\n}\n",
            Some("@implementation A\n-(void)       name        \n{\n}\n"),
        );
        check("@implementation A\n- (void)b {}\n@end\n", None);
        check("- (void)b\n{\n  std::f<T>();\n}\n", Some("- (void)b\n{\n              \n}\n"));
    }

    #[test]
    fn kotlin_is_made_plainer() {
        let check = |text, expected| check(plainer_kotlin, text, expected);
        check("class A\n@Inject\ninternal constructor(", Some("class A @Inject internal constructor("));
        check("class A<T : B<C>>\n@a.B(x)\nconstructor(", Some("class A<T : B<C>> @a.B(x) constructor("));
        check("class A\n\nfun b() {}", None);
        check("A,\nB,\n-> {", Some("A,\nB \n-> {"));
        check("class ", None);
    }

    /// `pattern` repeated to 4 MiB after `start`; what takes the square of that takes hours.
    #[track_caller]
    fn check_linear(rewrite: fn(&str) -> Option<String>, start: &str, pattern: &str) {
        let text = format!("{start}{}", pattern.repeat((4 << 20) / pattern.len()));
        let clock = std::time::Instant::now();
        let rewritten = rewrite(&text);
        let seconds = clock.elapsed().as_secs();
        assert!(seconds < 60, "{start}{pattern}: {seconds} s");
        assert!(rewritten.is_none_or(|it| it.len() == text.len()), "{start}{pattern}");
    }

    #[test]
    fn a_text_takes_time_in_proportion_to_its_size() {
        for pattern in ["class A<", "class private @class private @", "A, ->\n"] {
            check_linear(plainer_kotlin, "", pattern);
        }
        for pattern in ["ABC(\n", "ABC(a)\n\n\n"] {
            check_linear(one_objc_configuration, "@implementation A\n", pattern);
        }
        for pattern in ["#if A\n{\n#else\n", "class A final"] {
            check_linear(one_cpp_configuration, "#if A\n", pattern);
        }
        let nested = |text: &str| one_configuration(&format!("{text}{}", "#endif\n".repeat(300_000)));
        let opened = "#if A\n{\n#else\n".repeat(300_000);
        let clock = std::time::Instant::now();
        assert!(nested(&opened).is_some());
        assert!(clock.elapsed().as_secs() < 60);
    }
}
