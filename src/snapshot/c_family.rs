//! C and C++ as their parsers can read them: what the preprocessor would have removed is blanked, byte by byte.
//!
//! The grammars know declarations, not macros. Nothing is expanded here and no macro's meaning is known; names and
//! positions stay what they are, because a blanked text has every other byte in its place.

/// Blanks the export macro of `class EXPORT Name {`, which a parser takes for a function `Name`; `None` when there is none.
pub fn without_class_macros(text: &str) -> Option<String> {
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
pub fn one_configuration(text: &str) -> Option<String> {
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
