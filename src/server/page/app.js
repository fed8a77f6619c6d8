// The page: an issue is put together, asked, and answered or explained beside the field that was wrong.

import * as answers from "./answer.js";
import { base, forgetKey, key, request } from "./api.js";
import { curl } from "./curl.js";
import { $, el, say, sentence, showError } from "./dom.js";
import * as markdown from "./markdown.js";
import * as pictures from "./pictures.js";
import * as repositories from "./repositories.js";

let asked = null; // the controller of the question that is under way
let waiting = null; // the timer until another try is welcome

const FIELDS = ["title", "body", "k", "granularity", "retriever", "paths", "languages"];

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
  const images = await pictures.asRequest();
  return {
    ...($("title").value.trim() && { title: $("title").value.trim() }),
    ...($("body").value.trim() && { body: $("body").value }),
    ...($("k").value && { k: Number($("k").value) }),
    granularity: $("granularity").value,
    ...($("retriever").value && { retriever: $("retriever").value }),
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
    if (asked === mine) show(answer, { repository: name, words: words(sent), granularity: sent.granularity, curl: curl(new URL(path, base).href, sent, Boolean(key())) });
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
function words({ title = "", body = "" }) {
  const all = `${title} ${body}`.toLowerCase().match(/[\p{L}\p{N}_]{3,}/gu) ?? [];
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
  clearInterval(waiting);
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
  let left = Math.ceil(seconds);
  const button = $("ask-retry");
  showError($("ask-error"), `${sentence(message)} The server asks to wait ${left === 1 ? "a second" : `${left} seconds`}.`);
  const tick = () => {
    button.disabled = left > 0;
    button.textContent = left > 0 ? `Try again in ${left} s` : "Try again";
    if (left <= 0) clearInterval(waiting);
    left -= 1;
  };
  button.hidden = false;
  tick();
  waiting = setInterval(tick, 1000);
}

async function showServer() {
  try {
    const { version, model_id: model } = await request("GET", "info");
    $("server").textContent = [`Sightline ${version ?? ""}`.trim(), model].filter(Boolean).join(" · ");
  } catch { /* the footer can do without */ }
}

setUp();
