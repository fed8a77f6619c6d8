//! What was read of a picture: lines of text where they stand.

/// A picture's text in reading order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Pixels of the picture.
    pub width: u32,
    pub height: u32,
    /// What belongs together: a paragraph, a listing, a column of a dialog. In reading order.
    pub blocks: Vec<Block>,
    /// What a reader of the result should know.
    pub notes: Vec<Note>,
}

/// Lines that belong together, from top to bottom.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Block {
    pub lines: Vec<Line>,
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Inner runs of spaces are one space unless the picture shows a gap of columns; leading spaces give its indentation in its block.
    pub text: String,
    /// Mean probability of the characters, 0 to 1.
    pub confidence: f32,
    /// Top left, top right, bottom right, bottom left, in pixels of the picture.
    pub corners: [[f32; 2]; 4],
}

/// What a reader of a page should know.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// No text was found.
    NoText,
    /// The file holds more frames than the one that was read.
    Animated,
    /// Too small to hold text.
    TooSmall,
    /// So many lines stand at an angle, or from top to bottom, and were not read.
    Turned { lines: usize },
    /// So many places looked like text and could not be read.
    Unreadable { places: usize },
    /// There was more text than is read.
    TooMuch { lines: usize },
}

impl Page {
    /// A page of a text without a picture, whose blocks are set apart by empty lines; it is read as it is.
    pub fn of_text(text: &str) -> Self {
        let line = |text: &str| Line { text: text.trim_end().to_owned(), confidence: 1.0, corners: [[0.0; 2]; 4] };
        let lines: Vec<&str> = text.lines().collect();
        let blocks = lines.split(|it| it.trim().is_empty()).filter(|it| !it.is_empty());
        let blocks = blocks.map(|lines| Block { lines: lines.iter().map(|it| line(it)).collect() }).collect();
        Page { blocks, ..Page::default() }
    }

    /// All lines, in reading order.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.blocks.iter().flat_map(|it| &it.lines)
    }

    /// The text, a line each, an empty one between blocks.
    pub fn text(&self) -> String {
        let block = |it: &Block| it.lines.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join("\n");
        self.blocks.iter().map(block).collect::<Vec<_>>().join("\n\n")
    }
}
