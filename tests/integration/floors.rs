//! The floors of the library: a module names only modules below it, and every file says what it is.

use std::path::{Path, PathBuf};

/// Floor by module. Modules of one floor are blind to each other.
const FLOORS: &[(&str, u8)] = &[
    ("types", 0),
    ("vector", 0),
    ("imaging", 1),
    ("index", 1),
    ("snapshot", 1),
    ("encoder", 2),
    ("retriever", 3),
    ("config", 4),
    ("cli", 5),
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

/// Modules that a text names as `crate::module`, in `use crate::{a, b}` too.
fn named_modules(text: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect::<String>();
    let mut named = Vec::new();
    for after in text.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            None => named.push(word(after)),
            Some(list) => named.extend(top_level_items(list).iter().map(|it| word(it))),
        }
    }
    named
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
        for named in named_modules(&text).into_iter().filter(|it| *it != module) {
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
}
