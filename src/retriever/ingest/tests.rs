//! Indexes of small folders, with a stand-in for the encoder that counts and can fail.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::encoder::{ModelInfo, Progress, QueryEmbedding, Window};
use crate::index::directory::DataDirectory;
use crate::index::store::{Key, MemoryStore};
use crate::index::view::How;
use crate::types::IssueReport;

/// Reads a line of a candidate at a time, header and all. A vector depends on the text alone.
struct Stand {
    info: ModelInfo,
    fingerprint: String,
    /// Texts that were embedded.
    embedded: Mutex<Vec<String>>,
    /// Fails on batches with a text that holds this; the empty text fails on all.
    fails_on: Option<&'static str>,
    /// Ends the work when so many texts were embedded.
    patience: AtomicUsize,
    stopped: AtomicBool,
}

impl Stand {
    fn new() -> Self {
        Stand {
            info: ModelInfo::of_text("stand-in", 4, 64),
            fingerprint: "first".to_owned(),
            embedded: Mutex::default(),
            fails_on: None,
            patience: usize::MAX.into(),
            stopped: false.into(),
        }
    }

    fn count(&self) -> usize {
        std::mem::take(&mut *self.embedded.lock().expect("no panic")).len()
    }
}

fn text(tokens: &[u32]) -> String {
    tokens.iter().filter_map(|it| char::from_u32(*it)).collect()
}

fn vector(text: &str) -> Vec<f32> {
    let mut vector: Vec<f32> =
        (0..4).map(|at| text.bytes().skip(at).step_by(4).map(f32::from).sum::<f32>() + 1.0).collect();
    crate::vector::normalise(&mut vector);
    vector
}

impl Encoder for Stand {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn windows(&self, header: &str, body: &str) -> Result<Vec<Window>, EncoderError> {
        let mut start = 0;
        let mut window = |line: &str| {
            let body = start..start + line.len();
            start = body.end;
            Window {
                tokens: format!("{header} {line}").chars().map(u32::from).collect(),
                body,
                header_shortened: false,
            }
        };
        let lines = if body.is_empty() { vec![""] } else { body.split_inclusive('\n').collect() };
        Ok(lines.into_iter().map(&mut window).collect())
    }

    fn embed(&self, windows: &[&Window], _: &Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        let texts: Vec<String> = windows.iter().map(|it| text(&it.tokens)).collect();
        if let Some(part) = self.fails_on
            && texts.iter().any(|it| it.contains(part))
        {
            return Err(EncoderError::Compute { sequences: windows.len(), cause: "it is meant to".to_owned() });
        }
        let vectors = texts.iter().map(|it| vector(it)).collect();
        let patience = self.patience.load(Ordering::Relaxed).saturating_sub(texts.len());
        self.patience.store(patience, Ordering::Relaxed);
        self.stopped.store(patience == 0, Ordering::Relaxed);
        self.embedded.lock().expect("no panic").extend(texts);
        Ok(vectors)
    }

    fn query(&self, _: &IssueReport) -> Result<QueryEmbedding, EncoderError> {
        Ok(QueryEmbedding { vector: vector(""), ..QueryEmbedding::default() })
    }

    fn embed_inputs(
        &self,
        inputs: &[crate::encoder::Input],
        _: &crate::encoder::Progress,
    ) -> Vec<Result<crate::encoder::InputEmbedding, EncoderError>> {
        let refused =
            |_| Err(EncoderError::Compute { sequences: 1, cause: "a stand-in reads windows only".to_owned() });
        inputs.iter().map(refused).collect()
    }

    fn decode(&self, _: &[u32]) -> Result<String, EncoderError> {
        Err(EncoderError::NotBundled)
    }
}

impl Observer for Stand {
    fn at(&self, _: Phase, _: usize, _: usize) {}

    fn should_stop(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// A folder of sources and a data directory.
struct Scene {
    scratch: tempfile::TempDir,
    data: DataDirectory,
    store: MemoryStore,
    encoder: Stand,
    missing: Missing,
}

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        let data = DataDirectory::new(scratch.path().join("data"));
        Scene { data, store: MemoryStore::default(), encoder: Stand::new(), missing: Missing::Embed, scratch }
    }

