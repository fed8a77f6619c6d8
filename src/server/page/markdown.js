// A preview of an issue's Markdown: what issues use, not all of CommonMark. Everything is built of elements and text, so nothing in
// an issue becomes markup; links show where they lead and don't lead there; pictures are placeholders, since nothing is fetched.

import { el } from "./dom.js";

const MOST_CHARACTERS = 200_000;
const DEEPEST = 6; // of quotes and lists in each other; what is deeper is text
const LONGEST_SPAN = 4000; // how far ahead the end of an emphasis or a link is looked for: many openers stay cheap
const MOST_TRIES = 32; // ends of an emphasis that turn out to be none

/** Elements for a text. */
export function render(text) {
  const cut = text.length > MOST_CHARACTERS;
  const lines = text.slice(0, MOST_CHARACTERS).replace(/\r\n?/g, "\n").split("\n");
  const parts = blocks(lines, 0);
  if (cut) parts.push(el("p", { className: "hint" }, "The preview ends here; all of the text is sent."));
  return parts;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +(.*))?$/;
const BLANK = /^\s*$/;

const KINDS = [
  [FENCE, fence],
  [HEADING, heading],
  [RULE, (lines, at) => [el("hr"), at + 1]],
  [QUOTE, quote],
  [ITEM, list],
];

function blocks(lines, depth) {
  const parts = [];
  let at = 0;
  while (at < lines.length) {
    if (BLANK.test(lines[at])) {
      at += 1;
      continue;
    }
    const kind = depth < DEEPEST ? KINDS.find(([pattern]) => pattern.test(lines[at])) : undefined;
    const [part, next] = kind ? kind[1](lines, at, depth) : paragraph(lines, at, depth);
    parts.push(part);
    at = next;
  }
  return parts;
}

function fence(lines, start) {
  const [, mark, language] = FENCE.exec(lines[start]);
  let end = start + 1;
  const closes = (line) => line.trim().startsWith(mark) && line.trim().replaceAll(mark[0], "") === "";
  while (end < lines.length && !closes(lines[end])) end += 1;
  const code = el("code", {}, lines.slice(start + 1, end).join("\n"));
  if (language.trim()) code.dataset.language = language.trim();
  return [el("pre", { tabIndex: 0 }, code), end + 1];
}

// The page has headings of its own above, so an issue's begin at the fourth level.
function heading(lines, at) {
  const [, marks, text = ""] = HEADING.exec(lines[at]);
  return [el(`h${Math.min(6, marks.length + 3)}`, { className: `level-${marks.length}` }, inline(text)), at + 1];
}

function quote(lines, start, depth) {
  let end = start;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inner = lines.slice(start, end).map((line) => line.replace(QUOTE, ""));
  return [el("blockquote", {}, blocks(inner, depth + 1)), end];
}

function list(lines, start, depth) {
  const [, indent, mark] = ITEM.exec(lines[start]);
  const ordered = /\d/.test(mark);
  const items = [];
  let at = start;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    if (!item || item[1].length > indent.length + 1 || /\d/.test(item[2]) !== ordered || RULE.test(lines[at])) break;
    const [inner, next] = itemLines(lines, at, item);
    items.push(listItem(inner, depth));
    at = next;
  }
  const properties = ordered && Number.parseInt(mark, 10) !== 1 ? { start: Number.parseInt(mark, 10) } : {};
  return [el(ordered ? "ol" : "ul", properties, items), at];
}

/** The lines of an item without its indent: its own, and those below that are indented further or go on with a paragraph. */
function itemLines(lines, at, [, indent, mark, text = ""]) {
  const inner = [text];
  const deep = indent.length + mark.length;
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    const indented = line.length - line.trimStart().length;
    if (BLANK.test(line)) {
      const after = lines[next + 1];
      if (after === undefined || after.length - after.trimStart().length <= indent.length || BLANK.test(after)) break;
    } else if (indented <= indent.length && (ITEM.test(line) || KINDS.some(([pattern]) => pattern.test(line)))) {
      break;
    } else if (ITEM.test(line) && indented < deep) {
      break;
    }
    inner.push(line.slice(Math.min(indented, deep + 1)));
  }
  while (next < lines.length && BLANK.test(lines[next]) && ITEM.test(lines[next + 1] ?? "")) next += 1;
  return [inner, next];
}

function listItem(inner, depth) {
  const task = /^\[([ xX])\]\s+/.exec(inner[0]);
  if (!task) return el("li", {}, tight(blocks(inner, depth + 1)));
  inner[0] = inner[0].slice(task[0].length);
  const box = el("span", { className: "task" }, task[1] === " " ? "☐ " : "☑ ");
  return el("li", { className: "tasked" }, box, tight(blocks(inner, depth + 1)));
}

/** An item of one paragraph is its text. */
const tight = (parts) => (parts[0]?.tagName === "P" ? [...parts[0].childNodes, ...parts.slice(1)] : parts);

