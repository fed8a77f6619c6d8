//! From pieces of lines, as they were detected, to lines and blocks in reading order.
//!
//! Pieces that stand close in a row are one line. Lines that follow each other without a rival beside them are a block. Blocks side by side
//! whose lines are level are the columns of a table and read by rows, unless both are prose. What is left is cut at the widest margins.

use super::boxes::Quad;
use super::recognition::Character;
use crate::evidence::page::{Block, Line};

/// A detected piece of a line and what it says.
#[derive(Debug, Clone)]
pub struct Piece {
    pub quad: Quad,
    pub characters: Vec<Character>,
}

/// Heights between two pieces of one line at most.
const JOINED: f32 = 1.5;
/// Heights from a line to the next of its block at most, by their middles: an empty line may stand between.
const NEXT_LINE: f32 = 2.6;
/// Heights by which a line may end before the next one of its block begins: the brace after an indented line.
const INDENTATION: f32 = 6.0;
/// Lines of a block differ in height by at most this factor.
const ALIKE: f32 = 1.6;
/// Two lines are level if their middles differ by at most this share of a height.
const LEVEL: f32 = 0.4;
/// The share of the shorter column's lines that are level with one of the other column, in a table.
const TABLE: f32 = 0.8;
/// Words a line from which a column is prose.
const PROSE: usize = 4;
/// Columns of a gap that are shown at most.
const MOST_GAP: f32 = 16.0;
/// Columns of indentation that are shown at most.
const MOST_INDENTATION: f32 = 80.0;
/// A gap between two pieces below so many columns is none: a word was detected in two pieces.
const NO_GAP: f32 = 0.35;

/// The blocks of pieces that hold at least one character each, in reading order.
pub fn blocks(pieces: Vec<Piece>) -> Vec<Block> {
    let tilt = tilt(&pieces);
    let rows = joined(pieces.into_iter().map(|it| Row::new(it, tilt)).collect());
    let tables = beside(chains(rows));
    let mut groups = chains(tables.into_iter().flatten().collect());
    order(&mut groups);
    groups.iter().map(|it| block(it)).collect()
}

/// The median angle.
fn tilt(pieces: &[Piece]) -> f32 {
    median(pieces.iter().map(|it| it.quad.angle()).collect()).unwrap_or(0.0)
}