    fn root(&self, name: &str) -> PathBuf {
        self.scratch.path().canonicalize().expect("there").join(name)
    }

    /// Writes files.
    fn write(&self, root: &str, files: &[(&str, &str)]) -> &Self {
        for (path, content) in files {
            let path = self.root(root).join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            std::fs::write(path, content).expect("writable");
        }
        self
    }

    fn index(&self, root: &str) -> Result<Report, IngestError> {
        let root = self.root(root);
        let directory = self.data.repository(&root);
        let lock = directory.lock()?;
        let options = snapshot::Options::default();
        let job = Job {
            root: &root,
            revision: None,
            options: &options,
            encoder: &self.encoder,
            store: &self.store,
            missing: self.missing,
            observer: &self.encoder,
        };
        ingest(&job, &directory, &lock)
    }

    fn open(&self, root: &str) -> Option<Indexed> {
        let root = self.root(root);
        match open(&self.data.repository(&root), &root, None, &snapshot::Options::default()).expect("a sound index") {
            Found::Index(indexed) => Some(*indexed),
            Found::Nothing | Found::OtherRules => None,
        }
    }

    /// Indexes, and checks how many windows were embedded; and that the index holds what one made from nothing would.
    #[track_caller]
    fn check(&self, root: &str, embedded: usize) -> Report {
        let report = self.index(root).expect("it is indexed");
        assert_eq!((self.encoder.count(), report.embedding.embedded), (embedded, embedded), "{report:?}");
        self.check_like_fresh(root);
        report
    }

    #[track_caller]
    fn check_like_fresh(&self, root: &str) {
        let indexed = self.open(root).expect("there is an index");
        assert_eq!(indexed.changes, Changes::default());
        let fresh =
            snapshot::read(&self.root(root), None, &snapshot::Options::default(), &|_, _| ()).expect("a snapshot");
        let listed = |it: &crate::types::Candidate| (it.header(), it.lines, it.body().expect("a text").to_owned());
        let (found, expected): (Vec<_>, Vec<_>) =
            (indexed.view.candidates.iter().map(listed).collect(), fresh.candidates.iter().map(listed).collect());
        assert_eq!(found, expected);
        let vectors = indexed.view.vectors.as_ref().expect("vectors");
        for (at, candidate) in indexed.view.candidates.iter().enumerate() {
            let windows =
                self.encoder.windows(&candidate.header(), candidate.body().expect("a text")).expect("windows");
            let expected: Vec<_> = windows.iter().map(|it| Some(halves(&vector(&text(&it.tokens))))).collect();
            let found = vectors.windows(candidate.level, at).expect("sound");
            assert_eq!(found.into_iter().map(|it| it.1).collect::<Vec<_>>(), expected, "{}", candidate.header());
            let query = vector("query");
            let best =
                expected.iter().flatten().map(|it| it.iter().zip(&query).map(|(a, b)| a.to_f32() * b).sum::<f32>());
            let best = best.fold(f32::NEG_INFINITY, f32::max);
            let similarity = vectors.similarities(candidate.level, &[at], &query).expect("sound")[0].expect("a vector");
            assert!((similarity - best).abs() < 1e-4, "{similarity} is not {best}");
        }
        let all = vectors.search(Level::File, &vector("query"), 1000, How::Exact, &|_| true).expect("sound");
        assert_eq!(all.len(), fresh.sources.len());
    }
}

const A: &str = "def a():\n    return 1\n\ndef b():\n    return 2\n";
const C: &str = "x = 1\n";

/// Windows of [`A`]: a line each, of the file and of two functions of two lines.
const OF_A: usize = 5 + 4;

