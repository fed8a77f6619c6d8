//! Which names are names of files.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::evidence::confusion::skeleton;

/// Endings of sources, settings, documents and pictures that repositories hold.
const EXTENSIONS: &str = "
    adb ads ahk as asm astro awk bash bat bazel bib bzl c cc cfg cjs cl clj cljc cljs cmake cmd coffee conf config cpp cr cs cshtml csproj css
    csv cts cu cuh cxx d dart dockerfile dts ejs el elm env erb erl ex exs f f90 f95 for fs fsx gd gemspec glsl go gql gradle graphql groovy h
    haml handlebars hbs hcl heex hh hlsl hpp hrl hs html htm http hx hxx ini ino ipynb jade jar java jl js json json5 jsonc jsonl jsp jsx kt kts
    less lisp liquid lock log lua m mako md mdx mjs mk ml mli mm mts mustache nim nix odin pas patch php phtml pl plist pm po pod properties
    proto ps1 psd1 psm1 pug purs pwn py pyi pyx qml r rake rb rego resx rkt rmd rs rst ru s sass sbt scala scm scss sh slim sln sol sql storyboard
    styl svelte svg swift tcl templ tex tf tfvars thrift toml tpl ts tsx twig txt v vala vb vbproj vert vhd vhdl vim vue wasm wat wgsl xaml xhtml xib
    xml xsd xsl xslt yaml yml zig zsh png jpg jpeg gif webp ico ttf woff woff2 pdf map snap";

/// Names of files that have no such ending.
const FILE_NAMES: &str = "
    dockerfile makefile gnumakefile cmakelists.txt gemfile rakefile procfile vagrantfile jenkinsfile justfile brewfile podfile
    .gitignore .dockerignore .env .eslintrc .prettierrc .babelrc .editorconfig .npmrc .nvmrc .gitattributes go.mod go.sum";

/// Products whose names end like files.
const PRODUCTS: &str = "
    node.js vue.js next.js nuxt.js react.js angular.js three.js d3.js express.js backbone.js ember.js chart.js alpine.js socket.io
    asp.net ml.net vb.net p5.js moment.js require.js electron.js discord.js docs.rs crates.io";

/// Endings as OCR may have read them: `htm1`, `ym1`.
static READ_EXTENSIONS: LazyLock<HashSet<String>> =
    LazyLock::new(|| EXTENSIONS.split_whitespace().map(skeleton).collect());
static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| FILE_NAMES.split_whitespace().collect());
static PRODUCT_NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| PRODUCTS.split_whitespace().collect());

/// Whether the last component of a path is the name of a file.
pub(super) fn is_file(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path).to_lowercase();
    if NAMES.contains(name.as_str()) {
        return true;
    }
    let is_bare = name.len() == path.len();
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        let is_named = stem.chars().any(|it| it.is_alphabetic() || it == '*');
        // A number in front of an ending is a version or an amount.
        is_named && is_extension(extension) && !(is_bare && PRODUCT_NAMES.contains(name.as_str()))
    })
}

/// Whether a name's ending is a source's, as far as OCR can tell.
pub(super) fn is_extension(extension: &str) -> bool {
    extension.starts_with(|it: char| it.is_alphabetic()) && READ_EXTENSIONS.contains(&skeleton(extension))
}
