//! How each language writes a stack frame, and each tool a place in a file.
//!
//! Written for what OCR leaves: spaces may be lost or added around marks, `1` may be `l`, quotes are all `'` or `"` (see
//! [`super::lines::clean`]). A number is `NUM` in the patterns, the word `line` is `LINE`.

use std::sync::LazyLock;

use regex::Regex;

use super::pattern;

/// What a match says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A frame; its callers follow.
    Call,
    /// A frame; its callers stand before it.
    CallLast,
    /// A place in a file, which need not be of a stack.
    Place,
}

/// A way to write a frame, in groups `f` (function), `p` (path) and `l` (line), of which `f` or `p` is there.
pub(super) struct Grammar {
    pub style: Style,
    pub pattern: Regex,
}

use Style::{Call, CallLast, Place};

/// The first that fits a line is taken: those that say more come before those that fit more.
const PATTERNS: &[(Style, &str)] = &[
    // Python; its notebooks; its test runner.
    (
        CallLast,
        r#"\bF[il1I|]{2}e\s*["'](?P<p>[^"'|*?]+?)["']?\s*[,.]?\s*LINE\s*(?P<l>NUM)(?:\s*[,.]?\s*in\s*(?P<f>[\w.<>]+))?"#,
    ),
    (
        CallLast,
        r#"\bF[il1I|]{2}e\s*(?P<p>[^\s"',|*?]+)["']?\s*[,.]\s*LINE\s*(?P<l>NUM)(?:\s*[,.]?\s*in\s*(?P<f>[\w.<>]+))?"#,
    ),
    (CallLast, r#"\bF[il1I|]{2}e\s+(?P<p>[^\s"',|*?]+\.py\w?):(?P<l>NUM)(?:\s*,\s*in\s*(?P<f>[\w.<>]+))?"#),
    (CallLast, r#"(?P<p>[^\s"',|*?:]+\.py\w?)\s*:\s*(?P<l>NUM)\s*:\s*in\s*(?P<f>[\w.<>]+)"#),
    (CallLast, r#"^\s*(?P<p>[~/][^\s"',|*?:]+\.py\w?)\s+in\s+(?P<f>[\w.<>]+)\s*\("#),
    // JVM.
    (
        Call,
        r"(?:\bat\s*)?(?P<f>[\w$.<>/@-]+\.[\w$<>-]+)\s*\(\s*(?P<p>[\w$-]+\.(?:java|kts?|scala|groovy|clj))\s*[:;]\s*(?P<l>NUM)\s*\)?",
    ),
    (
        Call,
        r"\bat\s*(?P<f>[\w$.<>/@-]+\.[\w$<>-]+)\s*\(\s*(?:Nat[il1I|]ve\s*Method|Unknown\s*Source|<unknown>|\w+\.(?:java|kt|scala))\s*\)",
    ),
    // .NET and its shell.
    (Call, r"\bat\s*(?P<f>[\w.'<>+\[\],|$]+)\s*\([^()]*\)\s*in\s*(?P<p>\S.*?)\s*:\s*LINE\s*(?P<l>NUM)"),
    (Call, r"^\s*At\s*(?P<p>\S.*?)\s*:\s*(?P<l>NUM)\s*char\s*:\s*NUM"),
    (Call, r"\bat\s+(?P<f>[\w<>.-]+)\s*,\s*(?P<p>[^,]+?)\s*:\s*LINE\s*(?P<l>NUM)"),
    // PHP: a trace of the engine, one of Xdebug, a message's end.
    (Call, r"#\s?(?:NUM\s+|\d{1,3})(?P<p>[^()]+?\.\w+)\s*\(\s*(?P<l>NUM)\s*\)\s*:\s*(?P<f>[\w\\>:{}$-]+)"),
    (Call, r"^\W*(?:PHP\s+)?NUM\.\s*(?P<f>[\w\\>:{}$-]+)\s*\(.*\)\s*(?P<p>\S+\.php)\s*:\s*(?P<l>NUM)"),
    (Call, r"\bin\s*(?P<p>(?:[A-Z]:)?[^\s:]+\.\w+)(?:\(NUM\))?\s*on\s*LINE\s*(?P<l>NUM)"),
    // Dart.
    (
        Call,
        r"(?:#\s?NUM\s+)?(?P<f>[\w$.<> ]+?)\s*\(\s*(?P<p>(?:package|dart|file|org-dartlang-app):[^()]+?)\s*:\s*(?P<l>NUM)(?::NUM)?\s*\)",
    ),
    (Call, r"(?P<p>(?:package|dart|packages)[:/]\S+\.dart)\s+(?P<l>NUM):NUM\s+(?P<f>[\w$.<>\[\]]+)"),
    // React's component stacks.
    (Call, r"\bin\s+(?P<f>[A-Z][\w.$]*)\s*\(\s*at\s+(?P<p>[^():\s]+)\s*:\s*(?P<l>NUM)\s*\)"),
    // V8, with and without a function. The name of a layer of a bundle may stand in parentheses in a path.
    (
        Call,
        r"\bat\s*(?:async\s+)?(?:new\s+)?(?P<f>[^()\s]+)\s*(?:\[as\s+[\w.$]+\]\s*)?\(\s*(?P<p>(?:[^()]|/\([\w.-]+\)/)+?)\s*:\s*(?P<l>NUM)(?:\s*:\s*NUM)?\s*(?:\)|$)",
    ),
    // Unity; Perl; the overlay of Next.js, whose function stands on the line before.
    (Call, r"(?P<f>[\w.<>'+\[\],:]+)\s*\([^()]*\)\s*\(\s*at\s+(?P<p>[^()]+?)\s*:\s*(?P<l>NUM)\s*\)"),
    (Call, r"\bat\s+(?P<p>\S+\.p[lm])\s+LINE\s*(?P<l>NUM)"),
    (Call, r"^\s*(?P<p>[^\s()]+\.[cm]?[jt]sx?)\s*\(\s*(?P<l>NUM)\s*:\s*NUM\s*\)\s*$"),
    // Debuggers of C, C++, Swift and Rust; sanitizers.
    (
        Call,
        r"#\s?NUM\s*:?\s+(?:0[xX][[:alnum:]]+\s+)?(?:in\s+)?(?P<f>[^()\s][^()]*?)\s*\(.*\)\s*(?:const\s+)?at\s+(?P<p>[^\s:]+(?:\.\w+)?)\s*:\s*(?P<l>NUM)",
    ),
    (
        Call,
        r"#\s?NUM\s*:?\s+0[xX][[:alnum:]]+\s+in\s+(?P<f>[^()\s][^\s(]*)\s*(?:\(.*\))?[^/\s(]*\s*(?P<p>(?:[A-Z]:)?[^\s:()]+)\s*:\s*(?P<l>NUM)(?::NUM)?",
    ),
    (Call, r"#\s?NUM\s*:?\s+(?:0[xX][[:alnum:]]+\s+in\s+)(?P<f>[^()\s][^\s(]*)"),
    (Call, r"^\s*NUM\s+\S.*?\s0[xX][[:xdigit:]]+\s+(?P<f>\S.*?)\s*\+\s*NUM(?:\s*\((?P<p>[^():\s]+):(?P<l>NUM)\))?"),
    // Ruby and Crystal; Lua; Elixir and Erlang.
    (Call, r"(?P<p>(?:[A-Z]:)?[^\s:'()]+)\s*:\s*(?P<l>NUM)\s*:\s*in\s*(?:'(?P<f>[^']+)'?|<\w+>)"),
    (
        Call,
        r"(?P<p>[^\s:'()]+\.lua\w?)\s*:\s*(?P<l>NUM)\s*:\s*in\s+(?:(?:local|upvalue|field|method|global|function|metamethod)\s+)+['<](?P<f>[\w.:]+)",
    ),
    (Call, r"(?P<p>[^\s:'()]+\.lua\w?)\s*:\s*(?P<l>NUM)\s*:\s*in\s+main\s+chunk"),
    (Call, r"(?P<p>[\w./-]+\.[eh]rl|[\w./-]+\.exs?)\s*:\s*(?P<l>NUM)\s*:\s*(?P<f>[\w.:]+[\w!?])/NUM"),
    // Go; its function stands on the line before. Rust's panics.
    (Call, r"(?P<p>(?:[A-Z]:)?[^\s:()]+\.go)\s*:\s*(?P<l>NUM)\s*\+\s*[0Oo]x[[:alnum:]]+"),
    (Call, r"panicked\s*at\s*(?:'.*'\s*,\s*)?(?P<p>(?:[A-Z]:)?[^\s:']+\.rs)\s*:\s*(?P<l>NUM)"),
    // Swift.
    (Call, r"\bfile\s+(?P<p>[^\s,]+\.swift)\s*,\s*LINE\s*(?P<l>NUM)"),
    // SpiderMonkey, JavaScriptCore, and V8 in a browser's console.
    (
        Call,
        r"(?P<f>[\w$.*/<>\[\]]*|\(anonymous\))\s?@\s?(?P<p>(?:[\w-]+:/+)?[^\s@:()]*(?::\d{2,5}/)?[^\s@:()]*)\s*:\s*(?P<l>NUM)(?::NUM)?",
    ),
    // V8 without a function, Rust, and others that write `at`.
    (
        Call,
        r"^\W*at\s*(?:async\s+)?(?P<p>(?:[a-zA-Z][\w+.-]*:/*)?[^\s:,]+(?::\d{2,5}/[^\s:]+)?)\s*:\s*(?P<l>NUM)(?:\s*:\s*NUM)?",
    ),
    // .NET without a place.
    (Call, r"^\s*at\s+(?P<f>[\w'<>+\[\],|$]+(?:\.[\w'<>+\[\],|]+)+)\s*\([^():]*\)\s*$"),
    // Diagnostics: rustc, webpack, MSVC and tsc, Maven, kotlinc; and what is left.
    (Place, r"-{1,2}>\s*(?P<p>(?:[A-Z]:)?[^\s:]+)\s*:\s*(?P<l>NUM)\s*:\s*NUM"),
    (Place, r"(?P<p>(?:[A-Z]:)?[^\s:()]+\.\w+)\s+(?P<l>NUM):NUM(?:-NUM)?\s*$"),
    (Place, r"(?P<p>(?:[A-Z]:)?[^\s:()]+\.\w+)\s*:?\s*[(\[]\s*(?P<l>NUM)(?:\s*,\s*NUM)?\s*[)\]]\s*:?"),
    (
        Place,
        r"(?P<p>(?:[a-zA-Z][\w+.-]*:/+)?(?:[A-Z]:)?[^\s:()'\x22<>]+(?::\d{2,5}/[^\s:()]+)?\.\w+(?:\?[^\s:]*)?)\s*:\s*(?P<l>NUM)",
    ),
];

pub(super) static GRAMMARS: LazyLock<Vec<Grammar>> = LazyLock::new(|| {
    let compile = |(style, text): &(Style, &str)| {
        let text = text.replace("NUM", "[0-9OolI|]{1,7}").replace("LINE", "[l1I|][il1I|]ne");
        Grammar { style: *style, pattern: pattern(&text) }
    };
    PATTERNS.iter().map(compile).collect()
});
