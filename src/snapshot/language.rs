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
    /// Whole file names that belong to the language whatever their ending, lower case. One that ends with a dot stands
    /// for all names that begin with it (`Dockerfile.dev`) and have no ending of another language.
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
    /// A name is taken as it is written: `<`, `>` and quotes may be part of it (`foldl'`, `<$>`, `names<-`).
    pub exact_names: bool,
    /// Neighbouring definitions of one name are the clauses of one function.
    pub joins_clauses: bool,
}

impl Grammar {
    fn new(language: LanguageFn, query_text: &'static str) -> Self {
        Grammar {
            language,
            query_text,
            query: OnceLock::new(),
            separators: &[],
            wrappers: &[],
            leading: &[],
            exact_names: false,
            joins_clauses: false,
        }
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

    fn exact_names(self) -> Self {
        Grammar { exact_names: true, ..self }
    }

    fn joins_clauses(self) -> Self {
        Grammar { joins_clauses: true, ..self }
    }

    pub(crate) fn language(&self) -> tree_sitter::Language {
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

    fn file_names(self, file_names: &'static [&'static str]) -> Self {
        Language { file_names, ..self }
    }

    fn parsed(name: &'static str, extensions: &'static [&'static str], grammar: Grammar) -> Self {
        Language { name, extensions, file_names: &[], functions: Functions::Grammar(grammar) }
    }
}

/// Every language, in alphabetical order.
pub static LANGUAGES: LazyLock<Vec<Language>> = LazyLock::new(|| {
    vec![
        Language::files_only("Ada", &["ada", "adb", "ads"]),
        Language::files_only("Agda", &["agda"]),
        Language::files_only("Apex", &["apex", "cls", "trigger"]),
        Language::files_only("AppleScript", &["applescript", "scpt"]),
        Language::files_only("Assembly", &["asm", "s", "nasm"]),
        Language::files_only("Astro", &["astro"]),
        Language::files_only("AutoHotkey", &["ahk"]),
        Language::files_only("AutoIt", &["au3"]),
        Language::files_only("Awk", &["awk", "gawk"]),
        Language::parsed(
            "Bash",
            &["sh", "bash", "zsh", "ksh", "bats", "ebuild", "eclass"],
            Grammar::new(tree_sitter_bash::LANGUAGE, include_str!("queries/bash.scm")).exact_names(),
        )
        .file_names(&[
            ".bashrc",
            ".bash_aliases",
            ".bash_login",
            ".bash_logout",
            ".bash_profile",
            ".envrc",
            ".profile",
            ".zlogin",
            ".zlogout",
            ".zprofile",
            ".zshenv",
            ".zshrc",
            "apkbuild",
            "pkgbuild",
        ]),
        Language::files_only("BASIC", &["bas", "bi"]),
        Language::files_only("Batch", &["bat", "cmd"]),
        Language::files_only("Bicep", &["bicep"]),
        Language::files_only("Cairo", &["cairo"]),
        Language::files_only("Clojure", &["clj", "cljs", "cljc", "cljx", "bb"]),
        Language::files_only("CMake", &["cmake"]).file_names(&["cmakelists.txt"]),
        Language::files_only("COBOL", &["cob", "cbl", "cobol", "cpy"]),
        Language::files_only("CoffeeScript", &["coffee", "litcoffee", "iced"]).file_names(&["cakefile"]),
        Language::files_only("ColdFusion", &["cfm", "cfml", "cfc"]),
        Language::files_only("Common Lisp", &["lisp", "lsp", "asd"]),
        Language::files_only("Crystal", &["cr"]),
        Language::files_only("CSS", &["css"]),
        Language::files_only("CUDA", &["cu", "cuh"]),
        Language::files_only("Cython", &["pyx", "pxd", "pxi"]),
        Language::files_only("D", &["d", "di"]),
        Language::parsed(
            "Dart",
            &["dart"],
            Grammar::new(tree_sitter_dart::LANGUAGE, include_str!("queries/dart.scm")).exact_names(),
        ),
        Language::files_only("Dockerfile", &["dockerfile", "containerfile"]).file_names(&[
            "dockerfile",
            "containerfile",
            "dockerfile.",
            "containerfile.",
        ]),
        Language::files_only("EJS", &["ejs"]),
        Language::parsed(
            "Elixir",
            &["ex", "exs"],
            Grammar::new(tree_sitter_elixir::LANGUAGE, include_str!("queries/elixir.scm")).exact_names(),
        ),
        Language::files_only("Elm", &["elm"]),
        Language::files_only("Emacs Lisp", &["el"]).file_names(&[".emacs"]),
        Language::files_only("Erlang", &["erl", "hrl", "escript", "xrl", "yrl"]).file_names(&["rebar.config"]),
        Language::files_only("F#", &["fs", "fsi", "fsx"]),
        Language::files_only("Fish", &["fish"]),
        Language::files_only("Fortran", &["f", "f77", "f90", "f95", "f03", "f08", "for", "fpp", "ftn"]),
        Language::files_only("GDScript", &["gd"]),
        Language::files_only("GDShader", &["gdshader", "gdshaderinc"]),
        Language::files_only("Gleam", &["gleam"]),
        Language::files_only("GraphQL", &["graphql", "gql", "graphqls"]),
        Language::files_only("Groovy", &["groovy", "gradle", "gvy", "gsh"]).file_names(&["jenkinsfile"]),
        Language::files_only("Hack", &["hack", "hhi"]),
        Language::files_only("Haml", &["haml"]),
        Language::files_only("Handlebars", &["handlebars", "hbs"]),
        Language::parsed(
            "Haskell",
            &["hs", "hs-boot", "hsc"],
            Grammar::new(tree_sitter_haskell::LANGUAGE, include_str!("queries/haskell.scm"))
                .exact_names()
                .joins_clauses(),
        ),
        Language::files_only("Haxe", &["hx"]),
        Language::files_only("HCL", &["hcl", "tf", "tofu", "nomad"]),
        Language::files_only("HLSL", &["hlsl", "hlsli", "fx", "fxh"]),
        Language::files_only("Idris", &["idr"]),
        Language::files_only("Janet", &["janet"]),
        Language::parsed("Java", &["java"], Grammar::new(tree_sitter_java::LANGUAGE, include_str!("queries/java.scm"))),
        Language::files_only("Jsonnet", &["jsonnet", "libsonnet"]),
        Language::parsed(
            "Julia",
            &["jl"],
            Grammar::new(tree_sitter_julia::LANGUAGE, include_str!("queries/julia.scm")).exact_names(),
        ),
        Language::files_only("Just", &["just"]).file_names(&["justfile"]),
        Language::files_only("Lean", &["lean"]),
        Language::files_only("Liquid", &["liquid"]),
        Language::parsed(
            "Lua",
            &["lua", "rockspec", "luau"],
            Grammar::new(tree_sitter_lua::LANGUAGE, include_str!("queries/lua.scm"))
                .exact_names()
                .separators(&[".", ":"])
                .wrappers(&["variable_declaration"]),
        ),
        Language::files_only("Makefile", &["mk", "mak", "make"]).file_names(&[
            "makefile",
            "gnumakefile",
            "makefile.am",
            "makefile.in",
            "kbuild",
            "makefile.",
        ]),
        Language::files_only("Meson", &[]).file_names(&["meson.build", "meson_options.txt", "meson.options"]),
        Language::files_only("Metal", &["metal"]),
        Language::files_only("Mojo", &["mojo"]),
        Language::files_only("Move", &["move"]),
        Language::files_only("Mustache", &["mustache"]),
        Language::files_only("Nim", &["nim", "nims", "nimble"]),
        Language::files_only("Nix", &["nix"]),
        Language::files_only("Nunjucks", &["njk"]),
        Language::files_only("Nushell", &["nu"]),
        Language::parsed(
            "OCaml",
            &["ml"],
            Grammar::new(tree_sitter_ocaml::LANGUAGE_OCAML, include_str!("queries/ocaml.scm")).exact_names(),
        ),
        // A signature declares functions that are defined elsewhere.
        Language::files_only("OCaml interface", &["mli"]),
        Language::files_only("OpenCL", &["cl"]),
        Language::files_only("Pascal", &["pas", "dpr", "lpr"]),
        Language::files_only("Perl", &["pl", "pm", "t", "psgi"]).file_names(&["cpanfile"]),
        Language::files_only("PL/SQL", &["pkb", "pks", "plsql", "pls"]),
        Language::files_only("PowerShell", &["ps1", "psm1"]),
        Language::files_only("Prisma", &["prisma"]),
        Language::files_only("Prolog", &["prolog"]),
        Language::files_only("Protocol Buffers", &["proto"]),
        Language::files_only("Pug", &["pug", "jade"]),
        Language::files_only("Puppet", &["pp"]),
        Language::files_only("PureScript", &["purs"]),
        Language::parsed(
            "Python",
            &["py", "pyi", "pyw"],
            Grammar::new(tree_sitter_python::LANGUAGE, include_str!("queries/python.scm"))
                .wrappers(&["decorated_definition"]),
        ),
        Language::files_only("QML", &["qml", "qbs"]),
        Language::parsed(
            "R",
            &["r"],
            Grammar::new(tree_sitter_r::LANGUAGE, include_str!("queries/r.scm")).exact_names().separators(&["$", "@"]),
        )
        .file_names(&[".rprofile"]),
        Language::files_only("Racket", &["rkt"]),
        Language::files_only("Raku", &["raku", "rakumod", "p6", "pm6"]),
        Language::files_only("Razor", &["cshtml", "razor"]),
        Language::files_only("Reason", &["re", "rei"]),
        Language::files_only("ReScript", &["res", "resi"]),
        Language::parsed(
            "Rust",
            &["rs"],
            Grammar::new(tree_sitter_rust::LANGUAGE, include_str!("queries/rust.scm"))
                .exact_names()
                .leading(&["attribute_item"]),
        ),
        Language::parsed(
            "Scala",
            &["scala", "sc", "sbt"],
            Grammar::new(tree_sitter_scala::LANGUAGE, include_str!("queries/scala.scm")).exact_names(),
        ),
        Language::files_only("Scheme", &["scm", "ss", "sld", "sls"]),
        Language::files_only("SCSS", &["scss", "sass"]),
        Language::files_only("Slim", &["slim"]),
        Language::files_only("Smarty", &["tpl"]),
        Language::files_only("Solidity", &["sol"]),
        Language::parsed(
            "SQL",
            &["sql", "ddl", "pgsql", "psql", "tsql"],
            Grammar::new(tree_sitter_sequel::LANGUAGE, include_str!("queries/sql.scm")).exact_names(),
        ),
        Language::files_only("Standard ML", &["sml"]),
        Language::files_only("Starlark", &["star", "bazel"]).file_names(&["build", "workspace"]),
        Language::parsed(
            "Swift",
            &["swift"],
            Grammar::new(tree_sitter_swift::LANGUAGE, include_str!("queries/swift.scm")).exact_names(),
        ),
        Language::files_only("SystemVerilog", &["sv", "svh"]),
        Language::files_only("Tcl", &["tcl", "tk"]),
        Language::files_only("Thrift", &["thrift"]),
        Language::files_only("Twig", &["twig"]),
        Language::files_only("V", &["v", "vv"]),
        Language::files_only("Vala", &["vala", "vapi"]),
        Language::files_only("VBScript", &["vbs"]),
        Language::files_only("Velocity", &["vm", "vtl"]),
        Language::files_only("Verilog", &["vh"]),
        Language::files_only("VHDL", &["vhd", "vhdl"]),
        Language::files_only("Vim script", &["vim"]).file_names(&[".vimrc", "_vimrc", ".nvimrc", "vimrc"]),
        Language::files_only("Visual Basic", &["vb"]),
        Language::files_only("Vyper", &["vy"]),
        Language::files_only("WebAssembly", &["wat", "wast"]),
        Language::files_only("WGSL", &["wgsl"]),
        Language::files_only("XQuery", &["xq", "xquery", "xqm"]),
        Language::parsed(
            "Zig",
            &["zig"],
            Grammar::new(tree_sitter_zig::LANGUAGE, include_str!("queries/zig.scm")).exact_names(),
        ),
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
    let find = |is_it: &dyn Fn(&Language) -> bool| LANGUAGES.iter().find(|language| is_it(language));
    find(&|language| language.file_names.contains(&file_name.as_str()))
        .or_else(|| find(&|language| extension.is_some_and(|it| language.extensions.contains(&it))))
        .or_else(|| {
            find(&|language| language.file_names.iter().any(|it| it.ends_with('.') && file_name.starts_with(it)))
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
            let endings = language.extensions.iter().map(|ending| format!(".{ending}"));
            for key in endings.chain(language.file_names.iter().map(|name| name.to_string())) {
                assert_eq!(key, key.to_lowercase(), "{}: keys are lower case", language.name);
                if let Some(other) = seen.insert(key.clone(), language.name) {
                    panic!("`{key}` belongs to {other} and {}", language.name);
                }
            }
        }
    }

    #[test]
    fn fixtures_give_exactly_the_expected_functions() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/languages");
        let mut checked = 0;
        for entry in std::fs::read_dir(&folder).expect("the folder of fixtures is there") {
            let path = entry.expect("the folder of fixtures can be read").path();
            if path.extension().is_some_and(|it| it == "expected") {
                check_fixture(&path);
                checked += 1;
            }
        }
        assert!(checked > 0, "no fixture in {}", folder.display());
    }

    /// Compares `<file>.expected` (lines `start-end qualified.name`) with the functions that are found in `<file>`.
    #[track_caller]
    fn check_fixture(expected: &std::path::Path) {
        let source = expected.with_extension("");
        let language = of_path(&source.to_string_lossy()).expect("a fixture's ending belongs to a language");
        let text = std::fs::read_to_string(&source).expect("a fixture is UTF-8");
        let functions = match &language.functions {
            Functions::Grammar(grammar) => super::super::parse::functions(language.name, grammar, &text, &[]),
            _ => Ok(Vec::new()),
        };
        let lines = crate::types::Source::new("fixture", language.name, text);
        let found: String = functions
            .unwrap_or_else(|error| panic!("{}: {error}", source.display()))
            .into_iter()
            .map(|function| (lines.lines_of(function.range), function.name))
            .map(|(lines, name)| format!("{}-{} {name}\n", lines.start, lines.end))
            .collect();
        let expected = std::fs::read_to_string(expected).expect("the list of a fixture is UTF-8");
        assert_eq!(found, expected, "{}", source.display());
    }

    #[track_caller]
    fn check_path(path: &str, expected: Option<&str>) {
        assert_eq!(of_path(path).map(|language| language.name), expected, "{path}");
    }

    #[test]
    fn whole_names_and_their_beginnings_decide_before_and_after_endings() {
        check_path("deploy/Dockerfile", Some("Dockerfile"));
        check_path("deploy/Dockerfile.cuda", Some("Dockerfile"));
        check_path("Dockerfile.py", Some("Python"));
        check_path("CMakeLists.txt", Some("CMake"));
        check_path("notes.txt", None);
        check_path("home/.bashrc", Some("Bash"));
        check_path("src/Makefile.am", Some("Makefile"));
        check_path("makefiles/readme", None);
    }

    #[test]
    fn rows_are_in_alphabetical_order() {
        assert!(LANGUAGES.is_sorted_by_key(|language| language.name.to_lowercase()));
    }
}
