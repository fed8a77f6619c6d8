//! F2: a picture with the lines that were found in it, and beside it what was read at the place of each. Knows nothing of how they were read.

use image::{ImageBuffer, Rgb, RgbImage, imageops};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

use super::{Line, Page};
use crate::imaging::Picture;

/// Pixels of either side of a drawing.
const MOST_SIDE: u32 = 4096;
/// Lines of a picture whose lines are lower are enlarged, by so much at most.
const LEGIBLE: f32 = 18.0;
const MOST_ENLARGED: u32 = 3;
/// A line's surer characters are drawn as sure ones, those below as doubtful ones.
const SURE: f32 = 0.9;
const DOUBTFUL: f32 = 0.7;
/// Pixels of a picture that a corner may be away from it.
const FARTHEST: f32 = 1e6;
/// Between picture and text.
const GAP: u32 = 4;

const PAPER: Rgb<u8> = Rgb([250, 250, 248]);
const GAP_COLOUR: Rgb<u8> = Rgb([128, 128, 128]);
/// Around the frames of lines, which stand out from it where the background is of their colour.
const HALO: Rgb<u8> = Rgb([255, 255, 255]);

/// Why a drawing can't be given.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    #[error("the drawing can't be written as PNG ({0}): free some memory")]
    Png(#[from] png::EncodingError),
}

/// The bytes of a PNG: the picture with a frame around each line, and a sheet of equal size with the text of the lines where they stand. The
/// colour is that of the confidence (green from 0.9 on, amber from 0.7 on, red below). The sheet stands right of the picture or below
/// it, whichever makes the longer side shorter. Small text is enlarged; no side has more than 4,096 pixels.
///
/// # Errors
/// Those of the encoder.
pub fn draw(picture: &Picture, page: &Page) -> Result<Vec<u8>, DrawError> {
    let drawing = drawing(picture, page);
    Ok(png(drawing.width(), drawing.height(), drawing.as_raw())?)
}

/// Pixels, three bytes each, as a PNG file.
pub(super) fn png(width: u32, height: u32, rgb: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    encoder.write_header()?.write_image_data(rgb)?;
    Ok(bytes)
}

fn drawing(picture: &Picture, page: &Page) -> RgbImage {
    let layout = Layout::new(picture.width(), picture.height(), page);
    let mut canvas = RgbImage::from_pixel(layout.canvas.0, layout.canvas.1, GAP_COLOUR);
    imageops::replace(&mut canvas, &resized(picture, layout.size), 0, 0);
    let paper = RgbImage::from_pixel(layout.size.0, layout.size.1, PAPER);
    imageops::replace(&mut canvas, &paper, layout.sheet.0.into(), layout.sheet.1.into());
    // What is no number, or far outside, has no place.
    let has_place = |line: &&Line| line.corners.iter().flatten().all(|it| it.abs() <= FARTHEST);
    let scaled = |line: &Line| line.corners.map(|corner| corner.map(|it| it * layout.scale));
    let lines = || page.lines().filter(has_place).map(|it| (it, scaled(it)));
    let mut area = Area { canvas: &mut canvas, origin: (0, 0), size: layout.size };
    // As thick as a pixel of the picture.
    let thickness = (layout.scale.round() as u32).max(1);
    lines().for_each(|(_, corners)| area.outline(&grown(&corners, thickness as f32 + 1.0), HALO, 0.5));
    for (line, corners) in lines() {
        (1..=thickness).for_each(|it| area.outline(&grown(&corners, it as f32), colour(line, false), 1.0));
    }
    let mut sheet = Area { canvas: &mut canvas, origin: layout.sheet, size: layout.size };
    lines().for_each(|(line, corners)| write(&mut sheet, line, &corners));
    canvas
}

/// Where things stand in a drawing.
#[derive(Debug, PartialEq)]
struct Layout {
    /// From pixels of the picture to those of the drawing.
    scale: f32,
    /// Of the picture in the drawing, and of the sheet.
    size: (u32, u32),
    /// The sheet's upper left corner.
    sheet: (u32, u32),
    canvas: (u32, u32),
}

