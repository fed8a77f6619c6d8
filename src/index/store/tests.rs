//! F1: tests of the embedding stores.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use half::f16;
use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

fn model(fingerprint: &str, dimensions: usize) -> ModelKey {
    ModelKey { fingerprint: fingerprint.to_owned(), id: format!("model {fingerprint}"), dimensions }
}

fn key(number: u32) -> Key {
    Key::of_tokens(&[number])
}

fn vector(number: u32, dimensions: usize) -> Vec<f16> {
    (0..dimensions as u32).map(|at| f16::from_f32(((number * 31 + at * 7) % 1009) as f32 / 1009.0 - 0.5)).collect()
}

fn put(store: &dyn EmbeddingStore, model: &ModelKey, numbers: impl IntoIterator<Item = u32>) -> Result<(), StoreError> {
    let vectors: Vec<_> = numbers.into_iter().map(|it| (key(it), vector(it, model.dimensions))).collect();
    let items: Vec<_> = vectors.iter().map(|(key, vector)| (*key, &vector[..])).collect();
    items.chunks(128).try_for_each(|it| store.put(model, it))
}

/// Which of some numbers have a vector. One that is there must be the right one.
#[track_caller]
fn present(store: &dyn EmbeddingStore, model: &ModelKey, numbers: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let numbers: Vec<u32> = numbers.into_iter().collect();
    let keys: Vec<Key> = numbers.iter().map(|it| key(*it)).collect();
    let found = store.get(model, &keys).expect("readable");
    assert_eq!(found.len(), keys.len());
    let right = |(number, found): (u32, Option<Vec<f16>>)| {
        found.map(|it| assert_eq!(it, vector(number, model.dimensions), "the vector of {number}")).map(|()| number)
    };
    numbers.into_iter().zip(found).filter_map(right).collect()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn open(folder: &Path) -> Store {
    Store::open(folder).expect("a store")
}

const NONE: &[u32] = &[];

fn all(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

/// A clock that a test sets, in hours.
fn clock() -> (Arc<AtomicU64>, impl Fn() -> SystemTime + Send + Sync + 'static) {
    let hours = Arc::new(AtomicU64::new(0));
    let read = hours.clone();
    (hours, move || at_hour(read.load(Ordering::Relaxed)))
}

fn at_hour(hour: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(hour * 3600)
}

#[test]
fn a_key_is_the_hash_of_the_tokens_in_little_endian() {
    let hex =
        |tokens: &[u32]| Key::of_tokens(tokens).as_bytes().iter().map(|it| format!("{it:02x}")).collect::<String>();
    // printf '' | sha256sum; printf '\1\0\0\0\0\1\0\0' | sha256sum
    assert_eq!(hex(&[]), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(hex(&[1, 256]), "242045e2f1bb37769b514f182fd91b3d215324cb57f187cced1e9c62921dbac3");
}

/// What every store does.
fn check_store(store: &dyn EmbeddingStore) {
    let (a, b, longer) = (model("a", 5), model("ab", 5), model("", 7));
    assert_eq!(present(store, &a, 0..3), NONE);
    put(store, &a, 0..300).expect("stored");
    put(store, &longer, 2..4).expect("stored");
    assert_eq!(present(store, &a, (0..310).rev()), (0..300).rev().collect::<Vec<_>>());
    assert_eq!(present(store, &a, [7, 7, 900, 7]), [7, 7, 7]);
    assert_eq!(present(store, &b, 0..300), NONE);
    assert_eq!(present(store, &longer, 0..300), [2, 3]);
    assert_eq!(present(store, &model("a", 4), 0..3), NONE, "of another length");
    assert_eq!(store.get(&a, &[]).expect("readable"), Vec::<Option<Vec<f16>>>::new());
    store.put(&a, &[]).expect("nothing to store");

    store.put(&a, &[(key(7), &vector(8, 5)), (key(400), &vector(400, 5)), (key(400), &vector(1, 5))]).expect("stored");
    assert_eq!(present(store, &a, [7, 400]), [7, 400], "a key keeps its first vector");
    let error = store.put(&a, &[(key(500), &vector(500, 5)), (key(501), &vector(501, 6))]).expect_err("too long");
    assert_eq!(error, StoreError::Dimensions { model: "model a".to_owned(), expected: 5, found: 6 });
    assert_eq!(present(store, &a, [500, 501]), NONE);
}

#[test]
fn stores_keep_vectors_by_model_and_key() {
    check_store(&MemoryStore::default());
    let folder = folder();
    check_store(&open(folder.path()));
    let again = open(folder.path());
    assert_eq!(present(&again, &model("a", 5), 0..500), [all(0..300), vec![400]].concat());
}

#[test]
fn values_that_are_no_numbers_come_back_bit_for_bit() {
    let folder = folder();
    let odd: Vec<f16> = [0x0000, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0x0001].map(f16::from_bits).to_vec();
    let model = model("m", odd.len());
    open(folder.path()).put(&model, &[(key(1), &odd)]).expect("stored");
    let found = open(folder.path()).get(&model, &[key(1)]).expect("readable").remove(0).expect("there");
    assert_eq!(
        found.iter().map(|it| it.to_bits()).collect::<Vec<_>>(),
        [0x0000, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0x0001]
    );
}

/// Which model, whether to write, and the keys.
fn steps() -> impl Strategy<Value = Vec<(usize, bool, Vec<u32>)>> {
    let step = (0..3_usize, any::<bool>(), proptest::collection::vec(0..40_u32, 0..20));
    proptest::collection::vec(step, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn stores_do_what_a_map_does(steps in steps()) {
        let folder = folder();
        let (disk, memory) = (open(folder.path()), MemoryStore::default());
        let models = [model("x", 1), model("xy", 1), model("x\0y", 3)];
        let mut expected: HashMap<(usize, u32), u32> = HashMap::new();
        for (step, (at, writes, numbers)) in steps.iter().enumerate() {
            let model = &models[*at];
            if *writes {
                // Each writing brings other vectors for the same keys.
                let number = |it: &u32| it + 100 * step as u32;
                let vectors: Vec<_> = numbers.iter().map(|it| vector(number(it), model.dimensions)).collect();
                let items: Vec<_> = numbers.iter().zip(&vectors).map(|(it, vector)| (key(*it), &vector[..])).collect();
                disk.put(model, &items).expect("stored");
                memory.put(model, &items).expect("stored");
                numbers.iter().for_each(|it| _ = expected.entry((*at, *it)).or_insert(number(it)));
            } else {
                let keys: Vec<Key> = numbers.iter().map(|it| key(*it)).collect();
                let wanted = |it: &u32| expected.get(&(*at, *it)).map(|it| vector(*it, model.dimensions));
                let wanted: Vec<_> = numbers.iter().map(wanted).collect();
                prop_assert_eq!(&disk.get(model, &keys).expect("readable"), &wanted);
                prop_assert_eq!(&memory.get(model, &keys).expect("readable"), &wanted);
            }
        }
    }
}

#[test]
fn threads_begin_and_write_one_store_at_once() {
    let folder = folder();
    let model = model("m", 8);
    std::thread::scope(|scope| {
        for thread in 0..8_u32 {
            let (folder, model) = (folder.path(), &model);
            scope.spawn(move || {
                let store = open(folder);
                for batch in 0..4 {
                    let start = thread * 1000 + batch * 10;
                    put(&store, model, start..start + 20).expect("stored");
                    assert_eq!(present(&store, model, start..start + 20), all(start..start + 20));
                }
            });
        }
    });
    let store = open(folder.path());
    (0..8)
        .for_each(|it| assert_eq!(present(&store, &model, it * 1000..it * 1000 + 60), all(it * 1000..it * 1000 + 50)));
}

/// Runs a test of this program in another process, in a folder of its own.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "--nocapture", &format!("index::store::tests::{test}")]).current_dir(folder);
    command
}

/// Named so that no folder has it by chance; without it the tests that others run as a process do nothing.
const TASK: &str = "task-of-a-child-of-the-embedding-store-tests";

/// What another process does: writes batches of ten without end and says which are acknowledged.
#[test]
fn child_that_writes() {
    let Ok(start) = fs::read_to_string(TASK) else { return };
    let (start, store): (u32, _) = (start.parse().expect("a number"), open(Path::new(".")));
    for batch in 0.. {
        put(&store, &model("m", 8), start + batch * 10..start + batch * 10 + 10).expect("stored");
        println!("\nacknowledged {batch}");
    }
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_was_acknowledged() {
    let (folder, model) = (folder(), model("m", 8));
    let beside = open(folder.path());
    for round in 0..6_u32 {
        let start = 100_000 * (round + 1);
        fs::write(folder.path().join(TASK), start.to_string()).expect("writable");
        let mut child = child("child_that_writes", folder.path()).stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let mut acknowledged = lines.filter_map(|it| it.strip_prefix("acknowledged ")?.parse::<u32>().ok());
        for batch in acknowledged.by_ref().take(1 + 3 * round as usize) {
            put(&beside, &model, [round * 100 + batch]).expect("stored beside it");
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        let last = acknowledged.last().unwrap_or(3 * round);
        let end = start + (last + 1) * 10;
        assert_eq!(present(&open(folder.path()), &model, start..end), all(start..end));
        assert_eq!(present(&beside, &model, start..end), all(start..end));
        let unfinished = present(&beside, &model, end..end + 10).len();
        assert!(unfinished == 0 || unfinished == 10, "{unfinished} of a batch of ten");
    }
}

/// A folder with a store of some vectors of 40 dimensions, closed, and the bytes of its file.
fn closed_store(count: u32) -> (tempfile::TempDir, ModelKey, PathBuf, Vec<u8>) {
    let (folder, model) = (folder(), model("m", 40));
    let store = open(folder.path());
    put(&store, &model, 0..count).expect("stored");
    let path = store.path();
    drop(store);
    let bytes = fs::read(&path).expect("there");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "a closed store has no log");
    (folder, model, path, bytes)
}

/// A damaged file gives right vectors, none, or an error; and a store that replaces it is whole afterwards.
#[track_caller]
fn check_damage(count: u32, model: &ModelKey, bytes: &[u8]) {
    let folder = folder();
    fs::write(folder.path().join("embeddings-1.sqlite"), bytes).expect("writable");
    if let Ok(store) = Store::open(folder.path()) {
        match store.get(model, &(0..count).map(key).collect::<Vec<_>>()) {
            Ok(_) => drop(present(&store, model, 0..count)),
            Err(error) => assert!(matches!(error, StoreError::Damaged { .. }), "{error}"),
        }
    }
    let store = Store::open_or_replace(folder.path()).expect("a store");
    let before = present(&store, model, 0..count).len();
    put(&store, model, 0..count).expect("stored");
    assert_eq!(
        present(&store, model, 0..count),
        all(0..count),
        "{before} were there, replaced: {:?}",
        store.replaced()
    );
    let replaced = store.replaced();
    assert!(replaced.len() <= 1 && replaced.iter().all(|it| it.path.exists() && it.by == store.path()), "{replaced:?}");
}

#[test]
fn a_cut_file_is_replaced() {
    let (_folder, model, _, bytes) = closed_store(300);
    let cuts = (0..bytes.len()).step_by(4099).chain([0, 1, 15, 16, 99, 100, 511, 512, 4096, 8192, bytes.len() - 1]);
    for cut in cuts {
        check_damage(300, &model, &bytes[..cut]);
    }
}

#[test]
fn flipped_bits_give_no_wrong_vector() {
    let (_folder, model, _, bytes) = closed_store(300);
    for at in (0..110).step_by(3).chain((110..bytes.len()).step_by(557)) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        check_damage(300, &model, &flipped);
    }
}

#[test]
fn overwritten_pages_give_no_wrong_vector() {
    let (_folder, model, _, bytes) = closed_store(300);
    let pages = bytes.len() / 4096;
    for page in 0..pages {
        let mut wiped = bytes.clone();
        wiped[page * 4096..(page + 1) * 4096].fill(0);
        check_damage(300, &model, &wiped);
        let mut swapped = bytes.clone();
        swapped.copy_within(page * 4096..(page + 1) * 4096, (page + 1) % pages * 4096);
        check_damage(300, &model, &swapped);
    }
}

#[test]
fn a_damaged_log_gives_no_wrong_vector() {
    let (folder, model) = (folder(), model("m", 40));
    let store = open(folder.path());
    put(&store, &model, 0..300).expect("stored");
    let (file, log) = (store.path(), super::file::beside(&store.path(), "-wal"));
    let (file, log) = (fs::read(file).expect("there"), fs::read(log).expect("there"));
    for at in (0..log.len()).step_by(9001) {
        let mut flipped = log.clone();
        flipped[at] ^= 1 << (at % 8);
        for log in [&flipped[..], &log[..at]] {
            let copy = self::folder();
            fs::write(copy.path().join("embeddings-1.sqlite"), &file).expect("writable");
            fs::write(copy.path().join("embeddings-1.sqlite-wal"), log).expect("writable");
            let store = Store::open_or_replace(copy.path()).expect("a store");
            present(&store, &model, 0..300);
            put(&store, &model, 0..300).expect("stored");
            assert_eq!(present(&store, &model, 0..300), all(0..300));
        }
    }
}

#[test]
fn damaged_values_count_as_missing_and_are_written_again() {
    let (folder, model, path, _) = closed_store(10);
    let connection = Connection::open(&path).expect("a database");
    let changes = [
        "update vectors set bytes = zeroblob(84) where id = 1",
        "update vectors set bytes = substr(bytes, 1, 80) where id = 2",
        "update vectors set bytes = 'text' where id = 3",
        "delete from vectors where id = 4",
        "update entries set vector = 6 where vector = 5",
    ];
    changes.iter().for_each(|it| assert_eq!(connection.execute(it, []), Ok(1), "{it}"));
    drop(connection);
    let store = open(folder.path());
    assert_eq!(present(&store, &model, 0..10), [5, 6, 7, 8, 9]);
    assert_eq!(store.stats().expect("readable").damaged, 5);
    put(&store, &model, 0..10).expect("stored");
    // The row that two keys shared went with the first of them.
    put(&store, &model, 0..10).expect("stored");
    assert_eq!(present(&store, &model, 0..10), all(0..10));
    assert_eq!(store.stats().expect("readable").damaged, 5);
}

#[track_caller]
fn check_refused(bytes_or_sql: Result<&[u8], &str>, message: &str) {
    let (folder, _, path, _) = closed_store(3);
    match bytes_or_sql {
        Ok(bytes) => fs::write(&path, bytes).expect("writable"),
        Err(sql) => Connection::open(&path).and_then(|it| it.execute_batch(sql)).expect("a change"),
    }
    let error = Store::open(folder.path()).expect_err("refused").to_string();
    assert!(error.contains(message) && error.contains("embeddings-1.sqlite") && !error.contains('\n'), "{error}");
}

#[test]
fn what_is_no_store_of_this_format_is_refused() {
    check_refused(Err("pragma user_version = 131074"), "has format 2 and this program knows format 1");
    check_refused(Err("pragma application_id = 9"), "is damaged: it is no embedding store");
    check_refused(Err("drop table vectors"), "is damaged: it lacks tables");
    check_refused(Ok(&[b'x'; 5000]), "is damaged: file is not a database");
}

/// Written by the first program that had this format.
const FORMAT_1: &[u8] = include_bytes!("../../../tests/fixtures/embeddings-format-1.sqlite");

#[test]
fn format_1_opens() {
    let folder = folder();
    fs::write(folder.path().join("embeddings-1.sqlite"), FORMAT_1).expect("writable");
    assert_eq!(present(&open(folder.path()), &model("first", 4), 0..5), [1, 2, 3]);
}

#[test]
fn another_format_is_not_replaced() {
    let (folder, _, path, _) = closed_store(3);
    Connection::open(&path).and_then(|it| it.execute_batch("pragma user_version = 131074")).expect("a change");
    let error = Store::open_or_replace(folder.path()).expect_err("refused");
    assert_eq!(error, StoreError::OtherFormat { path, found: 2, expected: 1 });
}

#[test]
fn one_damaged_file_is_kept_and_all_processes_move_on() {
    let (folder, model, path, bytes) = closed_store(300);
    let mut damaged = bytes.clone();
    damaged[4096..].fill(0xff);
    let file = |number: u32| folder.path().join(format!("embeddings-{number}.sqlite"));
    fs::write(&path, &damaged).expect("writable");
    let (one, other) = (Store::open_or_replace(folder.path()), Store::open_or_replace(folder.path()));
    let (one, other) = (one.expect("a store"), other.expect("a store"));
    assert_eq!(present(&one, &model, 0..300), NONE);
    put(&one, &model, 0..5).expect("stored");
    assert_eq!(present(&other, &model, 0..300), all(0..5));
    let what = one.replaced().remove(0).what;
    assert_eq!(one.replaced(), [Replaced { path: file(1), by: file(2), what }]);
    assert!(one.stats().expect("readable").set_aside_bytes >= damaged.len() as u64);

    drop((one, other));
    fs::write(file(2), &damaged).expect("writable");
    let third = Store::open_or_replace(folder.path()).expect("a store");
    assert_eq!(present(&third, &model, 0..300), NONE);
    assert_eq!((file(1).exists(), file(2).exists(), third.path()), (false, true, file(3)));
}

#[test]
fn a_store_that_is_held_fails_with_its_name_and_reads_on() {
    let (folder, model, path, _) = closed_store(10);
    let store = open(folder.path());
    store.file.with(|it| it.busy_timeout(Duration::ZERO)).expect("set");
    let mut holder = Connection::open(&path).expect("a database");
    let held = holder.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("free");
    let error = put(&store, &model, 20..21).expect_err("held");
    assert_eq!(error, StoreError::Busy { path, seconds: 10 });
    assert_eq!(present(&store, &model, 0..30), all(0..10));
    drop(held);
    put(&store, &model, 20..21).expect("free again");
}

#[test]
fn a_full_disk_costs_only_what_was_not_acknowledged() {
    let (folder, model, path, _) = closed_store(300);
    let store = Store::open_or_replace(folder.path()).expect("a store");
    // SQLite refuses to grow a file beyond this as it does on a full disk.
    let limit =
        |pages: u32| store.file.with(|it| it.query_row(&format!("pragma max_page_count = {pages}"), [], |_| Ok(())));
    limit(1).expect("set");
    let error = put(&store, &model, 300..600).expect_err("full");
    assert_eq!(error, StoreError::Full { path });
    assert_eq!(present(&store, &model, 0..300), all(0..300));
    // The connection with the limit was given up with the error.
    put(&store, &model, 300..600).expect("room again");
    assert_eq!(present(&store, &model, 0..600), all(0..600));
    assert_eq!(store.replaced(), []);
}

#[track_caller]
fn check_read_only(store: &Store, model: &ModelKey, there: &[u32]) {
    assert!(store.is_read_only());
    assert_eq!(present(store, model, 0..10), there);
    let error = put(store, model, 20..21).expect_err("read only");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    let error = store.evict(0, at_hour(u64::from(u32::MAX))).expect_err("read only");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    assert_eq!(store.stats().expect("readable").models.len(), usize::from(!there.is_empty()));
}

#[test]
fn a_store_can_be_only_read() {
    let (folder, model, ..) = closed_store(10);
    let reader = Store::open_read_only(folder.path()).expect("a store");
    check_read_only(&reader, &model, &all(0..10));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "reading leaves nothing behind");
    // With a log beside the file.
    let writer = open(folder.path());
    put(&writer, &model, 10..20).expect("stored");
    assert_eq!(present(&reader, &model, 0..30), all(0..20));
    let none = self::folder();
    check_read_only(&Store::open_read_only(none.path()).expect("an empty store"), &model, &[]);
    check_read_only(&Store::open_read_only(&none.path().join("a?b#c%d")).expect("an empty store"), &model, &[]);
    assert_eq!(fs::read_dir(none.path()).expect("a folder").count(), 0);
}

#[cfg(unix)]
#[test]
fn a_folder_without_permission_to_write_can_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, model, path, _) = closed_store(10);
    let inner = folder.path().join("store ?#%25");
    fs::create_dir(&inner).expect("writable");
    fs::rename(&path, inner.join("embeddings-1.sqlite")).expect("renamed");
    let permit = |mode| fs::set_permissions(&inner, fs::Permissions::from_mode(mode)).expect("ours");
    permit(0o555);
    // Root may write anyway.
    if fs::write(inner.join("probe"), "").is_err() {
        check_read_only(&Store::open_or_replace(&inner).expect("a store"), &model, &all(0..10));
    } else {
        assert_eq!(present(&Store::open_read_only(&inner).expect("a store"), &model, 0..11), all(0..10));
    }
    permit(0o755);
}

