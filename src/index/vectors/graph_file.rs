//! F1: a graph of neighbours as it lies in its file. Knows nothing of vectors.
//!
//! A graph is a cache: it can be built again from its rows, and a file that is not for them is refused. Each of its layers is a
//! list of rows in ascending order (layer 0 has all rows, and no list) and, for each of them, a list of neighbours of a fixed width.

use std::io::{self, Write};
use std::sync::Arc;

use super::rows::Rows;
use crate::fsio::{FileError, Section, SectionFile, SectionWriter, u32_at};

pub const FORMAT: u32 = 1;
/// Behind a list's last neighbour.
const NONE: u32 = u32::MAX;
/// A 16th of a layer's rows is in the next one: more layers than this are not of any graph.
const MOST_LAYERS: usize = 16;

/// A graph in memory, as it was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    pub(super) checksum: u32,
    pub(super) dimensions: usize,
    pub(super) count: usize,
    /// The row that a search begins with.
    pub(super) entry: u32,
    /// The densest first.
    pub(super) layers: Vec<LayerLinks>,
    /// Rows that no search from the entry finds: each begins with them too.
    pub(super) strays: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerLinks {
    /// Ascending. Empty in layer 0, which has all rows.
    pub rows: Vec<u32>,
    /// Of a list.
    pub width: usize,
    /// A list a row.
    pub links: Vec<u32>,
}

impl LayerLinks {
    pub fn new(rows: Vec<u32>, count: usize, width: usize) -> Self {
        LayerLinks { rows, width, links: vec![NONE; count * width] }
    }

    /// The list of the row at a place, with what is free at its end.
    pub fn list_mut(&mut self, place: usize) -> &mut [u32] {
        &mut self.links[place * self.width..(place + 1) * self.width]
    }

    /// Adds a neighbour to the list at a place. False when it is full.
    pub fn add(&mut self, place: usize, row: u32) -> bool {
        let free = self.list_mut(place).iter_mut().find(|it| **it == NONE);
        free.map(|link| *link = row).is_some()
    }
}

impl Links {
    /// Rows that every search begins with. Each costs it as much as any row it looks at; where they are many, so are crowds of
    /// vectors that are nearly the same.
    pub fn strays(&self) -> &[u32] {
        &self.strays
    }

    /// Writes the file that [`GraphFile::open`] reads.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut writer = SectionWriter::new(out);
        let mut write = |name: &str, numbers: &[u32]| {
            writer.begin(name)?;
            numbers.iter().try_for_each(|it| writer.write_all(&it.to_le_bytes()))
        };
        let mut head = vec![self.checksum, self.dimensions as u32, self.count as u32, self.entry];
        head.extend(self.layers.iter().map(|it| it.width as u32));
        write("graph", &head)?;
        write("strays", &self.strays)?;
        for (layer, links) in self.layers.iter().enumerate() {
            write(&format!("rows{layer}"), &links.rows)?;
            write(&format!("links{layer}"), &links.links)?;
        }
        writer.finish(FORMAT)
    }

    /// The same as if it were read from a file.
    pub(super) fn held(&self) -> GraphFile {
        let layer =
            |it: &LayerLinks| Layer { rows: section_of(&it.rows), links: section_of(&it.links), width: it.width };
        let layers = self.layers.iter().map(layer).collect();
        GraphFile { count: self.count, entry: self.entry, layers, strays: section_of(&self.strays) }
    }
}

fn section_of(numbers: &[u32]) -> Section {
    numbers.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>().into()
}

/// A graph, read from its file as it is searched.
#[derive(Debug)]
pub struct GraphFile {
    count: usize,
    entry: u32,
    layers: Vec<Layer>,
    strays: Section,
}

#[derive(Debug)]
struct Layer {
    rows: Section,
    links: Section,
    width: usize,
}

