//! F2: what was read of pictures, kept in files so that a picture is read once. Knows nothing of how pictures are read.
//!
//! An entry is a file of its own, named by its key, with checksums, written whole or not at all: two processes may share a folder. What is
//! damaged, of another format or of another key is no entry, and is written anew. What can't be kept costs the keeping only.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Block, Line, Note, Page};
use crate::fsio::{self, SectionFile, SectionWriter};
use crate::types::{Category, CodeHint, ErrorSignal, Frame, VisualEvidence};

/// Of the files. Whenever a wire structure here changes, so does it.
const FORMAT: u32 = 1;
/// The one section of a file.
const SECTION: &str = "reading";
const EXTENSION: &str = "seen";
/// A file that was being written so long ago is left from a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// What a result is of: the picture's bytes, and everything else that it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// `source` names who reads and how: models and their version, or a model and what it is told.
    pub fn new(picture: &[u8], source: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(Sha256::digest(picture));
        hash.update(source);
        Key(hash.finalize().into())
    }

    fn file_name(&self) -> String {
        let hex: String = self.0.iter().map(|it| format!("{it:02x}")).collect();
        format!("{hex}.{EXTENSION}")
    }
}

/// Results in a folder, at most so many; the oldest go first.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    most: usize,
    /// One writer in a process at a time.
    writing: Mutex<Writing>,
}

#[derive(Debug, Default)]
struct Writing {
    /// Entries that may be written before the folder is looked through again.
    unchecked: usize,
    is_complained: bool,
}

/// An entry as it stands in its file.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// As in the file's name, which a copy may not have kept.
    key: [u8; 32],
    kept: Kept,
}

#[derive(Serialize, Deserialize)]
enum Kept {
    Evidence(Box<EvidenceWire>),
    Page(PageWire),
}

impl Cache {
    /// The folder is made when the first result is kept in it.
    pub fn open(folder: &Path, most: usize) -> Self {
        Cache { folder: folder.to_owned(), most, writing: Mutex::default() }
    }

    /// The fields that were kept of a picture.
    pub fn evidence(&self, key: &Key) -> Option<VisualEvidence> {
        match self.kept(key)? {
            Kept::Evidence(wire) => wire.evidence(),
            Kept::Page(_) => None,
        }
    }

    /// Keeps the fields of a picture. What goes wrong is logged once.
    pub fn put_evidence(&self, key: &Key, evidence: &VisualEvidence) {
        self.put(key, Kept::Evidence(Box::new(evidence.into())));
    }

    /// The text that was kept of a picture.
    pub fn page(&self, key: &Key) -> Option<Page> {
        match self.kept(key)? {
            Kept::Page(wire) => Some(wire.into()),
            Kept::Evidence(_) => None,
        }
    }

    /// Keeps the text of a picture. What goes wrong is logged once.
    pub fn put_page(&self, key: &Key, page: &Page) {
        self.put(key, Kept::Page(page.into()));
    }

    fn kept(&self, key: &Key) -> Option<Kept> {
        let file = SectionFile::open(&self.folder.join(key.file_name()), FORMAT).ok()?;
        let section = file.section(SECTION).ok()?;
        let entry: Entry = postcard::from_bytes(section.all().ok()?).ok()?;
        (entry.key == key.0).then_some(entry.kept)
    }

    fn put(&self, key: &Key, kept: Kept) {
        if self.most == 0 {
            return;
        }
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.write(key, kept, &mut writing)
            && !std::mem::replace(&mut writing.is_complained, true)
        {
            let folder = self.folder.display();
            tracing::warn!(
                "what was read of pictures can't be kept in {folder} ({error}): check its disk and permissions"
            );
        }
    }

    fn write(&self, key: &Key, kept: Kept, writing: &mut Writing) -> std::io::Result<()> {
        let bytes = postcard::to_stdvec(&Entry { key: key.0, kept }).map_err(std::io::Error::other)?;
        fsio::create_private_directory(&self.folder)?;
        fsio::write_atomically(&self.folder.join(key.file_name()), |out| {
            let mut sections = SectionWriter::new(out);
            sections.begin(SECTION)?;
            sections.write_all(&bytes)?;
            sections.finish(FORMAT)
        })?;
        match writing.unchecked.checked_sub(1) {
            Some(less) => writing.unchecked = less,
            None => {
                // Looking through the folder each time would cost more than the entry.
                let room = self.most / 16;
                self.remove_oldest(self.most - room)?;
                writing.unchecked = room;
            }
        }
        Ok(())
    }

