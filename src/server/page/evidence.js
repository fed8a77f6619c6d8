// What was read of screenshots: asked for one after the other, and put into words for the form and for an answer.

import { request } from "./api.js";
import { count, el, plural } from "./dom.js";

let last = Promise.resolve();

/**
 * Reads a picture once those before it are read, and gives what it says. `image` makes its part of the request, with `text` where that
 * stands for reading it; `issue` is what a vision-language model is told. Overtaken, it is not asked for any more.
 */
export function read(image, issue, signal) {
  const mine = last.then(async () => {
    signal.throwIfAborted();
    const { evidence: [found] } = await request("POST", "v1/evidence", { json: { ...issue, images: [await image()] }, signal });
    if (found.error) throw Object.assign(new Error(found.error.message), found.error);
    return found;
  });
  last = mine.catch(() => {});
  return mine;
}

/** How many lines of text a picture has. */
export const lineCount = ({ lines, ocr_text: text }) => lines?.length ?? text.split("\n").filter((line) => line.trim()).length;

/** Whether a picture says anything. */
export const saysNothing = (vce) => !vce.ocr_text.trim() && !vce.error_signal && facts(vce).length === 0;

/** "Read: 14 lines", with the one who read it if that was not this server. */
export function readWords(vce) {
  if (saysNothing(vce)) return `No text was found in it${why(vce)}.`;
  const by = vce.source === "endpoint" ? ` by ${vce.model ?? "a vision-language model"}` : "";
  return `Read${by}: ${plural(lineCount(vce), "line")}.`;
}

function why({ notes }) {
  const others = (notes ?? "").split("; ").filter((note) => note && note !== "no text was found");
  return others.length ? `: ${others.join("; ")}` : "";
}

const LOW = 0.6; // of confidence; below it most lines have a wrong letter

export const isDoubtful = ({ confidence, ocr_text: text }) => Boolean(text.trim()) && confidence < LOW;

/** Of what a person wrote there is nothing to doubt. */
function confidenceWords(vce) {
  if (vce.source === "given") return "";
  return `confidence ${Math.round(100 * vce.confidence)} %${isDoubtful(vce) ? " (low: check the text)" : ""}`;
}

/** `error_message` as "error message". */
const kindWords = (category) => category?.replaceAll("_", " ");

/** `TypeError: x is undefined`, or what there is of it. */
export function errorWords(error) {
  return [error?.type, error?.message].filter(Boolean).join(": ") || kindWords(error?.kind);
}

/** The fields of a picture as a list of terms, or nothing where it has none. */
export function summary(vce) {
  if (saysNothing(vce)) return null;
  const rows = [
    ["Kind", [kindWords(vce.category), confidenceWords(vce)].filter(Boolean).join(", ")],
    ["Error", errorWords(vce.error_signal)],
    ...facts(vce),
    ["Notes", vce.notes],
  ].filter(([, value]) => value);
  return el("dl", { className: "evidence" }, rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function facts({ error_signal: error, code_hint: hint, ui_elements: labels, user_action: action, visual_saliency: salient }) {
  const lists = [
    ["Frames", code(error?.stack_hint, true)],
    ["Names", code(hint?.function_names)],
    ["Files", code(hint?.file_patterns)],
    ["Frameworks", some(hint?.frameworks ?? [])],
    ["Interface", some((labels ?? []).map((it) => `“${it}”`))],
    ["Action", action],
    ["Stands out", salient],
  ];
  return lists.filter(([, value]) => value);
}

const code = (values = [], linewise = false) => some(values.map((it) => el("code", {}, it)), linewise);

const FIRST = 8;

/** The first values, and the others behind a switch. */
function some(values, linewise = false) {
  if (values.length === 0) return null;
  const joined = (all) => all.flatMap((it, at) => (at ? [linewise ? el("br") : ", ", it] : [it]));
  if (values.length <= FIRST + 1) return joined(values);
  const rest = values.slice(FIRST);
  return [joined(values.slice(0, FIRST)), el("details", { className: "rest" }, el("summary", {}, `and ${count(rest.length)} more`), joined(rest))];
}

// How much a picture counted in an answer.

const FULLY = 0.8;
const IN_PART = 0.4;
const AGREES = 0.5;

/** "counted little, since …", with the numbers behind it. */
export function weightWords(vce) {
  const { weight, agreement, confidence } = vce;
  if (weight === undefined || weight === null) return "";
  const numbers = [["weight", weight], ["agreement", agreement], ["confidence", vce.source === "given" ? null : confidence]]
    .filter(([, value]) => value !== undefined && value !== null).map(([name, value]) => `${name} ${value.toFixed(2)}`).join(", ");
  return `${counted(vce)} (${numbers})`;
}

export const countedLittle = ({ weight }) => weight !== undefined && weight !== null && weight < IN_PART;

function counted({ weight, agreement, confidence, source }) {
  if (weight >= FULLY) return agreement < AGREES ? "counted fully, since the text says little" : "counted fully";
  // The weight is the confidence times the square of the agreement, or more where the text has few words.
  const isPoor = confidence * confidence < weight && (source === "given" ? "it says little" : "little of it could be read");
  const reason = isPoor || (agreement < AGREES ? "it does not agree with the text" : "it agrees with the text only in part");
  return weight >= IN_PART ? `counted in part, since ${reason}` : `counted little, since ${reason}`;
}

/** Who read it, where that is worth a word. */
export function sourceWords({ source, model }) {
  if (source === "given") return "with the text that you gave";
  return source === "endpoint" ? `read by ${model ?? "a vision-language model"}` : "";
}
