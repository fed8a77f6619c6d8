//! F1: tests of unpacking: archives as programs write them, and as nobody should.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use proptest::prelude::*;
use tempfile::TempDir;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use super::*;

/// Somewhere to unpack, with a witness beside it that must not change.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new(archive: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("archive"), archive).expect("a file");
        fs::create_dir(folder.path().join("outside")).expect("a folder");
        fs::write(folder.path().join("outside/witness"), "as it was").expect("a file");
        Scene { folder }
    }

    fn extract(&self, limits: &ArchiveLimits) -> Result<Extracted, ArchiveError> {
        let path = self.folder.path();
        extract(&path.join("archive"), &path.join("in/to"), limits, &|| false)
    }

    /// What was written, by path; a folder has no content. Nothing else may be anywhere.
    fn written(&self) -> BTreeMap<String, Option<String>> {
        let mut found = BTreeMap::new();
        let root = self.folder.path();
        let mut pending = vec![root.to_owned()];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(folder).expect("readable").map(|it| it.expect("readable")) {
                let (path, kind) = (entry.path(), entry.file_type().expect("readable"));
                assert!(kind.is_dir() || kind.is_file(), "{} is neither file nor folder", path.display());
                let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
                let content = kind.is_file().then(|| fs::read(&path).expect("readable"));
                found.insert(name, content.map(|it| String::from_utf8_lossy(&it).into_owned()));
                if kind.is_dir() {
                    pending.push(path);
                }
            }
        }
        assert_eq!(found.remove("outside/witness"), Some(Some("as it was".to_owned())));
        found.remove("outside");
        found.remove("archive");
        found.remove("in");
        found.remove("in/to");
        let below =
            |(path, content): (String, _)| (path.strip_prefix("in/to/").expect("nothing else").to_owned(), content);
        found.into_iter().map(below).collect()
    }
}

/// What an archive gives: files with their content (a path that ends in a slash is an empty folder), and what is skipped.
#[track_caller]
fn check_within(
    limits: &ArchiveLimits,
    archive: &[u8],
    files: &[(&str, &str)],
    skipped: &[(&str, EntryReason)],
) -> Extracted {
    let scene = Scene::new(archive);
    let extracted = scene.extract(limits).expect("a sound archive");
    let written = scene.written();
    let is_parent = |path: &str| written.keys().any(|it| it.starts_with(&format!("{path}/")));
    let found: Vec<(String, String)> = written
        .iter()
        .filter(|(path, content)| content.is_some() || !is_parent(path))
        .map(|(path, content)| match content {
            Some(content) => (path.clone(), content.clone()),
            None => (format!("{path}/"), String::new()),
        })
        .collect();
    let expected: Vec<(String, String)> =
        files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    assert_eq!(found, expected);
    assert_eq!(extracted.files, files.iter().filter(|it| !it.0.ends_with('/')).count());
    let listed: Vec<(&str, EntryReason)> =
        extracted.skipped.iter().map(|it| (it.path.as_str(), it.reason.clone())).collect();
    assert_eq!(listed, skipped);
    extracted
}

#[track_caller]
fn check(archive: &[u8], files: &[(&str, &str)], skipped: &[(&str, EntryReason)]) -> Extracted {
    check_within(&ArchiveLimits::default(), archive, files, skipped)
}

/// The message that refuses an archive, of which nothing stays.
#[track_caller]
fn check_refused(limits: &ArchiveLimits, archive: &[u8], expected: &str) -> ArchiveError {
    let scene = Scene::new(archive);
    let error = scene.extract(limits).expect_err("refused");
    let message = error.to_string();
    assert!(message.contains(expected) && !message.contains('\n'), "`{message}` lacks `{expected}`");
    let root = scene.folder.path().display().to_string();
    assert!(!message.contains(&root), "`{message}` names a path of this machine");
    assert_eq!(scene.written(), BTreeMap::new());
    assert!(!scene.folder.path().join("in/to").exists());
    error
}

/// A tar's entry, by its name as it is, kind and content.
struct Member<'a>(&'a str, u8, &'a str);

/// A header without what a library would refuse to write.
fn header(name: &[u8], kind: u8, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    let fields = header.as_old_mut();
    fields.name[..name.len()].copy_from_slice(name);
    fields.linkflag = [kind];
    header.set_size(size);
    header.set_mode(0o777);
    if matches!(kind, b'1' | b'2') {
        header.as_old_mut().linkname[..10].copy_from_slice(b"../outside");
    }
    header.set_cksum();
    header
}