    /// Leaves so many entries. What another process has removed meanwhile is gone, which is all that was wanted.
    fn remove_oldest(&self, left: usize) -> std::io::Result<()> {
        let now = SystemTime::now();
        let mut entries: Vec<(SystemTime, PathBuf)> = Vec::new();
        for file in fs::read_dir(&self.folder)? {
            let Some((written, file)) = file.ok().and_then(|it| Some((it.metadata().ok()?.modified().ok()?, it)))
            else {
                continue;
            };
            if is_entry(&file) {
                entries.push((written, file.path()));
            } else if fsio::is_temporary(&file.file_name())
                && now.duration_since(written).is_ok_and(|it| it > ABANDONED)
            {
                let _ = fs::remove_file(file.path());
            }
        }
        entries.sort();
        let surplus = entries.len().saturating_sub(left);
        entries[..surplus].iter().for_each(|(_, path)| drop(fs::remove_file(path)));
        Ok(())
    }
}

/// Nothing else in the folder is touched.
fn is_entry(file: &DirEntry) -> bool {
    !fsio::is_temporary(&file.file_name()) && Path::new(&file.file_name()).extension() == Some(OsStr::new(EXTENSION))
}

#[derive(Serialize, Deserialize)]
struct PageWire {
    width: u32,
    height: u32,
    blocks: Vec<Vec<LineWire>>,
    notes: Vec<NoteWire>,
}

#[derive(Serialize, Deserialize)]
struct LineWire {
    text: String,
    confidence: f32,
    corners: [[f32; 2]; 4],
}

#[derive(Serialize, Deserialize)]
enum NoteWire {
    NoText,
    Animated,
    TooSmall,
    Turned(u64),
    Unreadable(u64),
    TooMuch(u64),
}

impl From<&Page> for PageWire {
    fn from(page: &Page) -> Self {
        let line = |it: &Line| LineWire { text: it.text.clone(), confidence: it.confidence, corners: it.corners };
        PageWire {
            width: page.width,
            height: page.height,
            blocks: page.blocks.iter().map(|it| it.lines.iter().map(line).collect()).collect(),
            notes: page.notes.iter().map(NoteWire::from).collect(),
        }
    }
}

impl From<PageWire> for Page {
    fn from(wire: PageWire) -> Self {
        let line = |LineWire { text, confidence, corners }| Line { text, confidence, corners };
        let block = |lines: Vec<LineWire>| Block { lines: lines.into_iter().map(line).collect() };
        Page {
            width: wire.width,
            height: wire.height,
            blocks: wire.blocks.into_iter().map(block).collect(),
            notes: wire.notes.into_iter().map(Note::from).collect(),
        }
    }
}

impl From<&Note> for NoteWire {
    fn from(note: &Note) -> Self {
        match *note {
            Note::NoText => NoteWire::NoText,
            Note::Animated => NoteWire::Animated,
            Note::TooSmall => NoteWire::TooSmall,
            Note::Turned { lines } => NoteWire::Turned(lines as u64),
            Note::Unreadable { places } => NoteWire::Unreadable(places as u64),
            Note::TooMuch { lines } => NoteWire::TooMuch(lines as u64),
        }
    }
}

impl From<NoteWire> for Note {
    fn from(wire: NoteWire) -> Self {
        match wire {
            NoteWire::NoText => Note::NoText,
            NoteWire::Animated => Note::Animated,
            NoteWire::TooSmall => Note::TooSmall,
            NoteWire::Turned(lines) => Note::Turned { lines: lines as usize },
            NoteWire::Unreadable(places) => Note::Unreadable { places: places as usize },
            NoteWire::TooMuch(lines) => Note::TooMuch { lines: lines as usize },
        }
    }
}