impl Layout {
    fn new(width: u32, height: u32, page: &Page) -> Self {
        let is_beside = width <= height;
        let (across, down) = if is_beside { (2, 1) } else { (1, 2) };
        let room = (MOST_SIDE - GAP) as f32;
        let fits = |side: u32, times: u32| room / (times as f32 * side.max(1) as f32);
        let most = fits(width, across).min(fits(height, down));
        let scale = most.min(enlargement(page));
        let scaled = |side: u32| ((side as f32 * scale) as u32).max(1);
        let size = (scaled(width), scaled(height));
        let sheet = if is_beside { (size.0 + GAP, 0) } else { (0, size.1 + GAP) };
        Layout { scale, size, sheet, canvas: (sheet.0 + size.0, sheet.1 + size.1) }
    }
}

/// By how much the lines have to be enlarged so that half of them can be read with ease.
fn enlargement(page: &Page) -> f32 {
    let mut heights: Vec<f32> = page.lines().map(|it| across(&it.corners)).filter(|it| *it >= 1.0).collect();
    heights.sort_by(f32::total_cmp);
    let Some(median) = heights.get(heights.len() / 2) else { return 1.0 };
    (1..MOST_ENLARGED).find(|it| median * *it as f32 >= LEGIBLE).unwrap_or(MOST_ENLARGED) as f32
}

fn resized(picture: &Picture, (width, height): (u32, u32)) -> RgbImage {
    let Some(pixels) = ImageBuffer::<Rgb<u8>, _>::from_raw(picture.width(), picture.height(), picture.rgb()) else {
        return RgbImage::from_pixel(width, height, PAPER);
    };
    if width > picture.width() || height > picture.height() {
        return imageops::resize(&pixels, width, height, imageops::FilterType::Triangle);
    }
    // Takes no memory beside the result, however large the picture is.
    imageops::thumbnail(&pixels, width, height)
}

fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    (b[0] - a[0]).hypot(b[1] - a[1])
}

/// The length of a line, along its text.
fn along([a, b, c, d]: &[[f32; 2]; 4]) -> f32 {
    f32::midpoint(distance(*a, *b), distance(*d, *c))
}

/// The height of a line, across its text.
fn across([a, b, c, d]: &[[f32; 2]; 4]) -> f32 {
    f32::midpoint(distance(*a, *d), distance(*b, *c))
}

/// Frames are bright enough for dark pictures; ink is dark enough for paper.
fn colour(line: &Line, is_ink: bool) -> Rgb<u8> {
    match line.confidence {
        it if it >= SURE => Rgb(if is_ink { [20, 60, 30] } else { [0, 160, 70] }),
        it if it >= DOUBTFUL => Rgb(if is_ink { [150, 90, 0] } else { [230, 140, 0] }),
        _ => Rgb(if is_ink { [190, 20, 20] } else { [230, 30, 30] }),
    }
}

/// A part of a drawing. What is drawn outside it is not drawn.
struct Area<'a> {
    canvas: &'a mut RgbImage,
    origin: (u32, u32),
    size: (u32, u32),
}

