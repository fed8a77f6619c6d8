//! Properties of reading any repository: it ends, it never panics, and it lists what git lists.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::repository::{Repository, functions, paths, read_at, write_at};

/// A name that some program would trip over.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]",
        "[a-c]{1,3}\\.(py|css|ts|h)",
        "[ \\n\\t'\"\\\\*?\\[\\]!#é日~-]{1,6}",
        "[^/\\x00]{1,12}",
        Just("node_modules".to_owned()),
        Just(".gitignore".to_owned()),
    ]
    .prop_filter("a name of its own", |name| !matches!(name.as_str(), "." | ".." | ".git") && name.len() < 200)
}

fn path() -> impl Strategy<Value = String> {
    vec(name(), 1..5).prop_map(|names| names.join("/"))
}

/// Something to put at a path. What is in its way already is left as it is.
#[derive(Debug, Clone)]
enum Thing {
    File(Vec<u8>),
    Directory,
    Link(String),
}

fn thing() -> impl Strategy<Value = Thing> {
    prop_oneof![
        3 => vec(any::<u8>(), 0..64).prop_map(Thing::File),
        1 => Just(Thing::Directory),
        2 => prop_oneof![path(), Just("..".to_owned()), Just(".".to_owned()), Just("/".to_owned())].prop_map(Thing::Link),
    ]
}

fn put(repository: &Repository, path: &str, thing: &Thing) {
    let path = repository.root.join(path);
    let Some(parent) = path.parent() else { return };
    let _ = std::fs::create_dir_all(parent);
    // A link above may lead out of the folder; nothing is written there.
    if !parent.canonicalize().is_ok_and(|it| it.starts_with(repository.root.canonicalize().unwrap())) {
        return;
    }
    let _ = match thing {
        Thing::File(bytes) => std::fs::write(&path, bytes),
        Thing::Directory => std::fs::create_dir(&path),
        #[cfg(unix)]
        Thing::Link(target) => std::os::unix::fs::symlink(target, &path),
        #[cfg(not(unix))]
        Thing::Link(_) => Ok(()),
    };
}

/// A line of an ignore file over the names a to c. Not among them: `a**`, where git departs from its own manual.
fn rule() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-c]",
        2 => "[a-c]\\.(py|css)",
        1 => Just("*".to_owned()),
        1 => Just("**".to_owned()),
        1 => "\\*\\.(py|css)",
        1 => "\\[(ab|!a|\\^b|a-b|\\]a|\\[:alpha:\\])\\](\\.py)?",
        1 => "(\\?|\\\\a|\\{a,b\\}|a\\*|\\*\\*a)(\\.py)?",
    ];
    let pattern = vec(part, 1..4).prop_map(|parts| parts.join("/"));
    let ends = (
        prop_oneof![3 => Just(""), 1 => Just("/")],
        prop_oneof![4 => Just(""), 1 => Just("/"), 1 => Just(" "), 1 => Just("\\ ")],
    );
    let line = (any::<bool>(), ends, pattern).prop_map(|(negated, (start, end), pattern)| {
        format!("{}{start}{pattern}{end}", if negated { "!" } else { "" })
    });
    prop_oneof![10 => line, 1 => "[ -~]{0,8}"]
}

fn ignore_file() -> impl Strategy<Value = (String, String)> {
    let directory =
        vec("[a-c]", 0..3).prop_map(|names| names.iter().map(|name| format!("{name}/")).collect::<String>());
    (directory, vec(rule(), 1..5)).prop_map(|(directory, rules)| (format!("{directory}.gitignore"), rules.join("\n")))
}

fn source_path() -> impl Strategy<Value = String> {
    (vec("[a-c]", 0..3), "[a-c]\\.(py|css)")
        .prop_map(|(names, file)| names.into_iter().chain([file]).collect::<Vec<_>>().join("/"))
}

/// A path with directories that are not everyone's.
fn checkout_path() -> impl Strategy<Value = String> {
    let directory = prop_oneof![4 => "[a-c]", 1 => Just("vendor".to_owned()), 1 => Just(".hg".to_owned())];
    (vec(directory, 0..4), "[a-c](\\.min)?\\.(py|css)")
        .prop_map(|(names, file)| names.into_iter().chain([file]).collect::<Vec<_>>().join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_of_files_and_links_is_read(things in vec((path(), thing()), 0..30)) {
        let repository = Repository::plain();
        for (path, thing) in &things {
            put(&repository, path, thing);
        }
        let snapshot = read_at(&repository.root, None).unwrap();
        prop_assert!(snapshot.sources.is_sorted_by(|a, b| a.path < b.path));
        for source in &snapshot.sources {
            let file = repository.root.join(&*source.path);
            prop_assert!(file.symlink_metadata().unwrap().is_file());
        }
    }

    #[test]
    fn any_bytes_are_a_file(bytes: Vec<u8>, ending in prop_oneof![Just("py"), Just("h"), Just("ipynb"), Just("vue"), Just("css"), Just("ts")]) {
        let repository = Repository::plain();
        repository.write(&format!("a.{ending}"), &bytes);
        let snapshot = read_at(&repository.root, None).unwrap();
        for candidate in &snapshot.candidates {
            prop_assert!(candidate.source.text().expect("in memory").content.is_char_boundary(candidate.range.start));
            prop_assert!(candidate.source.text().expect("in memory").content.get(candidate.range.clone()).is_some());
            prop_assert!(candidate.lines.start >= 1 && candidate.lines.start <= candidate.lines.end);
        }
    }

    #[test]
    fn the_files_are_those_that_git_lists(
        files in vec(source_path(), 1..12),
        tracked in vec(source_path(), 0..3),
        ignore_files in vec(ignore_file(), 1..4),
        excludes in vec(rule(), 0..2),
    ) {
        let repository = Repository::git();
        for path in &tracked {
            put(&repository, path, &Thing::File(b"x".to_vec()));
        }
        repository.run(&["add", "-A", "-f"]);
        for path in &files {
            put(&repository, path, &Thing::File(b"x".to_vec()));
        }
        for (path, text) in &ignore_files {
            put(&repository, path, &Thing::File(text.clone().into_bytes()));
        }
        write_at(&repository.beside("excludes"), excludes.join("\n"));
        let listed = repository.run(&["ls-files", "-z", "-co", "--exclude-standard"]);
        let mut expected: Vec<&str> = listed.split('\0').filter(|it| it.ends_with(".py") || it.ends_with(".css")).collect();
        expected.sort();
        expected.dedup();
        let snapshot = read_at(&repository.root, None).unwrap();
        prop_assert_eq!(paths(&snapshot), expected);
    }

    #[test]
    fn a_clean_checkout_is_read_as_its_commit_is(
        files in vec(checkout_path(), 1..12),
        ignore_files in vec((ignore_file(), any::<bool>()), 0..4),
    ) {
        let repository = Repository::git();
        for ((path, text), is_own) in &ignore_files {
            let path = if *is_own { path.replace(".gitignore", ".sightlineignore") } else { path.clone() };
            put(&repository, &path, &Thing::File(text.clone().into_bytes()));
        }
        for path in &files {
            put(&repository, path, &Thing::File(b"def f():\n    pass\n".to_vec()));
        }
        repository.commit();
        let (checkout, commit) = (repository.read(), repository.read_at(Some("HEAD")));
        prop_assert_eq!(paths(&checkout), paths(&commit));
        prop_assert_eq!(functions(&checkout), functions(&commit));
        prop_assert_eq!(checkout.skipped, commit.skipped);
    }
}
