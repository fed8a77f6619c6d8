// One screenshot in the form: its picture, what was read of it, and the text to correct before it is searched with.

import * as boxes from "./boxes.js";
import { $, bytes, countdown, el, say, sentence } from "./dom.js";
import { isDoubtful, read, readWords, saysNothing, summary } from "./evidence.js";

const FEWEST_ROWS = 3;
const MOST_ROWS = 8;

let made = 0;

/** Shows a picture and reads it. `image(text)` gives its part of a request; `onRemove` is called by its button. */
export class Card {
  #picture;
  #image;
  #reading = new AbortController(); // of the picture
  #understanding = new AbortController(); // of a changed text
  #found = null; // what was read of the picture itself
  #before = ""; // what the field held before anyone changed it
  #parts;

  constructor(picture, image, onRemove) {
    this.#picture = picture;
    this.#image = image;
    this.#parts = this.#make(onRemove);
    this.element = el("li", {}, ...this.#layout());
    this.#read();
  }

  /** The text that stands for the picture's, if a person changed it. */
  get text() {
    const { field, area } = this.#parts;
    return !field.hidden && area.value !== this.#before ? area.value : undefined;
  }

  /** Ends what is under way. */
  close() {
    this.#reading.abort();
    this.#understanding.abort();
    clearInterval(this.#parts.again.countdown);
  }

  #make(onRemove) {
    const { name, url, file } = this.#picture;
    const id = `picture-${made += 1}`;
    const parts = {
      image: el("img", { src: url, alt: "", width: 96, height: 64 }),
      size: el("span", { className: "hint" }, bytes(file.size)),
      open: el("button", { type: "button", className: "thumbnail", "aria-label": `Show ${name} large`, title: "Show it large, with its text marked" }),
      remove: el("button", { type: "button", className: "remove", "aria-label": `Remove ${name}` }, "Remove"),
      state: el("p", { className: "reading" }),
      where: el("button", { type: "button", className: "quiet", hidden: true, "aria-label": `Show where the lines of ${name} are` }, "Show where"),
      warning: el("p", { className: "warn", hidden: true }),
      again: el("button", { type: "button", hidden: true }, "Read again"),
      summary: el("div"),
      area: el("textarea", { id, spellcheck: false, "aria-describedby": `${id}-hint` }),
      hint: el("p", { className: "hint", id: `${id}-hint` }),
      back: el("button", { type: "button", className: "quiet", hidden: true, "aria-label": `Back to what was read of ${name}` }, "Back to what was read"),
      field: el("div", { className: "said", hidden: true }),
    };
    parts.open.append(parts.image);
    const label = el("label", { htmlFor: id }, "What it says", el("span", { className: "unseen" }, `: ${name}`));
    parts.field.append(el("div", { className: "label-row" }, label, parts.back), parts.area, parts.hint);
    this.#listen(parts, onRemove);
    return parts;
  }

  #listen({ image, size, open, where, remove, again, area, back }, onRemove) {
    const { file } = this.#picture;
    image.addEventListener("load", () => { size.textContent = `${image.naturalWidth} × ${image.naturalHeight}, ${bytes(file.size)}`; });
    image.addEventListener("error", () => {
      size.textContent = `${bytes(file.size)}; the browser can't show it`;
      open.disabled = true;
    });
    for (const button of [open, where]) {
      button.addEventListener("click", () => boxes.open(this.#picture, this.#found, (line) => this.#select(line)));
    }
    remove.addEventListener("click", onRemove);
    again.addEventListener("click", () => {
      this.element.querySelector("button").focus(); // the one that has the focus goes
      this.#read();
    });
    area.addEventListener("input", () => this.#showChange());
    area.addEventListener("change", () => this.#understand());
    back.addEventListener("click", () => this.#goBack());
  }

  #layout() {
    const { size, open, where, remove, state, warning, again, summary: fields, field } = this.#parts;
    const head = el("div", { className: "head" }, open, el("span", { className: "name" }, this.#picture.name, el("br"), size), remove);
    return [head, el("div", { className: "label-row" }, state, where), warning, again, fields, field];
  }

  async #read() {
    this.#show("Reading …");
    this.#reading = new AbortController();
    this.element.setAttribute("aria-busy", "true");
    try {
      this.#found = await this.#ask(undefined, this.#reading.signal);
      this.#showFound();
    } catch (error) {
      if (error.name !== "AbortError") this.#fail(error);
    } finally {
      this.element.removeAttribute("aria-busy");
    }
  }

  #ask(text, signal) {
    const issue = { title: $("title").value, body: $("body").value };
    return read(() => this.#image(text), issue, signal);
  }

  #show(words, kind = "") {
    const { state, where, warning, again } = this.#parts;
    state.textContent = words;
    where.hidden = !this.#found?.lines?.length;
    state.className = `reading ${kind}`;
    again.hidden = true;
    warning.hidden = true;
  }

  #showFound() {
    const { area, field, warning } = this.#parts;
    const kind = saysNothing(this.#found) || isDoubtful(this.#found) ? "poor" : "good";
    this.#show(readWords(this.#found), kind);
    warning.textContent = this.#found.warning ? sentence(this.#found.warning) : "";
    warning.hidden = !this.#found.warning;
    // What a person wrote in the meantime stays.
    const changed = this.text;
    this.#begin(this.#found.ocr_text);
    if (changed === undefined) this.#showSummary(this.#found);
    else area.value = changed;
    field.hidden = false;
    this.#showChange();
    say(`${this.#picture.name}: ${readWords(this.#found)}${this.#found.warning ? ` ${this.#found.warning}` : ""}`);
  }

  #begin(text) {
    const { area } = this.#parts;
    area.value = text;
    area.rows = Math.min(Math.max(text.split("\n").length, FEWEST_ROWS), MOST_ROWS);
    this.#before = area.value; // which has other ends of lines
  }

  #fail(error) {
    const { again, field } = this.#parts;
    const { words, broken } = failure(error);
    this.#show(words, "bad");
    again.hidden = broken;
    countdown(again, "Read again", error.retryAfter ?? 0);
    field.hidden = broken;
    this.#showChange();
    say(`${this.#picture.name}: ${words}`);
  }

  #showChange() {
    const { back, hint, area } = this.#parts;
    const changed = this.text !== undefined;
    const empty = !area.value.trim();
    back.hidden = !changed || !this.#found;
    if (!changed) hint.textContent = this.#found && !empty ? "Wrong letters can be put right here before the search." : "Type the text that counts, if there is any.";
    else if (empty) hint.textContent = "Changed: the search takes it as a picture without text.";
    else hint.textContent = "Changed: the search takes this for what the picture says.";
  }

  #showSummary(vce) {
    this.#parts.summary.replaceChildren(...[vce && summary(vce)].filter(Boolean));
  }

  /** Takes a changed text apart, so that a person sees what it gives. */
  async #understand() {
    const { text } = this;
    this.#understanding.abort();
    this.#understanding = new AbortController();
    if (text === undefined) {
      this.#showSummary(this.#found);
      return;
    }
    try {
      this.#showSummary(await this.#ask(text, this.#understanding.signal));
    } catch (error) {
      if (error.name !== "AbortError") this.#showSummary(null); // the search still takes the text
    }
  }

  #goBack() {
    const { area } = this.#parts;
    area.value = this.#before;
    this.#showChange();
    this.#understand();
    area.focus();
    say("The text is as it was read");
  }

  /** Selects a line of the picture in the text, where it still stands there. */
  #select(line) {
    const { area } = this.#parts;
    const text = this.#found.lines[line].text;
    const same = this.#found.lines.slice(0, line).filter((it) => it.text === text).length;
    let at = area.value.indexOf(text);
    for (let n = 0; n < same && at >= 0; n += 1) at = area.value.indexOf(text, at + text.length);
    area.focus();
    if (at >= 0) area.setSelectionRange(at, at + text.length);
  }
}

/** What went wrong and what to do, and whether no other try will change it. */
function failure(error) {
  const what = sentence(error.message.replace("the picture `images[0].data`", "the picture"));
  const capital = what.charAt(0).toUpperCase() + what.slice(1);
  const status = error.status ?? 500;
  if (status === 401 || status === 403) return { words: `Not read: ${capital} Read it again to give a key.` };
  if (status === 429 || status === 503) return { words: `Not read yet: ${capital} The search reads it too, if you don't wait.` };
  if (status >= 400 && status < 500) return { words: `Can't be read: ${capital}`, broken: true };
  return { words: `Not read: ${capital}` };
}
