// An answer as two lists with the reasons for each place, what was read of the issue, and the ways to take it along.

import { copy, count, el, milliseconds, plural, sentence } from "./dom.js";
import { countedLittle, errorWords, sourceWords, weightWords } from "./evidence.js";

const PARTS = ["lexical", "mention", "visual", "context", "dense"];
const MEANING = {
  lexical: "words of the issue in the text, the path and the names",
  mention: "paths and names that the issue spells out",
  visual: "what the screenshots say: their words, paths, names and errors",
  context: "what a file and its functions say of each other",
  dense: "likeness of meaning, by the encoder, against the others compared",
};

/** Elements for an answer. `asked` has the request, its command line, and the words to mark where the answer names none. */
export function render(answer, asked) {
  const lists = [];
  if (asked.granularity !== "function") lists.push(column("Files", answer.files, asked.words));
  if (asked.granularity !== "file") lists.push(column("Functions", answer.functions, asked.words));
  return [
    toolbar(answer, asked),
    ...notices(answer),
    el("div", { className: `columns ${lists.length === 1 ? "one" : ""}` }, lists),
    legend([...answer.files, ...answer.functions]),
    about(answer),
  ];
}

/** What a screen reader says when an answer is there. */
export function inWords({ files, functions, timings_ms }) {
  const best = files[0]?.path ?? (functions[0] && functions[0].function);
  const total = timings_ms?.total === undefined ? "" : ` in ${milliseconds(timings_ms.total)}`;
  const found = [files.length && plural(files.length, "file"), functions.length && plural(functions.length, "function")].filter(Boolean);
  return `${found.join(" and ") || "Nothing found"}${total}${best ? `; the first is ${best}` : ""}`;
}

function toolbar(answer, asked) {
  const total = answer.timings_ms?.total;
  const facts = [
    asked.repository,
    answer.query.retriever,
    total === undefined ? null : milliseconds(total),
  ].filter(Boolean).join(" · ");
  return el("div", { className: "toolbar" },
    el("p", { className: "facts" }, facts),
    asked.granularity === "both" ? el("a", { className: "jump", href: "#functions-heading" }, "Skip to the functions") : null,
    copyButton("Copy as JSON", () => JSON.stringify(answer, null, 2)),
    copyButton("Copy as curl", () => asked.curl));
}

function copyButton(label, text, properties = {}) {
  const button = el("button", { type: "button", ...properties }, label);
  button.addEventListener("click", () => copy(text(), button));
  return button;
}

function notices({ query, index }) {
  const found = [];
  if (index.stale) found.push(`The index is out of date${staleness(index)}. The answer is from the index as it is.`);
  if (query.truncated) {
    found.push(`The issue is longer than the encoder reads: ${count(query.tokens_used)} of ${count(query.tokens)} tokens were used for likeness of meaning.`);
  }
  for (const { name, used, reason } of query.images ?? []) {
    if (!used) found.push(`The screenshot ${name ?? ""} was not used: ${reason ?? "no reason given"}.`);
  }
  for (const vce of query.vce ?? []) {
    if (vce.warning) found.push(`The screenshot ${vce.name}: ${sentence(vce.warning)}`);
    if (countedLittle(vce)) found.push(`The screenshot ${vce.name} ${weightWords(vce)}.`);
  }
  if (index.failed_windows) found.push(`${plural(index.failed_windows, "window")} of code could not be embedded and counted by words alone.`);
  return found.length ? [el("ul", { className: "notices" }, found.map((text) => el("li", {}, text)))] : [];
}

function staleness({ stale_reason: reason, changes = {} }) {
  const kinds = ["added", "changed", "removed"].filter((kind) => changes?.[kind]?.length);
  const files = kinds.map((kind) => `${count(changes[kind].length)} ${kind}`).join(", ");
  const parts = [reason, files && `files: ${files}`].filter(Boolean);
  return parts.length ? `: ${parts.join("; ")}` : "";
}

function column(title, hits, words) {
  const id = `${title.toLowerCase()}-heading`;
  const scale = scaleOf(hits);
  const items = hits.map((it) => hit(it, scale, words));
  return el("section", { "aria-labelledby": id },
    el("h3", { id }, title, el("span", { className: "hint" }, ` ${count(hits.length)}`)),
    hits.length ? el("ol", { className: "hits" }, items) : el("p", { className: "empty" }, "Nothing to rank: no candidate passes."));
}

