//! Text for people: colour on a terminal only (and as `NO_COLOR` says), nothing from a repository that could steer it.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use anstyle::{AnsiColor, Style};

pub const HEADING: Style = Style::new().bold().underline();
pub const PATH: Style = AnsiColor::Cyan.on_default();
pub const NAME: Style = AnsiColor::Green.on_default().bold();
pub const DIM: Style = Style::new().dimmed();
pub const PLAIN: Style = Style::new();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Lines for people, and the only way that text for them is written: whatever it holds goes through [`printable`].
pub struct Page<W>(W);

/// Standard output.
pub fn output() -> Page<impl Write> {
    Page(BufWriter::new(anstream::stdout().lock()))
}

impl<W: Write> Page<W> {
    /// One line, made of texts in their styles.
    pub fn line(&mut self, texts: &[(Style, &str)]) -> io::Result<()> {
        for (style, text) in texts {
            write!(self.0, "{style}{}{style:#}", printable(text))?;
        }
        writeln!(self.0)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Says on standard error why the program ends.
pub fn error(message: &str) {
    say(&[(ERROR, "error:"), (PLAIN, " "), (PLAIN, message)]);
}

/// Says on standard error what went less than perfectly.
pub fn warning(message: &str) {
    say(&[(WARNING, "warning:"), (PLAIN, " "), (PLAIN, message)]);
}

/// Says something on standard error that is no fault.
pub fn remark(message: &str) {
    say(&[(DIM, message)]);
}

fn say(texts: &[(Style, &str)]) {
    // Nothing can be done about a standard error that can't be written to.
    let _ = Page(anstream::stderr()).line(texts);
}

/// A text on one line, with control characters written out: a path or a source line must not move the cursor or
/// recolour the terminal. What is printable already is not changed.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let escaped =
        text.chars().map(|it| if is_unprintable(it) { it.escape_default().to_string() } else { it.to_string() });
    Cow::Owned(escaped.collect())
}

/// Control characters, and those that break or reorder a line of text.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// A count of things: `1 file`, `2 files`.
pub fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A number of bytes for people.
pub fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..units.len()).rev().find(|it| count >> (10 * it) > 0).unwrap_or(0);
    match unit {
        0 => format!("{count} B"),
        _ => format!("{:.1} {}", count as f64 / f64::powi(1024.0, unit as i32), units[unit]),
    }
}

/// At most `width` characters of a text.
pub fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    match text.char_indices().nth(width) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An escape sequence, its C1 form, DEL, a line separator of each kind, and marks that reorder a line.
    pub const HOSTILE: &str = "\u{1b}[31m\u{9b}2J\u{7f}\r\n\u{2028}\u{2029}\u{85}\u{61c}\u{202e}\u{2066}\u{200f}";

    /// What is written, without the styles.
    pub fn written(write: impl FnOnce(&mut Page<Vec<u8>>) -> io::Result<()>) -> String {
        let mut page = Page(Vec::new());
        write(&mut page).expect("memory takes it");
        let mut text = String::from_utf8(page.0).expect("UTF-8");
        for style in [HEADING, PATH, NAME, DIM, ERROR, WARNING] {
            text = text.replace(&style.render().to_string(), "").replace(&style.render_reset().to_string(), "");
        }
        text
    }

    /// Checks that a page of hostile text holds nothing that a terminal acts on but line ends and the styles.
    #[track_caller]
    pub fn check_harmless(write: impl FnOnce(&mut Page<Vec<u8>>) -> io::Result<()>) {
        let text = written(write);
        assert!(text.contains("\\u{1b}[31m\\u{9b}2J"), "nothing hostile was shown: {text}");
        assert!(!text.chars().any(|it| it != '\n' && is_unprintable(it)), "{text:?}");
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(printable("a\u{202e}b\u{2028}\u{61c}"), "a\\u{202e}b\\u{2028}\\u{61c}");
        assert_eq!(printable("größe 修"), "größe 修");
    }

    #[test]
    fn what_is_printable_stays_as_it_is() {
        assert_eq!(printable(&printable(HOSTILE)), printable(HOSTILE));
    }

    #[test]
    fn long_text_is_cut_on_a_character() {
        assert_eq!(shortened("größe", 3), "grö...");
        assert_eq!(shortened("größe", 5), "größe");
    }

    #[test]
    fn a_message_is_one_harmless_line() {
        check_harmless(|page| {
            page.line(&[(ERROR, "error:"), (PLAIN, HOSTILE)])?;
            assert_eq!(page.0.iter().filter(|it| **it == b'\n').count(), 1);
            Ok(())
        });
    }
}