fn padded(content: &[u8]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    bytes.resize(content.len().next_multiple_of(512), 0);
    bytes
}

fn open_tar(members: &[Member]) -> Vec<u8> {
    let member = |Member(name, kind, content): &Member| {
        let mut bytes = header(name.as_bytes(), *kind, content.len() as u64).as_bytes().to_vec();
        bytes.extend(padded(content.as_bytes()));
        bytes
    };
    members.iter().flat_map(member).collect()
}

fn tar(members: &[Member]) -> Vec<u8> {
    let mut bytes = open_tar(members);
    bytes.extend([0; 1024]);
    bytes
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zip(members: &[(&str, &str)]) -> Vec<u8> {
    zip_with(members, SimpleFileOptions::default(), "")
}

fn zip_with(members: &[(&str, &str)], options: SimpleFileOptions, comment: &str) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        writer.start_file(*name, options).expect("memory");
        writer.write_all(content.as_bytes()).expect("memory");
    }
    writer.set_comment(comment).expect("short");
    writer.finish().expect("memory").into_inner()
}

/// Bytes with others in their place, wherever they stand.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
    bytes
}

/// The record of a pax header.
fn pax(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let length = (1..).find(|it: &usize| it.to_string().len() + rest.len() == *it).expect("there is one");
    format!("{length}{rest}")
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn a_tar_is_unpacked_packed_or_not() {
    let members = [Member("src/", b'5', ""), Member("src/a.py", b'0', "a = 1\n"), Member("b.py", b'0', "")];
    let files = [("b.py", ""), ("src/a.py", "a = 1\n")];
    assert_eq!(check(&tar(&members), &files, &[]).format, Format::Tar);
    assert_eq!(check(&gz(&tar(&members)), &files, &[]).format, Format::TarGz);
}

#[test]
fn a_zip_is_unpacked_stored_or_deflated() {
    let long = "a = 1\n".repeat(10_000);
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let options = SimpleFileOptions::default().compression_method(method);
        let archive = zip_with(&[("src/a.py", &long), ("b.py", "b")], options, "");
        assert_eq!(check(&archive, &[("b.py", "b"), ("src/a.py", &long)], &[]).format, Format::Zip);
    }
}

#[cfg(unix)]
#[test]
fn what_is_written_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new(&tar(&[Member("top.py", b'0', "a"), Member("src/a.py", b'0', "a")]));
    scene.extract(&ArchiveLimits::default()).expect("sound");
    let mode =
        |path: &str| fs::metadata(scene.folder.path().join(path)).expect("it is there").permissions().mode() & 0o7777;
    assert_eq!([mode("in/to"), mode("in/to/src"), mode("in/to/src/a.py")], [0o700, 0o700, 0o600]);
}

#[test]
fn the_one_folder_that_all_lies_in_is_taken_off() {
    let members = [Member("repo-1/", b'5', ""), Member("repo-1/a.py", b'0', "a"), Member("repo-1/l", b'2', "")];
    let extracted = check(&tar(&members), &[("a.py", "a")], &[("l", EntryReason::Link)]);
    assert_eq!(extracted.stripped.as_deref(), Some("repo-1"));
    let same = [Member("./x/x/x.py", b'0', "a"), Member("x/aside/y.py", b'0', "b"), Member("/x", b'0', "")];
    check(&tar(&same), &[("aside/y.py", "b"), ("x/x.py", "a")], &[("/x", EntryReason::Absolute)]);
    assert_eq!(check(&tar(&[Member("a.py", b'0', "a")]), &[("a.py", "a")], &[]).stripped, None);
    let two = [Member("x/a.py", b'0', "a"), Member("y/a.py", b'0', "a")];
    assert_eq!(check(&tar(&two), &[("x/a.py", "a"), ("y/a.py", "a")], &[]).stripped, None);
    check(&zip(&[("r/a", "1"), ("r/b/c", "2")]), &[("a", "1"), ("b/c", "2")], &[]);
}