#[test]
fn a_folder_that_cannot_be_is_an_error() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").expect("writable");
    for path in [file.join("store"), file] {
        let error = Store::open_or_replace(&path).expect_err("no folder");
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
    }
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let (folder, model, other) = (folder(), model("m", 40), model("n", 40));
    let (hours, clock) = clock();
    let store = open(folder.path()).with_clock(clock);
    for hour in 0..10 {
        hours.store(100 + hour, Ordering::Relaxed);
        let start = 100 * hour as u32;
        put(&store, if hour == 4 { &other } else { &model }, start..start + 100).expect("stored");
    }
    hours.store(120, Ordering::Relaxed);
    assert_eq!(present(&store, &model, 0..100), all(0..100));
    let before = store.stats().expect("readable");
    assert_eq!(before.models.iter().map(|it| it.vectors).collect::<Vec<_>>(), [900, 100]);
    let [first, second] = &before.models[..] else { panic!("{before:?}") };
    assert_eq!((first.oldest_use, first.newest_use), (at_hour(101), at_hour(120)));
    assert_eq!((second.oldest_use, second.newest_use), (at_hour(104), at_hour(104)));
    assert_eq!((first.bytes, first.dimensions, &first.id[..]), (900 * 84, 40, "model m"));

    let limit = before.live_bytes / 2;
    let removed = store.evict(limit, at_hour(120)).expect("evicted");
    let after = store.stats().expect("readable");
    assert!(after.live_bytes <= limit && after.live_bytes > limit / 2, "{after:?}");
    assert!(removed.bytes > 0 && after.file_bytes < before.file_bytes, "{removed:?}, {before:?}, {after:?}");
    assert_eq!(after.models.iter().map(|it| it.vectors).sum::<u64>(), 1000 - removed.vectors);
    let mut kept = present(&store, &model, 0..1000);
    assert_eq!(kept[..100], all(0..100), "what was read last");
    let gone = 100 + removed.vectors as u32;
    kept.drain(..100);
    assert_eq!(kept, all(gone..1000).into_iter().filter(|it| !(400..500).contains(it)).collect::<Vec<_>>());

    let none = store.evict(limit, at_hour(120)).expect("nothing to do");
    assert_eq!(none.vectors, 0);
}