function hit(it, scale, words) {
  const place = it.function ? `${it.path}:${it.start_line}` : `${it.path}:${firstLine(it)}`;
  const range = it.function ? `${it.path}:${it.start_line}${it.end_line > it.start_line ? `-${it.end_line}` : ""}` : it.language;
  return el("li", { className: "hit" },
    el("div", { className: "hit-head" },
      el("span", { className: "rank", "aria-label": `Rank ${it.rank}` }, String(it.rank)),
      el("h4", {}, it.function ? breakable(it.function) : pathParts(it.path)),
      el("span", { className: "score", "aria-label": `score ${number(it.score)}` }, number(it.score)),
      copyButton("Copy", () => place, { className: "quiet", "aria-label": `Copy ${place}`, title: place })),
    el("p", { className: "where" }, breakable(range ?? "")),
    bar(it.scores, scale),
    parts(it.scores, scale),
    it.scores?.terms?.length ? terms(it.scores.terms) : null,
    it.lines?.length ? source(it, words) : null);
}

/** The line to open a file at: the best one that matched. */
const firstLine = ({ lines }) => lines?.[0]?.line ?? 1;

function pathParts(path) {
  const cut = path.lastIndexOf("/") + 1;
  return [el("span", { className: "folder" }, breakable(path.slice(0, cut))), breakable(path.slice(cut))];
}

/** Text that may wrap after a separator, so that narrow screens show whole paths. */
function breakable(text) {
  return text.split(/(?<=[/._:])/).flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part]));
}

const number = (value) => (Math.abs(value) < 0.005 ? "0.00" : value.toFixed(2)).replace("-", "−");

// The bar: what adds is right of zero, what takes away left of it, on one scale for a list.

function scaleOf(hits) {
  let [most, least] = [0, 0];
  for (const { scores = {} } of hits) {
    const values = PARTS.map((part) => scores[part] ?? 0);
    most = Math.max(most, sum(values.filter((value) => value > 0)));
    least = Math.min(least, sum(values.filter((value) => value < 0)));
  }
  const shown = PARTS.filter((part) => hits.some(({ scores }) => Math.abs(scores?.[part] ?? 0) >= 0.005));
  return { width: most - least || 1, least, shown };
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

function bar(scores = {}, { width, least, shown }) {
  const left = shown.filter((part) => scores[part] < 0).map((part) => segment(part, scores[part], width));
  const right = shown.filter((part) => scores[part] > 0).map((part) => segment(part, scores[part], width));
  const gap = el("span", { className: "gap" });
  gap.style.width = percent((-least + sum(left.map(({ value }) => value))) / width);
  return el("div", { className: "bar", "aria-hidden": "true" },
    gap, left.map(({ element }) => element), el("span", { className: "zero" }), right.map(({ element }) => element));
}

function segment(part, value, width) {
  const element = el("span", { className: `part ${part} ${value < 0 ? "less" : ""}`, title: `${part} ${number(value)}` });
  element.style.width = percent(Math.abs(value) / width);
  return { element, value };
}

const percent = (share) => `${(100 * share).toFixed(2)}%`;

function parts(scores = {}, { shown }) {
  const item = (part) => el("li", {}, el("span", { className: `swatch ${part}`, "aria-hidden": "true" }), `${part} `, el("b", {}, number(scores[part] ?? 0)));
  return el("ul", { className: "parts", "aria-label": "Parts of the score" }, shown.map(item));
}

function terms(list) {
  return el("p", { className: "terms" }, "words: ", list.map(([term, score], at) => [at ? ", " : "", el("b", {}, term), ` ${number(score)}`]));
}

// Matched lines, in the order of the file, with a mark where lines lie between.

function source({ lines, scores }, words) {
  const wanted = scores?.terms ? scores.terms.map(([term]) => term) : words;
  const rows = [];
  let before = null;
  for (const { line, text } of [...lines].sort((a, b) => a.line - b.line)) {
    if (before !== null && line > before + 1) rows.push(el("li", { className: "skip-lines", "aria-hidden": "true" }, "⋯"));
    rows.push(el("li", {}, el("span", { className: "line" }, String(line)), el("code", {}, marked(text, wanted))));
    before = line;
  }
  return el("ol", { className: "source", "aria-label": "Lines that match" }, rows);
}

/** A line with the words of the issue in it marked. A word counts from its beginning, also within fooBar and foo_bar. */
function marked(text, words) {
  const lower = text.toLowerCase();
  const found = [];
  if (lower.length === text.length) { // a few letters change their length
    for (const word of words) {
      for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + word.length)) {
        if (begins(text, at) && ends(text, at + word.length)) found.push([at, at + word.length]);
      }
    }
  }
  return withMarks(text, found.sort((a, b) => a[0] - b[0] || b[1] - a[1]));
}