#[test]
fn only_what_is_new_is_embedded() {
    let scene = Scene::new();
    scene.write("one", &[("a.py", A), ("c.py", C)]);
    let first = scene.check("one", OF_A + 1);
    assert_eq!((first.counts.files, first.counts.functions, first.counts.windows), (2, 2, OF_A + 1));
    // Nothing changed: nothing is made.
    assert!(!scene.check("one", 0).is_new);
    // One line of one function, which its file has too.
    scene.write("one", &[("a.py", &A.replace("return 2", "return 3"))]);
    let report = scene.check("one", 2);
    assert_eq!(report.changes.changed, ["a.py"]);
    // The path is part of the text: a renamed file is embedded, and nothing else.
    std::fs::rename(scene.root("one").join("c.py"), scene.root("one").join("d.py")).expect("renamed");
    let report = scene.check("one", 1);
    assert_eq!((report.changes.added, report.changes.removed), (vec!["d.py".to_owned()], vec!["c.py".to_owned()]));
    // Back again: the store knows it.
    std::fs::rename(scene.root("one").join("d.py"), scene.root("one").join("c.py")).expect("renamed");
    scene.check("one", 0);
    // The same tree elsewhere.
    scene.write("two", &[("a.py", &A.replace("return 2", "return 3")), ("c.py", C)]);
    scene.check("two", 0);
    // What is gone is gone.
    std::fs::remove_file(scene.root("one").join("a.py")).expect("removed");
    let report = scene.check("one", 0);
    assert_eq!((report.counts.files, report.counts.windows), (1, 1));
}

#[test]
fn nothing_is_read_that_looks_as_it_did() {
    let scene = Scene::new();
    scene.write("one", &[("a.py", A), ("c.py", C)]);
    assert_eq!(scene.check("one", OF_A + 1).read, 2);
    // Files that were just written may have been changed again within a tick of the clock: until they rest, they are looked at.
    let settled = loop {
        let report = scene.check("one", 0);
        if report.read == 0 {
            break report;
        }
    };
    assert!(!settled.is_new);
    // Touched and not changed: looked at, and not parsed or embedded.
    let path = scene.root("one").join("c.py");
    std::fs::File::options()
        .append(true)
        .open(&path)
        .and_then(|it| it.set_modified(std::time::SystemTime::UNIX_EPOCH))
        .expect("touched");
    let report = scene.check("one", 0);
    assert_eq!((report.read, report.candidates), (1, 0));
}

/// The parts of the index, and the files in its folder.
fn parts(scene: &Scene) -> (usize, usize) {
    let files = std::fs::read_dir(scene.data.repository(&scene.root("one")).path.join("segments")).expect("there");
    (scene.open("one").expect("an index").view.build.manifest.parts.len(), files.count())
}

#[test]
fn small_changes_are_gathered_in_time_and_nothing_is_embedded_again_for_it() {
    let scene = Scene::new();
    let source = |at: usize, round: usize| format!("def f{at}():\n    return {round}\n");
    for at in 0..20 {
        scene.write("one", &[(&format!("m{at:02}.py"), &source(at, 0))]);
    }
    scene.check("one", 20 * 4);
    let mut most = 0;
    for round in 1..=2 * MOST_PARTS {
        scene.write("one", &[(&format!("m{round:02}.py"), &source(round, round))]);
        scene.check("one", 2);
        let (parts, files) = parts(&scene);
        assert!(parts <= MOST_PARTS && files == 2 * parts, "{parts} parts in {files} files");
        most = most.max(parts);
    }
    assert_eq!(most, MOST_PARTS, "they were gathered when they were so many, and not before");
    // Most of what there is changes: what is left of the old is taken over.
    for at in 0..15 {
        scene.write("one", &[(&format!("m{at:02}.py"), &source(at, 99))]);
    }
    scene.check("one", 15 * 2);
    assert!(parts(&scene).0 <= 3);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 8, ..Default::default() })]

    /// After any edits an index is what one made from nothing would be.
    #[test]
    fn any_edits_lead_to_the_same_index(rounds in proptest::collection::vec(proptest::collection::vec((0..6_usize, 0..4_usize), 1..5), 1..12)) {
        let scene = Scene::new();
        scene.write("one", &[("z.py", A)]);
        scene.index("one").expect("it is indexed");
        for edits in rounds {
            for (file, content) in edits {
                let path = format!("{}/m{file}.py", ["a", "b", "q"][file % 3]);
                match content {
                    0 => _ = std::fs::remove_file(scene.root("one").join(&path)),
                    _ => _ = scene.write("one", &[(&path, &A.repeat(content).replace("return", &format!("return {file} +")))]),
                }
            }
            scene.index("one").expect("it is indexed");
            scene.check_like_fresh("one");
        }
    }
}