impl Area<'_> {
    /// Lays a colour over a pixel; at 1 it hides what was there.
    fn blend(&mut self, x: i64, y: i64, colour: Rgb<u8>, opacity: f32) {
        let is_inside = |at: i64, size: u32| (0..i64::from(size)).contains(&at);
        if !is_inside(x, self.size.0) || !is_inside(y, self.size.1) {
            return;
        }
        let pixel = self.canvas.get_pixel_mut(self.origin.0 + x as u32, self.origin.1 + y as u32);
        for (channel, over) in pixel.0.iter_mut().zip(colour.0) {
            *channel = (f32::from(*channel) * (1.0 - opacity) + f32::from(over) * opacity).round() as u8;
        }
    }

    /// A straight line, one pixel thick.
    fn stroke(&mut self, from: [f32; 2], to: [f32; 2], colour: Rgb<u8>, opacity: f32) {
        // Corners far outside would cost time for pixels that are not there.
        let steps = (to[0] - from[0]).abs().max((to[1] - from[1]).abs()).ceil().clamp(1.0, 4.0 * MOST_SIDE as f32);
        let mut last = None;
        for step in 0..=steps as u32 {
            let part = step as f32 / steps;
            let at = [0, 1].map(|axis| (from[axis] + (to[axis] - from[axis]) * part).floor() as i64);
            if last != Some(at) {
                self.blend(at[0], at[1], colour, opacity);
            }
            last = Some(at);
        }
    }

    fn outline(&mut self, corners: &[[f32; 2]; 4], colour: Rgb<u8>, opacity: f32) {
        for (at, from) in corners.iter().enumerate() {
            self.stroke(*from, corners[(at + 1) % 4], colour, opacity);
        }
    }
}

/// Corners so many pixels further out.
fn grown([a, b, c, d]: &[[f32; 2]; 4], by: f32) -> [[f32; 2]; 4] {
    let (right, down) = (direction(*a, *b), direction(*a, *d));
    let moved = |at: [f32; 2], x: f32, y: f32| [0, 1].map(|axis| at[axis] + by * (x * right[axis] + y * down[axis]));
    [moved(*a, -1.0, -1.0), moved(*b, 1.0, -1.0), moved(*c, 1.0, 1.0), moved(*d, -1.0, 1.0)]
}

fn direction(from: [f32; 2], to: [f32; 2]) -> [f32; 2] {
    let length = distance(from, to);
    if length > 0.0 { [0, 1].map(|axis| (to[axis] - from[axis]) / length) } else { [0.0, 0.0] }
}

/// Writes a line's text where it stands in the picture, in characters of one width that fill its length as far as they can be
/// read.
fn write(area: &mut Area<'_>, line: &Line, corners: &[[f32; 2]; 4]) {
    /// Width of a character for a height of one: as the font has it, the narrowest that can be read, and the widest with the space beside it.
    const NATURAL: f32 = 0.56;
    const NARROWEST: f32 = 0.4;
    const WIDEST: f32 = 0.8;
    /// Pixels.
    const LOWEST: f32 = 12.0;
    const HIGHEST: f32 = 256.0;
    // Spaces before it tell its indentation; its corners are those of the ink.
    let text = line.text.trim();
    let count = text.chars().count().max(1) as f32;
    let height = across(corners).clamp(LOWEST, HIGHEST);
    let advance = (along(corners) / count).clamp(NARROWEST * height, WIDEST * height);
    // Boxes differ in height with the letters in them; what is written in them should not.
    let height = height.max(advance / NATURAL);
    let cell = [advance.min(NATURAL * height), height];
    let right = direction(corners[0], corners[1]);
    let left = [0, 1].map(|axis| f32::midpoint(corners[0][axis], corners[3][axis]));
    let ink = colour(line, true);
    for (at, character) in text.chars().enumerate() {
        let offset = (at as f32 + 0.5) * advance;
        let centre = [0, 1].map(|axis| left[axis] + right[axis] * offset);
        if centre.iter().all(|it| (-256.0..=2.0 * MOST_SIDE as f32).contains(it)) {
            glyph(area, character, centre, cell, ink);
        }
    }
}

