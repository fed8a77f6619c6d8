//! The one table of languages: which files are source, which grammar reads them and how their functions are named.
//!
//! Adding a language means adding a row to [`LANGUAGES`], a query under `queries/` and a fixture under
//! `tests/fixtures/languages/`. Endings follow GitHub's linguist. Data (JSON, YAML) and prose (Markdown) are not source.
//! Knows nothing of repositories: which files are looked at, and which are generated or vendored, is decided elsewhere.

use std::sync::LazyLock;

use tree_sitter_language::LanguageFn;

use super::grammar::{Grammar, Rescue};
use super::rewrite;

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

impl std::fmt::Debug for Language {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name)
    }
}

/// Where a language's function candidates come from.
pub enum Functions {
    /// File candidates only.
    None,
    /// A tree-sitter grammar and a query for definitions.
    Grammar(Box<Grammar>),
    /// A host document (HTML, Vue, Svelte) whose `<script>` elements are JavaScript or TypeScript.
    Scripts,
    /// A Jupyter notebook: the code cells, in the notebook's language.
    Notebook,
}

impl Language {
    fn new(name: &'static str, extensions: &'static [&'static str], functions: Functions) -> Self {
        Language { name, extensions, file_names: &[], functions }
    }

    fn files_only(name: &'static str, extensions: &'static [&'static str]) -> Self {
        Language::new(name, extensions, Functions::None)
    }

    fn parsed(name: &'static str, extensions: &'static [&'static str], grammar: Grammar) -> Self {
        Language::new(name, extensions, Functions::Grammar(Box::new(grammar)))
    }

    fn file_names(self, file_names: &'static [&'static str]) -> Self {
        Language { file_names, ..self }
    }
}

/// Functions by a grammar of the feature `heavy-grammars`; without the feature, files only.
macro_rules! heavy {
    ($grammar:expr) => {{
        #[cfg(feature = "heavy-grammars")]
        let functions = Functions::Grammar(Box::new($grammar));
        #[cfg(not(feature = "heavy-grammars"))]
        let functions = Functions::None;
        functions
    }};
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
        Language::parsed(
            "C",
            &["c", "h", "idc"],
            Grammar::new(tree_sitter_c::LANGUAGE, include_str!("queries/c.scm"))
                .rescues(&[Rescue::Rewrite(rewrite::one_configuration)])
                .without_nested_functions(),
        ),
        Language::new(
            "C#",
            &["cs", "csx"],
            heavy!(Grammar::new(tree_sitter_c_sharp::LANGUAGE, include_str!("queries/c_sharp.scm"))),
        ),
        Language::parsed(
            "C++",
            &[
                "cpp", "cc", "cxx", "c++", "cppm", "ixx", "hpp", "hh", "hxx", "h++", "inl", "ipp", "tpp", "txx", "tcc",
                "ino",
            ],
            Grammar::new(tree_sitter_cpp::LANGUAGE, include_str!("queries/cpp.scm"))
                .separators(&["::"])
                .wrappers(&["template_declaration"])
                .prepare(rewrite::without_class_macros)
                .rescues(&[Rescue::Rewrite(rewrite::one_cpp_configuration)])
                .without_nested_functions(),
        ),
        Language::files_only("Cairo", &["cairo"]),
        Language::files_only("Clojure", &["clj", "cljs", "cljc", "cljx", "bb"]),
        Language::files_only("CMake", &["cmake"]).file_names(&["cmakelists.txt"]),
        Language::files_only("COBOL", &["cob", "cbl", "cobol", "cpy"]),
        Language::files_only("CoffeeScript", &["coffee", "litcoffee", "iced"]).file_names(&["cakefile"]),
        Language::files_only("ColdFusion", &["cfm", "cfml", "cfc"]),
        Language::files_only("Common Lisp", &["lisp", "lsp", "asd"]),
        Language::files_only("Crystal", &["cr"]),
        Language::files_only("CSS", &["css", "pcss", "postcss"]),
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
        Language::files_only("ERB", &["erb", "rhtml"]),
        Language::files_only("Erlang", &["erl", "hrl", "escript", "xrl", "yrl"]).file_names(&["rebar.config"]),
        Language::files_only("F#", &["fs", "fsi", "fsx"]),
        Language::files_only("Fish", &["fish"]),
        Language::files_only("Fortran", &["f", "f77", "f90", "f95", "f03", "f08", "for", "fpp", "ftn"]),
        Language::files_only("GDScript", &["gd"]),
        Language::files_only("GDShader", &["gdshader", "gdshaderinc"]),
        Language::files_only("Gleam", &["gleam"]),
        Language::files_only(
            "GLSL",
            &["glsl", "vert", "frag", "geom", "comp", "tesc", "tese", "vsh", "fsh", "glslv", "glslf"],
        ),
        Language::parsed("Go", &["go"], Grammar::new(tree_sitter_go::LANGUAGE, include_str!("queries/go.scm"))),
        Language::files_only("GraphQL", &["graphql", "gql", "graphqls"]),
        Language::files_only("Groovy", &["groovy", "gradle", "gvy", "gsh"]).file_names(&["jenkinsfile"]),
        Language::files_only("Hack", &["hack", "hhi"]),
        Language::files_only("Haml", &["haml"]),
        Language::files_only("Handlebars", &["handlebars", "hbs"]),
        Language::new(
            "Haskell",
            &["hs", "hs-boot", "hsc"],
            heavy!(
                Grammar::new(tree_sitter_haskell::LANGUAGE, include_str!("queries/haskell.scm"))
                    .exact_names()
                    .joins_clauses()
                    .all_branches()
            ),
        ),
        Language::files_only("Haxe", &["hx"]),
        Language::files_only("HCL", &["hcl", "tf", "tofu", "nomad"]),
        Language::files_only("HLSL", &["hlsl", "hlsli", "fx", "fxh"]),
        Language::new("HTML", &["html", "htm", "xhtml", "xht", "hta"], Functions::Scripts),
        Language::files_only("Idris", &["idr"]),
        // Of many languages; what is known by its content is that language's.
        Language::files_only("Include file", &["inc"]),
        Language::files_only("Janet", &["janet"]),
        Language::parsed(
            "Java",
            &["java", "jav"],
            Grammar::new(tree_sitter_java::LANGUAGE, include_str!("queries/java.scm")),
        ),
        Language::files_only("Java Server Pages", &["jsp", "jspx", "tag"]),
        Language::parsed(
            "JavaScript",
            &["js", "jsx", "mjs", "cjs", "es6", "es", "jsm", "gs", "bones", "jscad", "jsfl", "ssjs", "wxs"],
            Grammar::new(
                tree_sitter_javascript::LANGUAGE,
                concat!(include_str!("queries/ecmascript.scm"), include_str!("queries/javascript.scm")),
            )
            .wrappers(&["export_statement"])
            .leading(&["decorator"])
            // Flow's type annotations are near to TypeScript's.
            .rescues(&[Rescue::Language("TSX")]),
        )
        .file_names(&["jakefile"]),
        Language::files_only("Jinja", &["jinja", "jinja2", "j2"]),
        Language::files_only("jq", &["jq"]),
        Language::files_only("Jsonnet", &["jsonnet", "libsonnet"]),
        Language::new(
            "Julia",
            &["jl"],
            heavy!(Grammar::new(tree_sitter_julia::LANGUAGE, include_str!("queries/julia.scm")).exact_names()),
        ),
        Language::new("Jupyter Notebook", &["ipynb"], Functions::Notebook),
        Language::files_only("Just", &["just"]).file_names(&["justfile"]),
        Language::new(
            "Kotlin",
            &["kt", "kts", "ktm"],
            heavy!(
                Grammar::new(tree_sitter_kotlin_ng::LANGUAGE, include_str!("queries/kotlin.scm"))
                    .rescues(&[Rescue::Rewrite(rewrite::plainer_kotlin)])
            ),
        ),
        Language::files_only("Lean", &["lean"]),
        Language::files_only("Less", &["less"]),
        Language::files_only("Lex", &["l", "ll", "lex", "flex"]),
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
        // Its files share an ending with Objective-C, so they are known by content.
        Language::files_only("MATLAB", &[]),
        Language::files_only("Meson", &[]).file_names(&["meson.build", "meson_options.txt", "meson.options"]),
        Language::files_only("Metal", &["metal"]),
        Language::files_only("Mojo", &["mojo"]),
        Language::files_only("Move", &["move"]),
        Language::files_only("Mustache", &["mustache"]),
        Language::files_only("Nim", &["nim", "nims", "nimble"]),
        Language::files_only("Nix", &["nix"]),
        Language::files_only("Nunjucks", &["njk"]),
        Language::files_only("Nushell", &["nu"]),
        Language::new(
            "Objective-C",
            &["m"],
            heavy!(
                Grammar::new(tree_sitter_objc::LANGUAGE, include_str!("queries/objc.scm"))
                    .rescues(&[Rescue::Rewrite(rewrite::one_objc_configuration)])
                    .without_nested_functions()
            ),
        ),
        Language::new(
            "Objective-C++",
            &["mm"],
            heavy!(
                Grammar::new(tree_sitter_objc::LANGUAGE, include_str!("queries/objc.scm"))
                    .rescues(&[Rescue::Rewrite(rewrite::one_objc_configuration)])
                    .without_nested_functions()
            ),
        ),
        Language::new(
            "OCaml",
            &["ml"],
            heavy!(Grammar::new(tree_sitter_ocaml::LANGUAGE_OCAML, include_str!("queries/ocaml.scm")).exact_names()),
        ),
        // A signature declares functions that are defined elsewhere.
        Language::files_only("OCaml interface", &["mli"]),
        Language::files_only("OpenCL", &["cl"]),
        Language::files_only("Pascal", &["pas", "dpr", "lpr"]),
        Language::files_only("Perl", &["pl", "pm", "t", "psgi"]).file_names(&["cpanfile"]),
        Language::new(
            "PHP",
            &["php", "php3", "php4", "php5", "php7", "php8", "phtml", "phps", "phpt", "ctp"],
            heavy!(Grammar::new(tree_sitter_php::LANGUAGE_PHP, include_str!("queries/php.scm"))),
        ),
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
            &["py", "pyi", "pyw", "py3", "wsgi", "gyp", "gypi", "bzl"],
            Grammar::new(tree_sitter_python::LANGUAGE, include_str!("queries/python.scm"))
                .wrappers(&["decorated_definition"]),
        )
        .file_names(&["sconstruct", "sconscript", "wscript"]),
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
            "Ruby",
            &["rb", "rake", "gemspec", "ru", "rbw", "rbx", "podspec", "builder", "jbuilder", "rabl", "thor", "ruby"],
            Grammar::new(tree_sitter_ruby::LANGUAGE, include_str!("queries/ruby.scm")).separators(&["::"]),
        )
        .file_names(&[
            "appraisals",
            "berksfile",
            "brewfile",
            "buildfile",
            "capfile",
            "dangerfile",
            "deliverfile",
            "fastfile",
            "gemfile",
            "guardfile",
            "podfile",
            "puppetfile",
            "rakefile",
            "snapfile",
            "thorfile",
            "vagrantfile",
        ]),
        Language::parsed(
            "Rust",
            &["rs"],
            Grammar::new(tree_sitter_rust::LANGUAGE, include_str!("queries/rust.scm"))
                .exact_names()
                .leading(&["attribute_item"]),
        ),
        Language::files_only("Sass", &["sass"]),
        Language::new(
            "Scala",
            &["scala", "sc", "sbt"],
            heavy!(Grammar::new(tree_sitter_scala::LANGUAGE, include_str!("queries/scala.scm")).exact_names()),
        ),
        Language::files_only("Scheme", &["scm", "ss", "sld", "sls"]),
        Language::files_only("SCSS", &["scss"]),
        Language::files_only("Slim", &["slim"]),
        Language::files_only("Smarty", &["tpl"]),
        Language::files_only("Solidity", &["sol"]),
        Language::new(
            "SQL",
            &["sql", "ddl", "pgsql", "psql", "tsql"],
            heavy!(
                Grammar::new(tree_sitter_sequel::LANGUAGE, include_str!("queries/sql.scm"))
                    .exact_names()
                    .without_nested_functions()
            ),
        ),
        Language::files_only("Standard ML", &["sml"]),
        Language::files_only("Starlark", &["star", "bazel"]).file_names(&["build", "workspace"]),
        Language::files_only("Stylus", &["styl"]),
        Language::new("Svelte", &["svelte"], Functions::Scripts),
        Language::new(
            "Swift",
            &["swift"],
            heavy!(
                Grammar::new(tree_sitter_swift::LANGUAGE, include_str!("queries/swift.scm"))
                    .exact_names()
                    .all_branches()
            ),
        ),
        Language::files_only("SystemVerilog", &["sv", "svh"]),
        Language::files_only("Tcl", &["tcl", "tk"]),
        Language::files_only("TeX", &["tex", "sty", "ltx", "dtx"]),
        Language::files_only("Thrift", &["thrift"]),
        Language::parsed("TSX", &["tsx"], typescript(tree_sitter_typescript::LANGUAGE_TSX)),
        Language::files_only("Twig", &["twig"]),
        Language::parsed("TypeScript", &["ts", "mts", "cts"], typescript(tree_sitter_typescript::LANGUAGE_TYPESCRIPT)),
        Language::files_only("V", &["v", "vv"]),
        Language::files_only("Vala", &["vala", "vapi"]),
        Language::files_only("VBScript", &["vbs"]),
        Language::files_only("Velocity", &["vm", "vtl"]),
        Language::files_only("Verilog", &["vh"]),
        Language::files_only("VHDL", &["vhd", "vhdl"]),
        Language::files_only("Vim script", &["vim"]).file_names(&[".vimrc", "_vimrc", ".nvimrc", "vimrc"]),
        Language::files_only("Visual Basic", &["vb"]),
        Language::new("Vue", &["vue"], Functions::Scripts),
        Language::files_only("Vyper", &["vy"]),
        Language::files_only("WebAssembly", &["wat", "wast"]),
        Language::files_only("WGSL", &["wgsl"]),
        Language::files_only("XML", &["xml", "xsl", "xslt", "xsd", "xaml", "axaml", "xul"]),
        Language::files_only("XQuery", &["xq", "xquery", "xqm"]),
        Language::files_only("Yacc", &["y", "yy", "yacc", "ypp"]),
        Language::parsed(
            "Zig",
            &["zig"],
            Grammar::new(tree_sitter_zig::LANGUAGE, include_str!("queries/zig.scm")).exact_names(),
        ),
    ]
});

