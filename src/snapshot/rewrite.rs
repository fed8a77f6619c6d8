//! Source as its parser can read it: what a grammar stumbles over is blanked or joined, byte by byte.
//!
//! For C and C++ that is what the preprocessor would have removed, for Kotlin a line break. Nothing is expanded and no
//! macro's meaning is known here; names and positions stay what they are, because every other byte keeps its place.

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

/// One branch of a conditional group.
struct Branch {
    lines: std::ops::Range<usize>,
    /// Opening braces less closing ones.
    braces: i64,
}

/// Blanks preprocessor directives, and of a conditional group with a branch of unbalanced braces all branches but the
/// first: what is left has the nesting that one configuration has. `None` when the text has no directives.
pub(super) fn one_configuration(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut blank = vec![false; lines.len()];
    let mut groups: Vec<Vec<Branch>> = Vec::new();
    let mut continued = false;
    for (at, line) in lines.iter().enumerate() {
        let directive = line.trim_start().strip_prefix('#').filter(|_| !continued).map(|it| it.trim_start());
        let in_directive = continued || directive.is_some();
        blank[at] = in_directive;
        continued = in_directive && line.trim_end().ends_with('\\');
        match directive.map(|it| it.split(|it: char| !it.is_ascii_alphabetic()).next().unwrap_or_default()) {
            Some("if" | "ifdef" | "ifndef") => groups.push(vec![Branch { lines: at + 1..at + 1, braces: 0 }]),
            Some("else" | "elif" | "elifdef" | "elifndef") => {
                if let Some(group) = groups.last_mut() {
                    group.push(Branch { lines: at + 1..at + 1, braces: 0 });
                }
            }
            Some("endif") => {
                if let Some(group) = groups.pop() {
                    close_group(&group, &mut groups, &mut blank);
                }
            }
            _ if in_directive => {}
            _ => {
                if let Some(branch) = groups.last_mut().and_then(|it| it.last_mut()) {
                    branch.braces += braces(line);
                }
            }
        }
        if let Some(branch) = groups.last_mut().and_then(|it| it.last_mut()) {
            branch.lines.end = branch.lines.end.max(at + 1);
        }
    }
    let any = blank.contains(&true);
    any.then(|| {
        lines.iter().zip(blank).map(|(line, blank)| if blank { blanked(line) } else { line.to_string() }).collect()
    })
}

fn close_group(group: &[Branch], outer: &mut [Vec<Branch>], blank: &mut [bool]) {
    let first = group.first().map_or(0, |it| it.braces);
    if group.iter().any(|it| it.braces != 0) {
        for branch in &group[1..] {
            blank[branch.lines.clone()].fill(true);
        }
    }
    if let Some(branch) = outer.last_mut().and_then(|it| it.last_mut()) {
        branch.braces += first;
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

fn blanked(line: &str) -> String {
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
    let mut inside = false;
    let mut at = 0;
    for line in one.split_inclusive('\n') {
        inside = (inside || line.starts_with("@implementation")) && !line.starts_with("@end");
        if let Some(call) = macro_call(&one, at).filter(|_| inside) {
            rewrite_call(&one, call, &mut bytes);
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
        kept.push_str(&if inside { blanked(line) } else { line.to_owned() });
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
    let end = skip_brackets(text, open, '(', ')');
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
        if let Some(end) = header_end(text, name_end) {
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
    let mut at = skip_brackets(text, at, '<', '>');
    loop {
        let annotation = text[at..].trim_start().starts_with('@');
        let from = if annotation { at + text[at..].find('@')? + 1 } else { at };
        let (start, mut end) = word_after(text, from)?;
        if annotation {
            while text[end..].starts_with(['.', ':']) {
                end = word_after(text, end + 1)?.1;
            }
            end = skip_brackets(text, end, '(', ')');
        }
        match &text[start..end] {
            "constructor" if !annotation => return Some(start),
            "private" | "internal" | "protected" | "public" => at = end,
            _ if annotation => at = end,
            _ => return None,
        }
    }
}

/// The byte after a bracketed text that begins at `at`; `at` when none begins there or it does not end.
fn skip_brackets(text: &str, at: usize, open: char, close: char) -> usize {
    let mut depth = 0usize;
    for (offset, character) in text[at..].char_indices() {
        if character == open {
            depth += 1;
        } else if character == close {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            return if offset == 0 { at } else { at + offset + close.len_utf8() };
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
}
