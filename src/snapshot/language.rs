//! The one table of languages: which files are source, which grammar reads them and how their functions are named.
//!
//! Adding a language means adding a row to [`LANGUAGES`], a query under `queries/` and a fixture under
//! `tests/fixtures/languages/`.

use std::sync::{LazyLock, OnceLock};

use tree_sitter::{Query, QueryError};
use tree_sitter_language::LanguageFn;

/// A row of the table.
pub struct Language {
    pub name: &'static str,
    /// File name endings without the dot, lower case.
    pub extensions: &'static [&'static str],
    /// Whole file names that belong to the language whatever their ending, lower case.
    pub file_names: &'static [&'static str],
    /// Where function candidates come from.
    pub functions: Functions,
}

/// Where a language's function candidates come from.
pub enum Functions {
    /// File candidates only.
    None,
    /// A tree-sitter grammar and a query for definitions.
    Grammar(Grammar),
    /// A host document (HTML, Vue, Svelte) whose `<script>` elements are JavaScript or TypeScript.
    Scripts(Grammar),
    /// A Jupyter notebook: the code cells, in the notebook's language.
    Notebook,
}

/// How definitions are found in a syntax tree and named.
pub struct Grammar {
    language: LanguageFn,
    query_text: &'static str,
    query: OnceLock<Result<Query, QueryError>>,
    /// What stands between the components of a name as it is written (`A::b`); `.` in the qualified name.
    pub separators: &'static [&'static str],
    /// Kinds of parents that belong to the definition they wrap (a decorated definition, a template declaration).
    pub wrappers: &'static [&'static str],
    /// Kinds of preceding siblings that belong to a definition (attributes, decorators).
    pub leading: &'static [&'static str],
}

impl Grammar {
    fn new(language: LanguageFn, query_text: &'static str) -> Self {
        Grammar { language, query_text, query: OnceLock::new(), separators: &[], wrappers: &[], leading: &[] }
    }

    fn separators(self, separators: &'static [&'static str]) -> Self {
        Grammar { separators, ..self }
    }

    fn wrappers(self, wrappers: &'static [&'static str]) -> Self {
        Grammar { wrappers, ..self }
    }

    fn leading(self, leading: &'static [&'static str]) -> Self {
        Grammar { leading, ..self }
    }

    pub(super) fn language(&self) -> tree_sitter::Language {
        self.language.into()
    }

    /// The compiled query; compiled at first use because the large grammars take milliseconds.
    pub(super) fn query(&self) -> Result<&Query, &QueryError> {
        self.query.get_or_init(|| Query::new(&self.language(), self.query_text)).as_ref()
    }
}

impl Language {
    fn files_only(name: &'static str, extensions: &'static [&'static str]) -> Self {
        Language { name, extensions, file_names: &[], functions: Functions::None }
    }

    fn parsed(name: &'static str, extensions: &'static [&'static str], grammar: Grammar) -> Self {
        Language { name, extensions, file_names: &[], functions: Functions::Grammar(grammar) }
    }
}

/// Every language, in alphabetical order.
pub static LANGUAGES: LazyLock<Vec<Language>> = LazyLock::new(|| {
    vec![
        Language::files_only("CSS", &["css"]),
        Language::parsed("Java", &["java"], Grammar::new(tree_sitter_java::LANGUAGE, include_str!("queries/java.scm"))),
        Language::parsed(
            "Python",
            &["py", "pyi", "pyw"],
            Grammar::new(tree_sitter_python::LANGUAGE, include_str!("queries/python.scm"))
                .wrappers(&["decorated_definition"]),
        ),
        Language::files_only("SCSS", &["scss", "sass"]),
    ]
});

/// The row with this name.
pub fn by_name(name: &str) -> Option<&'static Language> {
    LANGUAGES.iter().find(|language| language.name == name)
}

/// The language of a path by its file name and ending; `None` when it is not source.
pub fn of_path(path: &str) -> Option<&'static Language> {
    let file_name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    let extension = file_name.rsplit_once('.').map(|(_, extension)| extension);
    LANGUAGES.iter().find(|language| {
        language.file_names.contains(&file_name.as_str())
            || extension.is_some_and(|it| language.extensions.contains(&it))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_compiles_against_its_grammar() {
        for language in LANGUAGES.iter() {
            if let Functions::Grammar(grammar) | Functions::Scripts(grammar) = &language.functions
                && let Err(error) = grammar.query()
            {
                panic!("{}: {error}", language.name);
            }
        }
    }

    #[test]
    fn an_ending_or_a_file_name_belongs_to_one_language() {
        let mut seen = std::collections::HashMap::new();
        for language in LANGUAGES.iter() {
            for key in language.extensions.iter().chain(language.file_names) {
                assert_eq!(*key, key.to_lowercase(), "{}: keys are lower case", language.name);
                if let Some(other) = seen.insert(key, language.name) {
                    panic!("`{key}` belongs to {other} and {}", language.name);
                }
            }
        }
    }

    #[test]
    fn rows_are_in_alphabetical_order() {
        assert!(LANGUAGES.is_sorted_by_key(|language| language.name.to_lowercase()));
    }
}