#[test]
fn a_commit_is_known_as_git_archive_names_it() {
    let global = pax("comment", COMMIT);
    let archive = tar(&[Member("pax_global_header", b'g', &global), Member("a.py", b'0', "a")]);
    assert_eq!(check(&archive, &[("a.py", "a")], &[]).commit.as_deref(), Some(COMMIT));
    let other = pax("comment", "made by hand");
    let archive = tar(&[Member("g", b'g', &other), Member("a.py", b'0', "a")]);
    assert_eq!(check(&archive, &[("a.py", "a")], &[]).commit, None);
    let commit = |comment: &str| {
        check(&zip_with(&[("a.py", "a")], SimpleFileOptions::default(), comment), &[("a.py", "a")], &[]).commit
    };
    assert_eq!(commit(COMMIT).as_deref(), Some(COMMIT));
    assert_eq!(commit("by hand, forty characters, not a commit."), None);
    assert_eq!(commit(""), None);
}

#[test]
fn long_names_come_from_the_headers_before() {
    let long = format!("{}/a.py", "d".repeat(150));
    let gnu = format!("{long}\0");
    check(
        &tar(&[Member("././@LongLink", b'L', &gnu), Member("short", b'0', "a"), Member("b.py", b'0', "b")]),
        &[("b.py", "b"), (&long, "a")],
        &[],
    );
    let record = pax("path", &long) + &pax("mtime", "1.5") + &pax("size", "1");
    check(
        &tar(&[Member("x", b'x', &record), Member("short", b'0', "a"), Member("b.py", b'0', "b")]),
        &[("b.py", "b"), (&long, "a")],
        &[],
    );
}

#[test]
fn a_size_in_a_pax_header_counts() {
    // The header's own says that there is none, and what follows would be taken for a header.
    let mut archive = open_tar(&[Member("x", b'x', &pax("size", "600"))]);
    archive.extend(header(b"a.py", b'0', 0).as_bytes());
    archive.extend(padded("a".repeat(600).as_bytes()));
    archive.extend(tar(&[Member("b.py", b'0', "b")]));
    check(&archive, &[("a.py", &"a".repeat(600)), ("b.py", "b")], &[]);
}

#[test]
fn old_tars_without_a_magic_are_read() {
    let mut old = header(b"src/", 0, 0);
    old.as_mut_bytes()[257..].fill(0);
    old.set_cksum();
    let mut file = header(b"src/a.py", 0, 1);
    file.as_mut_bytes()[257..].fill(0);
    file.set_cksum();
    let archive = [old.as_bytes().as_slice(), file.as_bytes(), &padded(b"a"), &[0; 1024]].concat();
    check(&archive, &[("a.py", "a")], &[]);
}

#[test]
fn only_plain_files_are_written() {
    use EntryReason::{Link, Sparse, Special};
    let members = [
        Member("a.py", b'0', "a"),
        Member("hard", b'1', ""),
        Member("soft", b'2', ""),
        Member("character", b'3', ""),
        Member("block", b'4', ""),
        Member("pipe", b'6', ""),
        Member("more.py", b'7', "m"),
        Member("volume", b'V', "text"),
        Member("holes", b'S', "text"),
        Member("last.py", b'0', "z"),
    ];
    check(
        &tar(&members),
        &[("a.py", "a"), ("last.py", "z"), ("more.py", "m")],
        &[
            ("block", Special),
            ("character", Special),
            ("hard", Link),
            ("holes", Sparse),
            ("pipe", Special),
            ("soft", Link),
            ("volume", Special),
        ],
    );
    let sparse = pax("GNU.sparse.major", "1") + &pax("GNU.sparse.name", "a.py");
    let members =
        [Member("x", b'x', &sparse), Member("GNUSparseFile.0/a.py", b'0', "1\n0\n"), Member("b.py", b'0', "b")];
    check(&tar(&members), &[("b.py", "b")], &[("GNUSparseFile.0/a.py", Sparse)]);
}

#[test]
fn the_map_of_a_sparse_file_is_passed_over() {
    let mut sparse = header(b"holes", b'S', 5);
    sparse.as_mut_bytes()[482] = 1;
    sparse.set_cksum();
    let (mut more, last) = ([b'1'; 512], [b'0'; 512]);
    more[504] = 1;
    let last = {
        let mut it = last;
        it[504] = 0;
        it
    };
    let archive =
        [sparse.as_bytes().as_slice(), &more, &last, &padded(b"parts"), &tar(&[Member("b.py", b'0', "b")])].concat();
    check(&archive, &[("b.py", "b")], &[("holes", EntryReason::Sparse)]);
}

