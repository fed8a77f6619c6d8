//! F1: whether the coded data of a JPEG suffice for all of its blocks. The decoder shows grey where they end early; here the codes are
//! walked over (ITU-T T.81, annexes F and G), without a coefficient or a pixel.

use super::ImageError;

/// What stands before the coded data and says how to read them.
#[derive(Default)]
pub(super) struct Coded {
    frame: Option<Frame>,
    dc: [Option<Codes>; 4],
    ac: [Option<Codes>; 4],
    /// Units between two restart markers; none if zero.
    interval: usize,
}

struct Frame {
    progressive: bool,
    width: usize,
    height: usize,
    components: Vec<Component>,
}

struct Component {
    id: u8,
    across: usize,
    down: usize,
    /// Blocks of a row, whole units of all components.
    stride: usize,
    /// Of each block of a progressive picture, which coefficients are not zero: each of these takes a bit when it is refined.
    nonzero: Vec<u64>,
    seen: bool,
}

/// Why coded data can't be walked over to their end.
struct Short(&'static str);

const ENDS: Short = Short("its coded data end before its last block");
const NO_CODE: Short = Short("its coded data hold what is no code");
const NO_RESTART: Short = Short("a restart marker is missing or out of order");
const NO_SCAN: Short = Short("its coded data lack a component");

impl Coded {
    /// Takes a frame header, whose size has been looked at. What is wrong with it the decoder says.
    pub(super) fn frame(&mut self, progressive: bool, segment: &[u8]) {
        self.frame = Frame::of(progressive, segment);
    }

    pub(super) fn interval(&mut self, segment: &[u8]) {
        if let &[_, _, upper, lower, ..] = segment {
            self.interval = usize::from(u16::from_be_bytes([upper, lower]));
        }
    }

    /// Takes a segment of Huffman tables.
    pub(super) fn codes(&mut self, segment: &[u8]) {
        let mut rest = segment.get(2..).unwrap_or_default();
        while let Some((class, codes, after)) = Codes::of(rest) {
            let tables = if class >> 4 == 0 { &mut self.dc } else { &mut self.ac };
            tables[usize::from(class & 3)] = Some(codes);
            rest = after;
        }
    }

    /// Walks over the coded data of a scan.
    pub(super) fn scan(&mut self, header: &[u8], data: &[u8]) -> Result<(), ImageError> {
        let Some(frame) = &mut self.frame else { return Ok(()) };
        // A header or tables that make no sense are the decoder's to refuse.
        let Some(scan) = Scan::of(frame, header, &self.dc, &self.ac) else { return Ok(()) };
        scan.walk(frame, self.interval, data).map_err(|Short(reason)| ImageError::damaged(reason))
    }

    /// Whether each component had coded data. Of a progressive picture the finer ones may lack.
    pub(super) fn complete(&self) -> Result<(), ImageError> {
        match &self.frame {
            Some(frame) if frame.components.iter().any(|it| !it.seen) => Err(ImageError::damaged(NO_SCAN.0)),
            _ => Ok(()),
        }
    }
}

impl Frame {
    fn of(progressive: bool, segment: &[u8]) -> Option<Self> {
        let (&[_, _, _, height_1, height_0, width_1, width_0, count], listed) = segment.split_first_chunk()?;
        let side = |upper, lower| usize::from(u16::from_be_bytes([upper, lower]));
        let mut frame = Frame {
            progressive,
            width: side(width_1, width_0),
            height: side(height_1, height_0),
            components: listed.as_chunks().0.iter().map(|it: &[u8; 3]| Component::of(*it)).collect(),
        };
        let usable = |it: &Component| (1..=4).contains(&it.across) && (1..=4).contains(&it.down);
        let number = frame.components.len();
        if number != usize::from(count) || !(1..=4).contains(&number) || !frame.components.iter().all(usable) {
            return None;
        }
        let (wide, high) = frame.units();
        for component in &mut frame.components {
            component.stride = wide * component.across;
            component.nonzero = vec![0; if progressive { component.stride * high * component.down } else { 0 }];
        }
        Some(frame)
    }

    /// The largest sampling factors.
    fn most(&self) -> (usize, usize) {
        let most = |factor: fn(&Component) -> usize| self.components.iter().map(factor).max().unwrap_or(1);
        (most(|it| it.across), most(|it| it.down))
    }

    /// How many units of interleaved components stand beside and below each other.
    fn units(&self) -> (usize, usize) {
        let (across, down) = self.most();
        (self.width.div_ceil(8 * across), self.height.div_ceil(8 * down))
    }

    /// How many blocks a component has that is alone in a scan.
    fn blocks(&self, component: &Component) -> (usize, usize) {
        let (across, down) = self.most();
        let blocks = |side: usize, factor: usize, most| (side * factor).div_ceil(most).div_ceil(8);
        (blocks(self.width, component.across, across), blocks(self.height, component.down, down))
    }
}

impl Component {
    fn of([id, sampling, _]: [u8; 3]) -> Self {
        let (across, down) = (usize::from(sampling >> 4), usize::from(sampling & 15));
        Component { id, across, down, stride: 0, nonzero: Vec::new(), seen: false }
    }
}

/// A Huffman table: of each length of codes, the first 16-bit value beyond them and where their symbols begin.
struct Codes {
    ends: [u32; 17],
    first: [u32; 17],
    symbols: Vec<u8>,
}

impl Codes {
    /// The class and number of a table, the table, and what follows it.
    fn of(bytes: &[u8]) -> Option<(u8, Self, &[u8])> {
        let (&class, rest) = bytes.split_first()?;
        let (counts, rest) = rest.split_first_chunk::<16>()?;
        let number: usize = counts.iter().map(|it| usize::from(*it)).sum();
        let (symbols, rest) = rest.split_at_checked(number)?;
        let mut codes = Codes { ends: [0; 17], first: [0; 17], symbols: symbols.to_vec() };
        let (mut code, mut at) = (0u32, 0u32);
        for (length, count) in (1..=16).zip(counts) {
            codes.first[length] = at.wrapping_sub(code);
            (code, at) = (code + u32::from(*count), at + u32::from(*count));
            codes.ends[length] = code << (16 - length);
            code <<= 1;
        }
        Some((class, codes, rest))
    }
}

/// Bits between two markers.
struct Bits<'a> {
    bytes: &'a [u8],
    /// The next bits, the first one uppermost.
    buffer: u64,
    held: u32,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Bits { bytes, buffer: 0, held: 0 }
    }

    fn fill(&mut self) {
        while self.held <= 56 {
            let (byte, after) = match *self.bytes {
                // A zero is stuffed behind 0xff.
                [0xff, 0, ref after @ ..] => (0xff, after),
                [0xff, ..] | [] => return,
                [byte, ref after @ ..] => (byte, after),
            };
            self.buffer |= u64::from(byte) << (56 - self.held);
            (self.held, self.bytes) = (self.held + 8, after);
        }
    }

    /// Passes over up to 16 bits and gives their value.
    fn take(&mut self, count: u32) -> Result<u32, Short> {
        if self.held < count {
            self.fill();
        }
        self.held = self.held.checked_sub(count).ok_or(ENDS)?;
        let value = (self.buffer >> 48) as u32 >> (16 - count);
        self.buffer <<= count;
        Ok(value)
    }

    fn skip(&mut self, count: u32) -> Result<(), Short> {
        (0..count / 16).try_for_each(|_| self.take(16).map(drop))?;
        self.take(count % 16).map(drop)
    }

    fn symbol(&mut self, codes: &Codes) -> Result<u8, Short> {
        if self.held < 16 {
            self.fill();
        }
        let next = (self.buffer >> 48) as u32;
        // Bits beyond the end are zeros here; what they would be is not known.
        let none = if self.held < 16 { ENDS } else { NO_CODE };
        let Some(length) = (1..=16).find(|length| next < codes.ends[*length]) else { return Err(none) };
        let code = self.take(length as u32)?;
        codes.symbols.get(codes.first[length].wrapping_add(code) as usize).copied().ok_or(NO_CODE)
    }
}