/// Draws a character into a cell around its centre: each pixel is as dark as the part of the font's pixels below it.
fn glyph(area: &mut Area<'_>, character: char, centre: [f32; 2], cell: [f32; 2], ink: Rgb<u8>) {
    const HEIGHT: RasterHeight = RasterHeight::Size32;
    let raster = |it| get_raster(it, FontWeight::Regular, HEIGHT);
    let Some(raster) = raster(plain(character)).or_else(|| raster(char::REPLACEMENT_CHARACTER)) else { return };
    let font = [get_raster_width(FontWeight::Regular, HEIGHT) as f32, HEIGHT.val() as f32];
    let start = [0, 1].map(|axis| (centre[axis] - cell[axis] / 2.0).round());
    let ratio = [0, 1].map(|axis| font[axis] / cell[axis]);
    let pixels = cell.map(|it| it.ceil() as u32);
    for (x, y) in (0..pixels[1]).flat_map(|y| (0..pixels[0]).map(move |x| (x, y))) {
        let shade = coverage(&raster, [x as f32 * ratio[0], y as f32 * ratio[1]], ratio);
        area.blend(start[0] as i64 + i64::from(x), start[1] as i64 + i64::from(y), ink, shade);
    }
}

/// The mean of the font's pixels in a rectangle.
fn coverage(raster: &noto_sans_mono_bitmap::RasterizedChar, from: [f32; 2], size: [f32; 2]) -> f32 {
    let weight = |at: usize, from: f32, size: f32| (from + size).min(at as f32 + 1.0) - from.max(at as f32);
    let span = |from: f32, size: f32| from as usize..(from + size).ceil() as usize;
    let mut sum = 0.0;
    for y in span(from[1], size[1]) {
        for x in span(from[0], size[0]) {
            let ink = f32::from(raster.pixel(x, y).unwrap_or(0)) / 255.0;
            sum += ink * weight(x, from[0], size[0]) * weight(y, from[1], size[1]);
        }
    }
    (sum / (size[0] * size[1])).clamp(0.0, 1.0)
}

