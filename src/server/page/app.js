// The page: an issue is put together, asked, and answered or explained beside the field that was wrong.

import * as answers from "./answer.js";
import { base, forgetKey, key, request } from "./api.js";
import { curl } from "./curl.js";
import { $, countdown, el, say, sentence, showError } from "./dom.js";
import * as markdown from "./markdown.js";
import * as pictures from "./pictures.js";
import * as repositories from "./repositories.js";

let asked = null; // the controller of the question that is under way
let model = null; // what the server says of its encoder

const FIELDS = ["title", "body", "k", "granularity", "retriever", "mode", "paths", "languages"];

function setUp() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  $("ask").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      ask();
    } else if (event.key === "Enter" && event.target.matches("input")) {
      event.preventDefault(); // a line's end in the title is no question yet
    }
  });
  $("ask-stop").addEventListener("click", () => asked?.abort());
  $("ask-retry").addEventListener("click", ask);
  $("preview-switch").addEventListener("click", togglePreview);
  if (/Mac|iPhone|iPad/.test(navigator.platform)) $("shortcut").textContent = "⌘";
  $("forget-key").hidden = !key();
  $("forget-key").addEventListener("click", () => {
    forgetKey();
    say("The key is forgotten");
  });
  // A file that misses its place must not replace the page.
  for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => event.preventDefault());
  for (const id of ["mode", "retriever"]) $(id).addEventListener("change", showMode);
  pictures.setUp();
  repositories.setUp();
  showServer();
}

function togglePreview() {
  const preview = $("preview");
  const shown = preview.hidden;
  if (shown) {
    const text = $("body").value;
    preview.replaceChildren(...(text.trim() ? markdown.render(text) : [el("p", { className: "hint" }, "Nothing to show yet.")]));
  }
  preview.hidden = !shown;
  $("body").hidden = shown;
  $("preview-switch").setAttribute("aria-pressed", String(shown));
  if (!shown) $("body").focus();
}

/** The request that the form says, without what is left at the server's own setting. */
async function asRequest() {
  const listed = (id) => $(id).value.split(",").map((part) => part.trim()).filter(Boolean);
  const filter = {};
  if (listed("paths").length) filter.paths = listed("paths");
  if (listed("languages").length) filter.languages = listed("languages");
  const mode = $("mode").value;
  const images = await pictures.asRequest(!mode || mode.startsWith("vce")); // a text where none is read would be refused
  return {
    ...($("title").value.trim() && { title: $("title").value.trim() }),
    ...($("body").value.trim() && { body: $("body").value }),
    ...($("k").value && { k: Number($("k").value) }),
    granularity: $("granularity").value,
    ...($("retriever").value && { retriever: $("retriever").value }),
    ...(mode && { mode }),
    ...($("explain").checked && { explain: true }),
    ...(Object.keys(filter).length && { filter }),
    ...(images.length && { images }),
  };
}

async function ask() {
  asked?.abort();
  const mine = new AbortController();
  asked = mine;
  clearErrors();
  busy(true);
  try {
    const name = repositories.chosen();
    if (!name) throw Object.assign(new Error("Choose or add a repository first."), { param: "repo" });
    const path = `v1/repositories/${encodeURIComponent(name)}/locate`;
    const sent = await asRequest();
    if (!sent.title && !sent.body && !sent.images) throw Object.assign(new Error("Write a title or a body, or add a screenshot."), { param: "title" });
    const answer = await request("POST", path, { json: sent, signal: mine.signal });
    if (asked === mine) show(answer, { repository: name, words: words(sent, answer), granularity: sent.granularity, curl: curl(new URL(path, base).href, sent, Boolean(key())) });
  } catch (error) {
    if (asked === mine) fail(error);
  } finally {
    if (asked === mine) {
      asked = null;
      busy(false);
    }
  }
}

/** Words of the issue worth marking in an answer that doesn't say which counted. */
function words({ title = "", body = "" }, { query }) {
  const seen = (query.vce ?? []).map((it) => it.ocr_text);
  const all = [title, body, ...seen].join(" ").toLowerCase().match(/[\p{L}\p{N}_]{3,}/gu) ?? [];
  return [...new Set(all)].slice(0, 200);
}