/// Indexes without embedding, and checks how many windows have a vector then.
#[track_caller]
fn check_left(scene: &Scene, vectors: usize, windows: usize) -> Report {
    let report = scene.index("one").expect("it is indexed");
    assert_eq!((scene.encoder.count(), report.embedding.embedded), (0, 0), "{report:?}");
    assert_eq!((report.counts.vectors, report.counts.windows), (vectors, windows), "{report:?}");
    let indexed = scene.open("one").expect("there is an index");
    assert_eq!((indexed.view.build.manifest.counts, indexed.changes), (report.counts, Changes::default()));
    report
}

/// Puts vectors of some texts into the store, as a question does.
fn put(scene: &Scene, texts: &[&str]) {
    let windows: Vec<Vec<u32>> = texts.iter().map(|it| it.chars().map(u32::from).collect()).collect();
    let vectors: Vec<_> = texts.iter().map(|it| halves(&vector(it))).collect();
    let items: Vec<_> =
        windows.iter().zip(&vectors).map(|(it, vector)| (Key::of_tokens(it), vector.as_slice())).collect();
    scene.store.put(&model_key(&scene.encoder), &items).expect("in memory");
}

#[test]
fn an_index_that_is_made_without_vectors_takes_them_from_the_store_over_time() {
    let mut scene = Scene::new();
    scene.missing = Missing::Leave;
    scene.write("one", &[("a.py", A), ("c.py", C)]);
    let first = check_left(&scene, 0, OF_A + 1);
    assert_eq!((first.embedding.left, first.is_new), (OF_A + 1, true));
    assert!(!check_left(&scene, 0, OF_A + 1).is_new);
    put(&scene, &["File: c.py x = 1\n", "Function: a.py:b def b():\n"]);
    let second = check_left(&scene, 2, OF_A + 1);
    // Files that were just written may be read again.
    assert_eq!((second.embedding.cached, second.is_new), (2, true));
    let vectors = scene.open("one").expect("there").view.vectors.expect("of a model");
    // a.py, a, b, c.py; of b one window of two is known.
    assert_eq!(vectors.known_windows(Level::Function, 1).expect("sound"), Some(vec![]));
    let known = vectors.known_windows(Level::Function, 2).expect("sound").expect("not all");
    assert!(known.len() == 1 && known[0] == (0..9), "{known:?}");
    assert_eq!(vectors.known_windows(Level::File, 3).expect("sound"), None);
    // What the index has it keeps, whatever becomes of the store and of other files.
    scene.store = MemoryStore::default();
    scene.write("one", &[("d.py", C)]);
    check_left(&scene, 2, OF_A + 2);
    for at in 0..MOST_PARTS {
        scene.write("one", &[(&format!("e{at}.py"), C)]);
        check_left(&scene, 2, OF_A + 3 + at);
    }
    // And what is missing is embedded when that is wanted; c.py has all it needs.
    scene.missing = Missing::Embed;
    scene.check("one", OF_A + 1 + MOST_PARTS);
    scene.missing = Missing::Leave;
    assert!(!check_left(&scene, OF_A + 2 + MOST_PARTS, OF_A + 2 + MOST_PARTS).is_new);
}

#[test]
fn vectors_of_another_model_are_made_anew() {
    let mut scene = Scene::new();
    scene.write("one", &[("a.py", A)]);
    scene.check("one", OF_A);
    scene.encoder.fingerprint = "second".to_owned();
    scene.check("one", OF_A);
    scene.check("one", 0);
}

/// After this the index is the one before: it answers, and knows what has changed.
#[track_caller]
fn check_old_index(scene: &Scene, changed: usize) {
    let indexed = scene.open("one").expect("the index is still there");
    assert_eq!(indexed.changes.count(), changed);
    let vectors = indexed.view.vectors.expect("vectors");
    assert_eq!(vectors.search(Level::File, &vector("query"), 9, How::Fast, &|_| true).expect("sound").len(), 1);
}