#[test]
fn nothing_is_written_through_a_link() {
    let link = || Member("x", b'2', "");
    let members = [link(), Member("x/witness", b'0', "changed"), Member("y", b'0', ""), link()];
    check(
        &tar(&members),
        &[("x/witness", "changed"), ("y", "")],
        &[("x", EntryReason::Link), ("x", EntryReason::Link)],
    );
    let hard = [Member("w", b'1', ""), Member("w", b'0', "changed"), Member("y", b'0', "")];
    check(&tar(&hard), &[("w", "changed"), ("y", "")], &[("w", EntryReason::Link)]);
}

#[test]
fn no_path_leads_out() {
    use EntryReason::{Absolute, Backslash, GitData, Nameless, Upwards};
    let paths = [
        ("", Nameless),
        ("../outside/witness", Upwards),
        ("..\\outside\\witness", Backslash),
        ("./", Nameless),
        (".Git/config", GitData),
        ("/etc/cron.d/x", Absolute),
        ("C:/x", Absolute),
        ("a/../../outside/witness", Upwards),
        ("a/.git/hooks/x", GitData),
    ];
    let mut members: Vec<Member> = paths.iter().map(|it| Member(it.0, b'0', "changed")).collect();
    members.push(Member("b.py", b'0', "b"));
    members.push(Member("c.py", b'0', "c"));
    let files = [("b.py", "b"), ("c.py", "c")];
    check(&tar(&members), &files, &paths);
    // By every other way to name an entry, too.
    for (path, reason) in paths.into_iter().filter(|it| !it.0.is_empty()) {
        let long = format!("{path}\0");
        let gnu = [
            Member("l", b'L', &long),
            Member("x", b'0', "changed"),
            Member("b.py", b'0', "b"),
            Member("c.py", b'0', "c"),
        ];
        check(&tar(&gnu), &files, &[(path, reason.clone())]);
        let record = pax("path", path);
        let pax = [
            Member("x", b'x', &record),
            Member("x", b'0', "changed"),
            Member("b.py", b'0', "b"),
            Member("c.py", b'0', "c"),
        ];
        check(&tar(&pax), &files, &[(path, reason)]);
    }
    let nul = pax("path", "a.py\0.txt");
    let members =
        [Member("x", b'x', &nul), Member("x", b'0', ""), Member("b.py", b'0', "b"), Member("c.py", b'0', "c")];
    check(&tar(&members), &files, &[("a.py\0.txt", EntryReason::Nul)]);
}

#[test]
fn no_path_of_a_zip_leads_out() {
    use EntryReason::{Absolute, GitData, ResourceFork, Upwards};
    let archive = zip(&[("xx/outside/witness", "changed"), ("b.py", "b"), ("c.py", "c")]);
    let files = [("b.py", "b"), ("c.py", "c")];
    check(&replaced(&archive, b"xx/", b"../"), &files, &[("../outside/witness", Upwards)]);
    check(&replaced(&archive, b"xx/", b"/x/"), &files, &[("/x/outside/witness", Absolute)]);
    check(&replaced(&archive, b"xx/", b"c:/"), &files, &[("c:/outside/witness", Absolute)]);
    check(&replaced(&archive, b"xx/", b"a/\0"), &files, &[("a/\0outside/witness", EntryReason::Nul)]);
    let other = zip(&[(".git/config", "x"), ("__MACOSX/._b.py", "x"), ("b.py", "b"), ("c.py", "c")]);
    check(&other, &files, &[(".git/config", GitData), ("__MACOSX/._b.py", ResourceFork)]);
}

/// An archive of `aa\b.py` as a program of a system would have written it.
fn with_backslash(system: u8) -> Vec<u8> {
    let mut archive = replaced(&zip(&[("aa/b.py", "b"), ("c.py", "c")]), b"aa/b", b"aa\\b");
    let directory = (0..archive.len()).find(|at| archive[*at..].starts_with(b"PK\x01\x02")).expect("there is one");
    archive[directory + 5] = system;
    // Attributes mean something else to each.
    archive[directory + 38..directory + 42].fill(0);
    archive
}

#[test]
fn a_backslash_divides_names_in_a_zip_from_windows_alone() {
    check(&with_backslash(0), &[("aa/b.py", "b"), ("c.py", "c")], &[]);
    check(&with_backslash(3), &[("c.py", "c")], &[("aa\\b.py", EntryReason::Backslash)]);
}