const letter = (text) => /[\p{L}\p{N}]/u.test(text ?? "");
const lowerCase = (text) => /\p{Ll}/u.test(text ?? "");
const upperCase = (text) => /\p{Lu}/u.test(text ?? "");
const begins = (text, at) => !letter(text[at - 1]) || (upperCase(text[at]) && !upperCase(text[at - 1]));
const ends = (text, at) => !letter(text[at]) || (upperCase(text[at]) && lowerCase(text[at - 1]));

function withMarks(text, spans) {
  const parts = [];
  let at = 0;
  for (const [from, to] of spans) {
    if (from < at) continue;
    parts.push(text.slice(at, from), el("mark", {}, text.slice(from, to)));
    at = to;
  }
  return [...parts, text.slice(at)];
}

function legend(hits) {
  const shown = PARTS.filter((part) => hits.some(({ scores }) => Math.abs(scores?.[part] ?? 0) >= 0.005));
  if (shown.length === 0) return null;
  const rows = shown.flatMap((part) => [el("dt", {}, el("span", { className: `swatch ${part}`, "aria-hidden": "true" }), part), el("dd", {}, MEANING[part])]);
  return el("details", { className: "more" }, el("summary", {}, "What the parts of a score mean"), el("dl", {}, rows));
}

function about({ query, index, timings_ms = {} }) {
  const rows = [
    ["Text", query.tokens == null ? null : `${count(query.tokens)} tokens${query.truncated ? `, ${count(query.tokens_used)} of them read` : ", all read"}`],
    ...(query.images ?? []).map((it) => [`Screenshot ${it.name ?? ""}`, pictureWords(it, query.vce?.find(({ name }) => name === it.name))]),
    ["Screenshots' tokens", query.image_tokens ? count(query.image_tokens) : null],
    ["Encoder", query.model && `${query.model}${query.policy && query.policy !== "default" ? `, policy ${query.policy}` : ""}`],
    ["Input", MODES[query.mode] ?? query.mode],
    ["Index", indexWords(index)],
    ["Timings", Object.entries(timings_ms).map(([name, ms]) => `${TIMES[name] ?? name} ${milliseconds(ms)}`).join(" · ")],
  ].filter(([, value]) => value);
  return el("details", { className: "more", open: true },
    el("summary", {}, "What was read, and how long it took"),
    el("dl", {}, rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

const MODES = {
  text: "text (text alone)",
  image: "image (text, and pictures as the encoder sees them)",
  vce: "vce (text, and what pictures say)",
  "vce+image": "vce+image (text, what pictures say, and pictures as the encoder sees them)",
};

const TIMES = { evidence: "reading screenshots" };

/** What became of a picture, and of what was read of it, if anything was. */
function pictureWords({ used, reason, width, height }, vce) {
  const size = width && height ? `${width} × ${height}` : "";
  const weight = vce && weightWords(vce);
  const outcome = used ? weight || "used" : `not used: ${reason ?? "no reason given"}`;
  const first = [size, outcome, vce && sourceWords(vce)].filter(Boolean).join(", ");
  const error = vce && errorWords(vce.error_signal);
  return [first, error && `it shows ${error}`, vce?.notes].filter(Boolean).join("; ");
}

function indexWords(index) {
  return [
    index.indexed === false ? "none, read for this question" : null,
    index.commit ? `commit ${index.commit.slice(0, 10)}` : null,
    plural(index.files ?? 0, "file"),
    plural(index.functions ?? 0, "function"),
    index.skipped ? `${count(index.skipped)} skipped` : null,
    index.stale ? "out of date" : null,
  ].filter(Boolean).join(", ");
}