#[test]
fn a_run_in_which_nothing_can_be_embedded_fails_and_leaves_the_index() {
    let mut scene = Scene::new();
    scene.encoder.fails_on = Some("");
    scene.write("one", &[("a.py", A)]);
    let error = scene.index("one").expect_err("nothing was embedded").to_string();
    assert!(error.contains("none of 9 windows could be embedded") && error.contains("it is meant to"), "{error}");
    assert!(scene.open("one").is_none(), "an index without vectors");
    let failure =
        |scene: &Scene| scene.data.repository(&scene.root("one")).source().expect("readable").expect("there").failure;
    assert_eq!(failure(&scene).as_ref(), Some(&error));
    scene.encoder.fails_on = None;
    scene.check("one", OF_A);
    assert_eq!(failure(&scene), None);
    scene.encoder.fails_on = Some("");
    scene.write("one", &[("a.py", &A.replace("return 2", "return 3"))]);
    scene.index("one").expect_err("nothing was embedded");
    check_old_index(&scene, 1);
    assert!(failure(&scene).is_some());
}

#[test]
fn a_window_that_fails_costs_itself_and_is_tried_again() {
    let mut scene = Scene::new();
    scene.encoder.fails_on = Some("bad");
    let lines = |word: &str| format!("{word} = 1\n") + &(0..200).map(|at| format!("x = {at}\n")).collect::<String>();
    scene.write("one", &[("a.py", &lines("bad"))]);
    let report = scene.index("one").expect("some could be embedded");
    assert_eq!((report.embedding.embedded, report.embedding.failed), (200, 1));
    assert_eq!((report.counts.windows, report.counts.vectors), (201, 200));
    // Nor does it hold up what comes after it.
    scene.write("one", &[("b.py", "y = 1\n")]);
    let report = scene.index("one").expect("some could be embedded");
    assert_eq!((report.embedding.embedded, report.counts.windows, report.counts.vectors), (1, 202, 201));
    scene.write("one", &[("b.py", "worse = bad\n")]);
    let report = scene.index("one").expect("the encoder is not to blame");
    assert_eq!((report.counts.windows, report.counts.vectors), (202, 200));
    scene.encoder.embedded.lock().expect("no panic").clear();
    scene.encoder.fails_on = None;
    scene.check("one", 2);
}

/// Forgets all vectors when it is asked for them the second time.
struct Forgetful {
    store: MemoryStore,
    asked: AtomicUsize,
}

impl EmbeddingStore for Forgetful {
    fn get(
        &self,
        model: &ModelKey,
        keys: &[crate::index::store::Key],
    ) -> Result<Vec<Option<Vec<half::f16>>>, StoreError> {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            1 => Ok(vec![None; keys.len()]),
            _ => self.store.get(model, keys),
        }
    }

    fn put(&self, model: &ModelKey, items: &[(crate::index::store::Key, &[half::f16])]) -> Result<(), StoreError> {
        self.store.put(model, items)
    }
}

#[test]
fn vectors_that_are_removed_from_the_store_meanwhile_are_not_missed() {
    let scene = Scene::new();
    scene.write("one", &[("a.py", A)]);
    let store = Forgetful { store: MemoryStore::default(), asked: 0.into() };
    let root = scene.root("one");
    let directory = scene.data.repository(&root);
    let (lock, options) = (directory.lock().expect("free"), snapshot::Options::default());
    let encoder = &scene.encoder;
    let missing = Missing::Embed;
    let job =
        Job { root: &root, revision: None, options: &options, encoder, store: &store, missing, observer: encoder };
    let report = ingest(&job, &directory, &lock).expect("it is indexed");
    assert!(report.counts.is_complete(), "{report:?}");
    drop(lock);
    scene.check_like_fresh("one");
}