fn median(mut values: Vec<f32>) -> Option<f32> {
    values.sort_by(f32::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Piece {
    /// Mean probability of the characters.
    pub fn confidence(&self) -> f32 {
        mean(&self.characters)
    }

    /// Pixels from a character to the next.
    fn pitch(&self) -> f32 {
        let usual = self.quad.height() * 0.45;
        match (self.characters.first(), self.characters.last(), self.characters.len()) {
            (Some(first), Some(last), count @ 4..) => (last.at - first.at) * self.quad.width() / (count - 1) as f32,
            _ => usual,
        }
    }

    fn text(&self) -> String {
        self.characters.iter().map(|it| it.value).collect()
    }
}

fn mean(characters: &[Character]) -> f32 {
    characters.iter().map(|it| it.probability).sum::<f32>() / characters.len().max(1) as f32
}

/// Pieces at one height, from left to right; places are those of the picture turned straight.
#[derive(Debug, Clone)]
struct Row {
    cells: Vec<Cell>,
    top: f32,
    bottom: f32,
}

#[derive(Debug, Clone)]
struct Cell {
    piece: Piece,
    /// Outer edges of the first and of the last character.
    left: f32,
    right: f32,
    pitch: f32,
}

impl Row {
    fn new(piece: Piece, tilt: f32) -> Self {
        let (sin, cos) = (-tilt).sin_cos();
        let straight = |[x, y]: [f32; 2]| [x * cos - y * sin, x * sin + y * cos];
        let [[left, _], [right, _], [_, bottom], [_, top]] =
            [middle(&piece, 0, 3), middle(&piece, 1, 2), middle(&piece, 2, 3), middle(&piece, 0, 1)].map(straight);
        let pitch = piece.pitch();
        let place = |it: Option<&Character>| left + (right - left) * it.map_or(0.5, |it| it.at);
        let (first, last) = (place(piece.characters.first()), place(piece.characters.last()));
        let cell = Cell { left: first - pitch / 2.0, right: last + pitch / 2.0, pitch, piece };
        Row { cells: vec![cell], top, bottom }
    }

    fn left(&self) -> f32 {
        self.cells.first().map_or(0.0, |it| it.left)
    }

    fn right(&self) -> f32 {
        self.cells.last().map_or(0.0, |it| it.right)
    }

    fn height(&self) -> f32 {
        self.bottom - self.top
    }

    fn middle(&self) -> f32 {
        (self.top + self.bottom) / 2.0
    }

    fn level_with(&self, other: &Row) -> bool {
        (self.middle() - other.middle()).abs() <= LEVEL * self.height().max(other.height())
    }

    /// Whether no cell stands on one of the other's.
    fn apart(&self, other: &Row) -> bool {
        self.cells.iter().all(|a| other.cells.iter().all(|b| a.right <= b.left || b.right <= a.left))
    }

    fn alike(&self, other: &Row) -> bool {
        self.height().max(other.height()) <= ALIKE * self.height().min(other.height())
    }

    /// Takes in what stands to the right or between.
    fn take(&mut self, other: Row) {
        (self.top, self.bottom) = (self.top.min(other.top), self.bottom.max(other.bottom));
        self.cells.extend(other.cells);
        self.cells.sort_by(|a, b| a.left.total_cmp(&b.left));
    }

    fn words(&self) -> usize {
        self.cells.iter().map(|it| it.piece.text().split_whitespace().count()).sum()
    }
}

fn middle(piece: &Piece, a: usize, b: usize) -> [f32; 2] {
    let [a, b] = [piece.quad.corners[a], piece.quad.corners[b]];
    [(a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0]
}

/// Joins pieces that stand close in a row.
fn joined(mut pieces: Vec<Row>) -> Vec<Row> {
    pieces.sort_by(|a, b| a.left().total_cmp(&b.left()).then(a.top.total_cmp(&b.top)));
    let mut rows: Vec<Row> = Vec::new();
    for piece in pieces {
        let gap = |row: &Row| piece.left() - row.right();
        let near = |row: &&mut Row| row.level_with(&piece) && row.alike(&piece) && gap(row) < JOINED * row.height();
        match rows.iter_mut().filter(near).min_by(|a, b| gap(a).total_cmp(&gap(b))) {
            Some(row) => row.take(piece),
            None => rows.push(piece),
        }
    }
    rows
}

/// Rows that follow each other from top to bottom, each the only one beneath the other and the only one above it.
fn chains(mut rows: Vec<Row>) -> Vec<Vec<Row>> {
    rows.sort_by(|a, b| a.middle().total_cmp(&b.middle()).then(a.left().total_cmp(&b.left())));
    let reaches: Vec<f32> = rows.iter().map(|it| reach(&rows, it)).collect();
    let next: Vec<Vec<usize>> = (0..rows.len()).map(|at| neighbours(&rows, &reaches, at, true)).collect();
    let last: Vec<Vec<usize>> = (0..rows.len()).map(|at| neighbours(&rows, &reaches, at, false)).collect();
    let mut groups: Vec<Vec<Row>> = Vec::new();
    let mut group_of = vec![usize::MAX; rows.len()];
    for (at, row) in rows.iter().enumerate() {
        let above = match last[at][..] {
            [above] if next[above] == [at] && row.alike(&rows[above]) => group_of[above],
            _ => usize::MAX,
        };
        group_of[at] = if above == usize::MAX { groups.len() } else { above };
        match groups.get_mut(group_of[at]) {
            Some(group) => group.push(row.clone()),
            None => groups.push(vec![row.clone()]),
        }
    }
    groups
}

/// How far to the left a row would go on, were it not indented.
fn reach(rows: &[Row], row: &Row) -> f32 {
    let beside = rows.iter().filter(|it| it.level_with(row) && it.right() <= row.left()).map(Row::right);
    beside.fold(row.left() - INDENTATION * row.height(), f32::max)
}

/// The rows of the nearest level beneath a row, or above it, that overlap it from side to side.
fn neighbours(rows: &[Row], reaches: &[f32], of: usize, beneath: bool) -> Vec<usize> {
    let row = &rows[of];
    let distance =
        |at: &usize| if beneath { rows[*at].middle() - row.middle() } else { row.middle() - rows[*at].middle() };
    let under = |at: usize| reaches[at] < row.right() && reaches[of] < rows[at].right();
    let found = |at: &usize| {
        *at != of
            && !rows[*at].level_with(row)
            && (0.0..=NEXT_LINE * row.height()).contains(&distance(at))
            && under(*at)
    };
    let mut near: Vec<usize> = (0..rows.len()).filter(found).collect();
    let least = near.iter().map(distance).fold(f32::INFINITY, f32::min);
    near.retain(|at| distance(at) <= least + LEVEL * row.height());
    let overlaps = |at: &usize| rows[*at].left() < row.right() && row.left() < rows[*at].right();
    if near.iter().any(overlaps) {
        near.retain(overlaps);
    }
    near
}

/// Joins blocks side by side that are the columns of a table.
fn beside(mut blocks: Vec<Vec<Row>>) -> Vec<Vec<Row>> {
    blocks.sort_by(|a, b| sides(a).0.total_cmp(&sides(b).0).then(ends(a).0.total_cmp(&ends(b).0)));
    let mut at = 0;
    while at < blocks.len() {
        let found = (at + 1..blocks.len()).find(|&other| is_table(&blocks[at], &blocks[other]));
        match found {
            Some(other) => {
                let column = blocks.remove(other);
                by_rows(&mut blocks[at], column);
            }
            None => at += 1,
        }
    }
    blocks
}

fn sides(block: &[Row]) -> (f32, f32) {
    extent(block.iter().map(|it| (it.left(), it.right())))
}

fn ends(block: &[Row]) -> (f32, f32) {
    extent(block.iter().map(|it| (it.top, it.bottom)))
}

fn extent(ranges: impl Iterator<Item = (f32, f32)>) -> (f32, f32) {
    ranges.fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), (a, b)| (least.min(a), most.max(b)))
}

fn is_table(a: &[Row], b: &[Row]) -> bool {
    let ((top, bottom), (above, below)) = (ends(a), ends(b));
    if top > below || above > bottom || (is_prose(a) && is_prose(b)) {
        return false;
    }
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let level = |row: &Row| long.iter().find(|it| it.level_with(row)).map(|it| it.apart(row));
    let apart: Vec<bool> = short.iter().filter_map(level).collect();
    apart.len() as f32 >= TABLE * short.len() as f32 && apart.iter().all(|it| *it)
}

fn is_prose(block: &[Row]) -> bool {
    let mut words: Vec<usize> = block.iter().map(Row::words).collect();
    words.sort_unstable();
    let single = block.iter().filter(|it| it.cells.len() == 1).count();
    block.len() > 1 && words[words.len() / 2] >= PROSE && single * 2 > block.len()
}

fn by_rows(block: &mut Vec<Row>, column: Vec<Row>) {
    for row in column {
        match block.iter_mut().find(|it| it.level_with(&row)) {
            Some(level) => level.take(row),
            None => block.push(row),
        }
    }
    block.sort_by(|a, b| a.middle().total_cmp(&b.middle()));
}

/// Reading order: cut from side to side where no block stands, then from top to bottom, and so on.
fn order(blocks: &mut [Vec<Row>]) {
    if blocks.len() < 2 {
        return;
    }
    let parts = match parts(blocks, ends) {
        parts if parts.len() > 1 => parts,
        _ => parts(blocks, sides),
    };
    if parts.len() > 1 {
        let mut rest = blocks;
        for part in parts {
            let (first, others) = rest.split_at_mut(part);
            order(first);
            rest = others;
        }
    } else {
        blocks.sort_by(|a, b| ends(a).0.total_cmp(&ends(b).0).then(sides(a).0.total_cmp(&sides(b).0)));
    }
}

/// Sorts blocks along a direction and counts those between two margins.
fn parts(blocks: &mut [Vec<Row>], range: fn(&[Row]) -> (f32, f32)) -> Vec<usize> {
    blocks.sort_by(|a, b| range(a).0.total_cmp(&range(b).0));
    let mut parts: Vec<usize> = Vec::new();
    let mut end = f32::NEG_INFINITY;
    for block in blocks.iter() {
        let (from, to) = range(block);
        // Boxes are larger than their letters.
        let margin = block.first().map_or(0.0, |it| it.height() / 4.0);
        match parts.last_mut() {
            Some(part) if from + margin < end => *part += 1,
            _ => parts.push(1),
        }
        end = end.max(to - margin);
    }
    parts
}

fn block(rows: &[Row]) -> Block {
    let (left, _) = sides(rows);
    let pitch = median(rows.iter().flat_map(|it| &it.cells).map(|it| it.pitch).collect()).unwrap_or(1.0).max(1.0);
    Block { lines: rows.iter().map(|row| line(row, left, pitch)).collect() }
}

fn line(row: &Row, left: f32, pitch: f32) -> Line {
    let indentation = ((row.left() - left) / pitch).round().clamp(0.0, MOST_INDENTATION);
    let mut text = " ".repeat(indentation as usize);
    let mut end = f32::NAN;
    for cell in &row.cells {
        text.push_str(&" ".repeat(gap(cell.left - end, pitch)));
        text.push_str(&cell.piece.text());
        end = cell.right;
    }
    let characters: Vec<Character> = row.cells.iter().flat_map(|it| it.piece.characters.iter().copied()).collect();
    Line { text, confidence: mean(&characters), corners: corners(row) }
}

/// Spaces for a gap between two pieces; a piece that starts a line has none before it.
fn gap(pixels: f32, pitch: f32) -> usize {
    let columns = pixels / pitch;
    if columns.is_nan() || columns < NO_GAP { 0 } else { columns.round().clamp(1.0, MOST_GAP) as usize }
}

fn corners(row: &Row) -> [[f32; 2]; 4] {
    match (row.cells.first(), row.cells.last()) {
        (Some(first), Some(last)) => {
            let (first, last) = (first.piece.quad.corners, last.piece.quad.corners);
            [first[0], last[1], last[2], first[3]]
        }
        _ => [[0.0; 2]; 4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece whose letters are 10 pixels wide and 20 tall, with its corner at (x, y).
    fn piece(text: &str, x: f32, y: f32) -> Piece {
        let (count, width) = (text.chars().count() as f32, text.chars().count() as f32 * 10.0);
        let place = |(at, value)| Character { value, at: (at as f32 + 0.5) / count, probability: 1.0 };
        let corners = [[x, y], [x + width, y], [x + width, y + 20.0], [x, y + 20.0]];
        Piece { quad: Quad { corners, score: 1.0 }, characters: text.chars().enumerate().map(place).collect() }
    }

    #[track_caller]
    fn check(pieces: &[(&str, f32, f32)], expected: &[&[&str]]) {
        let found = blocks(pieces.iter().map(|(text, x, y)| piece(text, *x, *y)).collect());
        let found: Vec<Vec<&str>> =
            found.iter().map(|it| it.lines.iter().map(|it| it.text.as_str()).collect()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn nothing_has_no_block() {
        check(&[], &[]);
    }

    #[test]
    fn pieces_of_a_row_are_a_line_with_the_spaces_of_their_gap() {
        check(&[("world", 60.0, 1.0), ("hello", 0.0, 0.0)], &[&["hello world"]]);
        check(&[("Mess", 0.0, 0.0), ("age", 41.0, 0.0)], &[&["Message"]]);
    }

    #[test]
    fn lines_keep_their_indentation() {
        let lines = [("fn main() {", 0.0, 0.0), ("run(arguments);", 40.0, 25.0), ("}", 0.0, 50.0)];
        check(&lines, &[&["fn main() {", "    run(arguments);", "}"]]);
    }

    #[test]
    fn an_empty_line_does_not_end_a_listing_and_a_wide_gap_does() {
        check(&[("first", 0.0, 0.0), ("second", 0.0, 50.0)], &[&["first", "second"]]);
        check(&[("first", 0.0, 0.0), ("second", 0.0, 90.0)], &[&["first"], &["second"]]);
    }

    #[test]
    fn a_table_is_read_by_rows() {
        let cells = [("12:01", 0.0, 0.0), ("12:02", 0.0, 25.0), ("started", 120.0, 0.0), ("failed", 120.0, 25.0)];
        check(&cells, &[&["12:01       started", "12:02       failed"]]);
    }

    #[test]
    fn columns_of_prose_are_read_one_after_the_other() {
        let left = [("it is a long way", 0.0, 0.0), ("from here to town", 0.0, 25.0)];
        let right = [("and so we did not", 260.0, 0.0), ("go there on foot", 260.0, 25.0)];
        let all: Vec<_> = left.into_iter().chain(right).collect();
        check(&all, &[&["it is a long way", "from here to town"], &["and so we did not", "go there on foot"]]);
    }
}
