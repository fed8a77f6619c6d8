//! Text for people: colour on a terminal only (and as `NO_COLOR` says), nothing from a repository that could steer it.

use std::borrow::Cow;
use std::io::Write;

use anstyle::{AnsiColor, Style};

pub const HEADING: Style = Style::new().bold().underline();
pub const PATH: Style = AnsiColor::Cyan.on_default();
pub const NAME: Style = AnsiColor::Green.on_default().bold();
pub const DIM: Style = Style::new().dimmed();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Says on standard error why the program ends.
pub fn error(message: &str) {
    say(ERROR, "error", message);
}

/// Says on standard error what went less than perfectly.
pub fn warning(message: &str) {
    say(WARNING, "warning", message);
}

/// Says something on standard error that is no fault.
pub fn remark(message: &str) {
    // Nothing can be done about a standard error that can't be written to.
    let _ = writeln!(anstream::stderr(), "{DIM}{}{DIM:#}", printable(message));
}

fn say(style: Style, label: &str, message: &str) {
    let _ = writeln!(anstream::stderr(), "{style}{label}:{style:#} {}", printable(message));
}

/// A text on one line, with control characters written out: a path or a source line must not move the cursor or
/// recolour the terminal.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let escaped =
        text.chars().map(|it| if is_unprintable(it) { it.escape_default().to_string() } else { it.to_string() });
    Cow::Owned(escaped.collect())
}

/// Control characters, and those that reorder a line of text.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// At most `width` characters of a text.
pub fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    match text.char_indices().nth(width) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(printable("größe 修"), "größe 修");
    }

    #[test]
    fn long_text_is_cut_on_a_character() {
        assert_eq!(shortened("größe", 3), "grö...");
        assert_eq!(shortened("größe", 5), "größe");
    }
}
