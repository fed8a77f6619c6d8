//! Frameworks and libraries that a text shows, by what only they write.

use std::sync::LazyLock;

use regex::RegexSet;

use super::set;

/// A name, and what shows it: packages, messages, and names of its interface; never a word of English alone.
const FRAMEWORKS: &[(&str, &str)] = &[
    (
        "React",
        r"\breact-(?:dom|scripts|router)\b|\breact(?:\.development|\.production)|/react/|\bReact\.\w|\buse(?:State|Effect|Memo|Callback|Ref)\b|from ['\x22]react['\x22]|\bReact (?:component|hook|state|app)",
    ),
    (
        "Next.js",
        r"\bnext/(?:dist|link|image|router|navigation|head)\b|\bNext\.js\b|\bgetServerSideProps\b|\.next/|_next/static",
    ),
    (
        "Vue",
        r"\[Vue (?:warn|tip)\]|\bvue(?:-router|x|tify|\.runtime|\.esm|\.js)\b|@vue/|\.vue\b|\bVue\.\w|from ['\x22]vue['\x22]|\bv-(?:if|for|model|bind)=",
    ),
    ("Nuxt", r"\bnuxt(?:\.config|\.js)?\b|\.nuxt/"),
    ("Angular", r"@angular/|\bNG0?\d{3,4}\b|\bAngular\b|\bng (?:serve|build|test)\b|\bzone\.js\b|\*ng(?:If|For)\b"),
    ("Svelte", r"(?i)\bsvelte(?:kit)?\b"),
    ("jQuery", r"(?i)\bjquery\b"),
    (
        "Express",
        r"node_modules/express|\bexpress/lib\b|require\(['\x22]express['\x22]\)|\bapp\.(?:get|post|use|listen)\(",
    ),
    ("NestJS", r"@nestjs/|\[Nest\]"),
    ("Node.js", r"\bnode:internal|\bNode\.js\b|\bnode_modules\b|internal/modules/cjs"),
    ("webpack", r"(?i)\bwebpack\b"),
    ("Vite", r"\[vite\]|\bvite\b(?:\.config|/| v\d|:)|/@vite/|\bVITE\b"),
    ("Rollup", r"(?i)\brollup\b"),
    ("Babel", r"@babel/|\bbabel-"),
    ("ESLint", r"(?i)\beslint\b"),
    ("Jest", r"\bjest\b|expect\(.*\)\.(?:not\.)?to[A-Z]\w+\("),
    ("Vitest", r"(?i)\bvitest\b"),
    ("Mocha", r"node_modules/mocha|\bmocha\b"),
    ("Cypress", r"\bcy\.\w+\(|\bCypress(?:Error)?\b"),
    ("Playwright", r"(?i)\bplaywright\b"),
    ("Electron", r"\bElectron\b|\belectron/|app\.asar"),
    ("Tailwind CSS", r"(?i)\btailwind"),
    ("TypeScript", r"\bTS\d{4}\b|\btsc\b|\bTypeScript\b|\btsconfig"),
    ("Django", r"(?i)\bdjango\b"),
    ("Flask", r"\bflask\.\w|from flask\b|site-packages/flask|\bFlask\("),
    ("FastAPI", r"(?i)\bfastapi\b|\buvicorn\b"),
    ("pytest", r"\bpytest\b|_pytest|=+ FAILURES =+"),
    ("NumPy", r"\bnumpy\b|\bnp\.\w+\("),
    ("pandas", r"\bpandas[./]|import pandas|\bpd\.\w+|\bDataFrame\b"),
    ("Matplotlib", r"\bmatplotlib\b|\bplt\.\w+\("),
    ("PyTorch", r"\btorch\.\w|import torch\b|site-packages/torch|\bPyTorch\b|\bCUDA out of memory\b"),
    ("TensorFlow", r"(?i)\btensorflow\b|\btf\.(?:keras|function|data)\b"),
    ("scikit-learn", r"\bsklearn\b|\bscikit-learn\b"),
    ("Jupyter", r"(?i)\bjupyter|\bipykernel\b|ipython-input"),
    ("Qt", r"\bPyQt\d|\bPySide\d|\bQ(?:Widget|Application|Object|MainWindow|String)\b|\bqt\.qpa\b"),
    (
        "Rails",
        r"\bActive(?:Record|Support|Model|Storage)\b|\bAction(?:Controller|View|Dispatch|Mailer)\b|\brailties\b|\bRails\b",
    ),
    ("RSpec", r"(?i)\brspec\b"),
    ("Laravel", r"(?i)\blaravel\b|\bIlluminate\\"),
    ("Symfony", r"\bSymfony\b"),
    ("WordPress", r"(?i)\bwordpress\b|\bwp-(?:content|includes|admin)\b"),
    ("Spring", r"\borg\.springframework\b|\bSpring ?Boot\b"),
    ("Hibernate", r"\borg\.hibernate\b"),
    ("JUnit", r"(?i)\bjunit\b"),
    ("Gradle", r"(?i)\bgradlew?\b"),
    ("Maven", r"\borg\.apache\.maven\b|\bmvn\b|\bMaven\b"),
    ("Android", r"\bandroid[.x]+\w|\bAndroidRuntime\b|\bandroidx\b"),
    ("Jetpack Compose", r"\bandroidx\.compose\b|@Composable\b"),
    ("Flutter", r"(?i)package:flutter|\bflutter\b"),
    ("SwiftUI", r"\bSwiftUI\b"),
    ("UIKit", r"\bUIKit(?:Core)?\b|\bUI(?:View|ViewController|Application)\b"),
    (".NET", r"\bSystem\.(?:\w+\.)*\w*Exception\b|\bMicrosoft\.\w+|\bdotnet\b"),
    ("ASP.NET Core", r"\bAspNetCore\b"),
    ("Unity", r"\bUnityE(?:ngine|ditor)\b"),
    ("Godot", r"\bGodot\b|\bres://"),
    ("Phoenix", r"\bPhoenix\.\w|\bPlug\.\w"),
    ("Tokio", r"\btokio(?:::|-)\w"),
    ("Bevy", r"\bbevy_?\w*::|\bbevy_\w+"),
    ("Gin", r"gin-gonic|\[GIN"),
    ("Docker", r"\bDockerfile\b|\bdocker(?:-compose| compose| run| build|d)\b"),
    ("Kubernetes", r"\bkubectl\b|\bKubernetes\b|\bk8s\b"),
];

static MARKS: LazyLock<RegexSet> = LazyLock::new(|| set(FRAMEWORKS.iter().map(|it| it.1)));

/// Frameworks that a line shows, as places in the table.
pub(super) fn places(text: &str) -> impl Iterator<Item = usize> {
    MARKS.matches(text).into_iter()
}

/// The usual name of a framework.
pub(super) fn name(place: usize) -> &'static str {
    FRAMEWORKS[place].0
}
