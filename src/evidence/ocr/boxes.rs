//! From a map of text to turned rectangles: components, smallest rectangle, and growth by the shrinkage of the training (DB, arXiv
//! 1911.08947, section 3.4).

use super::detection::TextMap;

/// A line of text, or a part of one, in pixels of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quad {
    /// Top left, top right, bottom right, bottom left, as the text is read if it runs from left to right.
    pub corners: [[f32; 2]; 4],
    /// Mean probability over the component, 0 to 1.
    pub score: f32,
}

/// What counts as text in the map.
const THRESHOLD: u8 = 77;
/// Components with a lower mean are texture.
const LEAST_SCORE: f32 = 0.5;
/// Text was shrunk for training by its area over its perimeter times a constant; this undoes it.
const UNCLIP: f32 = 1.6;
/// Pixels of the map; smaller components are noise.
const LEAST_SIDE: f32 = 2.0;
/// A rectangle is taken as upright if that makes it at most so much taller.
const UPRIGHT: f32 = 1.2;

impl Quad {
    pub fn width(&self) -> f32 {
        distance(self.corners[0], self.corners[1])
    }

    pub fn height(&self) -> f32 {
        distance(self.corners[0], self.corners[3])
    }

    /// Of the upper edge, in radians; positive turns clockwise on the screen.
    pub fn angle(&self) -> f32 {
        let [[x0, y0], [x1, y1], ..] = self.corners;
        (y1 - y0).atan2(x1 - x0)
    }
}

fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// The rectangles of a map, by the place of their topmost pixel.
pub fn boxes(map: &TextMap) -> Vec<Quad> {
    components(map).iter().filter_map(|it| it.quad(map.scale)).collect()
}

/// Pixels that touch, by the ends of their rows.
#[derive(Debug, Default)]
struct Component {
    points: Vec<[i32; 2]>,
    sum: u64,
    pixels: u64,
}

/// A run of text in a row.
struct Run {
    start: usize,
    end: usize,
    component: usize,
}

/// Components of pixels that touch at a side or a corner. One pass over the rows, with a union-find over the components.
fn components(map: &TextMap) -> Vec<Component> {
    let mut parents: Vec<usize> = Vec::new();
    let mut found: Vec<Component> = Vec::new();
    let mut above: Vec<Run> = Vec::new();
    for (y, row) in map.values.chunks_exact(map.width.max(1)).enumerate() {
        let mut runs = runs(row);
        let mut first = 0;
        for run in &mut runs {
            while above.get(first).is_some_and(|it| it.end < run.start) {
                first += 1;
            }
            let touching = above[first..].iter().take_while(|it| it.start <= run.end);
            run.component = touching.fold(usize::MAX, |joined, it| join(&mut parents, joined, it.component));
            if run.component == usize::MAX {
                run.component = parents.len();
                parents.push(run.component);
                found.push(Component::default());
            }
            found[run.component].add(y, run, &row[run.start..run.end]);
        }
        above = runs;
    }
    gathered(&mut parents, found)
}

fn runs(row: &[u8]) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut x = 0;
    while x < row.len() {
        let start = x + row[x..].iter().take_while(|it| **it < THRESHOLD).count();
        let end = start + row[start..].iter().take_while(|it| **it >= THRESHOLD).count();
        if end > start {
            runs.push(Run { start, end, component: usize::MAX });
        }
        x = end.max(start + 1);
    }
    runs
}

fn root(parents: &mut [usize], mut of: usize) -> usize {
    while parents[of] != of {
        parents[of] = parents[parents[of]];
        of = parents[of];
    }
    of
}

/// Joins two components under the older one; `usize::MAX` is none.
fn join(parents: &mut [usize], a: usize, b: usize) -> usize {
    let b = root(parents, b);
    if a == usize::MAX {
        return b;
    }
    let a = root(parents, a);
    let (old, new) = (a.min(b), a.max(b));
    parents[new] = old;
    old
}