/// A scan: which components it holds, and how its blocks are coded.
struct Scan<'a> {
    parts: Vec<Part<'a>>,
    kind: Kind,
}

struct Part<'a> {
    component: usize,
    dc: Option<&'a Codes>,
    ac: Option<&'a Codes>,
}

#[derive(Clone, Copy)]
enum Kind {
    Whole,
    DcFirst,
    DcRefined,
    AcFirst { from: u32, to: u32 },
    AcRefined { from: u32, to: u32 },
}

impl Kind {
    fn of(progressive: bool, [from, to, approximation]: [u8; 3]) -> Option<Self> {
        let refined = approximation >> 4 != 0;
        let (from, to) = (u32::from(from), u32::from(to));
        Some(match (progressive, from) {
            (false, _) => Kind::Whole,
            (true, 0) if refined => Kind::DcRefined,
            (true, 0) => Kind::DcFirst,
            _ if to < from || to > 63 => return None,
            _ if refined => Kind::AcRefined { from, to },
            _ => Kind::AcFirst { from, to },
        })
    }
}

impl<'a> Scan<'a> {
    fn of(frame: &Frame, header: &[u8], dc: &'a [Option<Codes>; 4], ac: &'a [Option<Codes>; 4]) -> Option<Self> {
        let (&count, rest) = header.get(2..)?.split_first()?;
        let (listed, rest) = rest.split_at_checked(usize::from(count) * 2)?;
        let kind = Kind::of(frame.progressive, *rest.first_chunk()?)?;
        let part = |&[id, tables]: &[u8; 2]| {
            let component = frame.components.iter().position(|it| it.id == id)?;
            let (dc, ac) = (&dc[usize::from(tables >> 4 & 3)], &ac[usize::from(tables & 3)]);
            Some(Part { component, dc: dc.as_ref(), ac: ac.as_ref() })
        };
        let parts: Vec<Part<'a>> = listed.as_chunks().0.iter().map(part).collect::<Option<_>>()?;
        let has_codes = |it: &Part<'_>| match kind {
            Kind::Whole => it.dc.is_some() && it.ac.is_some(),
            Kind::DcFirst => it.dc.is_some(),
            Kind::DcRefined => true,
            Kind::AcFirst { .. } | Kind::AcRefined { .. } => it.ac.is_some() && count == 1,
        };
        (!parts.is_empty() && parts.iter().all(has_codes)).then_some(Scan { parts, kind })
    }

    fn walk(&self, frame: &mut Frame, interval: usize, data: &[u8]) -> Result<(), Short> {
        let (wide, high) = match self.parts.as_slice() {
            [part] => frame.blocks(&frame.components[part.component]),
            _ => frame.units(),
        };
        let mut pieces = Pieces(data);
        let mut piece = Piece { bits: Bits::new(pieces.next_piece().0), end_run: 0 };
        for unit in 0..wide * high {
            if interval > 0 && unit > 0 && unit % interval == 0 {
                let expected = 0xd0 + ((unit / interval - 1) % 8) as u8;
                piece = Piece { bits: Bits::new(pieces.restart(expected)?), end_run: 0 };
            }
            self.unit(frame, &mut piece, (unit % wide, unit / wide))?;
        }
        for part in &self.parts {
            frame.components[part.component].seen |= matches!(self.kind, Kind::Whole | Kind::DcFirst);
        }
        Ok(())
    }

    fn unit(&self, frame: &mut Frame, piece: &mut Piece<'_>, (x, y): (usize, usize)) -> Result<(), Short> {
        for part in &self.parts {
            let component = &mut frame.components[part.component];
            let (across, down) = if self.parts.len() == 1 { (1, 1) } else { (component.across, component.down) };
            for at in 0..across * down {
                let block = (y * down + at / across) * component.stride + x * across + at % across;
                // A picture that is not progressive has none.
                let nonzero = component.nonzero.get_mut(block);
                piece.block(part, self.kind, nonzero.unwrap_or(&mut 0))?;
            }
        }
        Ok(())
    }
}

