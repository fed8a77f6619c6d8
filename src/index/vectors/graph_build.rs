//! F1: builds a graph of neighbours with the crate `hnsw_rs`. Knows nothing of files.
//!
//! The crate is used for this alone. What it could write has no checksum, reading it back can end the process, and it copies the
//! vectors; so its neighbours are read out into [`Links`]. To it, a vector is the number of a row, and the distance looks the codes
//! up: nothing is copied, and a distance costs a quarter of the bytes. Its own distances would fail where rounding gives an
//! inner product above 1.

use hnsw_rs::anndists::dist::Distance;
use hnsw_rs::hnsw::{Hnsw, Point};
use rayon::prelude::*;

use super::VectorError;
use super::codes::excess;
use super::graph::found_instead;
use super::graph_file::{LayerLinks, Links};
use super::kernels::Kernels;
use super::rows::Rows;
use crate::fsio::u32_at;

/// Neighbours of a row in the upper layers; twice as many in layer 0.
const NEIGHBOURS: usize = 16;
/// Links of a row in layer 0 that are kept free for rows that would not be found.
const SPARE: usize = 8;
/// How many of the nearest rows are looked at to choose a row's neighbours from.
const BREADTH: usize = 100;
const MOST_LAYERS: usize = 16;
/// Rows that are put in between two looks at whether to stop: about a tenth of a second.
const BATCH: usize = 512;

/// Whether to end the work.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Builds the graph of rows, deleted ones too, by all threads. `None` when it was stopped, or there are no rows. It takes three to
/// four KiB a row beside the codes. Neighbours vary a little from run to run, as threads race.
///
/// # Errors
/// When a file is damaged.
pub fn build_graph(rows: &Rows, stop: Stop) -> Result<Option<Links>, VectorError> {
    let numbers: Vec<u32> = (0..rows.count() as u32).collect();
    let distance = CodeDistance::new(rows)?;
    let graph = Hnsw::new(NEIGHBOURS, numbers.len(), MOST_LAYERS, BREADTH, distance);
    let items: Vec<(&[u32], usize)> = order(numbers.len()).into_iter().map(|row| (&numbers[row..=row], row)).collect();
    let Some((first, rest)) = items.split_first() else { return Ok(None) };
    // Two threads that both believed to put in the first row would leave one of theirs without neighbours.
    graph.insert_slice(*first);
    for batch in rest.chunks(BATCH) {
        if stop() {
            return Ok(None);
        }
        graph.parallel_insert_slice(&batch.to_vec());
    }
    let mut links = read_out(&graph, rows);
    drop(graph);
    Ok(complete(&mut links, rows, stop)?.then_some(links))
}

/// Searches for every row by its own vector, and makes those found that are not.
///
/// The crate keeps the nearest neighbours of a row only. So a crowd of rows that are nearly the same, more than a row has
/// neighbours, has no links to others in the end, and rows at its edge have none that lead to them. Code has crowds: licence
/// headers, generated files, copies. A row that is missed is linked to from a row of its crowd, or, if the search did not come to
/// its crowd, becomes a stray.
fn complete(links: &mut Links, rows: &Rows, stop: Stop) -> Result<bool, VectorError> {
    let mut graph = links.held();
    for batch in order(rows.count()).chunks(BATCH) {
        if stop() {
            return Ok(false);
        }
        let check = |&row: &usize| found_instead(rows, &graph, row as u32);
        let instead: Vec<_> = batch.par_iter().map(check).collect::<Result<_, _>>()?;
        let missed: Vec<u32> =
            batch.iter().zip(instead).filter_map(|(&row, instead)| instead.map(|_| row as u32)).collect();
        // One by one: most of a batch's are of the same crowd, and one stray is enough for it.
        for &row in &missed {
            match found_instead(rows, &graph, row)? {
                Some(crowd) if crowd.is_empty() => {
                    links.strays.push(row);
                    graph.set_strays(&links.strays);
                }
                Some(crowd) => link_from(&mut links.layers[0], &crowd, row),
                None => {}
            }
        }
        if !missed.is_empty() {
            graph = links.held();
        }
    }
    Ok(true)
}