// Lines stay lines, as forges show them in issues.
function paragraph(lines, start, depth) {
  const kinds = depth < DEEPEST ? [FENCE, HEADING, RULE, QUOTE, ITEM] : [];
  let end = start + 1;
  while (end < lines.length && !BLANK.test(lines[end]) && !kinds.some((pattern) => pattern.test(lines[end]))) end += 1;
  const parts = [];
  for (const line of lines.slice(start, end)) parts.push(...inline(line.trim()), el("br"));
  parts.pop();
  return [el("p", {}, parts), end];
}

const ESCAPED = /[\\`*_{}[\]()#+\-.!~<>|]/;
const SPANS = { "`": codeSpan, "!": picture, "[": link, "<": tag, "*": emphasis, "_": emphasis, "~": emphasis, h: address };

/** Text nodes and elements for a line. */
export function inline(text, depth = 0) {
  const parts = [];
  let plain = "";
  let at = 0;
  while (at < text.length) {
    if (text[at] === "\\" && ESCAPED.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    const span = depth < DEEPEST ? SPANS[text[at]]?.(text, at, depth) : undefined;
    if (span) {
      parts.push(plain, span[0]);
      plain = "";
      at = span[1];
    } else {
      plain += text[at];
      at += 1;
    }
  }
  parts.push(plain);
  return parts.filter((part) => part !== "");
}

/** Where `what` next stands, not too far on; or -1. */
function find(text, what, from) {
  const found = text.slice(from, from + LONGEST_SPAN).indexOf(what);
  return found < 0 ? -1 : found + from;
}

function codeSpan(text, at) {
  const [mark] = /^`+/.exec(text.slice(at, at + 64));
  const from = at + mark.length;
  const end = find(text, mark, from);
  if (end < 0) return [mark, from];
  return [el("code", {}, text.slice(from, end).trim()), end + mark.length];
}

/** `[text](target)` from the bracket on: both, and where it ends. */
function bracketed(text, at) {
  const middle = find(text, "](", at + 1);
  if (middle < 0) return undefined;
  const end = find(text, ")", middle + 2);
  if (end < 0) return undefined;
  const target = text.slice(middle + 2, end).trim().split(/\s/)[0].replace(/^<|>$/g, "");
  return { label: text.slice(at + 1, middle), target, end: end + 1 };
}

function picture(text, at) {
  if (text[at + 1] !== "[") return undefined;
  const found = bracketed(text, at + 1);
  return found && [placeholder(found.label || found.target), found.end];
}

const placeholder = (name) => el("span", { className: "picture-place" }, `picture: ${name || "unnamed"}`);

function link(text, at, depth) {
  const found = bracketed(text, at);
  if (!found || found.label.includes("\n")) return undefined;
  return [el("span", { className: "link" }, inline(found.label, depth + 1), el("span", { className: "target" }, ` (${found.target})`)), found.end];
}

function address(text, at) {
  if (at > 0 && /[\p{L}\p{N}]/u.test(text[at - 1])) return undefined;
  const found = /^https?:\/\/[^\s<>"`]*[^\s<>"`.,:;!?)\]}'*_]/.exec(text.slice(at, at + LONGEST_SPAN));
  return found && [el("span", { className: "link" }, found[0]), at + found[0].length];
}

// `<https://...>` is an address, `<img ...>` a picture; any other tag stays text, because a preview must not hide anything.
function tag(text, at) {
  const end = find(text, ">", at + 1);
  if (end < 0) return undefined;
  const inner = text.slice(at + 1, end);
  if (/^https?:\/\/\S+$/.test(inner)) return [el("span", { className: "link" }, inner), end + 1];
  if (!/^img\s/i.test(inner)) return undefined;
  const alt = /\balt\s*=\s*["']([^"']+)["']/i.exec(inner) ?? /\bsrc\s*=\s*["']([^"']+)["']/i.exec(inner);
  return [placeholder(alt?.[1]), end + 1];
}

function emphasis(text, at, depth) {
  const mark = text[at];
  const strong = text[at + 1] === mark;
  if (mark === "~" && !strong) return undefined;
  const marks = strong ? mark + mark : mark;
  const from = at + marks.length;
  const wordBefore = mark === "_" && /[\p{L}\p{N}_]/u.test(text[at - 1] ?? " ");
  if (wordBefore || BLANK.test(text[from] ?? " ")) return undefined;
  const end = closing(text, marks, from);
  if (end < 0) return undefined;
  const name = mark === "~" ? "del" : strong ? "strong" : "em";
  return [el(name, {}, inline(text.slice(from, end), depth + 1)), end + marks.length];
}

function closing(text, marks, from) {
  let end = find(text, marks, from);
  for (let tries = 0; end >= 0 && tries < MOST_TRIES; tries += 1) {
    const after = text[end + marks.length] ?? " ";
    const touches = !BLANK.test(text[end - 1]) && end > from;
    const single = marks.length > 1 || (after !== marks && text[end - 1] !== marks);
    if (touches && single && !(marks[0] === "_" && /[\p{L}\p{N}_]/u.test(after))) return end;
    end = find(text, marks, end + 1);
  }
  return -1;
}