#[test]
fn what_was_used_since_a_moment_stays() {
    let (folder, model) = (folder(), model("m", 40));
    let (hours, clock) = clock();
    let store = open(folder.path()).with_clock(clock);
    put(&store, &model, 0..100).expect("stored");
    hours.store(5, Ordering::Relaxed);
    put(&store, &model, 100..200).expect("stored");
    assert_eq!(present(&store, &model, 50..60), all(50..60));
    assert_eq!(store.evict(0, at_hour(5) + Duration::from_secs(3599)).expect("evicted").vectors, 90);
    assert_eq!(present(&store, &model, 0..200), [all(50..60), all(100..200)].concat());
    assert_eq!(store.evict(0, at_hour(6)).expect("evicted").vectors, 110);
    let stats = store.stats().expect("readable");
    assert_eq!((stats.models, stats.live_bytes < 65_536), (Vec::new(), true));
    put(&store, &model, 0..10).expect("stored");
    assert_eq!(present(&store, &model, 0..200), all(0..10));
}

#[test]
fn a_use_is_marked_although_another_process_writes() {
    let (folder, model) = (folder(), model("m", 8));
    let (hours, clock) = clock();
    let store = open(folder.path()).with_clock(clock);
    put(&store, &model, 0..20).expect("stored");
    let mut holder = Connection::open(store.path()).expect("a database");
    let held = holder.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("free");
    hours.store(1, Ordering::Relaxed);
    assert_eq!(present(&store, &model, 0..10), all(0..10));
    drop(held);
    assert_eq!(store.evict(0, at_hour(1)).expect("evicted").vectors, 10);
    assert_eq!(present(&store, &model, 0..20), all(0..10));
}

