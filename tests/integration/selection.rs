//! Which files count: patterns that include and exclude, the same for files on disk and for a commit; folders that were uploaded.

use std::path::Path;

use sightline::snapshot::archive::{ArchiveLimits, Format, extract};
use sightline::snapshot::{Options, Snapshot, SnapshotError, commit_of, read};

use crate::repository::{Repository, check, paths, write_at};

const CODE: &str = "def f():\n    return 1\n";

fn options(include: &[&str], exclude: &[&str]) -> Options {
    let owned = |patterns: &[&str]| patterns.iter().map(|it| (*it).to_owned()).collect();
    Options { include: owned(include), exclude: owned(exclude), ..Options::default() }
}

fn read_by(root: &Path, revision: Option<&str>, options: &Options) -> Snapshot {
    read(root, revision, options, &|_, _| ()).unwrap()
}

/// What is read by patterns of a repository of a usual layout, from the disk and from a commit.
#[track_caller]
fn check_chosen(include: &[&str], exclude: &[&str], expected: &[&str], expected_skipped: &[&str]) {
    let repository = Repository::git();
    for path in ["src/a.py", "src/gen/b.py", "tests/a.py", "tests/deep/c.py", "web/app.ts", "top.py"] {
        repository.write(path, CODE);
    }
    repository.commit();
    for revision in [None, Some("HEAD")] {
        check(&read_by(&repository.root, revision, &options(include, exclude)), expected, expected_skipped);
    }
}

#[test]
fn what_is_excluded_is_skipped_though_git_tracks_it() {
    let rest = ["src/a.py", "src/gen/b.py", "top.py", "web/app.ts"];
    check_chosen(&[], &["tests/"], &rest, &["tests: excluded by the pattern `tests/`"]);
    check_chosen(&[], &["tests"], &rest, &["tests: excluded by the pattern `tests`"]);
    check_chosen(
        &[],
        &["a.py", "/web/*", "gen/"],
        &["tests/deep/c.py", "top.py"],
        &[
            "src/a.py: excluded by the pattern `a.py`",
            "src/gen: excluded by the pattern `gen/`",
            "tests/a.py: excluded by the pattern `a.py`",
            "web/app.ts: excluded by the pattern `/web/*`",
        ],
    );
    check_chosen(
        &[],
        &["tests/*", "!tests/a.py"],
        &["src/a.py", "src/gen/b.py", "tests/a.py", "top.py", "web/app.ts"],
        &["tests/deep: excluded by the pattern `tests/*`"],
    );
}

#[test]
fn what_is_not_included_is_skipped_a_folder_in_one_row() {
    let not = |path: &str| format!("{path}: not among what is to be included");
    let rows = |paths: &[&str]| paths.iter().map(|it| not(it)).collect::<Vec<_>>();
    let check_chosen = |include: &[&str], exclude: &[&str], expected: &[&str], left_out: &[&str]| {
        let rows = rows(left_out);
        check_chosen(include, exclude, expected, &rows.iter().map(String::as_str).collect::<Vec<_>>());
    };
    check_chosen(&["src/"], &[], &["src/a.py", "src/gen/b.py"], &["tests", "top.py", "web"]);
    check_chosen(&["src/", "!gen/"], &[], &["src/a.py"], &["src/gen", "tests", "top.py", "web"]);
    check_chosen(&["*.ts", "/*.py"], &[], &["top.py", "web/app.ts"], &["src", "tests"]);
    check_chosen(&["nothing"], &[], &[], &["src", "tests", "top.py", "web"]);
    check_chosen(&["tests/**/c.py"], &[], &["tests/deep/c.py"], &["src", "tests/a.py", "top.py", "web"]);
}

#[test]
fn excluding_wins_over_including() {
    check_chosen(
        &["src/", "tests/"],
        &["tests/deep/"],
        &["src/a.py", "src/gen/b.py", "tests/a.py"],
        &["tests/deep: excluded by the pattern `tests/deep/`", "top.py: not among", "web: not among"],
    );
}