function busy(on) {
  $("ask-submit").textContent = on ? "Looking …" : "Find the code";
  $("ask-stop").hidden = !on;
  $("answer").setAttribute("aria-busy", String(on));
  if (on) say("Looking");
}

function show(answer, about) {
  $("answer-content").replaceChildren(...answers.render(answer, about).filter(Boolean));
  say(answers.inWords(answer));
  // Where the answer lies below the form, a person is led to it.
  if ($("answer").offsetTop > $("ask").offsetTop) {
    $("answer").focus({ preventScroll: true });
    $("answer").scrollIntoView();
  }
}

// Errors stand beside what they are about. The server names that in the request's own words.

function clearErrors() {
  for (const id of FIELDS) showError($(`${id}-error`), "", $(id));
  pictures.fail("");
  repositories.fail("");
  showError($("ask-error"), "");
  clearInterval($("ask-retry").countdown);
  $("ask-retry").hidden = true;
}

function fieldOf(param = "") {
  if (/^(repo|repository)\b/.test(param)) return [repositories.fail, $("repository")];
  if (/^images?\b/.test(param)) return [pictures.fail, $("pictures-input")];
  const id = /^filter\.(paths|languages)/.exec(param)?.[1] ?? param;
  if (!FIELDS.includes(id)) return undefined;
  return [(message) => showError($(`${id}-error`), message, $(id)), $(id)];
}

function fail(error) {
  if (error.name === "AbortError") {
    say("Stopped");
    return;
  }
  const message = error.status === 404 ? `${error.message} (the list of repositories is read anew)` : error.message;
  const field = fieldOf(error.param ?? (error.status === 404 ? "repo" : ""));
  if (error.status === 404) repositories.refresh().then(() => repositories.fail(message));
  if (field) {
    const [showBeside, element] = field;
    showBeside(pictureNamed(error.param, message));
    const options = element.closest("details");
    if (options) options.open = true;
    if (element === $("body") && $("body").hidden) togglePreview();
    element.focus();
  } else {
    showError($("ask-error"), message);
  }
  if (error.retryAfter || error.status === 429 || error.status === 503) offerRetry(error.retryAfter ?? 1, message);
}

/** `images[1].data` in the words of the page. */
function pictureNamed(param, message) {
  const place = /^images?\[(\d+)\]/.exec(param ?? "")?.[1];
  const name = place === undefined ? undefined : pictures.names()[place];
  return name && !message.includes(name) ? `${name}: ${message}` : message;
}

function offerRetry(seconds, message) {
  const left = Math.ceil(seconds);
  showError($("ask-error"), `${sentence(message)} The server asks to wait ${left === 1 ? "a second" : `${left} seconds`}.`);
  $("ask-retry").hidden = false;
  countdown($("ask-retry"), "Try again", left);
}

async function showServer() {
  try {
    const { version, model_id: id, max_images: images } = await request("GET", "info");
    model = { id, images };
    $("server").textContent = [`Sightline ${version ?? ""}`.trim(), id].filter(Boolean).join(" · ");
  } catch { /* the footer can do without */ }
  showMode();
}

// What becomes of screenshots. A model that reads text only makes some of it pointless, which is said and not forbidden.

function showMode() {
  const blind = model?.images === 0;
  for (const option of $("mode").options) {
    option.dataset.label ??= option.textContent;
    option.textContent = option.dataset.label + (blind && option.value.endsWith("image") ? " (not by this model)" : "");
  }
  $("mode-note").textContent = modeNote($("mode").value, $("retriever").value, blind);
}

function modeNote(mode, retriever, blind) {
  const reader = model?.id ?? "the model";
  const why = blind ? `${reader} reads text only` : retriever === "bm25" && mode.endsWith("image") ? "plain word counts see no pictures" : "";
  switch (mode) {
    case "text": return "Screenshots don't count.";
    case "vce": return "The text in them counts, corrected if you changed it.";
    case "image": return why ? `Screenshots would not count: ${why}.` : `${reader} sees them; the text in them is not read, and your corrections don't count.`;
    case "vce+image": return why ? `The text in them counts alone: ${why}.` : `The text in them counts, and ${reader} sees them.`;
    default: return `If the server isn't set otherwise, the text in them counts${why ? ` alone: ${why}` : model ? `, and ${reader} sees them` : ""}.`;
  }
}

setUp();
