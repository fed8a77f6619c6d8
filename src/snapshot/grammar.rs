//! How functions are found in a syntax tree and named: a tree-sitter grammar, a query and what a language needs besides.
//!
//! The rows of `language` are made of these; `parse` reads with them. Knows no language by name.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use tree_sitter::{Query, QueryError};
use tree_sitter_language::LanguageFn;

use super::directives;

/// Makes a text easier to parse without moving a byte of it; `None` when there is nothing to do.
pub type Rewrite = fn(&str) -> Option<String>;

/// What to try with a text that does not parse well. The readings are put together.
pub enum Rescue {
    /// The text, rewritten.
    Rewrite(Rewrite),
    /// The grammar of another row.
    Language(&'static str),
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
    /// Whether a function can stand in another one. Where it can't, the parser has missed a brace between the two.
    pub nested_functions: bool,
    /// A name is taken as it is written: `<`, `>` and quotes may be part of it (`foldl'`, `<$>`, `names<-`).
    pub exact_names: bool,
    /// Neighbouring definitions of one name are the clauses of one function.
    pub joins_clauses: bool,
    /// Applied to every text before it is parsed.
    pub prepare: Option<Rewrite>,
    /// Tried in turn while a text does not parse well.
    pub rescues: &'static [Rescue],
}

#[cfg_attr(not(feature = "heavy-grammars"), expect(dead_code, reason = "some of it serves the heavy grammars alone"))]
impl Grammar {
    pub(super) fn new(language: LanguageFn, query_text: &'static str) -> Self {
        Grammar {
            language,
            query_text,
            query: OnceLock::new(),
            separators: &[],
            wrappers: &[],
            leading: &[],
            nested_functions: true,
            exact_names: false,
            joins_clauses: false,
            prepare: None,
            rescues: &[],
        }
    }

    pub(super) fn separators(self, separators: &'static [&'static str]) -> Self {
        Grammar { separators, ..self }
    }

    pub(super) fn wrappers(self, wrappers: &'static [&'static str]) -> Self {
        Grammar { wrappers, ..self }
    }

    pub(super) fn leading(self, leading: &'static [&'static str]) -> Self {
        Grammar { leading, ..self }
    }

    /// For the C family and SQL.
    pub(super) fn without_nested_functions(self) -> Self {
        Grammar { nested_functions: false, ..self }
    }

    pub(super) fn rescues(self, rescues: &'static [Rescue]) -> Self {
        Grammar { rescues, ..self }
    }

    pub(super) fn exact_names(self) -> Self {
        Grammar { exact_names: true, ..self }
    }

    pub(super) fn joins_clauses(self) -> Self {
        Grammar { joins_clauses: true, ..self }
    }

    /// A preprocessor's directives may stand anywhere; the parser reads all branches.
    pub(super) fn all_branches(self) -> Self {
        self.prepare(directives::without_directives).rescues(&[Rescue::Rewrite(directives::as_written)])
    }

    pub(super) fn prepare(self, prepare: Rewrite) -> Self {
        Grammar { prepare: Some(prepare), ..self }
    }

    pub(super) fn language(&self) -> tree_sitter::Language {
        self.language.into()
    }

    /// The compiled query; compiled at first use because the large grammars take milliseconds.
    pub(super) fn query(&self) -> Result<&Query, &QueryError> {
        self.query.get_or_init(|| Query::new(&self.language(), &self.whole_query_text())).as_ref()
    }

    /// The query for definitions, and what is needed to tell their wrappers and what leads them.
    fn whole_query_text(&self) -> String {
        let wrappers = self.wrappers.iter().map(|kind| format!("({kind} (_) @wrapped) @{WRAPPER}\n"));
        let leading = self.leading.iter().map(|kind| format!("(({kind}) @{LEADING} . (_) @led)\n"));
        let comments = self.comment_kinds().into_iter().map(|kind| format!("(({kind}) @{COMMENT} . (_) @led)\n"));
        std::iter::once(self.query_text.to_owned()).chain(wrappers).chain(leading).chain(comments).collect()
    }

    /// The kinds of comments that may stand between a definition and what leads it.
    fn comment_kinds(&self) -> BTreeSet<&'static str> {
        let language = self.language();
        let ids = (0..language.node_kind_count() as u16).filter(|&id| language.node_kind_is_named(id));
        let visible = ids.filter(|&id| language.node_kind_is_visible(id) && !self.leading.is_empty());
        visible.filter_map(|id| language.node_kind_for_id(id)).filter(|kind| kind.ends_with("comment")).collect()
    }
}

/// Captures of a node's wrapper, of the sibling that leads it and of a comment before it.
pub(super) const WRAPPER: &str = "wrapper";
pub(super) const LEADING: &str = "leading";
pub(super) const COMMENT: &str = "comment";