fn typescript(language: LanguageFn) -> Grammar {
    Grammar::new(language, concat!(include_str!("queries/ecmascript.scm"), include_str!("queries/typescript.scm")))
        .wrappers(&["export_statement"])
        .leading(&["decorator"])
}

/// The row with this name.
pub fn by_name(name: &str) -> Option<&'static Language> {
    LANGUAGES.iter().find(|language| language.name == name)
}

/// The language of a path by its file name and ending; `None` when it is not source whatever it holds.
pub fn of_path(path: &str) -> Option<&'static Language> {
    let file_name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    let extension = extension(&file_name);
    let find = |is_it: &dyn Fn(&Language) -> bool| LANGUAGES.iter().find(|language| is_it(language));
    find(&|language| language.file_names.contains(&file_name.as_str()))
        .or_else(|| find(&|language| extension.is_some_and(|it| language.extensions.contains(&it))))
        .or_else(|| {
            find(&|language| language.file_names.iter().any(|it| it.ends_with('.') && file_name.starts_with(it)))
        })
}

/// The language of a file by its path and, where an ending belongs to several languages, its content.
pub fn detect(path: &str, content: &str) -> Option<&'static Language> {
    let file_name = path.to_lowercase();
    match extension(&file_name) {
        Some("h") => by_name(header_language(content)),
        Some("m") if !content.lines().any(is_objective_c) && content.lines().any(is_matlab) => by_name("MATLAB"),
        // Translations of Qt.
        Some("ts") if content.trim_start().starts_with('<') && content.contains("<!DOCTYPE TS") => by_name("XML"),
        Some("inc") if content.trim_start().starts_with("<?") || content.contains("<?php") => by_name("PHP"),
        Some("inc") if content.lines().any(|line| is_include(line) || is_cpp(line)) => {
            by_name(header_language(content))
        }
        _ => of_path(path),
    }
}