#[test]
fn reading_again_within_the_hour_writes_nothing() {
    let (folder, model, path, _) = closed_store(50);
    let (hours, clock) = clock();
    let store = open(folder.path()).with_clock(clock);
    let log = super::file::beside(&path, "-wal");
    let written = || fs::metadata(&log).map_or(0, |it| it.len());
    hours.store(7, Ordering::Relaxed);
    present(&store, &model, 0..50);
    let marked = written();
    assert!(marked > 0);
    present(&store, &model, 0..50);
    assert_eq!(written(), marked);
    hours.store(8, Ordering::Relaxed);
    present(&store, &model, 0..50);
    assert!(written() > marked);
}

#[test]
fn a_model_is_removed_alone() {
    let (folder, a, b) = (folder(), model("a", 40), model("b", 40));
    let store = open(folder.path());
    put(&store, &a, 0..2500).expect("stored");
    put(&store, &b, 0..50).expect("stored");
    let removed = store.remove_model("a").expect("removed");
    assert_eq!((removed.vectors, removed.bytes > 2500 * 80), (2500, true));
    assert_eq!(store.remove_model("c").expect("nothing to remove").vectors, 0);
    assert_eq!((present(&store, &a, 0..10), present(&store, &b, 0..60)), (Vec::new(), all(0..50)));
    let models = store.stats().expect("readable").models;
    assert_eq!(models.iter().map(|it| &it.fingerprint[..]).collect::<Vec<_>>(), ["b"]);
}