#[test]
fn patterns_are_relative_to_what_is_read() {
    let repository = Repository::git();
    repository.write("part/src/a.py", CODE).write("part/lib/a.py", CODE).write("src/b.py", CODE);
    repository.commit();
    for revision in [None, Some("HEAD")] {
        let chosen = read_by(&repository.root.join("part"), revision, &options(&["/src/"], &[]));
        check(&chosen, &["src/a.py"], &["lib: not among"]);
        let chosen = read_by(&repository.root.join("part"), revision, &options(&[], &["part/src"]));
        check(&chosen, &["lib/a.py", "src/a.py"], &[]);
    }
}

#[test]
fn what_git_ignores_is_not_said_to_be_excluded_and_excluding_beats_the_own_ignore_file() {
    let repository = Repository::git();
    repository.write(".gitignore", "out/\n").write("out/a.py", CODE).write("keep/a.py", CODE).write("b.py", CODE);
    repository.write(".sightlineignore", "!keep/\n");
    let chosen = read_by(&repository.root, None, &options(&[], &["out/", "keep/"]));
    check(&chosen, &["b.py"], &["keep: excluded"]);
}

#[test]
fn a_pattern_that_can_match_nothing_is_an_error_by_name() {
    let repository = Repository::plain();
    let error = read(&repository.root, None, &options(&[], &["../src"]), &|_, _| ()).unwrap_err();
    assert!(matches!(&error, SnapshotError::Pattern { pattern, .. } if pattern == "../src"), "{error}");
}

/// Unpacks an archive beside a repository's work tree, and reads it as an upload is read.
#[track_caller]
fn check_upload(repository: &Repository, archive: &str, format: Format, commit: Option<&str>, expected: &[&str]) {
    let folder = repository.beside(&format!("{archive}.unpacked"));
    let extracted = extract(&repository.beside(archive), &folder, &ArchiveLimits::default(), &|| false).unwrap();
    assert_eq!((extracted.format, extracted.commit.as_deref()), (format, commit));
    let snapshot = read_by(&folder, None, &Options { detached: true, ..Options::default() });
    assert_eq!(paths(&snapshot), expected);
}

#[test]
fn what_git_archive_makes_is_what_the_commit_holds() {
    let repository = Repository::git();
    let long = format!("src/{}/{}.py", "long".repeat(30), "name".repeat(30));
    repository.write("src/größe a.py", CODE).write(&long, CODE).write("b.ts", "function g() {}\n");
    let commit = repository.commit();
    let expected: Vec<String> = paths(&repository.read_at(Some("HEAD"))).iter().map(|it| (*it).to_owned()).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(expected.len(), 3);
    for (kind, format) in [("tar", Format::Tar), ("tar.gz", Format::TarGz), ("zip", Format::Zip)] {
        for prefix in ["", "repository-1/"] {
            let name = format!("{}{kind}", prefix.replace('/', "."));
            let (kind, output) = (format!("--format={kind}"), repository.beside(&name));
            let prefix = format!("--prefix={prefix}");
            repository.run(&["archive", &kind, &prefix, "-o", output.to_str().unwrap(), "HEAD"]);
            check_upload(&repository, &name, format, Some(&commit), &expected);
        }
    }
}

#[test]
fn an_upload_is_read_without_any_git() {
    // It lies in a repository that ignores it all, and looks like one itself, with settings that lead elsewhere.
    let repository = Repository::git();
    repository.write(".gitignore", "*\n").write("secret.py", CODE);
    repository.commit();
    let upload = repository.root.join("uploads/one");
    for (path, content) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ../..\n"),
        ("objects/info/alternates", "../../../../.git/objects\n"),
        ("refs/heads/main", "0123456789abcdef0123456789abcdef01234567\n"),
        ("a.py", CODE),
    ] {
        write_at(&upload.join(path), content);
    }
    let detached = Options { detached: true, ..Options::default() };
    assert_eq!(paths(&read_by(&upload, None, &detached)), ["a.py"]);
    assert_eq!(commit_of(&upload, None, &detached).unwrap(), None);
    for revision in ["HEAD", "main"] {
        assert!(matches!(
            read(&upload, Some(revision), &detached, &|_, _| ()),
            Err(SnapshotError::NotARepository { .. })
        ));
        assert!(matches!(commit_of(&upload, Some(revision), &detached), Err(SnapshotError::NotARepository { .. })));
    }
}