fn gathered(parents: &mut [usize], found: Vec<Component>) -> Vec<Component> {
    let mut whole: Vec<Component> = Vec::new();
    whole.resize_with(found.len(), Component::default);
    for (at, part) in found.into_iter().enumerate() {
        let root = root(parents, at);
        whole[root].points.extend(part.points);
        whole[root].sum += part.sum;
        whole[root].pixels += part.pixels;
    }
    whole.retain(|it| it.pixels > 0);
    whole
}

impl Component {
    fn add(&mut self, y: usize, run: &Run, values: &[u8]) {
        let y = y as i32;
        self.points.extend([[run.start as i32, y], [run.end as i32 - 1, y]]);
        self.sum += values.iter().map(|it| u64::from(*it)).sum::<u64>();
        self.pixels += values.len() as u64;
    }

    fn quad(&self, scale: f32) -> Option<Quad> {
        let score = self.sum as f32 / self.pixels as f32 / 255.0;
        let rectangle = Rectangle::around(&hull(&self.points));
        let short = rectangle.width.min(rectangle.height);
        if score < LEAST_SCORE || short < LEAST_SIDE {
            return None;
        }
        Some(Quad { corners: rectangle.grown().corners().map(|it| it.map(|c| c / scale)), score })
    }
}

/// The convex hull, counter-clockwise as seen with y up (monotone chain, Andrew 1979).
fn hull(points: &[[i32; 2]]) -> Vec<[i32; 2]> {
    let mut sorted = points.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < 3 {
        return sorted;
    }
    let mut lower = chain(sorted.iter());
    let mut upper = chain(sorted.iter().rev());
    lower.pop();
    upper.pop();
    lower.extend(upper);
    lower
}

fn chain<'p>(points: impl Iterator<Item = &'p [i32; 2]>) -> Vec<[i32; 2]> {
    let mut chain: Vec<[i32; 2]> = Vec::new();
    for &point in points {
        while let [.., a, b] = chain[..] {
            if cross(a, b, point) > 0 {
                break;
            }
            chain.pop();
        }
        chain.push(point);
    }
    chain
}

fn cross(a: [i32; 2], b: [i32; 2], c: [i32; 2]) -> i64 {
    let side = |p: [i32; 2], axis: usize| i64::from(p[axis]) - i64::from(a[axis]);
    side(b, 0) * side(c, 1) - side(b, 1) * side(c, 0)
}

/// A turned rectangle, by its centre.
#[derive(Debug, Clone, Copy)]
struct Rectangle {
    centre: [f32; 2],
    /// Direction of the width, a unit vector that points right.
    axis: [f32; 2],
    width: f32,
    height: f32,
}

impl Rectangle {
    /// The smallest one around a hull of pixels: one of its sides lies on a side of the hull.
    fn around(hull: &[[i32; 2]]) -> Self {
        let upright = Self::along(hull, [1.0, 0.0]);
        let sides = hull.iter().zip(hull.iter().cycle().skip(1));
        let turned = sides.filter_map(|(a, b)| direction(*a, *b)).map(|axis| Self::along(hull, axis));
        let smallest = turned.fold(upright, |best, it| if it.area() < best.area() { it } else { best });
        let straight =
            upright.height <= smallest.height * UPRIGHT + 1.0 && upright.width <= smallest.width * UPRIGHT + 1.0;
        if straight { upright } else { smallest }
    }

    fn along(hull: &[[i32; 2]], axis: [f32; 2]) -> Self {
        let across = [-axis[1], axis[0]];
        let [(left, right), (top, bottom)] = [axis, across].map(|axis| extent(hull, axis));
        let (along, down) = ((left + right) / 2.0, (top + bottom) / 2.0);
        let centre = std::array::from_fn(|c| axis[c] * along + across[c] * down + 0.5);
        Rectangle { centre, axis, width: right - left, height: bottom - top }
    }

    /// Pixels that stand in a line would have no area otherwise.
    fn area(&self) -> f32 {
        (self.width + 1.0) * (self.height + 1.0)
    }

    fn grown(self) -> Self {
        let by = self.width * self.height * UNCLIP / (2.0 * (self.width + self.height));
        Rectangle { width: self.width + 2.0 * by, height: self.height + 2.0 * by, ..self }
    }

