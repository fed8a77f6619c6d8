//! From how many vectors on is a graph worth building, and what does a query cost before and after?
//!
//! `cargo bench --bench search` takes some minutes: 1,000, 10,000 and 100,000 rows of 384 dimensions, 1,000 and 10,000 of 2,048.
//! `cargo bench --bench search -- --large` adds 100,000 rows of 2,048. The machine should be idle. Files lie in a temporary folder
//! and are mapped, with a warm page cache; `first` is the first query after opening, which compares checksums and maps pages.
//!
//! The vectors are made, and made to be like those of windows of code: a direction that all share, topics of about 100 rows,
//! candidates of one to four rows within a topic, and noise, so that rows of a candidate have a cosine of about 0.8, of a topic
//! 0.55, and others 0.1; a query is beside a random row (0.65). Recall is the share of the ten hits that are as similar as those that
//! `exact` finds; `half` with every second candidate deleted, `tenth` and `hundredth` with a filter that leaves so many.

use std::path::Path;
use std::time::Instant;

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;
use sightline::fsio::{SectionFile, SectionWriter, write_atomically};
use sightline::index::vectors::{
    Accept, Exact, GRAPH_FORMAT, Graph, GraphFile, RowParts, Rows, RowsEncoder, Scan, VectorIndex, build_graph,
};

const K: usize = 10;
const QUERIES: usize = 200;
const FORMAT: u32 = 1;

fn main() -> anyhow::Result<()> {
    let is_large = std::env::args().any(|it| it == "--large");
    println!("question   from how many vectors on is a graph worth building?");
    println!("size       {QUERIES} queries, {K} hits");
    println!("machine    {}, {} threads", processor(), rayon::current_num_threads());
    for (dimensions, sizes) in [(384, &[1_000, 10_000, 100_000][..]), (2_048, &[1_000, 10_000, 100_000])] {
        for &size in sizes.iter().filter(|&&it| is_large || it * dimensions < 100_000_000) {
            measure(size, dimensions)?;
        }
    }
    Ok(())
}

fn measure(count: usize, dimensions: usize) -> anyhow::Result<()> {
    println!("\n{count} rows of {dimensions} dimensions, {:.0} MB of codes", (count * dimensions) as f64 / 1e6);
    let folder = tempfile::tempdir()?;
    let (rows_path, graph_path) = (folder.path().join("rows"), folder.path().join("graph"));
    let data = Data::new(count, dimensions);
    let start = Instant::now();
    let checksum = data.write(&rows_path)?;
    println!("encode     {:.2} s", start.elapsed().as_secs_f64());

    forget_peak();
    let before = memory("VmRSS");
    let start = Instant::now();
    let rows = data.open(&rows_path, checksum)?;
    let links = build_graph(&rows, &|| false)?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(links) = &links {
        write_atomically(&graph_path, |out| links.write(out))?;
    }
    let strays = links.as_ref().map_or(0, |it| it.strays().len());
    let size = std::fs::metadata(&graph_path)?.len() as f64 / 1e6;
    let peak = memory("VmHWM") - before;
    println!(
        "graph      built in {seconds:.1} s, peak {peak:.0} MB above what was there, file {size:.1} MB, {strays} strays"
    );
    println!(
        "read       {:.2} ms for the bytes of all codes, by all threads: what no scan can beat",
        read_codes(&data)
    );

    println!("           first ms   p50 ms   p99 ms   recall and mean ms: all, half, tenth, hundredth, two");
    let truth = Truth::new(&rows, &data)?;
    let open = |with_graph: bool| {
        let rows = data.open(&rows_path, checksum)?;
        anyhow::Ok([if with_graph {
            let graph = GraphFile::open(&SectionFile::open(&graph_path, GRAPH_FORMAT)?, &rows)?;
            rows.with_graph(graph)
        } else {
            rows
        }])
    };
    for name in ["exact", "scan", "graph"] {
        let start = Instant::now();
        let segments = open(name == "graph")?;
        let index = index(name, &segments);
        index.search(&data.queries[0], K, &|_| true)?;
        let first = start.elapsed().as_secs_f64();
        report(name, first, &*index, &data, &truth)?;
    }
    Ok(())
}

/// The least milliseconds of some runs that add up as many bytes as there are codes.
fn read_codes(data: &Data) -> f64 {
    let words: Vec<u64> = (0..data.vectors.len() as u64 / 8).collect();
    let run = || {
        let start = Instant::now();
        let sum: u64 =
            words.par_chunks(1 << 14).map(|it| it.iter().fold(0, |sum: u64, it| sum.wrapping_add(*it))).sum();
        std::hint::black_box(sum);
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..20).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn index<'a>(name: &str, segments: &'a [Rows]) -> Box<dyn VectorIndex + 'a> {
    match name {
        "exact" => Box::new(Exact { segments }),
        "scan" => Box::new(Scan { segments }),
        _ => Box::new(Graph { segments }),
    }
}

