// The service as the page speaks to it: requests, errors in the server's one shape, the key, and a job's events.

import { $ } from "./dom.js";

/** Where the service is: beside the page, also below a prefix of a proxy. */
export const base = new URL(".", document.baseURI);

export class ApiError extends Error {
  constructor(status, { message, code, param }, retryAfter) {
    super(message);
    Object.assign(this, { status, code, param, retryAfter });
  }
}

const KEY = "api-key";

/** The key of this tab, or nothing. */
export const key = () => sessionStorage.getItem(KEY);

export function forgetKey() {
  sessionStorage.removeItem(KEY);
  $("forget-key").hidden = true;
}

/** Sends a request and gives the answer's JSON. `json` or `body` with `type`; asks for a key when the server wants one. */
export async function request(method, path, options = {}) {
  const response = await send(method, path, options);
  if (response.status === 204) return null;
  const text = await response.text();
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    throw new ApiError(response.status, { message: "The server's answer is not JSON." });
  }
}

async function send(method, path, options) {
  for (;;) {
    const used = key();
    const response = await sendOnce(method, path, options, used);
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status !== 401 || !(await askForKey(used, error.message))) throw error;
  }
}

async function sendOnce(method, path, { json, body, type, accept, signal }, used) {
  const headers = {};
  if (used) headers.Authorization = `Bearer ${used}`;
  if (json !== undefined) headers["Content-Type"] = "application/json";
  else if (type) headers["Content-Type"] = type;
  if (accept) headers.Accept = accept;
  try {
    return await fetch(new URL(path, base), { method, headers, signal, body: json === undefined ? body : JSON.stringify(json) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "The server can't be reached, or closed the connection." });
  }
}

async function errorOf(response) {
  const seconds = Number(response.headers.get("Retry-After"));
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch { /* a proxy's own page */ }
  const message = error.message || `The server answered ${response.status} ${response.statusText}`.trim() + ".";
  return new ApiError(response.status, { ...error, message }, seconds > 0 ? seconds : undefined);
}

let asking = null;

/** Whether there is now another key than the one that was refused. Requests that fail together ask once. */
function askForKey(refused, message) {
  if (key() !== refused) return Promise.resolve(true);
  asking ??= keyDialog(refused ? message : "The server asks for a key.").finally(() => { asking = null; });
  return asking;
}

function keyDialog(message) {
  const [dialog, form, input] = [$("key-dialog"), $("key-form"), $("key")];
  $("key-message").textContent = message;
  input.value = "";
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    const settled = new AbortController();
    const end = (given) => {
      settled.abort();
      if (dialog.open) dialog.close();
      resolve(given);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = input.value.trim();
      input.value = "";
      if (!given) return;
      sessionStorage.setItem(KEY, given);
      $("forget-key").hidden = false;
      end(true);
    }, { signal: settled.signal });
    $("key-cancel").addEventListener("click", () => end(false), { signal: settled.signal });
    dialog.addEventListener("close", () => end(false), { signal: settled.signal });
  });
}

const POLL_MS = 1000;
const SILENT_MS = 5000; // of events: then they are taken to be held up, by a proxy that collects answers say
const ENDED = ["done", "failed", "cancelled"];

/** Follows a job to its end and gives its last state. By events, and by asking again and again where those don't come through. */
export async function followJob(job, onState, signal) {
  const path = `v1/jobs/${encodeURIComponent(job)}`;
  try {
    const last = await followEvents(`${path}/events`, onState, signal);
    if (last && ENDED.includes(last.status)) return last;
  } catch (error) {
    if (signal.aborted || error.status === 401 || error.status === 404) throw error;
  }
  for (;;) {
    const state = await request("GET", path, { signal });
    onState(state);
    if (ENDED.includes(state.status)) return state;
    await pause(POLL_MS, signal);
  }
}

/** Reads `text/event-stream` by hand, because EventSource can't send a key. Gives up when nothing comes. */
async function followEvents(path, onState, signal) {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENT_MS);
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENT_MS);
  };
  try {
    const response = await send("GET", path, { accept: "text/event-stream", signal: AbortSignal.any([signal, silence.signal]) });
    return await readEvents(response.body, onState, heard);
  } finally {
    clearTimeout(timer);
  }
}

async function readEvents(body, onState, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let last = null;
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return last;
    heard();
    const events = (rest + value).split(/\r\n\r\n|\n\n|\r\r/);
    rest = events.pop();
    for (const event of events.map(parseEvent)) {
      if (!event.data) continue; // a comment that keeps the connection open
      last = JSON.parse(event.data);
      onState(last);
      if (event.name === "end") {
        await reader.cancel();
        return last;
      }
    }
  }
}

function parseEvent(text) {
  const event = { name: "message", data: "" };
  for (const line of text.split(/\r\n|\n|\r/)) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (field === "event") event.name = value;
    else if (field === "data") event.data += (event.data ? "\n" : "") + value;
  }
  return event;
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("no longer wanted", "AbortError"));
    }, { once: true });
  });
}