/// The character of the font that stands for one that it lacks.
fn plain(character: char) -> char {
    match character {
        '\u{2018}' | '\u{2019}' | '\u{2032}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{2500}' => '-',
        '\u{2022}' | '\u{25cf}' => '\u{b7}',
        '\u{2502}' => '|',
        '\u{2190}' => '<',
        '\u{2192}' | '\u{203a}' | '\u{276f}' => '>',
        '\u{2713}' | '\u{2714}' => 'v',
        '\u{2715}'..='\u{2718}' => 'x',
        '\u{a0}' | '\u{3000}' => ' ',
        // Characters of full width, in the order of ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(character as u32 - 0xfee0).unwrap_or(character),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Block;
    use super::*;
    use crate::imaging::{Limits, decode};

    const LIMITS: Limits = Limits { max_bytes: 1 << 24, max_pixels: 1 << 28 };

    /// A picture of one colour.
    fn picture(width: u32, height: u32, colour: [u8; 3]) -> Picture {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let pixels = colour.repeat(width as usize * height as usize);
        encoder.write_header().and_then(|mut it| it.write_image_data(&pixels)).expect("written");
        decode(&bytes, &LIMITS).expect("a picture")
    }

    /// A line in an upright rectangle.
    fn line(text: &str, confidence: f32, [left, top, right, bottom]: [f32; 4]) -> Line {
        let corners = [[left, top], [right, top], [right, bottom], [left, bottom]];
        Line { text: text.to_owned(), confidence, corners }
    }

    fn page(lines: Vec<Line>) -> Page {
        Page { blocks: vec![Block { lines }], ..Page::default() }
    }

    #[track_caller]
    fn check_layout(width: u32, height: u32, line_height: f32, expected: Layout) {
        let lines = vec![line("x", 1.0, [0.0, 0.0, 50.0, line_height])];
        assert_eq!(Layout::new(width, height, &page(lines)), expected);
    }

    #[test]
    fn the_sheet_stands_where_the_drawing_stays_compact() {
        let layout = |scale, size, sheet, canvas| Layout { scale, size, sheet, canvas };
        check_layout(1024, 768, 20.0, layout(1.0, (1024, 768), (0, 772), (1024, 1540)));
        check_layout(400, 800, 20.0, layout(1.0, (400, 800), (404, 0), (804, 800)));
        check_layout(400, 400, 12.0, layout(2.0, (800, 800), (804, 0), (1604, 800)));
        check_layout(100, 50, 2.0, layout(3.0, (300, 150), (0, 154), (300, 304)));
        check_layout(8184, 1000, 20.0, layout(0.5, (4092, 500), (0, 504), (4092, 1004)));
        check_layout(1000, 8184, 20.0, layout(0.5, (500, 4092), (504, 0), (1004, 4092)));
    }

    #[test]
    fn no_side_is_longer_than_allowed() {
        for (width, height) in [(1, 1), (1, 60_000), (60_000, 1), (5000, 5000), (4096, 4096)] {
            let drawing = drawing(&picture(width, height, [9; 3]), &Page::default());
            assert!(drawing.width() <= MOST_SIDE && drawing.height() <= MOST_SIDE, "{:?}", drawing.dimensions());
        }
    }

    /// Whether a pixel in a rectangle of a drawing is not of a colour.
    fn differs(drawing: &RgbImage, [left, top, right, bottom]: [u32; 4], colour: Rgb<u8>) -> bool {
        (top..bottom).flat_map(|y| (left..right).map(move |x| (x, y))).any(|(x, y)| *drawing.get_pixel(x, y) != colour)
    }

    #[test]
    fn a_line_is_framed_in_the_picture_and_written_on_the_sheet() {
        for background in [[0; 3], [255; 3]] {
            let lines =
                vec![line("Hello", 0.95, [100.0, 40.0, 160.0, 60.0]), line("x", 0.1, [20.0, 80.0, 32.0, 100.0])];
            let drawing = drawing(&picture(200, 120, background), &page(lines));
            assert_eq!(drawing.dimensions(), (200, 244));
            assert_eq!([*drawing.get_pixel(130, 39), *drawing.get_pixel(130, 61)], [Rgb([0, 160, 70]); 2]);
            assert_eq!(*drawing.get_pixel(19, 90), Rgb([230, 30, 30]));
            assert!(!differs(&drawing, [102, 42, 158, 58], Rgb(background)), "the text itself stays as it is");
            for letter in 0..5 {
                let left = 100 + 12 * letter;
                assert!(differs(&drawing, [left, 164, left + 12, 184], PAPER), "letter {letter}");
            }
            assert!(!differs(&drawing, [0, 124, 98, 200], PAPER) && !differs(&drawing, [162, 124, 200, 244], PAPER));
        }
    }

    #[test]
    fn characters_that_the_font_lacks_are_shown_as_such() {
        let drawn =
            |text: &str| drawing(&picture(60, 40, [0; 3]), &page(vec![line(text, 1.0, [5.0, 5.0, 50.0, 30.0])]));
        assert_eq!(drawn("\u{8bef}\u{1f4a5}"), drawn("\u{fffd}\u{fffd}"));
        assert_eq!(drawn("\u{201c}\u{ff21}\u{2014}"), drawn("\"A-"));
        assert_eq!(drawn("   a"), drawn("a"));
    }

    #[test]
    fn corners_from_anywhere_do_no_harm() {
        let far = [-1e9, f32::NAN, f32::INFINITY, 1e9, -3.0, 2000.0];
        for (at, corner) in far.iter().enumerate() {
            let corners = [[*corner, 3.0], [far[(at + 1) % 6], *corner], [40.0, 20.0], [0.0, 20.0]];
            let line = Line { text: "abc".repeat(100), confidence: f32::NAN, corners };
            assert_eq!(drawing(&picture(60, 40, [0; 3]), &page(vec![line])).dimensions().0 % 60, 0);
        }
    }

    #[test]
    fn a_drawing_is_a_png() {
        let bytes = draw(&picture(40, 30, [7; 3]), &Page::default()).expect("drawn");
        let read = decode(&bytes, &LIMITS).expect("a picture");
        assert_eq!((read.width(), read.height(), &read.rgb()[..3]), (40, 64, &[7; 3][..]));
    }
}
