//! What kind of picture it is, as far as its text and its layout say.

use std::sync::LazyLock;

use regex::Regex;

use super::errors::{Head, Kind};
use super::lines::{Line, Lines, Shape};
use super::{Trace, pattern};
use crate::evidence::page::{Note, Page};
use crate::types::Category;

/// Labels of an axis that make it one.
const LEAST_TICKS: usize = 4;
/// Numbers that are looked at for axes.
const MOST_NUMBERS: usize = 200;
/// Rows and columns of numbers are level within so many pixels.
const LEVEL: f32 = 6.0;

static VALUE: LazyLock<Regex> = LazyLock::new(|| pattern(r"[-−]?\d+(?:[.,]\d+)?"));

/// What was found on a page, in lines.
pub(super) struct Seen<'s> {
    pub lines: &'s Lines,
    pub heads: &'s [Head],
    pub trace: &'s Trace,
    /// Labels of an interface.
    pub labels: usize,
    /// An error is told of in words.
    pub is_failure: bool,
    /// Nearly all of it is code, or an editor numbers its lines.
    pub is_code: bool,
}

/// The category; `None` where nothing says one.
pub(super) fn category(page: &Page, seen: &Seen<'_>) -> Option<Category> {
    let lines = seen.lines;
    let all = lines.lines.len();
    let errors = seen.trace.calls + seen.heads.iter().filter(|it| it.kind < Kind::Log).count();
    let logs = lines.count(Shape::Log) + lines.count(Shape::Prompt);
    let code = seen.trace.code_around(lines);
    let is_most = |count: usize| count * 2 >= all;
    if page.notes.contains(&Note::Animated) {
        return Some(Category::BehaviorDemo);
    }
    // A name of an exception in code is no error; the code in a trace is no picture of code.
    if seen.is_code || is_most(code) && code >= 3 && code > errors + logs {
        return Some(Category::CodeScreenshot);
    }
    if errors > 0 && errors >= logs {
        return Some(Category::ErrorMessage);
    }
    if logs > 0 && (is_most(logs) || logs >= 3) {
        return Some(Category::LogOutput);
    }
    if has_axis(&lines.lines) {
        return Some(Category::DataVisualization);
    }
    if seen.is_failure && all <= 12 {
        return Some(Category::ErrorMessage);
    }
    (seen.labels >= 3 && seen.labels * 2 >= all).then_some(Category::UiScreenshot)
}

/// Numbers at equal distances that rise by equal steps, in a row or in a column: the ticks of an axis.
fn has_axis(lines: &[Line]) -> bool {
    let in_one_line = lines.iter().any(|it| it.shape == Shape::Number && is_axis(&values(&it.text)));
    in_one_line || has_ticks(lines, 0) || has_ticks(lines, 1)
}

fn values(text: &str) -> Vec<f64> {
    let value = |it: &str| it.replace('−', "-").replace(',', ".").parse().ok();
    VALUE.find_iter(text).filter_map(|it| value(it.as_str())).take(MOST_NUMBERS).collect()
}

/// Whether lines that are one number each stand in a column (`along` = 1) or a row (`along` = 0) and make an axis.
fn has_ticks(lines: &[Line], along: usize) -> bool {
    let single = lines.iter().filter(|it| it.shape == Shape::Number).filter_map(|it| match values(&it.text)[..] {
        [value] => Some((it.place, value)),
        _ => None,
    });
    let mut ticks: Vec<([f32; 4], f64)> = single.take(MOST_NUMBERS).collect();
    ticks.sort_by(|a, b| a.0[along].total_cmp(&b.0[along]));
    // Ticks of a vertical axis are flush at one side, those of a horizontal one stand on a line.
    let across = 1 - along;
    ticks.iter().any(|(place, _)| {
        [across, across + 2].iter().any(|&side| {
            let level = ticks.iter().filter(|it| (it.0[side] - place[side]).abs() <= LEVEL);
            is_axis(&level.map(|it| it.1).collect::<Vec<_>>())
        })
    })
}

/// Whether values rise or fall by equal steps, or by equal factors. Lines are numbered by ones, which is no axis.
fn is_axis(values: &[f64]) -> bool {
    let constant = |steps: Vec<f64>| {
        let first = steps.first().copied().unwrap_or(0.0);
        first != 0.0 && steps.iter().all(|it| (it - first).abs() <= 0.01 * first.abs())
    };
    let differences: Vec<f64> = values.windows(2).map(|it| it[1] - it[0]).collect();
    let are_numbered = differences.first().is_some_and(|it| *it == 1.0);
    let factors = values.windows(2).map(|it| if it[0] > 0.0 { it[1] / it[0] - 1.0 } else { 0.0 }).collect();
    values.len() >= LEAST_TICKS && !are_numbered && (constant(differences) || constant(factors))
}
