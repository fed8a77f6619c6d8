//! Code, interfaces, categories, confidence, and hostile pages.

use super::*;

#[track_caller]
fn check_names(text: &str, names: &[&str]) {
    assert_eq!(read(text).code_hint.function_names, names, "{text}");
}

#[track_caller]
fn check_files(text: &str, files: &[&str]) {
    assert_eq!(read(text).code_hint.file_patterns, files, "{text}");
}

#[track_caller]
fn check_frameworks(text: &str, frameworks: &[&str]) {
    assert_eq!(read(text).code_hint.frameworks, frameworks, "{text}");
}

#[track_caller]
fn check_interface(text: &str, strings: &[&str]) {
    assert_eq!(read(text).ui_elements, strings, "{text}");
}

#[track_caller]
fn check_category(text: &str, category: Option<Category>) {
    assert_eq!(read(text).category, category, "{text}");
}

const EDITOR: &str = "10  export class CartView {
11    constructor(private store: Store) {}
12
13    render_total(items) {
14      const total = sum_of(items);
15      return this.store.format(total);
16    }
17  }";

#[test]
fn names_that_are_defined_come_first() {
    check_names(EDITOR, &["CartView", "total", "constructor", "render_total", "sum_of", "this.store.format"]);
    check_names("def next_token(self):\n    return self.peek(1)", &["next_token", "self.peek"]);
    check_names("c1ass Lexer(Base):\n    pass_through = True", &["Lexer", "pass_through"]);
    check_names("func (s *Server) Handle(w http.ResponseWriter) {", &["Handle", "http.ResponseWriter"]);
    check_names("public static List<Item> findAll(String name) {", &["findAll"]);
    check_names("fn parse_line(text: &str) -> Option<u32> {", &["parse_line"]);
}

#[test]
fn names_in_prose_are_those_that_only_code_writes() {
    check_names("The getUserName call and user_id of Lexer::peek fail", &["getUserName", "user_id", "Lexer::peek"]);
    check_names("Open GitHub or YouTube (new)\nComments(3)\n2 item(s)\nand/or if (x)", &[]);
    check_names("Done.Next visit www.example.com, e.g. here", &[]);
    check_names("<AppHeader title=\"x\" />\n<my-button></my-button>", &["AppHeader", "my-button"]);
}

#[test]
fn files_and_directories() {
    check_files(
        "see src/cart/total.py and C:\\work\\a.cs, Makefile, ./lib/util, *.test.js",
        &["src/cart/total.py", "C:\\work\\a.cs", "Makefile", "./lib/util", "*.test.js"],
    );
    check_files("at https://example.com/a/b and 2024/01/02 and/or Node.js v1.2", &[]);
    check_files("in http://localhost:3000/static/js/main.js", &["static/js/main.js"]);
    check_files("config.ym1 and data.JSoN", &["config.ym1", "data.JSoN"]);
    check_files("at./src/main.rs", &["./src/main.rs"]);
    check_files("import x from '../cart/total'", &["../cart/total"]);
}

#[test]
fn a_file_broken_at_the_right_edge() {
    check_files(
        "could not open the file in /srv/app/resources/tra\nnslations/de.json",
        &["/srv/app/resources/translations/de.json"],
    );
}

#[test]
fn frameworks_by_what_only_they_write() {
    check_frameworks("at x (/app/node_modules/express/lib/router.js:1:2)", &["Express", "Node.js"]);
    check_frameworks("react and express and spring and flask are words", &[]);
    check_frameworks("[Vue warn]: Property or method is not defined", &["Vue"]);
    check_frameworks("File \"/venv/site-packages/django/core/handlers/base.py\", line 1, in get", &["Django"]);
    check_frameworks(
        "at org.junit.Assert.fail(Assert.java:88)\nat org.springframework.Boot.run(Boot.java:1)",
        &["JUnit", "Spring"],
    );
}

#[test]
fn strings_of_a_dialog() {
    check_interface(
        "Save changes?\nDo you want to save the changes you made to\nthis document?\nDon't Save   Cancel   Save",
        &[
            "Save changes?",
            "Do you want to save the changes you made to this document?",
            "Don't Save",
            "Cancel",
            "Save",
        ],
    );
    check_interface("Yes No Cancel", &["Yes", "No", "Cancel"]);
}

#[test]
fn strings_of_menus_and_forms() {
    check_interface("File Edit View Help", &["File", "Edit", "View", "Help"]);
    check_interface(
        "✓ Word wrap    Alt+Z\n▸ Recent files…\nSave As...  Ctrl+Shift+S\nUser name:",
        &["Word wrap", "Recent files", "Save As", "User name"],
    );
    check_interface("保存\nキャンセル\nx\n12:30\n100%\n---", &["保存", "キャンセル"]);
}

#[test]
fn code_logs_and_traces_are_no_interface() {
    check_interface(EDITOR, &[]);
    check_interface("2024-01-02 10:11:12 INFO started\n2024-01-02 10:11:13 INFO stopped", &[]);
    check_interface("error[E0308]: mismatched types\n --> a.rs:3:5\n3 |    total\n  |   A^∧ expected u32", &[]);
    check_interface("$ make test\nBuilding the parser\n$ make run\nDone", &[]);
    check_interface("TypeError: x is undefined\n  at peek (a.ts:3:4)\n  at next (a.ts:9:4)", &[]);
}

