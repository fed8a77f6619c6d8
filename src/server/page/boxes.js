// A screenshot in its own window, with a box around each line that was read. A line and its box show each other.

import { $, el, plural } from "./dom.js";

const UNSURE = 0.8; // of a line's confidence, below which a letter is likely wrong
const SVG = "http://www.w3.org/2000/svg";

let lines = []; // of { row, box }
let current = 0;
let choose = null; // called with the place of a line

/** Shows a picture, and what was read of it, if that is known. `onChoose` gets the line that a person wants to put right. */
export function open({ name, url }, found, onChoose) {
  const dialog = $("boxes-dialog");
  setUp(dialog);
  const known = found?.lines ?? [];
  choose = onChoose;
  $("boxes-heading").textContent = name;
  $("boxes-note").textContent = note(found);
  const image = el("img", { src: url, alt: name });
  lines = known.map(makeLine);
  const overlay = shape("svg", { "aria-hidden": "true" }, lines.map(({ box }) => box));
  const fit = () => overlay.setAttribute("viewBox", `0 0 ${image.naturalWidth} ${image.naturalHeight}`);
  image.addEventListener("load", fit);
  $("boxes-picture").replaceChildren(el("div", { className: "canvas" }, image, overlay));
  $("boxes-lines").replaceChildren(...lines.map(({ row }) => el("li", {}, row)));
  $("boxes-lines").hidden = lines.length === 0;
  showSize(false);
  setCurrent(0);
  dialog.showModal();
  (lines[0]?.row ?? $("boxes-close")).focus();
}

function note(found) {
  if (!found) return "It is not read yet.";
  if (!found.lines) return `Where its text stands is not known${found.model ? `: ${found.model} read it` : ""}.`;
  if (found.lines.length === 0) return "No text was found in it.";
  const unsure = found.lines.filter(({ confidence }) => confidence < UNSURE).length;
  const doubts = unsure ? `, ${unsure} of them unsure (dashed)` : "";
  return `${plural(found.lines.length, "line")}${doubts}. Arrow keys go from line to line; Enter puts one right.`;
}

function makeLine({ text, confidence, corners }, place) {
  const unsure = confidence < UNSURE;
  const doubt = unsure ? el("span", { className: "hint" }, ` ${Math.round(100 * confidence)} % sure`) : "";
  const row = el("button", { type: "button", className: unsure ? "unsure" : "", tabIndex: -1 }, el("span", {}, text), doubt);
  const box = shape("polygon", { points: corners.map((it) => it.join(",")).join(" "), class: unsure ? "unsure" : "" });
  for (const element of [row, box]) {
    element.addEventListener("pointerenter", () => mark(place, element === box));
    element.addEventListener("click", () => finish(place));
  }
  row.addEventListener("focus", () => {
    setCurrent(place);
    mark(place, false);
  });
  return { row, box };
}

function shape(tag, attributes, children = []) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Marks a line in the list and in the picture, and brings into sight the one that is not pointed at. */
function mark(place, fromPicture) {
  lines.forEach(({ row, box }, at) => {
    row.classList.toggle("marked", at === place);
    box.classList.toggle("marked", at === place);
  });
  const { row, box } = lines[place];
  (fromPicture ? row : box).scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** Only one line is reached by Tab; the others by arrows. */
function setCurrent(place) {
  if (lines[current]) lines[current].row.tabIndex = -1;
  current = place;
  if (lines[current]) lines[current].row.tabIndex = 0;
}

function finish(place) {
  $("boxes-dialog").close();
  choose(place);
}

function showSize(actual) {
  $("boxes-picture").classList.toggle("actual", actual);
  $("boxes-size").setAttribute("aria-pressed", String(actual));
}

function setUp(dialog) {
  if (dialog.dataset.ready) return;
  dialog.dataset.ready = "yes";
  $("boxes-close").addEventListener("click", () => dialog.close());
  $("boxes-size").addEventListener("click", () => showSize($("boxes-size").getAttribute("aria-pressed") !== "true"));
  $("boxes-lines").addEventListener("keydown", (event) => {
    const to = { ArrowDown: current + 1, ArrowUp: current - 1, Home: 0, End: lines.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    lines[to]?.row.focus();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); }); // beside it
  dialog.addEventListener("close", () => $("boxes-picture").replaceChildren());
}
