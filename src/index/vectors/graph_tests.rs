//! Search along graphs against a plain loop, and what damaged graphs do.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::super::graph_file::{LayerLinks, Links};
use super::super::tests::{Random, recall, rows, sample};
use super::super::{Exact, GRAPH_FORMAT, Scan, build_graph};
use super::*;
use crate::fsio::{SectionFile, write_atomically};

const DIMENSIONS: usize = 48;
const COUNT: usize = 6000;
const SEED: u64 = 41;

/// Building takes seconds: all tests use this one.
fn links() -> &'static Links {
    static LINKS: OnceLock<Links> = OnceLock::new();
    LINKS.get_or_init(|| build(&segment().0[0]))
}

/// The rows of the graph as the only segment, and queries.
fn segment() -> (Vec<Rows>, Vec<Vec<f32>>) {
    let (mut segments, queries) = two_segments();
    segments.truncate(1);
    (segments, queries)
}

/// The same with rows that came later.
fn two_segments() -> (Vec<Rows>, Vec<Vec<f32>>) {
    sample(DIMENSIONS, &[COUNT, 500], SEED)
}

fn build(rows: &Rows) -> Links {
    build_graph(rows, &|| false).expect("sound").expect("not stopped")
}

/// The graph as it is read back from a file.
fn written(links: &Links, rows: &Rows) -> Result<GraphFile, FileError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("graph");
    write_atomically(&path, |out| links.write(out)).expect("writable");
    GraphFile::open(&SectionFile::open(&path, GRAPH_FORMAT)?, rows)
}

fn with_graph(mut segments: Vec<Rows>, links: &Links) -> Vec<Rows> {
    let first = segments.remove(0);
    let graph = written(links, &first).expect("sound");
    segments.insert(0, first.with_graph(graph));
    segments
}

/// Mean recall of ten over the sample's queries.
#[track_caller]
fn check(segments: &[Rows], queries: &[Vec<f32>], accept: Accept) {
    let index = Graph { segments };
    let sum: f64 = queries.iter().map(|query| recall(&index, segments, query, 10, accept)).sum();
    let mean = sum / queries.len() as f64;
    assert!(mean >= 0.98, "recall {mean}");
}

#[test]
fn the_nearest_are_found() {
    let (segments, queries) = segment();
    let segments = with_graph(segments, links());
    check(&segments, &queries, &|_| true);
}

#[test]
fn the_nearest_accepted_are_found_whatever_their_share() {
    let (segments, queries) = segment();
    let segments = with_graph(segments, links());
    check(&segments, &queries, &|it| it % 2 == 0);
    check(&segments, &queries, &|it| it % 3 == 0);
    check(&segments, &queries, &|it| it % 10 == 0);
    check(&segments, &queries, &|it| it % 100 == 0);
    check(&segments, &queries, &|it| it == 20 || it == 900);
    // All of one side: what is accepted lies far from the query.
    check(&segments, &queries, &|it| it > 1000);
}

#[test]
fn the_nearest_are_found_in_rows_that_came_later() {
    let (segments, queries) = two_segments();
    check(&with_graph(segments, links()), &queries, &|_| true);
}

#[test]
fn half_of_the_candidates_are_deleted() {
    let (segments, queries) = segment();
    let mut segments = with_graph(segments, links());
    segments[0].delete(|it| it % 2 == 1);
    check(&segments, &queries, &|_| true);
    let living: BTreeSet<u32> = segments[0].owners().iter().copied().filter(|it| *it != DELETED).collect();
    let found = Graph { segments: &segments }.search(&queries[0], usize::MAX, &|_| true).expect("sound");
    assert_eq!(found.iter().map(|it| it.0).collect::<BTreeSet<_>>(), living);
}

#[test]
fn a_filter_that_leaves_two_gives_these_two() {
    let (segments, queries) = segment();
    let segments = with_graph(segments, links());
    for query in &queries {
        let found = Graph { segments: &segments }.search(query, 10, &|it| it == 20 || it == 900).expect("sound");
        assert_eq!(found.iter().map(|it| it.0).collect::<BTreeSet<_>>(), BTreeSet::from([20, 900]));
    }
}

#[test]
fn a_search_comes_to_the_right_crowd_of_vectors_that_are_nearly_the_same() {
    // More in a crowd than a row has neighbours, half of them copies: as the graph comes from the crate, a search for a sixth of
    // the crowds ends in another one, and nothing leads to the rows that are no copies.
    let mut random = Random(9);
    let centres: Vec<_> = (0..12).map(|_| random.vector(DIMENSIONS)).collect();
    let noise = |it: u32| if (it / 12).is_multiple_of(2) { 0.0 } else { 0.05 };
    let vectors: Vec<_> = (0..3000).map(|it| (it, random.near(&centres[it as usize % 12], noise(it)))).collect();
    let segment = rows(DIMENSIONS, &vectors);
    let links = build(&segment);
    assert!(links.strays().len() < 50, "{} strays", links.strays().len());
    let segments = with_graph(vec![segment], &links);
    for centre in &centres {
        let query = random.near(centre, 1.0);
        let search = |index: &dyn VectorIndex| index.search(&query, 10, &|_| true).expect("sound");
        let (expected, found) = (search(&Exact { segments: &segments }), search(&Graph { segments: &segments }));
        let missing = expected[9].1 - found[9].1;
        assert!(missing < 0.005, "{missing}: further than a crowd is wide, to another one it is some tenths");
    }
}