#[test]
fn links_devices_and_what_cant_be_unpacked_are_left_out_of_a_zip() {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default();
    writer.add_symlink("link", "../outside/witness", options).expect("memory");
    writer.add_directory("empty", options).expect("memory");
    writer.start_file("a.py", options.compression_method(CompressionMethod::Stored)).expect("memory");
    writer.write_all(b"a").expect("memory");
    let archive = writer.finish().expect("memory").into_inner();
    let files = [("a.py", "a"), ("empty/", "")];
    check(&archive, &files, &[("link", EntryReason::Link)]);

    let plain = zip(&[("secret", "s"), ("b.py", "b")]);
    let directory = (0..plain.len()).find(|at| plain[*at..].starts_with(b"PK\x01\x02")).expect("there is one");
    let with = |at: usize, bytes: &[u8]| {
        let mut archive = plain.clone();
        archive[directory + at..directory + at + bytes.len()].copy_from_slice(bytes);
        archive
    };
    // Offsets in an entry of the directory: flags 8, method 10, attributes 38.
    check(&with(8, &[1]), &[("b.py", "b")], &[("secret", EntryReason::Encrypted)]);
    check(&with(10, &[14, 0]), &[("b.py", "b")], &[("secret", EntryReason::Method)]);
    check(&with(10, &[95, 0]), &[("b.py", "b")], &[("secret", EntryReason::Method)]);
    check(&with(40, &(0o020_644_u16).to_le_bytes()), &[("b.py", "b")], &[("secret", EntryReason::Special)]);
}

#[test]
fn of_entries_with_one_path_the_later_counts() {
    use EntryReason::{BelowFile, IsFolder, Replaced};
    let members = [Member("a.py", b'0', "first"), Member("b.py", b'0', "b"), Member("./a.py", b'0', "2")];
    check(&tar(&members), &[("a.py", "2"), ("b.py", "b")], &[("a.py", Replaced)]);
    let archive = zip(&[("a.py", "first"), ("x.py", "x"), ("b.py", "second")]);
    check(&replaced(&archive, b"b.py", b"a.py"), &[("a.py", "second"), ("x.py", "x")], &[("a.py", Replaced)]);
    let members = [Member("a", b'0', "a"), Member("a/b", b'0', "b"), Member("a/", b'5', ""), Member("c", b'0', "")];
    check(&tar(&members), &[("a", "a"), ("c", "")], &[("a/", BelowFile), ("a/b", BelowFile)]);
    let members = [Member("a/b", b'0', "b"), Member("a", b'0', "a"), Member("c", b'0', "")];
    check(&tar(&members), &[("a/b", "b"), ("c", "")], &[("a", IsFolder)]);
}

#[test]
fn what_is_too_long_or_too_deep_is_left_out_by_name() {
    let limits = ArchiveLimits { file_bytes: 3, path_bytes: 20, depth: 2, ..ArchiveLimits::default() };
    let oversized = EntryReason::Oversized { limit: 3 };
    let deep = EntryReason::TooDeep { limit: 2 };
    let long = EntryReason::TooLong { limit: 20 };
    let members = [
        Member("big.py", b'0', "1234"),
        Member("ok.py", b'0', "123"),
        Member("a/b/c.py", b'0', ""),
        Member("a-name-of-many-letters.py", b'0', ""),
        Member("z.py", b'0', "z"),
    ];
    let files = [("ok.py", "123"), ("z.py", "z")];
    let skipped = [("a-name-of-many-letters.py", long), ("a/b/c.py", deep), ("big.py", oversized)];
    check_within(&limits, &tar(&members), &files, &skipped);
    let contents: Vec<(&str, &str)> = members.iter().map(|it| (it.0, it.2)).collect();
    check_within(&limits, &zip(&contents), &files, &skipped);
}

#[test]
fn an_archive_that_holds_too_much_is_refused() {
    let limits = ArchiveLimits { entries: 3, bytes: 3000, ..ArchiveLimits::default() };
    let four: Vec<Member> = ["a", "b", "c", "d"].map(|it| Member(it, b'0', "")).into();
    check_refused(&limits, &tar(&four), "the archive holds more than 3 entries");
    check_refused(&limits, &gz(&tar(&four)), "more than 3 entries");
    check_refused(&limits, &zip(&[("a", ""), ("b", ""), ("c", ""), ("d", "")]), "more than 3 entries");
    check_refused(&limits, &tar(&[Member("a/b/c/d/e", b'0', "")]), "more than 3 entries");
    let long = "x".repeat(4000);
    check_refused(&limits, &tar(&[Member("a", b'0', &long)]), "the archive holds more than 3000 bytes");
    check_refused(&limits, &zip(&[("a", &long)]), "more than 3000 bytes");
    // What is left out is read as well.
    let small = ArchiveLimits { file_bytes: 10, ..limits };
    check_refused(&small, &tar(&[Member("a", b'0', &long)]), "more than 3000 bytes");
    check_refused(&small, &gz(&[open_tar(&[]), vec![0; 10_000]].concat()), "more than 3000 bytes");
}

