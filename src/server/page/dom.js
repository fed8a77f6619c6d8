// Small helpers for the page: elements made of text and never of markup, the live region, numbers in words, the clipboard.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children; strings become text. Names with a dash and `role` become attributes. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Tells a screen reader, without moving anything. */
export function say(text) {
  $("live").textContent = text;
}

/** Shows or hides a line of error, and ties it to its field. */
export function showError(line, message, field) {
  line.textContent = message ?? "";
  line.hidden = !message;
  if (!field) return;
  if (message) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
}

/** Lets a button be pressed after so many seconds, and says on it how many are left. */
export function countdown(button, label, seconds) {
  let left = Math.ceil(seconds);
  clearInterval(button.countdown);
  const tick = () => {
    button.disabled = left > 0;
    button.textContent = left > 0 ? `${label} in ${left} s` : label;
    if (left <= 0) clearInterval(button.countdown);
    left -= 1;
  };
  button.countdown = setInterval(tick, 1000);
  tick();
}

/** A message as a sentence, where another follows it. */
export const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

const whole = new Intl.NumberFormat("en");

export const count = (n) => whole.format(n);

/** "1 file", "2,140 files". */
export const plural = (n, noun) => `${whole.format(n)} ${noun}${n === 1 ? "" : "s"}`;

export function bytes(n) {
  if (n < 1024) return plural(n, "byte");
  if (n < 1024 * 1024) return `${Math.round(n / 1024)} KB`;
  return `${(n / 1024 / 1024).toFixed(1)} MB`;
}

export function milliseconds(ms) {
  return ms < 10_000 ? `${whole.format(Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Copies text and says so on the button. The clipboard's own interface is missing on plain HTTP from another host. */
export async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text);
  }
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  button.textContent = done ? "Copied" : "Not copied";
  say(done ? "Copied" : "The browser did not allow copying");
  clearTimeout(button.timer);
  button.timer = setTimeout(() => { button.textContent = before; }, 1500);
}

function copyBySelection(text) {
  const area = el("textarea", { value: text, className: "unseen", "aria-hidden": "true" });
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}

/** Calls `take` with the files that are dropped on an element, and marks it while they hang over it. */
export function onDrop(element, take) {
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0; // enter and leave come for every child
  const mark = () => element.classList.toggle("over", depth > 0);
  element.addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth += 1;
    mark();
  });
  element.addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
  element.addEventListener("dragleave", (event) => {
    if (!carriesFiles(event)) return;
    depth = Math.max(0, depth - 1);
    mark();
  });
  element.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    mark();
    take([...event.dataTransfer.files]);
  });
}