fn extension(file_name: &str) -> Option<&str> {
    file_name.rsplit_once('.').map(|(_, extension)| extension)
}

/// Whose header a `.h` file is.
fn header_language(content: &str) -> &'static str {
    if content.lines().any(|line| is_objective_c(line) && !is_include(line)) {
        "Objective-C"
    } else if content.lines().any(is_cpp) {
        "C++"
    } else {
        "C"
    }
}

fn is_include(line: &str) -> bool {
    line.trim_start().strip_prefix('#').is_some_and(|directive| directive.trim_start().starts_with("include"))
}

fn is_objective_c(line: &str) -> bool {
    const MARKS: [&str; 9] = [
        "@interface",
        "@implementation",
        "@protocol",
        "@class",
        "@property",
        "@import",
        "@end",
        "@optional",
        "#import",
    ];
    is_include(line) || MARKS.iter().any(|mark| line.trim_start().starts_with(mark))
}

fn is_matlab(line: &str) -> bool {
    let line = line.trim_start();
    ["%", "function ", "classdef ", "end"].iter().any(|mark| line.starts_with(mark))
}

/// Headers of the C++ standard library that are seen often.
const CPP_HEADERS: [&str; 16] = [
    "algorithm",
    "array",
    "atomic",
    "cassert",
    "chrono",
    "cstddef",
    "cstdint",
    "functional",
    "iostream",
    "map",
    "memory",
    "mutex",
    "string",
    "string_view",
    "utility",
    "vector",
];