#[test]
fn a_bomb_is_refused_when_it_passes_the_limit() {
    let limits = ArchiveLimits { bytes: 1 << 20, file_bytes: 1 << 30, ..ArchiveLimits::default() };
    let mut bomb = header(b"a.py", b'0', 1 << 40).as_bytes().to_vec();
    bomb.resize(64 << 20, b'a');
    check_refused(&limits, &gz(&bomb), "more than 1048576 bytes");
    let long = "a".repeat(64 << 20);
    check_refused(&limits, &zip(&[("a.py", &long)]), "more than 1048576 bytes");
}

#[test]
fn the_sizes_that_a_zip_declares_count_for_nothing() {
    let archive = zip(&[("a.py", &"a".repeat(100_000)), ("b.py", "b")]);
    let declared = 100_000_u32.to_le_bytes();
    check_refused(
        &ArchiveLimits::default(),
        &replaced(&archive, &declared, &10_u32.to_le_bytes()),
        "damaged in `a.py`",
    );
    let limits = ArchiveLimits { file_bytes: 1000, ..ArchiveLimits::default() };
    let small = zip(&[("a.py", "aaaa"), ("b.py", "b")]);
    check_within(&limits, &small, &[("a.py", "aaaa"), ("b.py", "b")], &[]);
}

#[test]
fn entries_of_a_zip_that_overlap_are_refused() {
    // 3,000 names for one content, as a bomb of the kind has them: what is unpacked is below every limit, what is read is not.
    let names: Vec<String> = (0..3000).map(|it| format!("{it:06}.py")).collect();
    let noise: String =
        (0..200_000_u32).map(|it| char::from(b' ' + (it.wrapping_mul(2_654_435_761) >> 26) as u8)).collect();
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut members = vec![(names[0].as_str(), noise.as_str())];
    members.extend(names[1..].iter().map(|it| (it.as_str(), "")));
    let mut archive = zip_with(&members, stored, "");
    let entries: Vec<usize> = (0..archive.len()).filter(|at| archive[*at..].starts_with(b"PK\x01\x02")).collect();
    let first = archive[entries[0]..entries[0] + 46].to_vec();
    for at in &entries[1..] {
        // Checksum and sizes, and where the local header is.
        archive[at + 16..at + 28].copy_from_slice(&first[16..28]);
        archive[at + 42..at + 46].copy_from_slice(&first[42..46]);
    }
    check_refused(&ArchiveLimits::default(), &archive, "its entries overlap");
}

#[test]
fn what_is_no_archive_is_refused_as_that() {
    let refused = |bytes: &[u8], expected| match check_refused(&ArchiveLimits::default(), bytes, expected) {
        ArchiveError::NotAnArchive { .. } => {}
        other => panic!("{other}"),
    };
    refused(b"def f():\n    pass\n", "the file is no archive that can be read: send a tar, a tar.gz or a zip");
    refused(&"x".repeat(5000).into_bytes(), "the file is no archive");
    refused(&gz(&"x".repeat(5000).into_bytes()), "a gzip file of something other than a tar");
    refused(&gz(&gz(&tar(&[Member("a", b'0', &"a".repeat(5000))]))), "a gzip file of something other");
    refused(b"BZh91AY&SY", "a bzip2 file");
    refused(b"\xfd7zXZ\0\0\x04", "an xz file");
    refused(b"\x28\xb5\x2f\xfd\x24", "a zstd file");
}

#[test]
fn an_archive_of_nothing_is_empty() {
    let refused = |bytes: &[u8]| match check_refused(&ArchiveLimits::default(), bytes, "the archive is empty") {
        ArchiveError::Empty => {}
        other => panic!("{other}"),
    };
    refused(b"");
    refused(&tar(&[]));
    refused(&gz(&tar(&[])));
    refused(&zip(&[]));
    // One without a file that can be used is not.
    check(&tar(&[Member("src/", b'5', "")]), &[], &[]);
}