#[test]
fn a_graph_of_other_rows_is_refused() {
    for (dimensions, size, seed) in [(DIMENSIONS, COUNT, SEED + 1), (DIMENSIONS, 50, SEED), (7, 50, SEED), (7, 0, SEED)]
    {
        let other = sample(dimensions, &[size], seed).0.remove(0);
        let error = written(links(), &other).expect_err("other rows").to_string();
        assert!(error.ends_with("it is the graph of other vectors"), "{error}");
    }
}

#[test]
fn a_build_stops_when_it_is_asked_to() {
    let rows = sample(8, &[600], SEED).0.remove(0);
    assert_eq!(build_graph(&rows, &|| true), Ok(None));
    assert_eq!(build_graph(&sample(8, &[0], SEED).0[0], &|| false), Ok(None));
}

#[test]
fn the_smallest_graphs_are_built_and_found_in() {
    for size in [1, 2, 3, 300] {
        let (segments, queries) = sample(4, &[size], SEED);
        let links = build(&segments[0]);
        check(&with_graph(segments, &links), &queries, &|_| true);
    }
}

/// A graph whose bytes are as they were written, and were made to do harm: it is refused, if not at once then where it is walked, and
/// what is found is what a scan finds.
#[track_caller]
fn check_hostile(change: impl FnOnce(&mut Links), expected: &str) {
    let (segments, queries) = segment();
    let mut links = links().clone();
    change(&mut links);
    let opened = written(&links, &segments[0]);
    let walked = opened.and_then(|graph| {
        let segments = [segments.into_iter().next().expect("one").with_graph(graph)];
        for query in &queries {
            let found = Graph { segments: &segments }.search(query, 10, &|_| true);
            assert_eq!(found, Scan { segments: &segments }.search(query, 10, &|_| true));
        }
        let [rows] = &segments;
        queries.iter().try_for_each(|it| {
            let query = Query::new(it, rows.dimensions()).expect("a query");
            walk(rows, rows.graph().expect("a graph"), &query, &|_| true, BREADTH).map(drop)
        })
    });
    assert!(walked.expect_err("refused").to_string().ends_with(expected));
}

#[test]
fn hostile_graphs_are_refused() {
    let nonsense = "its graph makes no sense";
    check_hostile(|it| it.entry = COUNT as u32, nonsense);
    check_hostile(|it| it.entry = u32::MAX, nonsense);
    check_hostile(|it| it.layers.clear(), nonsense);
    check_hostile(|it| it.layers = vec![it.layers[0].clone(); 17], nonsense);
    let cut = "its lists of neighbours are not as many as it says";
    check_hostile(|it| it.layers[0].width -= 1, cut);
    check_hostile(|it| it.layers[0].width = usize::MAX, cut);
    check_hostile(|it| it.layers[0].links.truncate(100), cut);
    check_hostile(|it| it.layers[0].rows = vec![0], cut);
    check_hostile(|it| it.layers[1].rows.clear(), cut);
    check_hostile(|it| it.layers[1].rows.truncate(7), cut);
    let outside = "a list of rows names one that is not there";
    check_hostile(|it| it.layers[0].links.fill(COUNT as u32), outside);
    check_hostile(|it| it.layers[1].rows[3] = COUNT as u32, outside);
    // 375 rows are in layer 1, so that its links are not followed; with more they are.
    check_hostile(
        |it| {
            let width = it.layers[1].width;
            it.layers[1] = LayerLinks::new((0..2000).collect(), 2000, width);
            it.layers[1].links.fill(u32::MAX - 1);
            it.layers.truncate(2);
            it.entry = 0;
        },
        outside,
    );
    check_hostile(|it| it.strays = vec![0, COUNT as u32], outside);
}

#[test]
fn any_links_lead_to_an_end() {
    let (segments, queries) = segment();
    let mut random = Random(3);
    let mut links = links().clone();
    for layer in &mut links.layers {
        layer.links.iter_mut().for_each(|it| *it = (random.next() % COUNT as u64) as u32);
        layer.rows.iter_mut().for_each(|it| *it = (random.next() % COUNT as u64) as u32);
    }
    let segments = with_graph(segments, &links);
    for query in &queries {
        assert_eq!(Graph { segments: &segments }.search(query, 10, &|_| true).expect("links are rows").len(), 10);
    }
    // Nothing leads anywhere: the entry alone is found, which a scan makes good.
    links.layers.truncate(1);
    links.layers[0].links.fill(u32::MAX);
    links.strays.clear();
    let (fresh, _) = segment();
    let segments = with_graph(fresh, &links);
    let found = Graph { segments: &segments }.search(&queries[0], 10, &|_| true).expect("sound");
    assert_eq!(found, Exact { segments: &segments }.search(&queries[0], 10, &|_| true).expect("sound"));
}