#[test]
fn categories() {
    check_category(EDITOR, Some(Category::CodeScreenshot));
    check_category(
        "1\n2\n3\n4\nS\n6\n7\n\nclass Cart\n  total = 0\n  def sum(items)\n    items\n  end\nend",
        Some(Category::CodeScreenshot),
    );
    check_category("const a = 1;\nconst b = f(a);\nif (a) { g(); }", Some(Category::CodeScreenshot));
    check_category("TypeError: x is undefined\n  at peek (a.ts:3:4)", Some(Category::ErrorMessage));
    check_category(
        "  at a.Cart.add(Cart.java:3)\n  at a.Cart.sum(Cart.java:9)\n  at a.Main.run(Main.java:1)",
        Some(Category::ErrorMessage),
    );
    check_category(
        "39 def fit(self):\n40   return f(x)\n41   pass\nFile ~/a.py:40, in fit(self)\nValueError: bad",
        Some(Category::ErrorMessage),
    );
    check_category("Error\nThe file could not be saved\nOK", Some(Category::ErrorMessage));
    check_category(
        "10:11:12 INFO started\n10:11:13 INFO listening on 80\n10:11:14 WARN slow",
        Some(Category::LogOutput),
    );
    check_category("$ make build\n$ ./run --fast\nall done", Some(Category::LogOutput));
    check_category("0 20 40 60 80 100\nTime (s)\nSpeed", Some(Category::DataVisualization));
    check_category("1.0\n0.8\n0.6\n0.4\n0.2\n0.0\nAccuracy", Some(Category::DataVisualization));
    check_category("General\nAppearance\nAccount\nSave", Some(Category::UiScreenshot));
    check_category("A plain sentence.", None);
    check_category("", None);
}

#[test]
fn an_animation_is_a_demonstration() {
    let mut page = page("General\nAccount\nSave");
    page.notes.push(Note::Animated);
    let evidence = structure(&page);
    assert_eq!(evidence.category, Some(Category::BehaviorDemo));
    assert_eq!(evidence.notes, ["it is animated: the first frame was read"]);
}

#[track_caller]
fn check_confidence(lines: &[(&str, f32)], notes: &[Note], expected: f32) {
    let line = |(text, confidence): &(&str, f32)| Line {
        text: (*text).into(),
        confidence: *confidence,
        corners: [[0.0; 2]; 4],
    };
    let lines = lines.iter().map(line).collect();
    let page = Page { blocks: vec![Block { lines }], notes: notes.to_vec(), ..Page::default() };
    let actual = structure(&page).confidence;
    assert!((actual - expected).abs() < 1e-6, "{actual} is not {expected}");
}

#[test]
fn confidence_is_the_mean_by_length_less_what_could_not_be_read() {
    check_confidence(&[], &[Note::NoText], 0.0);
    // 30 characters of 0.9 and 10 of 0.5: (27 + 5) / 40.
    check_confidence(&[(&"a".repeat(30), 0.9), (&"b".repeat(10), 0.5)], &[], 0.8);
    // 10 letters of the 20 that are enough.
    check_confidence(&[("abcde fghij", 0.8)], &[], 0.4);
    // One line of four places.
    check_confidence(&[(&"a".repeat(20), 1.0)], &[Note::Unreadable { places: 1 }, Note::Turned { lines: 2 }], 0.25);
}

/// Seconds for a page of `lines` lines of a text.
#[track_caller]
fn check_linear(text: &str, lines: usize) {
    let line = Line { text: text.into(), confidence: 1.0, corners: [[0.0; 2], [9.0, 0.0], [9.0, 9.0], [0.0, 9.0]] };
    let page = Page { blocks: vec![Block { lines: vec![line; lines] }], ..Page::default() };
    let start = std::time::Instant::now();
    let evidence = structure(&page);
    let hint = &evidence.code_hint;
    assert!(hint.function_names.len() <= 80 && hint.file_patterns.len() <= 80 && evidence.ui_elements.len() <= 60);
    assert!(start.elapsed().as_secs() < 60, "{}: {:?}", text.chars().take(12).collect::<String>(), start.elapsed());
    println!("{:12} x {lines}: {:?}", text.chars().take(12).collect::<String>(), start.elapsed());
}

#[test]
fn hostile_text_takes_bounded_time() {
    const PATTERNS: &[&str] = &[
        "a.b:1 ", "at a(", "a/", "at ", "(", ")", "a.", "a::", "#1 ", "File \"", "'", "@a:1", "Error: ", "a.js:1:1",
        "1 ", "é.py:", "://", " in '", "0x1 in ", "<a", "a_", "[", "\\", "   ", "1,", "...", "*",
    ];
    for text in PATTERNS {
        check_linear(&text.repeat(600 / text.len()), 200);
    }
    check_linear(&"a.js:1:1 ".repeat((4 << 20) / 9), 1);
    check_linear("a.js:1:1 ", (4 << 20) / 9);
}

proptest::proptest! {
    #[test]
    fn any_text_is_structured(text in "(?:[ -~\n]|[’：“…é中\u{202e}\t]|at |File \"|line |in |\\.py|\\.js:|Error: |#1 |\\(|\\)|panicked at |0x1){0,60}") {
        let evidence = read(&text);
        proptest::prop_assert!((0.0..=1.0).contains(&evidence.confidence));
        proptest::prop_assert!(evidence.text_block().ends_with("[end of picture]\n"));
    }

    #[test]
    fn any_place_is_structured(corners in proptest::collection::vec(proptest::num::f32::ANY, 8), confidence in proptest::num::f32::ANY) {
        let corners = [[corners[0], corners[1]], [corners[2], corners[3]], [corners[4], corners[5]], [corners[6], corners[7]]];
        let line = |text: &str| Line { text: text.into(), confidence, corners };
        let lines = ["10", "20", "a sentence that goes on and on to the edge", "of it"].map(line).to_vec();
        structure(&Page { blocks: vec![Block { lines }], ..Page::default() });
    }
}