#[test]
fn an_archive_that_is_cut_off_is_refused_wherever_it_ends() {
    let members = [Member("src/a.py", b'0', &"a".repeat(2000)), Member("b.py", b'0', "b")];
    let whole = tar(&members);
    // All but the second block of its end mark is needed.
    for end in (1..whole.len() / 512 - 1).map(|it| it * 512).chain([600, 1500, 2600]) {
        let error = check_refused(&ArchiveLimits::default(), &whole[..end], "cut off");
        assert!(matches!(error, ArchiveError::CutOff { .. }), "{error}");
    }
    check(&whole[..whole.len() - 512], &[("b.py", "b"), ("src/a.py", &"a".repeat(2000))], &[]);
    let within = check_refused(&ArchiveLimits::default(), &whole[..1500], "in `src/a.py`, after 1500 bytes of tar");
    assert!(within.to_string().ends_with("send it again, whole"), "{within}");
    let packed = gz(&whole);
    for end in 2..packed.len() {
        check_refused(&ArchiveLimits::default(), &packed[..end], "");
    }
    let zipped = zip(&[("src/a.py", "aaaa"), ("b.py", "b")]);
    for end in 4..zipped.len() {
        check_refused(&ArchiveLimits::default(), &zipped[..end], "");
    }
}

#[test]
fn a_damaged_archive_is_refused_and_says_where() {
    let whole = tar(&[Member("a.py", b'0', "a"), Member("b.py", b'0', "b")]);
    let mut damaged = whole.clone();
    damaged[1024 + 3] ^= 1;
    check_refused(&ArchiveLimits::default(), &damaged, "after 1536 bytes of tar (the checksum of a header is wrong)");
    let mut packed = gz(&whole);
    let last = packed.len() - 6;
    packed[last] ^= 1;
    check_refused(&ArchiveLimits::default(), &packed, "damaged after its end mark");
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let zipped = zip_with(&[("a.py", "some text"), ("b.py", "b")], stored, "");
    check_refused(&ArchiveLimits::default(), &replaced(&zipped, b"some text", b"same text"), "damaged in `a.py`");
    let record = "99 path=a.py\n";
    check_refused(
        &ArchiveLimits::default(),
        &tar(&[Member("x", b'x', record), Member("a", b'0', "")]),
        "extended header",
    );
    check_refused(&ArchiveLimits::default(), &tar(&[Member("x", b'x', &pax("path", "a"))]), "nothing follows");
    let long = "x".repeat((1 << 20) + 1);
    check_refused(&ArchiveLimits::default(), &tar(&[Member("x", b'L', &long), Member("a", b'0', "")]), "too long");
    check_refused(&ArchiveLimits::default(), &tar(&[Member("a\nb", b'0', "a")])[..512], "in `a\\nb`");
}

#[test]
fn gzip_members_are_one_stream_and_what_follows_is_noted() {
    let whole = tar(&[Member("a.py", b'0', &"a".repeat(2000)), Member("b.py", b'0', "b")]);
    let files = [("a.py", &*"a".repeat(2000)), ("b.py", "b")];
    let members = [gz(&whole[..700]), gz(b""), gz(&whole[700..])].concat();
    assert_eq!(check(&members, &files, &[]).notes, [""; 0]);
    let zeros = [members.clone(), vec![0; 1000]].concat();
    assert_eq!(check(&zeros, &files, &[]).notes, [""; 0]);
    let rest = [members, b"rest".to_vec()].concat();
    assert_eq!(check(&rest, &files, &[]).notes, ["bytes after the end of its gzip stream are not read"]);
    let two = [whole.clone(), tar(&[Member("c.py", b'0', "c")])].concat();
    assert_eq!(check(&two, &files, &[]).notes, ["bytes after its end mark are not read"]);
    let filled = [whole, vec![0; 10_240]].concat();
    assert_eq!(check(&filled, &files, &[]).notes, [""; 0]);
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_text_keep_their_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let mut archive = header(b"\xffa.py", b'0', 1).as_bytes().to_vec();
    archive.extend(padded(b"a"));
    archive.extend(tar(&[Member("b.py", b'0', "b")]));
    let scene = Scene::new(&archive);
    scene.extract(&ArchiveLimits::default()).expect("sound");
    let name = std::ffi::OsStr::from_bytes(b"\xffa.py");
    assert_eq!(fs::read(scene.folder.path().join("in/to").join(name)).expect("it is there"), b"a");
}

