// Choosing, adding, watching and deleting repositories. What a repository is in stands in words; a job is followed as long as it runs.

import { ApiError, followJob, request } from "./api.js";
import { $, bytes, count, el, onDrop, plural, say, sentence, showError } from "./dom.js";

const CHOSEN = "repository";
const ARCHIVES = [
  ["application/gzip", (head) => head[0] === 0x1f && head[1] === 0x8b],
  ["application/zip", (head) => head[0] === 0x50 && head[1] === 0x4b],
  ["application/x-tar", (head) => String.fromCharCode(...head.slice(257, 262)) === "ustar"],
];

let list = [];
let followed = null; // { job, abort }
let archive = null;
let adding = false; // a flag and not a disabled button, which would lose the focus

const select = $("repository");
const url = (name) => `v1/repositories/${encodeURIComponent(name)}`;

/** The name of the chosen repository, or "". */
export const chosen = () => select.value;

const current = () => list.find(({ repository }) => repository === select.value);

export const fail = (message) => showError($("repository-error"), message, select);

export async function setUp() {
  select.addEventListener("change", () => {
    sessionStorage.setItem(CHOSEN, select.value);
    fail("");
    show();
    look();
  });
  $("upload-again").addEventListener("click", uploadAgain);
  $("index-again").addEventListener("click", indexAgain);
  $("delete").addEventListener("click", remove);
  $("show-skipped").addEventListener("click", toggleSkipped);
  $("job-cancel").addEventListener("click", cancel);
  setUpAdding();
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  await refresh();
  if (list.length === 0 && $("repository-error").hidden) $("add").open = true;
}

/** Asks for the list again, and keeps or changes what is chosen. */
export async function refresh(choose) {
  try {
    list = (await request("GET", "v1/repositories")).repositories;
  } catch (error) {
    select.replaceChildren(el("option", { value: "" }, "Not known"));
    fail(`The list of repositories can't be had: ${error.message}`);
    return;
  }
  fail("");
  const wanted = choose ?? (select.value || sessionStorage.getItem(CHOSEN));
  select.replaceChildren(...options());
  if (list.some(({ repository }) => repository === wanted)) select.value = wanted;
  if (select.value) sessionStorage.setItem(CHOSEN, select.value);
  show();
  look();
}

/** Asks for the chosen repository itself: whether its index is stale is looked at only then. */
async function look() {
  const name = chosen();
  if (!name) return;
  const seen = await request("GET", url(name)).catch(() => null); // a list that is a little old will do
  const at = list.findIndex(({ repository }) => repository === name);
  if (!seen || at < 0) return;
  const before = list[at];
  list[at] = seen;
  if (before.status !== seen.status || before.stale !== seen.stale) select.options[at].textContent = optionText(seen);
  if (chosen() === name) show();
}

function options() {
  if (list.length === 0) return [el("option", { value: "" }, "None yet: add one below")];
  return list.map((it) => el("option", { value: it.repository }, optionText(it)));
}

const optionText = ({ repository, status, stale }) => `${repository} (${STATES[status]}${stale ? ", out of date" : ""})`;

const STATES = {
  building: "being indexed",
  ready: "ready",
  partial: "ready in part",
  failed: "failed",
};

function show() {
  const it = current();
  $("repository-state").replaceChildren(...(it ? describe(it) : []));
  $("repository-actions").hidden = !it;
  showSkipped(it);
  if (it) {
    $("upload-again").hidden = it.source?.kind !== "upload";
    $("show-skipped").hidden = !it.skipped_count;
    $("show-skipped").textContent = `${count(it.skipped_count ?? 0)} skipped`;
  }
  follow(it?.job ?? null);
}

function describe(it) {
  const parts = [el("p", { className: `status ${it.status}` }, el("strong", {}, statusWords(it)))];
  if (it.stale) parts.push(el("p", { className: "warn" }, `Out of date: ${it.stale_reason ?? "its files have changed since it was indexed"}.`));
  if (it.failure && it.status !== "failed") {
    parts.push(el("p", { className: "warn" }, `The last indexing failed: ${sentence(it.failure)} The index before it still answers.`));
  }
  if (it.status !== "building") parts.push(el("p", { className: "facts" }, facts(it)));
  return parts;
}

function statusWords(it) {
  switch (it.status) {
    case "building": return "Being indexed; questions can be asked when it is ready.";
    case "partial": return `Ready in part: ${count(it.vectors ?? 0)} of ${count(it.windows ?? 0)} windows have vectors; questions fill in what they need.`;
    case "failed": return `Failed: ${it.failure ?? "the server's log says why."}`;
    default: return "Ready.";
  }
}

