// The screenshots of an issue: taken from a dialog, a drop or the clipboard, checked, shown with what they say, and sent as data URLs.

import { Card } from "./card.js";
import { $, bytes, onDrop, say, showError } from "./dom.js";

const MOST = 2; // what an encoder reads of an issue
const MOST_BYTES = 20 * 1024 * 1024; // the server's own default; it has the last word

// Told by the first bytes, as the server does, since a file's name and type are only what someone called it.
const KINDS = [
  ["image/png", (head) => head.startsWith("\x89PNG")],
  ["image/jpeg", (head) => head.startsWith("\xff\xd8\xff")],
  ["image/gif", (head) => head.startsWith("GIF8")],
  ["image/webp", (head) => head.startsWith("RIFF") && head.slice(8, 12) === "WEBP"],
];

const chosen = []; // of { file, name, type, url, card }

export function setUp() {
  const input = $("pictures-input");
  input.addEventListener("change", () => {
    add([...input.files]);
    input.value = "";
  });
  onDrop($("ask"), add);
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return; // text goes where the cursor is
    event.preventDefault();
    add(files);
  });
}

/** What was chosen, as a request has it; `withText`: with the texts that a person put right. */
export function asRequest(withText) {
  return Promise.all(chosen.map((picture) => image(picture, withText ? picture.card.text : undefined)));
}

async function image({ file, name, type }, text) {
  return { name, data: await dataUrl(file, type), ...(text !== undefined && { text }) };
}

export const names = () => chosen.map(({ name }) => name);

export const fail = (message) => showError($("pictures-error"), message, $("pictures-input"));

async function add(files) {
  const refused = [];
  for (const file of files) {
    const reason = await refusal(file);
    if (reason) refused.push(reason);
  }
  fail(refused.join(" "));
  say(`${chosen.length} of ${MOST} screenshots${refused.length ? `. ${refused.join(" ")}` : ""}`);
}

/** Takes a file, or says why not. All waiting is before the count, since two drops may overlap. */
async function refusal(file) {
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  const kind = KINDS.find(([, matches]) => matches(head));
  if (chosen.length >= MOST) return `${file.name} was not added: an issue has at most two screenshots. Remove one first.`;
  if (file.size === 0) return `${file.name} was not added: it is empty.`;
  if (file.size > MOST_BYTES) return `${file.name} was not added: it has ${bytes(file.size)}, and the limit is ${bytes(MOST_BYTES)}.`;
  if (!kind) return `${file.name} was not added: it is not a PNG, JPEG, GIF or WebP picture.`;
  const type = kind[0];
  const picture = { file, type, name: freeName(file.name || `pasted.${type.slice(6)}`), url: URL.createObjectURL(file) };
  picture.card = new Card(picture, (text) => image(picture, text), () => remove(picture));
  chosen.push(picture);
  $("pictures").append(picture.card.element);
  return undefined;
}

/** Every pasted picture is called image.png; an answer names pictures, so their names must differ. */
function freeName(name) {
  if (!names().includes(name)) return name;
  const dot = name.lastIndexOf(".");
  return dot > 0 ? `${name.slice(0, dot)}-2${name.slice(dot)}` : `${name}-2`;
}

function remove(picture) {
  const place = chosen.indexOf(picture);
  chosen.splice(place, 1);
  picture.card.close();
  picture.card.element.remove();
  URL.revokeObjectURL(picture.url);
  fail("");
  say(`${picture.name} removed`);
  ($("pictures").querySelectorAll(".remove")[Math.min(place, chosen.length - 1)] ?? $("pictures-input")).focus();
}

function dataUrl(file, type) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(`data:${type};base64,${reader.result.slice(reader.result.indexOf(",") + 1)}`);
    reader.onerror = () => reject(new Error(`${file.name} can't be read any more. Remove it and add it again.`));
    reader.readAsDataURL(file);
  });
}