#[test]
fn only_a_new_or_empty_folder_is_written_to() {
    let scene = Scene::new(&tar(&[Member("witness", b'0', "changed"), Member("b", b'0', "")]));
    let path = scene.folder.path();
    let error = extract(&path.join("archive"), &path.join("outside"), &ArchiveLimits::default(), &|| false);
    assert!(matches!(error, Err(ArchiveError::Unwritable { .. })), "{error:?}");
    scene.written();
    let error = extract(&path.join("none"), &path.join("in"), &ArchiveLimits::default(), &|| false);
    assert!(matches!(error, Err(ArchiveError::Unreadable { .. })), "{error:?}");
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_folder_is_not_followed() {
    let scene = Scene::new(&tar(&[Member("a", b'0', "a"), Member("b", b'0', "")]));
    let path = scene.folder.path();
    fs::create_dir(path.join("target")).expect("a folder");
    std::os::unix::fs::symlink(path.join("target"), path.join("link")).expect("a link");
    let error = extract(&path.join("archive"), &path.join("link"), &ArchiveLimits::default(), &|| false);
    assert!(matches!(error, Err(ArchiveError::Unwritable { .. })), "{error:?}");
    assert_eq!(fs::read_dir(path.join("target")).expect("readable").count(), 0);
}

#[test]
fn it_ends_when_the_caller_wants_it_to() {
    use std::cell::Cell;
    for archive in [gz(&tar(&[Member("a", b'0', &"a".repeat(1 << 20))])), zip(&[("a", "a"), ("b", "b")])] {
        let scene = Scene::new(&archive);
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > 2
        };
        let path = scene.folder.path();
        // Asked for the first bytes, then once for each piece.
        let error = extract(&path.join("archive"), &path.join("in/to"), &ArchiveLimits::default(), &stop);
        assert!(matches!(error, Err(ArchiveError::Stopped) | Ok(_)), "{error:?}");
        let error = extract(&path.join("archive"), &path.join("in/two"), &ArchiveLimits::default(), &|| true);
        assert!(matches!(error, Err(ArchiveError::Stopped)), "{error:?}");
        assert!(!path.join("in/two").exists());
    }
}

/// Small limits, so that no case takes long.
const SMALL: ArchiveLimits =
    ArchiveLimits { entries: 50, bytes: 1 << 18, file_bytes: 1 << 12, path_bytes: 100, depth: 6 };

fn check_harmless(bytes: &[u8]) {
    let scene = Scene::new(bytes);
    let extracted = scene.extract(&SMALL);
    let written = scene.written();
    let files: Vec<&String> = written.values().flatten().collect();
    match extracted {
        Ok(extracted) => assert_eq!(extracted.files, files.len()),
        Err(error) => assert!(written.is_empty(), "{error}"),
    }
}

/// A path of parts that mean something to some system.
fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-cA-C]{0,2}",
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just(".git".to_owned()),
        Just("c:".to_owned()),
        "\\PC{1,3}",
    ];
    (proptest::collection::vec(part, 1..5), prop_oneof![Just("/"), Just("\\"), Just("//")])
        .prop_map(|(parts, separator)| parts.join(separator))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..2000), magic in 0..4_usize) {
        let start: &[u8] = [b"".as_slice(), b"\x1f\x8b\x08\0", b"PK\x03\x04", b"PK\x05\x06"][magic];
        check_harmless(&[start, &bytes].concat());
    }

    #[test]
    fn any_members_are_harmless(
        members in proptest::collection::vec((path(), prop_oneof![Just(b'0'), Just(b'0'), any::<u8>()], "[a-z]{0,600}"), 0..8),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        packed in any::<bool>(),
    ) {
        let short: Vec<_> = members.iter().filter(|it| it.0.len() <= 90).collect();
        let mut archive = tar(&short.iter().map(|(path, kind, content)| Member(path, *kind, content)).collect::<Vec<_>>());
        flips.iter().for_each(|(at, to)| { let at = at.index(archive.len()); archive[at] = *to; });
        check_harmless(&if packed { gz(&archive) } else { archive });
    }

    #[test]
    fn any_zip_is_harmless(
        members in proptest::collection::btree_map(path(), "[a-z]{0,600}", 0..8),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let members: Vec<(&str, &str)> = members.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
        let mut archive = zip(&members);
        flips.iter().for_each(|(at, to)| { let at = at.index(archive.len()); archive[at] = *to; });
        check_harmless(&archive);
    }
}