function facts(it) {
  const { kind, path, rev } = it.source ?? {};
  const where = kind === "upload" ? "uploaded" : path && `from ${path}`;
  return [
    it.status !== "failed" && plural(it.files ?? 0, "file"),
    it.status !== "failed" && plural(it.functions ?? 0, "function"),
    it.commit && `commit ${it.commit.slice(0, 10)}`,
    where,
    rev && `revision ${rev}`,
    it.model,
  ].filter(Boolean).join(" · ");
}

let skippedOf = null; // the repository whose skipped files are shown

function toggleSkipped() {
  skippedOf = skippedOf === chosen() ? null : chosen();
  showSkipped(current());
}

function showSkipped(it) {
  const isShown = Boolean(it?.skipped) && skippedOf === it.repository;
  $("skipped").hidden = !isShown;
  $("show-skipped").setAttribute("aria-expanded", String(isShown));
  if (!isShown) return;
  const item = ({ path, reason }) => el("li", {}, el("code", {}, path), ` ${reason}`);
  $("skipped").replaceChildren(el("ul", { className: "skipped", tabIndex: 0, "aria-label": "Skipped files" }, it.skipped.map(item)));
}

// Jobs. A repository names its last one, which may have ended; only what comes tells.

const over = new Set();

function follow(job) {
  const wanted = job && !over.has(job) ? job : null;
  if ((followed?.job ?? null) === wanted) return;
  followed?.abort.abort();
  followed = wanted && { job: wanted, abort: new AbortController(), said: "", ran: false };
  $("job").hidden = true;
  if (followed) watch(followed);
}

async function watch(it) {
  try {
    const last = await followJob(it.job, (state) => takeState(it, state), it.abort.signal);
    over.add(it.job);
    if (followed !== it) return;
    followed = null;
    $("job").hidden = true;
    if (!it.ran) return;
    await refresh();
    ended(last);
  } catch (error) {
    if (followed !== it || error.name === "AbortError") return;
    followed = null;
    over.add(it.job);
    $("job").hidden = true;
    if (error.status !== 404) fail(`The progress can't be followed: ${error.message}`);
  }
}

function takeState(it, { status, progress }) {
  const runs = status === "queued" || status === "running";
  if (followed !== it || !runs) return;
  if (!it.ran) $("job-cancel").textContent = "Cancel";
  it.ran = true;
  $("job").hidden = false;
  showProgress(progress, status);
}

function ended({ repository, status, error }) {
  if (status === "done") say(`${repository} is indexed`);
  if (status === "cancelled") say(`Indexing of ${repository} was cancelled`);
  if (status === "failed") fail(`Indexing of ${repository} failed: ${error?.message ?? "the server's log says why."}`);
}

function showProgress(progress, status) {
  const { phase, done = 0, total = 0 } = progress ?? {};
  const words = status === "queued" ? "Waiting for its turn" : phase ? phase[0].toUpperCase() + phase.slice(1) : "Starting";
  const bar = $("job-progress");
  $("job-phase").textContent = words;
  if (total > 0) {
    bar.max = total;
    bar.value = done;
    $("job-count").textContent = `${count(done)} of ${count(total)}`;
  } else {
    bar.removeAttribute("value");
    $("job-count").textContent = done ? count(done) : "";
  }
  // Not every step is spoken: a phase's begin and its quarters.
  const spoken = total > 0 ? `${words}, ${Math.floor((4 * done) / total) * 25} percent` : words;
  if (followed && followed.said !== spoken) say(spoken);
  if (followed) followed.said = spoken;
}

async function cancel() {
  if (!followed) return;
  $("job-cancel").textContent = "Cancelling …";
  try {
    await request("DELETE", `v1/jobs/${encodeURIComponent(followed.job)}`);
  } catch (error) {
    fail(`It can't be cancelled: ${error.message}`);
    $("job-cancel").textContent = "Cancel";
  }
}

// Adding, indexing again, deleting.

function setUpAdding() {
  for (const radio of document.getElementsByName("source")) radio.addEventListener("change", showSource);
  $("add-path").addEventListener("input", () => suggestName(lastPart($("add-path").value)));
  $("add-name").addEventListener("input", () => { delete $("add-name").dataset.suggested; });
  $("archive").addEventListener("change", () => takeArchive($("archive").files[0]));
  onDrop($("add-form"), ([file]) => {
    chooseSource("upload");
    const files = new DataTransfer();
    files.items.add(file);
    $("archive").files = files.files;
    takeArchive(file);
  });
  $("add-form").addEventListener("submit", (event) => {
    event.preventDefault();
    add();
  });
}

