//! The floors of the library: a module names only modules below it, and every file says what it is.

use std::path::{Path, PathBuf};

/// Floor by module. Modules of one floor are blind to each other.
const FLOORS: &[(&str, u8)] = &[
    ("fsio", 0),
    ("types", 0),
    ("vector", 0),
    ("device", 1),
    ("imaging", 1),
    ("index", 1),
    ("snapshot", 1),
    ("encoder", 2),
    ("evidence", 2),
    ("retriever", 3),
    ("service", 4),
    ("mcp", 5),
    ("server", 5),
    ("config", 6),
    ("telemetry", 6),
    ("cli", 7),
];

fn floor(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

fn sources() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("src is readable") {
            let path = entry.expect("src is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The module of `src/index/lexical.rs` is `index`; `None` for `lib.rs` and `main.rs`, which may name everything.
fn module_of(path: &Path) -> Option<String> {
    let inside = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("a file of src");
    let first = Path::new(inside.components().next().expect("not empty").as_os_str());
    let module = first.file_stem().expect("a name").to_string_lossy().into_owned();
    (!matches!(module.as_str(), "lib" | "main")).then_some(module)
}

/// How many modules the file of a path is below the top of the crate: 1 for `src/index/mod.rs`, 2 for
/// `src/index/lexical.rs`.
fn depth_of(path: &Path) -> usize {
    let inside = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("a file of src");
    inside.components().count() - usize::from(inside.ends_with("mod.rs"))
}

/// Modules that a text names as `crate::module`, in `use crate::{a, b}` too.
fn named_modules(text: &str) -> Vec<String> {
    text.split("crate::").skip(1).flat_map(first_names).collect()
}

/// Modules of the top that a text names by as many `super::` as lead there from its file, or by one more, from a module
/// within the file.
fn named_by_super(text: &str, depth: usize) -> Vec<String> {
    let (mut named, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find("super::") {
        rest = &rest[at..];
        let mut ups = 0;
        while let Some(after) = rest.strip_prefix("super::") {
            (rest, ups) = (after, ups + 1);
        }
        if ups >= depth {
            named.extend(first_names(rest).into_iter().filter(|it| floor(it).is_some()));
        }
    }
    named
}

/// The first name of a path, or of each path of a list in braces.
fn first_names(path: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect::<String>();
    match path.strip_prefix('{') {
        None => vec![word(path)],
        Some(list) => top_level_items(list).iter().map(|it| word(it)).collect(),
    }
}

/// The items of a use list up to its closing brace, without what is nested in them.
fn top_level_items(list: &str) -> Vec<String> {
    let (mut items, mut depth) = (vec![String::new()], 0usize);
    for character in list.chars() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => items.push(String::new()),
            character if depth == 0 && !character.is_whitespace() => {
                items.last_mut().expect("never empty").push(character)
            }
            _ => {}
        }
    }
    items
}

#[test]
fn modules_name_only_lower_floors() {
    for path in sources() {
        let Some(module) = module_of(&path) else { continue };
        let own =
            floor(&module).unwrap_or_else(|| panic!("{} is on no floor: add `{module}` to FLOORS", path.display()));
        let text = std::fs::read_to_string(&path).expect("source is UTF-8");
        let all = named_modules(&text).into_iter().chain(named_by_super(&text, depth_of(&path)));
        for named in all.filter(|it| *it != module) {
            let below = floor(&named).is_some_and(|it| it < own);
            assert!(below, "{} (floor {own}) names `{named}`, which is not below it", path.display());
        }
    }
}

#[test]
fn every_file_says_what_it_is() {
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("source is UTF-8");
        assert!(text.starts_with("//! "), "{} begins without a //! header", path.display());
    }
}

#[test]
fn the_check_sees_every_way_to_name_a_module() {
    let named =
        named_modules("use crate::types::Level;\nuse crate::{index::{a, b}, vector};\nfn f() { crate::cli::run() }");
    assert_eq!(named, ["types", "index", "vector", "cli"]);
    let by_super = |text: &str, depth| named_by_super(text, depth);
    assert_eq!(
        by_super("use super::cli;\nuse super::{config::Settings, types}; super::own()", 1),
        ["cli", "config", "types"]
    );
    assert_eq!(by_super("use super::lexical; use super::super::{cli, vector::dot};", 2), ["cli", "vector"]);
    assert_eq!(by_super("mod tests { use super::super::super::cli::Failure; use super::cli; }", 2), ["cli"]);
    let depth = |path: &str| depth_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path));
    assert_eq!((depth("lib.rs"), depth("index/mod.rs"), depth("index/lexical.rs")), (1, 1, 2));
}