#[derive(Serialize, Deserialize)]
struct EvidenceWire {
    ocr_text: String,
    error_signal: Option<SignalWire>,
    ui_elements: Vec<String>,
    user_action: Option<String>,
    function_names: Vec<String>,
    file_patterns: Vec<String>,
    frameworks: Vec<String>,
    visual_saliency: Option<String>,
    confidence: f32,
    notes: Vec<String>,
    /// By its name, which stays when categories are added.
    category: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct SignalWire {
    kind: Option<String>,
    type_name: Option<String>,
    message: Option<String>,
    stack: Vec<FrameWire>,
}

#[derive(Serialize, Deserialize)]
struct FrameWire {
    function: Option<String>,
    path: Option<String>,
    line: Option<u32>,
}

impl From<&VisualEvidence> for EvidenceWire {
    fn from(evidence: &VisualEvidence) -> Self {
        let VisualEvidence {
            ocr_text,
            error_signal,
            ui_elements,
            user_action,
            code_hint: CodeHint { function_names, file_patterns, frameworks },
            visual_saliency,
            confidence,
            notes,
            category,
        } = evidence.clone();
        let (error_signal, category) = (error_signal.map(SignalWire::from), category.map(|it| it.name().to_owned()));
        EvidenceWire {
            ocr_text,
            error_signal,
            ui_elements,
            user_action,
            function_names,
            file_patterns,
            frameworks,
            visual_saliency,
            confidence,
            notes,
            category,
        }
    }
}

impl EvidenceWire {
    /// `None` where a category is of another program.
    fn evidence(self) -> Option<VisualEvidence> {
        let category = match self.category {
            Some(name) => Some(Category::of_name(&name)?),
            None => None,
        };
        Some(VisualEvidence {
            ocr_text: self.ocr_text,
            error_signal: self.error_signal.map(ErrorSignal::from),
            ui_elements: self.ui_elements,
            user_action: self.user_action,
            code_hint: CodeHint {
                function_names: self.function_names,
                file_patterns: self.file_patterns,
                frameworks: self.frameworks,
            },
            visual_saliency: self.visual_saliency,
            confidence: self.confidence,
            notes: self.notes,
            category,
        })
    }
}

impl From<ErrorSignal> for SignalWire {
    fn from(ErrorSignal { kind, type_name, message, stack }: ErrorSignal) -> Self {
        let frame = |Frame { function, path, line }| FrameWire { function, path, line };
        SignalWire { kind, type_name, message, stack: stack.into_iter().map(frame).collect() }
    }
}

impl From<SignalWire> for ErrorSignal {
    fn from(SignalWire { kind, type_name, message, stack }: SignalWire) -> Self {
        let frame = |FrameWire { function, path, line }| Frame { function, path, line };
        ErrorSignal { kind, type_name, message, stack: stack.into_iter().map(frame).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn page(text: &str) -> Page {
        let line = Line { text: text.to_owned(), confidence: 0.75, corners: [[1.0, 2.5]; 4] };
        let notes = vec![Note::NoText, Note::Animated, Note::TooSmall, Note::Turned { lines: 3 }];
        let notes = [notes, vec![Note::Unreadable { places: 4 }, Note::TooMuch { lines: usize::MAX }]].concat();
        Page { width: 640, height: 480, blocks: vec![Block { lines: vec![line] }, Block::default()], notes }
    }

    fn evidence() -> VisualEvidence {
        let owned = |it: &str| Some(it.to_owned());
        VisualEvidence {
            ocr_text: "a\nb".to_owned(),
            error_signal: Some(ErrorSignal {
                kind: owned("exception"),
                type_name: owned("TypeError"),
                message: None,
                stack: vec![Frame { function: owned("f"), path: None, line: Some(7) }],
            }),
            ui_elements: vec!["Run".to_owned()],
            user_action: owned("clicks"),
            code_hint: CodeHint {
                function_names: vec!["f".to_owned()],
                file_patterns: vec!["*.rs".to_owned()],
                frameworks: vec!["React".to_owned()],
            },
            visual_saliency: owned("red"),
            confidence: 0.25,
            notes: vec!["cut".to_owned()],
            category: Some(Category::LogOutput),
        }
    }

    fn key(number: usize) -> Key {
        Key::new(&number.to_le_bytes(), "models 1")
    }

    #[track_caller]
    fn check_kept(cache: &Cache, expected: &[usize]) {
        let kept: Vec<usize> = (0..100).filter(|it| cache.page(&key(*it)).is_some()).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn what_was_put_is_got_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/down");
        let cache = Cache::open(&path, 10);
        assert_eq!(cache.page(&key(1)), None);
        cache.put_page(&key(1), &page("one"));
        cache.put_evidence(&key(2), &evidence());
        cache.put_evidence(&key(3), &VisualEvidence::default());
        let cache = Cache::open(&path, 10);
        assert_eq!((cache.page(&key(1)), cache.evidence(&key(1))), (Some(page("one")), None));
        assert_eq!((cache.evidence(&key(2)), cache.page(&key(2))), (Some(evidence()), None));
        assert_eq!(cache.evidence(&key(3)), Some(VisualEvidence::default()));
        assert_eq!(cache.page(&Key::new(&1_usize.to_le_bytes(), "models 2")), None);
        cache.put_page(&key(1), &page("two"));
        assert_eq!(cache.page(&key(1)), Some(page("two")));
    }

    #[test]
    fn damaged_and_foreign_files_are_misses_and_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(folder.path(), 10);
        cache.put_page(&key(1), &page("one"));
        let file = folder.path().join(key(1).file_name());
        let whole = fs::read(&file).expect("there");
        let mut flipped = whole.clone();
        flipped[10] ^= 1;
        for bad in [&whole[..whole.len() / 2], &flipped, b"", b"something else"] {
            fs::write(&file, bad).expect("writable");
            assert_eq!(cache.page(&key(1)), None);
            cache.put_page(&key(1), &page("one"));
            assert_eq!(cache.page(&key(1)), Some(page("one")));
        }
        fs::copy(&file, folder.path().join(key(2).file_name())).expect("writable");
        assert_eq!(cache.page(&key(2)), None, "an entry under another's name");
    }

    #[test]
    fn an_older_format_is_a_miss() {
        let folder = tempfile::tempdir().expect("a folder");
        let written = fsio::write_atomically(&folder.path().join(key(1).file_name()), |out| {
            SectionWriter::new(out).finish(FORMAT + 1)
        });
        written.expect("writable");
        let cache = Cache::open(folder.path(), 10);
        assert_eq!(cache.page(&key(1)), None);
        cache.put_page(&key(1), &page("one"));
        assert_eq!(cache.page(&key(1)), Some(page("one")));
    }

    /// Gives a file the age of so many seconds.
    fn age(path: &Path, seconds: u64) {
        let file = File::options().write(true).open(path).expect("there");
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("settable");
    }

    #[test]
    fn the_oldest_go_first_and_strangers_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(folder.path(), 3);
        let (stranger, abandoned, fresh) = ("notes.txt", ".writing-1.a.seen", ".writing-2.a.seen");
        for name in [stranger, abandoned, fresh] {
            fs::write(folder.path().join(name), "x").expect("writable");
        }
        age(&folder.path().join(abandoned), 7200);
        age(&folder.path().join(stranger), 9999);
        for number in 0..3 {
            cache.put_page(&key(number), &page("x"));
            age(&folder.path().join(key(number).file_name()), [20, 30, 10][number]);
        }
        check_kept(&cache, &[0, 1, 2]);
        cache.put_page(&key(3), &page("x"));
        check_kept(&cache, &[0, 2, 3]);
        cache.put_page(&key(4), &page("x"));
        check_kept(&cache, &[2, 3, 4]);
        let is_there = |it: &str| folder.path().join(it).exists();
        assert!(is_there(stranger) && is_there(fresh) && !is_there(abandoned));
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        for most in [32, 16, 1, 0] {
            let cache = Cache::open(folder.path(), most);
            for number in 0..40 {
                cache.put_page(&key(most * 1000 + number), &page("x"));
                let entries = fs::read_dir(folder.path()).expect("there").count();
                assert!(entries <= most || most == 0 && entries == 1, "{entries}");
            }
        }
    }

    #[test]
    fn writers_at_once_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(folder.path(), 10);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5).for_each(|it| cache.put_page(&key(it), &page("x"))));
            }
        });
        check_kept(&cache, &[0, 1, 2, 3, 4]);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 5);
    }

    #[test]
    fn a_folder_that_can_be_none_costs_the_keeping_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "x").expect("writable");
        let cache = Cache::open(&file, 10);
        cache.put_page(&key(1), &page("one"));
        assert_eq!(cache.page(&key(1)), None);
        assert_eq!(fs::read(&file).expect("there"), b"x");
    }
}