#[test]
#[cfg(unix)]
fn a_repository_that_cannot_be_read_has_not_become_empty() {
    let scene = Scene::new();
    scene.write("one", &[("a.py", A)]);
    scene.check("one", OF_A);
    // A pipe can't be read, whoever asks; and there is nothing else.
    let path = scene.root("one").join("a.py");
    std::fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink("nowhere", &path).expect("a link");
    let report = scene.index("one").expect("a link is no source");
    assert_eq!((report.counts.files, report.skipped), (0, 1));
    let unreadable =
        snapshot::Skipped { path: "a.py".to_owned(), reason: SkipReason::Unreadable { message: "no".to_owned() } };
    let mut inventory = snapshot::inventory(&scene.root("one"), None, &snapshot::Options::default()).expect("a folder");
    inventory.skipped.push(unreadable);
    let nothing =
        Surveyed { rows: Vec::new(), fresh: Vec::new(), is_unchanged: false, changes: Changes::default(), read: 0 };
    let error = check_read(&nothing, &inventory).expect_err("nothing was read").to_string();
    assert!(error.contains("none of the 1 files could be read"), "{error}");
}

#[test]
fn what_was_embedded_before_a_stop_is_kept() {
    let scene = Scene::new();
    let text: String = (0..300).map(|at| format!("x = {at}\n")).collect();
    scene.write("one", &[("a.py", &text)]);
    scene.encoder.patience.store(1, Ordering::Relaxed);
    let error = scene.index("one").expect_err("it was stopped").to_string();
    let kept = scene.encoder.count();
    assert!(kept > 0 && error.contains(&format!("{kept} of 300 windows are embedded and kept")), "{error}");
    scene.encoder.patience.store(usize::MAX, Ordering::Relaxed);
    scene.encoder.stopped.store(false, Ordering::Relaxed);
    scene.check("one", 300 - kept);
}

#[test]
fn only_one_process_writes() {
    let scene = Scene::new();
    scene.write("one", &[("a.py", A)]);
    let directory = scene.data.repository(&scene.root("one"));
    let lock = directory.lock().expect("free");
    assert!(matches!(directory.lock(), Err(IndexError::Busy { .. })));
    drop(lock);
    scene.check("one", OF_A);
}

/// Damages files of an index in every way that a disk or a user does, and checks that each is noticed or harmless, and mended.
#[test]
fn no_damage_gives_a_wrong_answer() {
    let scene = Scene::new();
    scene.write("one", &[("a.py", A), ("c.py", C)]);
    scene.check("one", OF_A + 1);
    let path = scene.data.repository(&scene.root("one")).path;
    let files = || {
        let below = ["", "builds", "segments"].iter().flat_map(|it| std::fs::read_dir(path.join(it)).expect("there"));
        below
            .map(|it| it.expect("there").path())
            .filter(|it| it.is_file() && it.file_name().is_some_and(|it| it != "lock"))
            .collect::<Vec<_>>()
    };
    for number in 0..files().len() {
        for damage in [
            |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2),
            |bytes: &mut Vec<u8>| bytes.clear(),
            |bytes: &mut Vec<u8>| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 4;
            },
        ] {
            let Some(file) = files().into_iter().nth(number) else { continue };
            let mut bytes = std::fs::read(&file).expect("there");
            damage(&mut bytes);
            std::fs::write(&file, bytes).expect("writable");
            check_damaged(&scene);
            std::fs::remove_file(&file).or_else(|it| if file.exists() { Err(it) } else { Ok(()) }).expect("removed");
            check_damaged(&scene);
        }
    }
}

/// What is opened, if anything, is right; and another run makes it whole without embedding anything.
#[track_caller]
fn check_damaged(scene: &Scene) {
    let root = scene.root("one");
    if let Ok(Found::Index(indexed)) = open(&scene.data.repository(&root), &root, None, &snapshot::Options::default()) {
        for (at, candidate) in indexed.view.candidates.iter().enumerate() {
            if let Ok(body) = candidate.body() {
                assert!([A, C].iter().any(|it| it.contains(body)), "{body}");
            }
            let vectors = indexed.view.vectors.as_ref().expect("vectors");
            if let Ok(similarities) = vectors.similarities(candidate.level, &[at], &vector("query")) {
                assert!(similarities[0].is_some_and(|it| it.is_finite()));
            }
        }
    }
    let report = scene.index("one").expect("it is made again");
    assert_eq!((report.embedding.embedded, scene.encoder.count()), (0, 0));
    scene.check_like_fresh("one");
}