/// Coded data, cut at restart markers.
struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    /// What stands before the next restart marker, and the marker.
    fn next_piece(&mut self) -> (&'a [u8], Option<u8>) {
        let marker = self.0.windows(2).position(|it| it[0] == 0xff && (0xd0..=0xd7).contains(&it[1]));
        let (piece, rest) = self.0.split_at(marker.unwrap_or(self.0.len()));
        self.0 = rest;
        (piece, rest.get(1).copied())
    }

    /// The piece behind the restart marker that comes next.
    fn restart(&mut self, expected: u8) -> Result<&'a [u8], Short> {
        let (marker, rest) = self.0.split_first_chunk().ok_or(NO_RESTART)?;
        if *marker != [0xff, expected] {
            return Err(NO_RESTART);
        }
        self.0 = rest;
        Ok(self.next_piece().0)
    }
}

struct Piece<'a> {
    bits: Bits<'a>,
    /// Blocks whose band is known to be over.
    end_run: u32,
}

impl Piece<'_> {
    fn block(&mut self, part: &Part<'_>, kind: Kind, nonzero: &mut u64) -> Result<(), Short> {
        match (kind, part.dc, part.ac) {
            (Kind::Whole, Some(dc), Some(ac)) => {
                self.dc(dc)?;
                self.whole(ac)
            }
            (Kind::DcFirst, Some(dc), _) => self.dc(dc),
            (Kind::AcFirst { from, to }, _, Some(ac)) => self.first(ac, from, to, nonzero),
            (Kind::AcRefined { from, to }, _, Some(ac)) => self.refined(ac, from, to, nonzero),
            _ => self.bits.skip(1),
        }
    }

    fn dc(&mut self, codes: &Codes) -> Result<(), Short> {
        let size = self.bits.symbol(codes)?;
        self.bits.skip(u32::from(size))
    }

    /// The run of zeros and the size of a coefficient.
    fn run_and_size(&mut self, codes: &Codes) -> Result<(u32, u32), Short> {
        let symbol = u32::from(self.bits.symbol(codes)?);
        Ok((symbol >> 4, symbol & 15))
    }

    fn whole(&mut self, codes: &Codes) -> Result<(), Short> {
        let mut at = 1;
        while at < 64 {
            match self.run_and_size(codes)? {
                (15, 0) => at += 16,
                (_, 0) => break,
                (run, size) => {
                    at += run + 1;
                    self.bits.skip(size)?;
                }
            }
        }
        Ok(())
    }

    fn first(&mut self, codes: &Codes, from: u32, to: u32, nonzero: &mut u64) -> Result<(), Short> {
        let mut at = from;
        while self.end_run == 0 && at <= to {
            match self.run_and_size(codes)? {
                (15, 0) => at += 16,
                (run, 0) => self.end_run = (1 << run) + self.bits.take(run)?,
                (run, size) => {
                    *nonzero |= 1u64.checked_shl(at + run).ok_or(NO_CODE)?;
                    at += run + 1;
                    self.bits.skip(size)?;
                }
            }
        }
        self.end_run = self.end_run.saturating_sub(1);
        Ok(())
    }

    fn refined(&mut self, codes: &Codes, from: u32, to: u32, nonzero: &mut u64) -> Result<(), Short> {
        let mut at = from;
        while self.end_run == 0 && at <= to {
            let (run, size) = self.run_and_size(codes)?;
            if size == 0 && run < 15 {
                self.end_run = (1 << run) + self.bits.take(run)?;
                break;
            }
            self.bits.skip(size)?;
            at = self.over_run(run, at, to, *nonzero)?;
            if size > 0 {
                *nonzero |= 1u64.checked_shl(at).unwrap_or(0);
            }
            at += 1;
        }
        if self.end_run > 0 {
            let left = if at <= to { *nonzero & (!0 << at) & (!0 >> (63 - to)) } else { 0 };
            self.bits.skip(left.count_ones())?;
            self.end_run -= 1;
        }
        Ok(())
    }

    /// Where a run of zeros ends; a bit stands for each other coefficient on the way.
    fn over_run(&mut self, mut run: u32, mut at: u32, to: u32, nonzero: u64) -> Result<u32, Short> {
        while at <= to {
            if nonzero >> at & 1 == 1 {
                self.bits.skip(1)?;
            } else if run == 0 {
                break;
            } else {
                run -= 1;
            }
            at += 1;
        }
        Ok(at)
    }
}