    fn corners(&self) -> [[f32; 2]; 4] {
        let ([x, y], [ax, ay]) = (self.centre, self.axis);
        [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)].map(|(along, down)| {
            let (along, down) = (along * self.width, down * self.height);
            [x + ax * along - ay * down, y + ay * along + ax * down]
        })
    }
}

/// The direction of a side, turned by quarters until it points right by less than an eighth of a turn.
fn direction(a: [i32; 2], b: [i32; 2]) -> Option<[f32; 2]> {
    let (x, y) = ((b[0] - a[0]) as f32, (b[1] - a[1]) as f32);
    let length = x.hypot(y);
    if length == 0.0 {
        return None;
    }
    let (x, y) = (x / length, y / length);
    let (x, y) = if x.abs() >= y.abs() { (x, y) } else { (y, -x) };
    Some(if x < 0.0 { [-x, -y] } else { [x, y] })
}

fn extent(hull: &[[i32; 2]], axis: [f32; 2]) -> (f32, f32) {
    let places = hull.iter().map(|it| it[0] as f32 * axis[0] + it[1] as f32 * axis[1]);
    places.fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), it| (least.min(it), most.max(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map from rows of `#` for text.
    fn map(rows: &[&str]) -> TextMap {
        let values = rows.iter().flat_map(|row| row.bytes().map(|it| if it == b'#' { 255 } else { 0 })).collect();
        TextMap { width: rows[0].len(), values, scale: 1.0 }
    }

    #[track_caller]
    fn check(rows: &[&str], components: usize) {
        assert_eq!(super::components(&map(rows)).len(), components);
    }

    #[test]
    fn pixels_that_touch_are_one_component() {
        check(&["....", "...."], 0);
        check(&["##..", "..##"], 1);
        check(&["##.##", "#...#", "#####"], 1);
        check(&["##.##", "#...#"], 2);
        check(&["#.#.#", "#.#.#", "#####"], 1);
    }

    #[test]
    fn the_hull_leaves_out_what_lies_inside_or_on_a_side() {
        let hull = hull(&[[0, 0], [2, 0], [4, 0], [4, 4], [2, 2], [0, 4], [0, 0]]);
        assert_eq!(hull, [[0, 0], [4, 0], [4, 4], [0, 4]]);
    }

    #[track_caller]
    fn check_rectangle(hull: &[[i32; 2]], width: f32, height: f32, axis: [f32; 2]) {
        let found = Rectangle::around(hull);
        let near = |a: f32, b: f32| (a - b).abs() < 1e-3;
        assert!(near(found.width, width) && near(found.height, height), "{found:?}");
        assert!(near(found.axis[0], axis[0]) && near(found.axis[1], axis[1]), "{found:?}");
    }

    #[test]
    fn the_smallest_rectangle_lies_on_a_side_of_the_hull() {
        check_rectangle(&[[0, 0], [20, 0], [20, 5], [0, 5]], 20.0, 5.0, [1.0, 0.0]);
        // Sides of 50 and 25 along 3-4-5 triangles.
        check_rectangle(&[[0, 0], [40, 30], [25, 50], [-15, 20]], 50.0, 25.0, [0.8, 0.6]);
        // So little slope is that of the letters, not of the line.
        check_rectangle(&[[0, 0], [100, 1], [100, 11], [0, 10]], 100.0, 11.0, [1.0, 0.0]);
        check_rectangle(&[[3, 3]], 0.0, 0.0, [1.0, 0.0]);
    }

    #[test]
    fn a_rectangle_grows_by_area_over_perimeter() {
        // 20 x 5: 100 * 1.6 / 50 = 3.2 on each side; pixel centres lie at halves.
        let grown = Rectangle::around(&[[10, 10], [30, 10], [30, 15], [10, 15]]).grown().corners();
        let expected = [[7.3, 7.3], [33.7, 7.3], [33.7, 18.7], [7.3, 18.7]];
        assert!(
            grown.as_flattened().iter().zip(expected.as_flattened()).all(|(a, b)| (a - b).abs() < 1e-4),
            "{grown:?}"
        );
    }

    #[test]
    fn noise_gives_no_box() {
        assert!(boxes(&map(&["#....", "...#.", "....."])).is_empty());
    }
}