fn report(name: &str, first: f64, index: &dyn VectorIndex, data: &Data, truth: &Truth) -> anyhow::Result<()> {
    let mut seconds = Vec::new();
    for query in &data.queries {
        let start = Instant::now();
        index.search(query, K, &|_| true)?;
        seconds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    seconds.sort_by(f64::total_cmp);
    print!("{name:<10} {:>8.2} {:>8.3} {:>8.3}", first * 1e3, seconds[QUERIES / 2], seconds[QUERIES * 99 / 100]);
    for (accept, worst) in FILTERS.iter().zip(&truth.worst) {
        let mut share = 0.0;
        let start = Instant::now();
        for (query, worst) in data.queries.iter().zip(worst) {
            let found = index.search(query, K, accept)?;
            share += found.iter().filter(|it| it.1 >= worst.1 - 1e-6).count() as f64 / worst.0.max(1) as f64;
        }
        let mean = start.elapsed().as_secs_f64() * 1e3 / QUERIES as f64;
        print!("   {:.4} ({mean:.2} ms)", share / QUERIES as f64);
    }
    println!();
    Ok(())
}

const FILTERS: [Accept; 5] =
    [&|_| true, &|it| it % 2 == 0, &|it| it % 10 == 3, &|it| it % 100 == 7, &|it| it == 17 || it == 230];

/// How many hits there are and how similar the last is, by filter and query.
struct Truth {
    worst: Vec<Vec<(usize, f32)>>,
}

impl Truth {
    fn new(rows: &Rows, data: &Data) -> anyhow::Result<Self> {
        let segments = std::slice::from_ref(rows);
        let worst_of = |query: &Vec<f32>, accept| {
            let found = Exact { segments }.search(query, K, accept)?;
            anyhow::Ok((found.len(), found.last().map_or(0.0, |it| it.1)))
        };
        let worst = FILTERS.iter().map(|accept| data.queries.iter().map(|it| worst_of(it, accept)).collect());
        Ok(Truth { worst: worst.collect::<Result<_, _>>()? })
    }
}

struct Data {
    dimensions: usize,
    vectors: Vec<f16>,
    owners: Vec<u32>,
    queries: Vec<Vec<f32>>,
}

impl Data {
    fn new(count: usize, dimensions: usize) -> Self {
        let mut random = Random(0x5eed);
        let shared = random.vector(dimensions);
        let topics: Vec<_> = (0..count.div_ceil(100)).map(|_| random.beside(&shared, 3.0)).collect();
        let mut places = Vec::new();
        let mut candidate = 0;
        while places.len() < count {
            let topic = random.below(topics.len());
            let rows = (1 + random.below(4)).min(count - places.len());
            places.extend((0..rows).map(|_| (candidate, topic)));
            candidate += 1;
        }
        let mut vectors = vec![f16::ZERO; count * dimensions];
        vectors.par_chunks_mut(dimensions).zip(places.par_iter().enumerate()).for_each(
            |(row, (at, &(candidate, topic)))| {
                let centre = Random::seeded(candidate as u64).beside(&topics[topic], 0.65);
                row.convert_from_f32_slice(&Random::seeded((1 << 40) + at as u64).beside(&centre, 0.5));
            },
        );
        let queries = (0..QUERIES).map(|_| {
            let at = random.below(count) * dimensions;
            let row: Vec<f32> = vectors[at..at + dimensions].iter().map(|it| it.to_f32()).collect();
            random.beside(&row, 1.2)
        });
        let queries = queries.collect();
        Data { dimensions, owners: places.into_iter().map(|it| it.0).collect(), queries, vectors }
    }

    fn write(&self, path: &Path) -> anyhow::Result<u32> {
        let mut encoder = RowsEncoder::new(self.dimensions)?;
        for row in self.vectors.chunks_exact(self.dimensions) {
            encoder.push(row)?;
        }
        let encoded = encoder.finish();
        write_atomically(path, |out| {
            let mut writer = SectionWriter::new(out);
            for (name, bytes) in [("codes", &encoded.codes), ("scales", &encoded.scales), ("values", &encoded.values)] {
                writer.begin(name)?;
                std::io::Write::write_all(&mut writer, bytes)?;
            }
            writer.finish(FORMAT)
        })?;
        Ok(encoded.checksum)
    }

    fn open(&self, path: &Path, checksum: u32) -> anyhow::Result<Rows> {
        let file = SectionFile::open(path, FORMAT)?;
        Ok(Rows::new(RowParts {
            dimensions: self.dimensions,
            codes: file.section("codes")?,
            scales: file.section("scales")?,
            values: file.section("values")?,
            checksum,
            owners: self.owners.clone(),
        })?)
    }
}

/// The xorshift generator: the same vectors at every run.
struct Random(u64);

impl Random {
    fn seeded(seed: u64) -> Self {
        Random((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 20) as usize % end
    }

    /// Values that are near enough to normally distributed, of length 1 together.
    fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        let mut normal = || (0..4).map(|part| (self.next() >> (16 + part) & 0xffff) as f32 / 65536.0 - 0.5).sum();
        unit((0..dimensions).map(|_| normal()).collect())
    }

    /// A vector beside another, with noise of so many times its length.
    fn beside(&mut self, centre: &[f32], noise: f32) -> Vec<f32> {
        let other = self.vector(centre.len());
        unit(centre.iter().zip(other).map(|(a, b)| a + noise * b).collect())
    }
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    sightline::vector::normalise(&mut vector);
    vector
}

/// A figure of this process in MB; 0 where the system has none.
fn memory(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse().ok()).map_or(0.0, |it: f64| it / 1e3)
}

/// Makes the peak of memory begin anew, where the system can.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        info.lines().find_map(|line| line.strip_prefix("model name")).map(|it| it.trim_start_matches([' ', '\t', ':']));
    name.unwrap_or("unknown processor").to_owned()
}