impl GraphFile {
    /// Opens the graph of these rows. Costs nothing but the opening: what is read later is checked then.
    ///
    /// # Errors
    /// When it can't be read, is damaged or is the graph of other rows. It can be removed and built again.
    pub fn open(file: &Arc<SectionFile>, rows: &Rows) -> Result<Self, FileError> {
        let head = file.section("graph")?;
        let numbers: Vec<usize> = head.all()?.as_chunks().0.iter().map(|it| u32::from_le_bytes(*it) as usize).collect();
        let [checksum, dimensions, count, entry, ref widths @ ..] = numbers[..] else {
            return Err(head.damaged("it says nothing of its graph"));
        };
        if (checksum, dimensions, count) != (rows.checksum() as usize, rows.dimensions(), rows.count()) {
            return Err(head.damaged("it is the graph of other vectors"));
        }
        if entry >= count || !(1..=MOST_LAYERS).contains(&widths.len()) {
            return Err(head.damaged("its graph makes no sense"));
        }
        let layers = widths.iter().enumerate().map(|(at, width)| Layer::open(file, at, *width, count));
        let layers = layers.collect::<Result<_, _>>()?;
        Ok(GraphFile { count, entry: entry as u32, layers, strays: file.section("strays")? })
    }

    pub(super) fn entry(&self) -> u32 {
        self.entry
    }

    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    pub(super) fn set_strays(&mut self, strays: &[u32]) {
        self.strays = section_of(strays);
    }

    /// How many rows an upper layer has.
    pub(super) fn rows_of(&self, layer: usize) -> usize {
        self.layers[layer].rows.len() / 4
    }

    /// The rows of an upper layer.
    pub(super) fn rows(&self, layer: usize) -> Result<Neighbours<'_>, FileError> {
        let rows = &self.layers[layer].rows;
        Ok(Neighbours { links: rows, bytes: rows.all()?, count: self.count })
    }

    pub(super) fn strays(&self) -> Result<Neighbours<'_>, FileError> {
        Ok(Neighbours { links: &self.strays, bytes: self.strays.all()?, count: self.count })
    }

    /// The neighbours of a row in a layer; none if it is not in it.
    pub(super) fn neighbours(&self, layer: usize, row: u32) -> Result<Neighbours<'_>, FileError> {
        let layer = &self.layers[layer];
        let place = if layer.rows.is_empty() { Some(row as usize) } else { layer.place_of(row)? };
        let bytes = match place {
            Some(place) => layer.links.read(place * layer.width * 4..(place + 1) * layer.width * 4)?,
            None => &[],
        };
        Ok(Neighbours { links: &layer.links, bytes, count: self.count })
    }
}

impl Layer {
    fn open(file: &Arc<SectionFile>, at: usize, width: usize, count: usize) -> Result<Self, FileError> {
        let (rows, links) = (file.section(&format!("rows{at}"))?, file.section(&format!("links{at}"))?);
        let places = if at == 0 { count } else { rows.len() / 4 };
        let has_rows = rows.is_empty() == (at == 0);
        if !has_rows || width.checked_mul(4 * places) != Some(links.len()) {
            return Err(links.damaged("its lists of neighbours are not as many as it says"));
        }
        Ok(Layer { rows, links, width })
    }

    fn place_of(&self, row: u32) -> Result<Option<usize>, FileError> {
        let rows = self.rows.all()?;
        let (mut low, mut high) = (0, rows.len() / 4);
        while low < high {
            let middle = (low + high) / 2;
            match u32_at(rows, 4 * middle).cmp(&row) {
                std::cmp::Ordering::Equal => return Ok(Some(middle)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }
}

/// A list of neighbours, each checked to be a row as it is read.
pub(super) struct Neighbours<'a> {
    links: &'a Section,
    bytes: &'a [u8],
    count: usize,
}

impl Iterator for Neighbours<'_> {
    type Item = Result<u32, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        match u32::from_le_bytes(*first) {
            NONE => None,
            row if (row as usize) < self.count => Some(Ok(row)),
            _ => Some(Err(self.links.damaged("a list of rows names one that is not there"))),
        }
    }
}
