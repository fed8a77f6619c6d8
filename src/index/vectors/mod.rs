//! F1: which candidates' vectors are most similar to a query's. Knows nothing of models, candidates' texts or folders.
//!
//! An index is a list of segments that are never changed. A segment's vectors are [`Rows`]: each row is the vector of one window,
//! several rows belong to one candidate, and a candidate is as similar as its best row. A row is stored twice: as 8-bit codes,
//! which are searched, and as 16-bit floats, which give the similarity that is reported. Rows should have length 1 (or 0), as
//! those of encoders here have: the similarity is then the cosine. Others are searched as well, by their inner product, but the
//! graph's recall was not measured for them.
//!
//! A deleted row stays where it is and belongs to nobody ([`DELETED`]).

mod codes;
mod graph;
mod graph_build;
mod graph_file;
mod kernels;
mod nearest;
mod rows;
mod scan;

pub use codes::{Encoded, RowsEncoder};
pub use graph::Graph;
pub use graph_build::build_graph;
pub use graph_file::FORMAT as GRAPH_FORMAT;
pub use graph_file::{GraphFile, Links};
pub use rows::{DELETED, RowParts, Rows, similarities};
pub use scan::{Exact, Scan};

use crate::fsio::FileError;

/// Finds the candidates whose vectors are most similar to a query's.
pub trait VectorIndex {
    /// The `k` most similar of the accepted candidates (fewer if there are no more) with their similarity, the inner product
    /// of the query with the candidate's best row; most similar first, and in the order of their numbers where it is equal.
    ///
    /// # Errors
    /// When the query is not of the index's dimensions or not finite, or a file is damaged.
    fn search(&self, query: &[f32], k: usize, accept: Accept) -> Result<Vec<(u32, f32)>, VectorError>;
}

/// Whether rows are so many that a graph is worth its building. A search along one takes less time than a scan from some 10,000
/// rows on, but building it takes minutes where a scan still takes milliseconds, finds everything and has nothing to keep; and the
/// first search after opening, the only one of a short-lived process, is faster by scan up to 200 MB of codes. The limit is a scan
/// of 128 MiB: 10 to 20 ms by two threads (`cargo bench --bench search`), less than embedding a query takes.
pub fn is_worth_a_graph(rows: usize, dimensions: usize) -> bool {
    rows.saturating_mul(dimensions) > WORTH_A_GRAPH
}

const WORTH_A_GRAPH: usize = 1 << 27;

/// Which candidates may be found. It is asked for every candidate, and by several threads.
pub type Accept<'a> = &'a (dyn Fn(u32) -> bool + Sync);

/// Why vectors can't be indexed or searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("a vector has {found} dimensions where {expected} are expected: all have to come from one model")]
    Dimensions { found: usize, expected: usize },
    #[error("vectors of {0} dimensions can't be indexed: use a model with 1 to {max}", max = codes::MOST_DIMENSIONS)]
    Unsupported(usize),
    #[error("a vector has a value that is not finite: the model or its weights are broken")]
    NotFinite,
}

#[cfg(test)]
mod tests;