const lastPart = (path) => path.replace(/\/+$/, "").split("/").pop();

function suggestName(name) {
  const field = $("add-name");
  if (field.value && !field.dataset.suggested) return;
  field.value = name.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[-.]+/, "").slice(0, 64);
  field.dataset.suggested = "yes";
}

function takeArchive(file) {
  archive = file ?? null;
  showError($("archive-error"), "", $("archive"));
  if (file) suggestName(file.name.replace(/\.(tar\.gz|tgz|tar|zip)$/i, ""));
}

function chooseSource(value) {
  for (const radio of document.getElementsByName("source")) radio.checked = radio.value === value;
  showSource();
}

function showSource() {
  const upload = source() === "upload";
  $("from-path").hidden = upload;
  $("from-upload").hidden = !upload;
}

const source = () => [...document.getElementsByName("source")].find(({ checked }) => checked).value;

const FIELDS = { repo: "add-name", repository: "add-name", "source.path": "add-path", path: "add-path", "source.rev": "add-rev", rev: "add-rev", body: "archive" };

function failAdding(error, fallback = "add-error") {
  for (const name of ["add-name", "add-path", "add-rev", "archive"]) showError($(`${name}-error`), "", $(name));
  showError($("add-error"), "");
  if (!error) return;
  const field = FIELDS[error.param];
  if (!field || $(field).closest("[hidden]")) {
    showError($(fallback), error.message);
    return;
  }
  showError($(`${field}-error`), error.message, $(field));
  $(field).focus();
}

const missing = (param, message) => new ApiError(0, { message, param });

async function add() {
  if (adding) return;
  adding = true;
  failAdding();
  const name = $("add-name").value.trim();
  try {
    if (!name) throw missing("repo", "A repository needs a name.");
    const started = source() === "upload" ? await upload(name) : await index(name, $("add-path").value.trim(), $("add-rev").value.trim());
    $("add").open = false;
    $("add-form").reset();
    takeArchive(null);
    showSource();
    await begun(started);
  } catch (error) {
    failAdding(error);
  } finally {
    adding = false;
    $("add-submit").textContent = "Index it";
  }
}

async function index(name, path, rev) {
  if (!path) throw missing("source.path", "A path on the server is needed.");
  return request("PUT", url(name), { json: { source: rev ? { path, rev } : { path } } });
}

async function upload(name) {
  if (!archive) throw missing("body", "Choose an archive.");
  const head = new Uint8Array(await archive.slice(0, 262).arrayBuffer());
  const kind = ARCHIVES.find(([, matches]) => matches(head));
  if (!kind) throw missing("body", `${archive.name} is not a tar, tar.gz or zip archive.`);
  $("add-submit").textContent = `Uploading ${bytes(archive.size)} …`;
  say(`Uploading ${archive.name}`);
  return request("POST", `${url(name)}/snapshot`, { body: archive, type: kind[0] });
}

async function begun({ repository }) {
  await refresh(repository);
  if (followed) followed.ran = true; // even where it ends before its first event
  say(`Indexing of ${repository} has begun`);
  select.focus();
}

async function indexAgain() {
  fail("");
  try {
    await begun(await request("PUT", url(chosen()), { json: {} })); // from where its files came before
  } catch (error) {
    fail(error.message);
  }
}

function uploadAgain() {
  $("add").open = true;
  $("add-name").value = chosen();
  delete $("add-name").dataset.suggested;
  chooseSource("upload");
  $("archive").focus();
}

async function remove() {
  const name = chosen();
  const sure = await confirm(`Delete ${name}?`, "Its index is removed from the server. The files it was made of stay where they are, except an uploaded copy.");
  if (!sure) return;
  try {
    await request("DELETE", url(name));
    await refresh("");
    say(`${name} is deleted`);
    select.focus();
  } catch (error) {
    fail(error.message);
  }
}

function confirm(question, message) {
  const dialog = $("confirm-dialog");
  $("confirm-heading").textContent = question;
  $("confirm-message").textContent = message;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    const yes = () => dialog.close("yes");
    $("confirm-yes").addEventListener("click", yes);
    dialog.addEventListener("close", () => {
      $("confirm-yes").removeEventListener("click", yes);
      resolve(dialog.returnValue === "yes");
    }, { once: true });
  });
}