/// Links to a row from the first of a crowd that has a link free. If none has, the crowd has more copies of the row than any search
/// wants.
fn link_from(links: &mut LayerLinks, crowd: &[u32], row: u32) {
    for &member in crowd {
        if links.add(member as usize, row) {
            return;
        }
    }
}

/// All rows, far from their order: rows beside each other are often alike, and what is put in at the same time is not found as
/// neighbours.
fn order(count: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..count).collect();
    // Fibonacci hashing.
    rows.sort_unstable_by_key(|&row| (row as u32).wrapping_mul(0x9E37_79B1));
    rows
}

/// The distance of two rows, given by their numbers.
struct CodeDistance<'a> {
    codes: &'a [u8],
    dimensions: usize,
    scales: Vec<f32>,
    excesses: Vec<i32>,
    kernels: Kernels,
}

impl<'a> CodeDistance<'a> {
    fn new(rows: &'a Rows) -> Result<Self, VectorError> {
        let (codes, scales) = (rows.codes(0..rows.count())?, rows.scales(0..rows.count())?);
        Ok(CodeDistance {
            codes,
            dimensions: rows.dimensions(),
            scales: (0..rows.count()).map(|row| f32::from_bits(u32_at(scales, 4 * row))).collect(),
            excesses: codes.chunks_exact(rows.dimensions()).map(excess).collect(),
            kernels: Kernels::detect(),
        })
    }

    fn codes(&self, row: usize) -> &[u8] {
        &self.codes[row * self.dimensions..(row + 1) * self.dimensions]
    }
}

impl Distance<u32> for CodeDistance<'_> {
    fn eval(&self, a: &[u32], b: &[u32]) -> f32 {
        let (a, b) = (a[0] as usize, b[0] as usize);
        let product = self.kernels.dot_codes(self.codes(a), self.codes(b)) - self.excesses[b];
        // Never negative nor what is no number: the crate asserts it.
        (1.0 - product as f32 * (self.scales[a] * self.scales[b])).max(0.0)
    }
}

fn read_out(graph: &Hnsw<u32, CodeDistance>, rows: &Rows) -> Links {
    let points = graph.get_point_indexation();
    let top = usize::from(graph.get_max_level_observed());
    let mut by_top: Vec<Vec<_>> = (0..=top).map(|layer| points.get_layer_iterator(layer).collect()).collect();
    by_top.iter_mut().for_each(|it| it.sort_unstable_by_key(|point| point.get_origin_id()));
    let entry = by_top[top].first().map_or(0, |it| it.get_origin_id() as u32);
    let layers = (0..=top).map(|layer| {
        let mut members: Vec<&Point<u32>> = by_top[layer..].iter().flatten().map(|it| &**it).collect();
        members.sort_unstable_by_key(|it| it.get_origin_id());
        layer_links(layer, &members)
    });
    let layers = layers.collect();
    Links {
        checksum: rows.checksum(),
        dimensions: rows.dimensions(),
        count: rows.count(),
        entry,
        layers,
        strays: Vec::new(),
    }
}

fn layer_links(layer: usize, members: &[&Point<u32>]) -> LayerLinks {
    let (rows, width) = match layer {
        0 => (Vec::new(), 2 * NEIGHBOURS + SPARE),
        _ => (members.iter().map(|it| it.get_origin_id() as u32).collect(), NEIGHBOURS),
    };
    let mut links = LayerLinks::new(rows, members.len(), width);
    for (place, member) in members.iter().enumerate() {
        let neighbours = &member.get_neighborhood_id()[layer];
        for (link, neighbour) in links.list_mut(place).iter_mut().zip(neighbours.iter().take(2 * NEIGHBOURS)) {
            *link = neighbour.get_origin_id() as u32;
        }
    }
    links
}