/// Whether a line is C++ and not C.
fn is_cpp(line: &str) -> bool {
    let line = line.trim();
    if is_include(line) {
        let header = line.split(['<', '>']).nth(1);
        return header.is_some_and(|header| CPP_HEADERS.contains(&header));
    }
    let mut words = line.split(|it: char| !(it.is_alphanumeric() || it == '_')).filter(|word| !word.is_empty());
    match words.next() {
        Some("template") => line.split_once("template").is_some_and(|(_, rest)| rest.trim_start().starts_with('<')),
        Some("namespace" | "class") => line.ends_with(['{', ';', ':']) || words.count() == 1,
        Some("using") => line.ends_with(';'),
        Some("public" | "protected" | "private") => line.ends_with(':'),
        Some("virtual" | "constexpr" | "explicit") => line.contains('('),
        Some(_) => !line.starts_with(['*', '/']) && line.contains("std::"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_compiles_against_its_grammar() {
        for language in LANGUAGES.iter() {
            if let Functions::Grammar(grammar) = &language.functions
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

    #[track_caller]
    fn check(path: &str, content: &str, expected: Option<&str>) {
        assert_eq!(detect(path, content).map(|language| language.name), expected, "{path}: {content}");
    }

    #[test]
    fn an_ending_decides_whatever_its_case_and_folder() {
        check("src/a.py", "", Some("Python"));
        check("SRC/A.CPP", "", Some("C++"));
        check("Rakefile", "", Some("Ruby"));
        check("a/b.d.ts", "", Some("TypeScript"));
        check("README.md", "", None);
        check("data.json", "", None);
        check("a.py/b", "", None);
        check("py", "", None);
    }

    #[test]
    fn a_header_belongs_to_the_language_it_is_written_in() {
        check("a.h", "int f(void);\n", Some("C"));
        check("a.h", "/*\n class of its own\n * std::move is not used */\nint f(void);\n", Some("C"));
        check("a.h", "#include <vector>\n", Some("C++"));
        check("a.h", "namespace a {\n}\n", Some("C++"));
        check("a.h", "class A\n{\n};\n", Some("C++"));
        check("a.h", "template <typename T> T f(T);\n", Some("C++"));
        check("a.h", "inline std::string f();\n", Some("C++"));
        check("a.h", "#import <UIKit/UIKit.h>\n@interface A : NSObject\n@end\n", Some("Objective-C"));
    }

    #[test]
    fn an_m_file_is_objective_c_unless_it_is_matlab() {
        check("a.m", "#import \"A.h\"\n@implementation A\n@end\n", Some("Objective-C"));
        check("a.m", "#include <stdio.h>\nint main(void) { return 0; }\n", Some("Objective-C"));
        check("a.m", "% adds\nfunction c = add(a, b)\nc = a + b;\nend\n", Some("MATLAB"));
    }

    #[test]
    fn other_ambiguous_endings_are_decided_by_content() {
        check("de.ts", "<?xml version=\"1.0\"?>\n<!DOCTYPE TS>\n<TS/>", Some("XML"));
        check("a.inc", "<?php\n", Some("PHP"));
        check("a.inc", "<p>\n<?php f();\n", Some("PHP"));
        check("a.inc", "#include \"a.h\"\nint f(void);\n", Some("C"));
        check("a.inc", "template <typename T> T f(T);\n", Some("C++"));
        check("a.inc", "MOV A, B\n", Some("Include file"));
    }
}
