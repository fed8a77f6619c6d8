//! What a line says: crops of one height through the recognition network, decoded by CTC (Graves 2006, best path).

use rayon::prelude::*;

use super::OcrError;
use super::boxes::Quad;
use super::network::Network;
use super::pixels::{Grid, Pixels};

/// Rows of a crop.
pub const HEIGHT: usize = 48;
/// Crops are narrower than the picture by this factor: the network reads letters of screens as well so, and its cost is proportional to the
/// width. Below this, of equal letters in a row (`www`) one gets lost: no step is left for the blank between them.
const SQUEEZE: f32 = 0.85;
/// Columns of a crop at least; what is missing is filled with grey, as in the training.
const LEAST_WIDTH: usize = 64;
/// Widths are rounded up to this, and only lines of one width share a batch: what is read of a line can't depend on its neighbours.
const WIDTH_STEP: usize = 32;
/// Columns of a crop at most; attention over a line is quadratic in it.
const MOST_WIDTH: usize = 6400;

/// A character with its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Character {
    pub value: char,
    /// Where the network was surest of it, 0 to 1 of the line's width.
    pub at: f32,
    pub probability: f32,
}

/// The characters of the classes: class 0 is the blank of CTC, the last one is the space.
pub struct Alphabet(Vec<char>);

impl Alphabet {
    /// From a dictionary, a character a line.
    pub fn new(dictionary: &str) -> Self {
        let character = |line: &str| line.chars().next().unwrap_or(' ');
        let listed = dictionary.split('\n').map(|it| it.trim_end_matches('\r'));
        let mut characters: Vec<char> = listed.map(character).collect();
        if dictionary.ends_with('\n') {
            characters.pop();
        }
        characters.push(' ');
        Alphabet(characters)
    }

    /// With the blank.
    fn classes(&self) -> usize {
        self.0.len() + 1
    }
}

/// Reads each line.
///
/// # Errors
/// A network that is no text recogniser, or one for another dictionary.
pub fn recognise(
    network: &Network,
    alphabet: &Alphabet,
    picture: &Pixels,
    quads: &[Quad],
) -> Result<Vec<Vec<Character>>, OcrError> {
    quads.par_iter().map(|quad| read(network, alphabet, picture, quad)).collect()
}

fn read(network: &Network, alphabet: &Alphabet, picture: &Pixels, quad: &Quad) -> Result<Vec<Character>, OcrError> {
    let crop = Crop::of(picture, quad);
    let ([_, steps, classes], values) = network.run([1, 3, HEIGHT, crop.padded], crop.planes)?;
    if classes != alphabet.classes() {
        return Err(OcrError::Classes { classes, characters: alphabet.classes() });
    }
    let best: Vec<(usize, f32)> = values.chunks_exact(classes).map(most).collect();
    let width = crop.width as f32 / crop.padded as f32 * steps as f32;
    Ok(collapse(&best, alphabet, width))
}

/// The likeliest class.
fn most(probabilities: &[f32]) -> (usize, f32) {
    let first = (0, f32::NEG_INFINITY);
    probabilities.iter().enumerate().fold(first, |best, (at, &it)| if it > best.1 { (at, it) } else { best })
}

/// Repetitions are one character, and blanks are none.
fn collapse(best: &[(usize, f32)], alphabet: &Alphabet, steps: f32) -> Vec<Character> {
    let mut characters = Vec::new();
    let mut start = 0;
    for run in best.chunk_by(|a, b| a.0 == b.0) {
        let class = run[0].0;
        let (peak, probability) = most(&run.iter().map(|it| it.1).collect::<Vec<_>>());
        if let Some(&value) = class.checked_sub(1).and_then(|it| alphabet.0.get(it)) {
            characters.push(Character { value, at: ((start + peak) as f32 + 0.5) / steps, probability });
        }
        start += run.len();
    }
    characters
}

/// A line, upright and of the network's height.
struct Crop {
    planes: Vec<f32>,
    /// Columns that show the line.
    width: usize,
    /// With the filling.
    padded: usize,
}

impl Crop {
    fn of(picture: &Pixels, quad: &Quad) -> Self {
        let aspect = quad.width() / quad.height().max(1.0);
        let width = ((HEIGHT as f32 * aspect * SQUEEZE).ceil() as usize).clamp(1, MOST_WIDTH);
        let padded = width.next_multiple_of(WIDTH_STEP).max(LEAST_WIDTH);
        let mut planes = vec![0.0; 3 * HEIGHT * padded];
        picture.sample(&grid(quad, width), |column, row, [r, g, b]| {
            for (plane, value) in [b, g, r].into_iter().enumerate() {
                planes[(plane * HEIGHT + row) * padded + column] = value / 127.5 - 1.0;
            }
        });
        Crop { planes, width, padded }
    }
}

fn grid(quad: &Quad, width: usize) -> Grid {
    let [origin, right, _, down] = quad.corners;
    let step = |to: [f32; 2], cells: usize| std::array::from_fn(|c| (to[c] - origin[c]) / cells as f32);
    Grid { columns: width, rows: HEIGHT, origin, right: step(right, width), down: step(down, HEIGHT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(classes: &[usize], text: &str) {
        let best: Vec<(usize, f32)> = classes.iter().map(|it| (*it, 0.9)).collect();
        let found = collapse(&best, &Alphabet::new("a\nb\n"), classes.len() as f32);
        assert_eq!(found.iter().map(|it| it.value).collect::<String>(), text);
    }

    #[test]
    fn repetitions_are_one_character_and_blanks_part_them() {
        check(&[], "");
        check(&[0, 0, 0], "");
        check(&[0, 1, 1, 0, 2, 2], "ab");
        check(&[1, 1, 0, 1], "aa");
        check(&[1, 3, 2], "a b");
        // A class beyond the alphabet is no character.
        check(&[1, 9, 2], "ab");
    }

    #[test]
    fn a_character_stands_where_it_is_surest() {
        let found = collapse(&[(0, 1.0), (1, 0.5), (1, 0.9), (0, 1.0)], &Alphabet::new("a"), 4.0);
        assert_eq!(found, [Character { value: 'a', at: 0.625, probability: 0.9 }]);
    }

    #[test]
    fn an_alphabet_has_a_class_for_each_line_the_blank_and_the_space() {
        assert_eq!(Alphabet::new("a\r\nb\r\n").classes(), 4);
        assert_eq!(Alphabet::new("a\nb").classes(), 4);
    }
}
