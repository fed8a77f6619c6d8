// The page in Debian's chromium, against the built binary: what a person does, what they then see, and what must not happen.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { expectAccessible, launch, open, shoot } from "./browser.mjs";
import { root, start, until } from "./server.mjs";

const FIXTURE = path.join(root, "tests/fixtures/repository");
const PICTURES = path.join(root, "tests/fixtures/images");
const ISSUE = fs.readFileSync(path.join(root, "tests/fixtures/issue.md"), "utf8");
const TITLE = ISSUE.split("\n")[0].replace("# ", "");
const BODY = ISSUE.split("\n").slice(1).join("\n").trim();

let server;
let browser;

before(async () => {
  server = process.env.PAGE_URL ? { url: process.env.PAGE_URL, stop() {} } : await start();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** A test with a page of its own, which must end without an error in the console or a request to elsewhere. */
function onPage(name, run, options = {}) {
  test(name, async () => {
    const page = await open(browser, server.url + (options.path ?? ""), options);
    try {
      await run(page);
      assert.deepEqual(page.faults.filter((it) => !options.expected?.test(it)), []);
    } finally {
      await shoot(page, name);
      await page.context().close();
    }
  });
}

async function addByPath(page, name, folder = FIXTURE) {
  if (!(await page.locator("#add").evaluate((it) => it.open))) await page.click("#add summary");
  await page.fill("#add-path", folder);
  await page.fill("#add-name", name);
  await page.click("#add-submit");
}

const stateIs = (page, text) => page.locator("#repository-state").getByText(text).first().waitFor();

/** Waits until a repository is the chosen one and can be asked. */
const ready = (page, name) => page.locator("#repository option:checked", { hasText: `${name} (ready)` }).waitFor({ state: "attached" });

async function withRepository(page, name = "shop") {
  const names = await page.locator("#repository option").evaluateAll((all) => all.map((it) => it.value));
  if (names.includes(name)) await page.selectOption("#repository", name);
  else await addByPath(page, name);
  await ready(page, name);
}

async function ask(page, { title = TITLE, body = BODY, press = false } = {}) {
  await page.fill("#title", title);
  await page.fill("#body", body);
  if (press) await page.press("#body", "Control+Enter");
  else await page.click("#ask-submit");
}

async function answered(page) {
  await page.locator("#answer .hit").first().waitFor();
}

const texts = (page, selector) => page.locator(selector).evaluateAll((all) => all.map((it) => it.textContent));
const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText());

// Repositories.

onPage("a folder is added, watched and chosen", async (page) => {
  await page.locator("#repository option").first().waitFor({ state: "attached" });
  await addByPath(page, "added");
  await ready(page, "added");
  assert.equal(await page.inputValue("#repository"), "added");
  assert.match(await page.textContent("#repository-state"), /5 files · 10 functions/);
  assert.equal(await page.isVisible("#job"), false);
});

onPage("a name is suggested from the path", async (page) => {
  await page.locator("#add").evaluate((it) => { it.open = true; });
  await page.fill("#add-path", "/srv/some projects/my shop/");
  assert.equal(await page.inputValue("#add-name"), "my-shop");
  await page.fill("#add-name", "own");
  await page.fill("#add-path", "/srv/other");
  assert.equal(await page.inputValue("#add-name"), "own");
});

onPage("a folder that may not be read is refused beside its field", async (page) => {
  await addByPath(page, "secrets", "/etc");
  await page.locator("#add-path-error").waitFor();
  assert.match(await page.textContent("#add-path-error"), /path/);
  assert.equal(await page.evaluate(() => document.activeElement.id), "add-path");
  assert.equal(await page.getAttribute("#add-path", "aria-invalid"), "true");
}, { expected: /422/ });

onPage("a bad name is refused beside its field", async (page) => {
  await addByPath(page, ".hidden");
  await page.locator("#add-name-error").waitFor();
  assert.match(await page.textContent("#add-name-error"), /name/);
}, { expected: /422/ });

/** An archive of the fixture with a file whose name would be markup, if anyone made markup of it. */
function archive(kind) {
  const folder = fs.mkdtempSync("/tmp/sightline-archive-");
  fs.cpSync(FIXTURE, path.join(folder, "shop"), { recursive: true });
  fs.writeFileSync(path.join(folder, "shop", "<img src=x onerror=alert(1)>.py"), "def voucher_markup():\n    return '<script>alert(1)</script>'\n");
  const file = path.join(folder, `shop.${kind}`);
  if (kind === "zip") execFileSync("python3", ["-m", "zipfile", "-c", file, "shop"], { cwd: folder });
  else execFileSync("tar", [kind === "tar" ? "-cf" : "-czf", file, "shop"], { cwd: folder });
  return { folder, file };
}

for (const kind of ["tar", "tar.gz", "zip"]) {
  onPage(`a ${kind} is uploaded and asked`, async (page) => {
    const { folder, file } = archive(kind);
    await page.locator("#add").evaluate((it) => { it.open = true; });
    await page.check("input[value=upload]");
    await page.setInputFiles("#archive", file);
    assert.equal(await page.inputValue("#add-name"), "shop");
    await page.fill("#add-name", `uploaded-${kind}`);
    await page.click("#add-submit");
    await ready(page, `uploaded-${kind}`);
    await ask(page, { title: "voucher markup", body: "" });
    await answered(page);
    assert.ok((await texts(page, "#answer h4")).some((it) => it.includes("onerror")), "the odd name is shown as text");
    assert.equal(await page.locator("#answer img").count(), 0);
    fs.rmSync(folder, { recursive: true });
  });
}

onPage("an archive is dropped", async (page) => {
  const { folder, file } = archive("zip");
  await page.locator("#add").evaluate((it) => { it.open = true; });
  await drop(page, "#add-form", [file], "application/zip");
  assert.equal(await page.isChecked("input[value=upload]"), true);
  assert.equal(await page.inputValue("#add-name"), "shop");
  fs.rmSync(folder, { recursive: true });
});

onPage("what is no archive is refused before it is sent", async (page) => {
  await page.locator("#add").evaluate((it) => { it.open = true; });
  await page.check("input[value=upload]");
  await page.setInputFiles("#archive", path.join(FIXTURE, "src/cart.py"));
  await page.click("#add-submit");
  await page.locator("#archive-error").waitFor();
  assert.equal(await page.textContent("#archive-error"), "cart.py is not a tar, tar.gz or zip archive.");
});

onPage("progress is followed by asking where events don't come through", async (page) => {
  await page.route("**/v1/jobs/*/events", (route) => route.abort());
  await addByPath(page, "polled");
  await ready(page, "polled");
}, { expected: /ERR_FAILED|events/ });

onPage("progress is followed by asking where events are held up", async (page) => {
  await page.route("**/v1/jobs/*/events", () => {}); // a proxy that collects an answer before it passes it on
  await addByPath(page, "held-up");
  await ready(page, "held-up");
});

onPage("a job is shown with its count and can be cancelled", async (page) => {
  const job = { job: "j1", repository: "slow", status: "running", progress: { phase: "embedding", done: 1200, total: 4000 }, error: null };
  const repository = { repository: "slow", status: "building", stale: false, source: { kind: "upload" }, files: 0, functions: 0, skipped_count: 0, progress: job.progress, job: "j1", failure: null };
  let cancelled = false;
  await page.route("**/v1/repositories", (route) => route.fulfill({ json: { repositories: [cancelled ? { ...repository, job: null, status: "failed", failure: "cancelled" } : repository] } }));
  await page.route("**/v1/repositories/slow", (route) => route.fulfill({ status: 404, json: {} }));
  await page.route("**/v1/jobs/j1/events", (route) => route.fulfill({ contentType: "text/event-stream", body: `event: progress\ndata: ${JSON.stringify(job)}\n\n` }));
  await page.route("**/v1/jobs/j1", (route) => {
    if (route.request().method() === "DELETE") cancelled = true;
    return route.fulfill({ json: cancelled ? { ...job, status: "cancelled" } : job });
  });
  await page.reload();
  await page.getByText("1,200 of 4,000").waitFor();
  assert.equal(await page.textContent("#job-phase"), "Embedding");
  assert.equal(await page.textContent("#live"), "Embedding, 25 percent");
  await page.click("#job-cancel");
  await stateIs(page, "Failed: cancelled");
  assert.equal(await page.isVisible("#job"), false);
}, { expected: /404/ });

onPage("files that changed are noticed, and the index is made again", async (page) => {
  const folder = fs.mkdtempSync(path.join(root, "target/sightline-changing-"));
  try {
    fs.cpSync(FIXTURE, folder, { recursive: true });
    await addByPath(page, "changing", folder);
    await ready(page, "changing");
    fs.writeFileSync(path.join(folder, "added.py"), "def added():\n    pass\n");
    fs.writeFileSync(path.join(folder, "picture.py"), Buffer.alloc(4096));
    const isStale = async () => (await (await fetch(`${server.url}v1/repositories/changing`)).json()).stale;
    await until(isStale, () => "the change was not noticed"); // the service looks at most once a second
    await page.reload();
    await stateIs(page, /Out of date/);
    await page.click("#index-again");
    await stateIs(page, /^6 files · 11 functions/);
    await page.click("#show-skipped");
    assert.match(await page.textContent("#skipped"), /^picture\.py .*binary/);
    await expectAccessible(page);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

onPage("states are said in words", async (page) => {
  const one = (repository, more) => ({ repository, status: "ready", stale: false, source: { kind: "path", path: "/srv/a" }, commit: "0123456789abcdef", model: "m", files: 1, functions: 2140, windows: 9, vectors: 9, skipped_count: 0, job: null, failure: null, progress: null, ...more });
  const repositories = [
    one("stale", { stale: true, stale_reason: "the model is another" }),
    one("partial", { status: "partial", vectors: 1000, windows: 4000 }),
    one("failed", { status: "failed", failure: "the folder is gone" }),
    one("older", { failure: "the disk is full" }),
  ];
  await page.route("**/v1/repositories", (route) => route.fulfill({ json: { repositories } }));
  await page.route("**/v1/repositories/*", (route) => route.fulfill({ json: repositories.find((it) => route.request().url().endsWith(`/${it.repository}`)) }));
  await page.reload();
  const check = async (name, words) => {
    await page.selectOption("#repository", name);
    assert.match(await page.textContent("#repository-state"), words);
  };
  await check("stale", /^Ready\.Out of date: the model is another\.1 file · 2,140 functions · commit 0123456789 · from \/srv\/a/);
  await check("partial", /^Ready in part: 1,000 of 4,000 windows/);
  await check("failed", /^Failed: the folder is gone/);
  await check("older", /^Ready\.The last indexing failed: the disk is full\. The index before it still answers\./);
});

onPage("a repository is deleted only after a yes", async (page) => {
  await withRepository(page, "doomed");
  await page.click("#delete");
  await page.keyboard.press("Escape");
  assert.equal(await page.inputValue("#repository"), "doomed");
  await page.click("#delete");
  assert.equal(await page.evaluate(() => document.activeElement.id), "confirm-no", "the safe answer has the focus");
  await expectAccessible(page);
  await page.click("#confirm-yes");
  await page.waitForFunction(() => ![...document.querySelectorAll("#repository option")].some((it) => it.value === "doomed"));
});

// Asking.

onPage("an issue is asked by keys and answered with reasons", async (page) => {
  await withRepository(page);
  await ask(page, { press: true });
  await answered(page);
  assert.equal(await page.locator("section[aria-labelledby=files-heading] h4").first().textContent(), "src/cart.py");
  const first = page.locator("section[aria-labelledby=functions-heading] .hit").first();
  assert.equal(await first.locator("h4").textContent(), "Cart.total");
  assert.equal(await first.locator(".where").textContent(), "src/cart.py:19-21");
  assert.match(await first.locator(".parts").textContent(), /lexical .*mention .*context .*dense /);
  assert.deepEqual((await first.locator(".line").allTextContents()).map(Number), [19, 20, 21]);
  assert.ok((await first.locator("mark").allTextContents()).includes("total"));
  assert.match(await page.textContent("#live"), /^5 files and 10 functions in .* ms; the first is src\/cart\.py$/);
  assert.match(await page.textContent("#answer-content"), /Timings.*total [\d,]+ ms/);
  await expectAccessible(page);
});

onPage("options reach the server", async (page) => {
  await withRepository(page);
  await page.click("#options summary");
  await page.fill("#k", "2");
  await page.selectOption("#granularity", "file");
  await page.selectOption("#retriever", "bm25");
  await page.fill("#paths", "src/*.py, *.ts");
  await page.fill("#languages", "Python");
  const sent = page.waitForRequest("**/locate");
  await ask(page);
  const request = (await sent).postDataJSON();
  assert.deepEqual({ ...request, title: "", body: "" }, { title: "", body: "", k: 2, granularity: "file", retriever: "bm25", explain: true, filter: { paths: ["src/*.py", "*.ts"], languages: ["Python"] } });
  await answered(page);
  assert.deepEqual((await texts(page, "#answer h4")).sort(), ["src/cart.py", "src/discounts.py"]);
  assert.equal(await page.locator("section[aria-labelledby=functions-heading]").count(), 0);
});

onPage("an answer is copied as a place, as JSON and as a command that gives the same", async (page) => {
  await withRepository(page);
  await page.click("#options summary");
  await page.fill("#k", "3");
  await page.fill("#paths", "src/, tests/");
  await page.fill("#languages", "Python");
  await page.setInputFiles("#pictures-input", path.join(root, "tests/fixtures/checkout.png"));
  const response = page.waitForResponse("**/locate");
  await ask(page, { title: "it's $(touch /tmp/sightline-page-injected) \"q\" `x` @file; voucher" });
  const answer = await (await response).json();
  await answered(page);
  await page.locator("section[aria-labelledby=functions-heading] .hit button").first().click();
  const best = answer.functions[0];
  assert.equal(await clipboard(page), `${best.path}:${best.start_line}`);
  await page.getByRole("button", { name: "Copy as JSON" }).click();
  assert.deepEqual(JSON.parse(await clipboard(page)), answer);
  await page.getByRole("button", { name: "Copy as curl" }).click();
  const printed = execFileSync("sh", ["-c", await clipboard(page)], { cwd: path.join(root, "tests/fixtures"), encoding: "utf8" });
  const again = JSON.parse(printed);
  assert.deepEqual({ files: again.files, functions: again.functions, query: again.query }, { files: answer.files, functions: answer.functions, query: answer.query });
  assert.equal(fs.existsSync("/tmp/sightline-page-injected"), false);
});

onPage("a question can be stopped", async (page) => {
  await withRepository(page);
  await page.route("**/locate", () => {}); // never answered
  await ask(page);
  await page.click("#ask-stop");
  await page.locator("#ask-stop").waitFor({ state: "hidden" });
  assert.equal(await page.textContent("#ask-submit"), "Find the code");
  assert.equal(await page.textContent("#live"), "Stopped");
});

// Screenshots.

/** Drops files of this machine on an element. */
async function drop(page, selector, files, type) {
  const contents = files.map((file) => ({ name: path.basename(file), base64: fs.readFileSync(file, "base64") }));
  const transfer = await page.evaluateHandle(([all, kind]) => {
    const data = new DataTransfer();
    for (const { name, base64 } of all) data.items.add(new File([Uint8Array.from(atob(base64), (it) => it.charCodeAt(0))], name, { type: kind }));
    return data;
  }, [contents, type]);
  for (const event of ["dragenter", "dragover", "drop"]) await page.dispatchEvent(selector, event, { dataTransfer: transfer });
}

async function paste(page, file) {
  await page.evaluate((base64) => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob(base64), (it) => it.charCodeAt(0))], "image.png", { type: "image/png" }));
    document.querySelector("#body").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, fs.readFileSync(file, "base64"));
}

const picture = (name) => path.join(PICTURES, name);

onPage("screenshots are dropped and pasted, a third is refused in words", async (page) => {
  await drop(page, "#body", [picture("progressive_444.jpg")], "image/jpeg");
  await page.locator("#pictures li").first().waitFor();
  await paste(page, picture("rgb_8_key.png"));
  await page.locator("#pictures li").nth(1).waitFor();
  await paste(page, picture("rgb_8_key.png"));
  await page.locator("#pictures-error").waitFor();
  assert.equal(await page.textContent("#pictures-error"), "image.png was not added: an issue has at most two screenshots. Remove one first.");
  assert.equal(await page.locator("#pictures li").count(), 2);
  await page.getByRole("button", { name: "Remove progressive_444.jpg" }).click();
  assert.equal(await page.locator("#pictures li").count(), 1);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Remove image.png");
});

onPage("what is no picture is refused, whatever it is called", async (page) => {
  await drop(page, "#ask", [path.join(FIXTURE, "src/cart.py")], "image/png");
  await page.locator("#pictures-error").waitFor();
  assert.equal(await page.textContent("#pictures-error"), "cart.py was not added: it is not a PNG, JPEG, GIF or WebP picture.");
  assert.equal(await page.locator("#pictures li").count(), 0);
});

onPage("what became of a screenshot is said", async (page) => {
  await withRepository(page);
  await page.setInputFiles("#pictures-input", path.join(root, "tests/fixtures/checkout.png"));
  await ask(page);
  await answered(page);
  assert.match(await page.textContent(".notices"), /The screenshot checkout\.png was not used: no text was found in it/);
  assert.match(await page.textContent("#answer-content"), /Screenshot checkout\.png4 × 3, not used/);
});

onPage("a broken screenshot is named beside the screenshots", async (page) => {
  await withRepository(page);
  const whole = fs.readFileSync(picture("progressive_444.jpg"));
  await page.setInputFiles("#pictures-input", { name: "half.jpg", mimeType: "image/jpeg", buffer: whole.subarray(0, whole.length / 2) });
  await ask(page);
  await page.locator("#pictures-error").waitFor();
  assert.match(await page.textContent("#pictures-error"), /^half\.jpg/);
}, { expected: /400|422/ });

// What screenshots say.

const SCREENS = path.join(root, "tests/fixtures/screens");
const TRACE = path.join(SCREENS, "trace.png");
const DIALOG = path.join(SCREENS, "dialog.png");
const SAYS = [
  "$ python -m shop.checkout",
  "Traceback (most recent call last):",
  '  File "/srv/shop/src/cart.py", line 21, in total',
  "    return self.subtotal() - best_discount(self.subtotal(), vouchers)",
  '  File "/srv/shop/src/discounts.py", line 16, in discount_of',
  "    return min(voucher.fixed, amount)",
  "ValueError: voucher is larger than the amount",
].join("\n");

const card = (page, at = 0) => page.locator("#pictures > li").nth(at);
const field = (page, at = 0) => card(page, at).getByRole("textbox", { name: /^What it says/ });
const state = (page, at = 0) => card(page, at).locator(".reading");

/** Waits until the reading of a screenshot has ended so. */
const readingIs = (page, words, at = 0) => state(page, at).getByText(words).waitFor();

async function withTrace(page) {
  await page.setInputFiles("#pictures-input", TRACE);
  await readingIs(page, "Read: 7 lines.");
}

/** What a mocked server reads of any picture. */
const evidence = (more) => ({ name: "p.png", source: "ocr", category: "error_message", ocr_text: "boom", error_signal: null, ui_elements: [], user_action: null, code_hint: { function_names: [], file_patterns: [], frameworks: [] }, visual_saliency: null, confidence: 0.9, notes: null, ...more });

const apiError = (status, code, message, headers = {}) => ({ status, headers, json: { error: { message, type: "t", code, param: null } } });

onPage("a screenshot is read at once, and what it says is shown", async (page) => {
  await withTrace(page);
  assert.equal(await field(page).inputValue(), SAYS);
  const shown = await card(page).locator(".evidence").textContent();
  assert.match(shown, /^Kinderror message, confidence (9\d|100) %ErrorValueError: voucher is larger than the amountFramesdiscount_of \(\/srv\/shop\/src\/discounts\.py:16\)total \(/);
  assert.match(shown, /Names.*best_discount/);
  assert.match(shown, /Files.*\/srv\/shop\/src\/cart\.py/);
  assert.equal(await page.textContent("#live"), "trace.png: Read: 7 lines.");
  await page.setInputFiles("#pictures-input", DIALOG);
  await readingIs(page, /^Read/, 1);
  assert.match(await card(page, 1).locator(".evidence").textContent(), /Interface.*“Cancel”.*“Try again”/);
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(page);
});

onPage("the state of a reading is seen", async (page) => {
  let answer;
  const asked = new Promise((resolve) => { answer = resolve; });
  await page.route("**/v1/evidence", async (route) => {
    await asked;
    await route.fulfill({ json: { evidence: [evidence({ lines: [] })] } });
  });
  await page.setInputFiles("#pictures-input", TRACE);
  await readingIs(page, "Reading …");
  assert.equal(await card(page).getAttribute("aria-busy"), "true");
  assert.equal(await field(page).count(), 0);
  answer();
  await readingIs(page, "Read: 0 lines.");
  assert.equal(await card(page).getAttribute("aria-busy"), null);
});

onPage("screenshots are read one after the other, and one that goes is forgotten", async (page) => {
  const asked = [];
  await page.route("**/v1/evidence", async (route) => {
    const [{ name }] = route.request().postDataJSON().images;
    asked.push(name);
    if (name === "trace.png") return; // never answered
    await route.fulfill({ json: { evidence: [evidence({ name })] } });
  });
  await page.setInputFiles("#pictures-input", [TRACE, DIALOG]);
  await readingIs(page, "Reading …", 1);
  await until(() => asked.length === 1, () => String(asked));
  await page.waitForTimeout(300);
  assert.deepEqual(asked, ["trace.png"], "the second waits");
  await page.getByRole("button", { name: "Remove trace.png" }).click();
  await readingIs(page, "Read: 1 line.");
  assert.deepEqual(asked, ["trace.png", "dialog.png"]);
  assert.equal(await page.locator("#pictures > li").count(), 1);
});

onPage("a corrected text is taken apart, sent, and can be taken back", async (page) => {
  await withRepository(page);
  await withTrace(page);
  const sentBy = async (act) => {
    const sent = page.waitForRequest("**/locate");
    await act();
    const request = (await sent).postDataJSON();
    await page.waitForFunction(() => document.querySelector("#answer").getAttribute("aria-busy") === "false");
    return request;
  };
  const search = () => ask(page, { title: "Vouchers", body: "" });
  assert.equal("text" in (await sentBy(search)).images[0], false, "what was read is not sent");

  const text = "KeyError: it's 50 % of \"a\\b\"\n  at discount_of (src/discounts.py:11)\n";
  await field(page).fill(text);
  assert.match(await card(page).locator(".said .hint").textContent(), /^Changed: /);
  await field(page).blur();
  await card(page).locator(".evidence").getByText("KeyError: it's").waitFor();
  const sent = await sentBy(search);
  assert.equal(sent.images[0].text, text);
  await page.locator("#answer-content").getByText(/with the text that you gave/).waitFor();

  // The command does the same, though a form has no place for a text.
  const read = async () => { await page.getByRole("button", { name: "Copy as JSON" }).click(); return JSON.parse(await clipboard(page)); };
  const answer = await read();
  assert.equal(answer.query.vce[0].ocr_text.includes("KeyError"), true);
  await page.getByRole("button", { name: "Copy as curl" }).click();
  const printed = JSON.parse(execFileSync("sh", ["-c", await clipboard(page)], { cwd: SCREENS, encoding: "utf8" }));
  const again = JSON.parse(JSON.stringify(printed)); // -0 is copied as 0
  assert.deepEqual({ files: again.files, functions: again.functions, query: again.query }, { files: answer.files, functions: answer.functions, query: answer.query });

  await card(page).getByRole("button", { name: "Back to what was read of trace.png" }).click();
  assert.equal(await field(page).inputValue(), SAYS);
  assert.equal(await field(page).evaluate((it) => it === document.activeElement), true);
  await card(page).locator(".evidence").getByText("ValueError: voucher").waitFor();
  assert.equal("text" in (await sentBy(search)).images[0], false);

  await field(page).fill("");
  assert.equal((await sentBy(search)).images[0].text, "", "a picture may be said to hold no text");
});

onPage("two screenshots go into a command with their texts", async (page) => {
  await withRepository(page);
  await withTrace(page);
  await page.setInputFiles("#pictures-input", DIALOG);
  await readingIs(page, /^Read/, 1);
  await field(page, 1).fill("Apply the voucher");
  await ask(page, { title: "Vouchers", body: "it's" });
  await answered(page);
  await page.getByRole("button", { name: "Copy as curl" }).click();
  const command = await clipboard(page);
  const again = JSON.parse(execFileSync("sh", ["-c", command], { cwd: SCREENS, encoding: "utf8" }));
  assert.deepEqual(again.query.vce.map(({ name, source }) => [name, source]), [["trace.png", "ocr"], ["dialog.png", "given"]]);
});

onPage("lines and their boxes show each other", async (page) => {
  await withTrace(page);
  await card(page).getByRole("button", { name: "Show trace.png large" }).click();
  const rows = page.locator("#boxes-lines button");
  const boxes = page.locator("#boxes-picture polygon");
  assert.equal((await rows.allTextContents()).join("\n"), SAYS);
  const image = await page.locator("#boxes-picture img").boundingBox();
  const tops = [];
  for (const box of await boxes.all()) {
    const { x, y, width, height } = await box.boundingBox();
    assert.ok(x >= image.x - 2 && y >= image.y - 2 && x + width <= image.x + image.width + 2 && y + height <= image.y + image.height + 2, "within the picture");
    tops.push(y);
  }
  assert.deepEqual(tops, [...tops].sort((a, b) => a - b));
  assert.equal(tops.length, 7);

  const marked = (all) => all.evaluateAll((them) => them.flatMap((it, at) => (it.classList.contains("marked") ? [at] : [])));
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.deepEqual([await marked(rows), await marked(boxes)], [[2], [2]]);
  await boxes.nth(4).hover();
  assert.deepEqual([await marked(rows), await marked(boxes)], [[4], [4]]);
  await rows.nth(6).hover();
  assert.deepEqual(await marked(boxes), [6]);
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(page);

  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  const selected = await field(page).evaluate((it) => [document.activeElement === it, it.value.slice(it.selectionStart, it.selectionEnd)]);
  assert.deepEqual(selected, [true, "ValueError: voucher is larger than the amount"]);
  await card(page).getByRole("button", { name: "Show where the lines of trace.png are" }).click();
  await page.getByRole("button", { name: "Actual size" }).click();
  assert.equal(await page.locator("#boxes-size").getAttribute("aria-pressed"), "true");
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Show where");
});

onPage("what was read counts, and how much is said", async (page) => {
  await withRepository(page);
  await withTrace(page);
  await ask(page, { title: "It fails", body: "" });
  await answered(page);
  assert.match(await page.locator(".hit .parts").first().textContent(), /visual \d/);
  await page.getByText("What the parts of a score mean").click();
  assert.match(await page.textContent("#answer-content"), /visualwhat the screenshots say/);
  assert.match(await page.textContent("#answer-content"), /Screenshot trace\.png620 × 170, counted fully, since the text says little \(weight \d\.\d\d, agreement \d\.\d\d, confidence \d\.\d\d\); it shows ValueError: voucher is larger than the amount/);
  assert.match(await page.textContent("#answer-content"), /Inputvce \(/);
  assert.match(await page.textContent("#answer-content"), /reading screenshots [\d,]+ ms/);
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(page);
});

onPage("a screenshot that counted little is said to, and so is a warning", async (page) => {
  await withRepository(page);
  await page.route("**/locate", async (route) => {
    const response = await route.fetch();
    const answer = await response.json();
    answer.query.images = [{ name: "a.png", used: true, width: 9, height: 9 }, { name: "b.png", used: true, width: 9, height: 9 }];
    answer.query.vce = [
      evidence({ name: "a.png", source: "endpoint", model: "qwen", weight: 0.18, agreement: 0.2, confidence: 0.9 }),
      evidence({ name: "b.png", weight: 0.85, agreement: 1, confidence: 0.9, warning: "the endpoint does not answer; the picture was read on this machine instead" }),
    ];
    await route.fulfill({ response, json: answer });
  });
  await ask(page);
  await answered(page);
  const notices = await texts(page, ".notices li");
  assert.deepEqual(notices, [
    "The screenshot a.png counted little, since it does not agree with the text (weight 0.18, agreement 0.20, confidence 0.90).",
    "The screenshot b.png: the endpoint does not answer; the picture was read on this machine instead.",
  ]);
  assert.match(await page.textContent("#answer-content"), /Screenshot a\.png9 × 9, counted little.*read by qwen/);
  assert.match(await page.textContent("#answer-content"), /Screenshot b\.png9 × 9, counted fully \(weight 0\.85/);
});

onPage("weights in words", async (page) => {
  const check = async (vce, expected) => {
    const words = await page.evaluate(async (it) => (await import(new URL("page/evidence.js", document.baseURI))).weightWords(it), vce);
    assert.equal(words, expected);
  };
  await check({}, "");
  await check({ weight: 0.9, agreement: 1, confidence: 0.9 }, "counted fully (weight 0.90, agreement 1.00, confidence 0.90)");
  await check({ weight: 0.89, agreement: 0, confidence: 1 }, "counted fully, since the text says little (weight 0.89, agreement 0.00, confidence 1.00)");
  await check({ weight: 0.5, agreement: 0.7, confidence: 0.95 }, "counted in part, since it agrees with the text only in part (weight 0.50, agreement 0.70, confidence 0.95)");
  await check({ weight: 0.73, agreement: 0, confidence: 1 }, "counted in part, since it does not agree with the text (weight 0.73, agreement 0.00, confidence 1.00)");
  await check({ weight: 0.5, agreement: 1, confidence: 0.5 }, "counted in part, since little of it could be read (weight 0.50, agreement 1.00, confidence 0.50)");
  await check({ weight: 0.3, agreement: 1, confidence: 0.3 }, "counted little, since little of it could be read (weight 0.30, agreement 1.00, confidence 0.30)");
  await check({ weight: 0.35, agreement: 1, confidence: 0.4, source: "given" }, "counted little, since it says little (weight 0.35, agreement 1.00)");
  await check({ weight: 0, agreement: 0, confidence: 0, source: "given" }, "counted little, since it does not agree with the text (weight 0.00, agreement 0.00)");
});

onPage("a mode is chosen, and one that the model can't do is explained", async (page) => {
  await withRepository(page);
  await withTrace(page);
  await field(page).fill("KeyError");
  await page.click("#options summary");
  const notes = {
    "": /the text in them counts alone: .* reads text only\.$/,
    "vce+image": /^The text in them counts alone: .* reads text only\.$/,
    vce: /^The text in them counts/,
    image: /^Screenshots would not count: .* reads text only\.$/,
    text: /^Screenshots don't count\.$/,
  };
  assert.deepEqual(await texts(page, "#mode option"), ["the best that the server can do", "read and seen (vce+image) (not by this model)", "read: the text in them (vce)", "seen by the encoder (image) (not by this model)", "left out (text)"]);
  for (const [mode, note] of Object.entries(notes)) {
    await page.selectOption("#mode", mode);
    assert.match(await page.textContent("#mode-note"), note);
    const [sent] = await Promise.all([page.waitForRequest("**/locate"), ask(page)]);
    const request = sent.postDataJSON();
    assert.equal(request.mode, mode || undefined);
    assert.equal(request.images[0].text, mode === "image" || mode === "text" ? undefined : "KeyError", "refused where nothing is read");
    const answer = await (await sent.response()).json();
    await page.waitForFunction(() => document.querySelector("#answer").getAttribute("aria-busy") === "false");
    assert.equal(answer.query.mode, mode || "vce");
    assert.match(await page.textContent("#answer-content"), mode === "image" || mode === "text" ? /not used: / : /with the text that you gave/);
  }
  await page.getByRole("button", { name: "Copy as curl" }).click();
  assert.match(await clipboard(page), /--form-string mode=text/);
});

onPage("a model that sees pictures is named so", async (page) => {
  await page.route("**/info", (route) => route.fulfill({ json: { model_id: "seer", max_images: 2 } }));
  await page.reload();
  await page.click("#options summary");
  await page.locator("#server").getByText("seer").waitFor();
  assert.equal(await page.textContent("#mode-note"), "If the server isn't set otherwise, the text in them counts, and seer sees them.");
  await page.selectOption("#mode", "image");
  assert.match(await page.textContent("#mode-note"), /^seer sees them; the text in them is not read/);
  await page.selectOption("#retriever", "bm25");
  assert.equal(await page.textContent("#mode-note"), "Screenshots would not count: plain word counts see no pictures.");
});

onPage("a screenshot without text says so, and takes a text", async (page) => {
  await withRepository(page);
  await page.setInputFiles("#pictures-input", path.join(root, "tests/fixtures/checkout.png"));
  await readingIs(page, "No text was found in it: it is too small to hold text.");
  assert.equal(await card(page).locator(".evidence").count(), 0);
  await field(page).fill("discount_of");
  const sent = page.waitForRequest("**/locate");
  await ask(page, { title: "", body: "" });
  assert.equal((await sent).postDataJSON().images[0].text, "discount_of");
  await answered(page);
  assert.equal(await page.locator("section[aria-labelledby=functions-heading] h4").first().textContent(), "discount_of");
});

onPage("a broken screenshot is said to be when it is added", async (page) => {
  const whole = fs.readFileSync(TRACE);
  await page.setInputFiles("#pictures-input", { name: "half.png", mimeType: "image/png", buffer: whole.subarray(0, 900) });
  await readingIs(page, /^Can't be read: The picture can't be used/);
  assert.equal(await field(page).count(), 0);
  assert.match(await page.textContent("#live"), /^half\.png: Can't be read/);
  await expectAccessible(page);
}, { expected: /400|422/ });

onPage("a server that can't read now says what to do", async (page) => {
  const answers = [
    apiError(429, "overloaded", "9 pictures wait: ask again in a second", { "Retry-After": "1" }),
    apiError(503, "not_ready", "the model is being loaded", { "Retry-After": "1" }),
    apiError(500, "internal", "the reading failed"),
    { json: { evidence: [evidence()] } },
  ];
  // What was typed is asked for too, and is no reading.
  await page.route("**/v1/evidence", (route) => route.fulfill("text" in route.request().postDataJSON().images[0] ? apiError(503, "not_ready", "no") : answers.shift()));
  await page.setInputFiles("#pictures-input", TRACE);
  const again = card(page).getByRole("button", { name: "Read again", exact: true });
  await readingIs(page, "Not read yet: 9 pictures wait: ask again in a second. The search reads it too, if you don't wait.");
  await expectAccessible(page);
  await again.click(); // waits until it may be pressed
  await readingIs(page, "Not read yet: The model is being loaded. The search reads it too, if you don't wait.");
  await field(page).fill("typed in the meantime");
  await again.click();
  await readingIs(page, "Not read: The reading failed.");
  await again.click();
  await readingIs(page, "Read: 1 line.");
  assert.equal(await field(page).inputValue(), "typed in the meantime");
  await card(page).getByRole("button", { name: /^Back to what was read/ }).click();
  assert.equal(await field(page).inputValue(), "boom");
}, { expected: /429|503|500/ });

onPage("a key that is asked for while reading is not forced on anyone", async (page) => {
  await page.route("**/v1/evidence", (route) => route.fulfill(apiError(401, "missing_key", "there is no API key")));
  await page.setInputFiles("#pictures-input", TRACE);
  await page.locator("#key-dialog[open]").waitFor();
  await page.keyboard.press("Escape");
  await readingIs(page, "Not read: There is no API key. Read it again to give a key.");
  await card(page).getByRole("button", { name: "Read again" }).click();
  await page.locator("#key-dialog[open]").waitFor();
}, { expected: /401/ });

onPage("what a vision-language model read has its name and its warning", async (page) => {
  const frames = Array.from({ length: 30 }, (_, at) => `f${at} (src/a.py:${at})`);
  await page.route("**/v1/evidence", (route) => route.fulfill({ json: { evidence: [evidence({ source: "endpoint", model: "<b>qwen</b>", ocr_text: "<img src=x onerror=alert(1)>", confidence: 0.4, user_action: "clicks Save", visual_saliency: "a red line", warning: "the answer was asked for twice", notes: "blurred", error_signal: { kind: "dialog", type: null, message: null, stack_hint: frames } })] } }));
  await page.setInputFiles("#pictures-input", TRACE);
  await readingIs(page, "Read by <b>qwen</b>: 1 line.");
  assert.equal(await card(page).locator("img").count(), 1, "text stays text");
  const shown = await card(page).textContent();
  for (const wanted of ["the answer was asked for twice.", "Errordialog", "Actionclicks Save", "Stands outa red line", "Notesblurred", "and 22 more", "confidence 40 % (low: check the text)"]) assert.ok(shown.includes(wanted), `${wanted} in ${shown}`);
  await card(page).getByRole("button", { name: "Show trace.png large" }).click();
  assert.match(await page.textContent("#boxes-note"), /Where its text stands is not known: <b>qwen<\/b> read it\./);
  await expectAccessible(page);
});

onPage("keys reach all of a screenshot, in order", async (page) => {
  await withTrace(page);
  await page.focus("#pictures-input");
  const seen = [];
  for (let n = 0; n < 5; n += 1) {
    await page.keyboard.press("Tab");
    seen.push(await page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.tagName));
  }
  assert.deepEqual(seen, ["Show trace.png large", "Remove trace.png", "Show where the lines of trace.png are", "TEXTAREA", "SUMMARY"]);
});

onPage("a narrow screen shows what screenshots say", async (page) => {
  await withTrace(page);
  const fits = async () => {
    const { wide, screen } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, screen: document.documentElement.clientWidth }));
    assert.ok(wide <= screen, `${wide} > ${screen}`);
  };
  await fits();
  await card(page).getByRole("button", { name: "Show trace.png large" }).click();
  await fits();
  const { x, y, width, height } = await page.locator("#boxes-dialog").boundingBox();
  assert.ok(x >= 0 && y >= 0 && x + width <= 390 && y + height <= 844, "the window fits");
  assert.ok((await page.locator("#boxes-picture img").boundingBox()).width <= 390);
  await expectAccessible(page);
}, { viewport: { width: 390, height: 844 } });

// Errors.

onPage("an error stands beside the field that it is about", async (page) => {
  await withRepository(page);
  await page.locator("#k").evaluate((it) => { it.value = "0"; });
  const response = page.waitForResponse("**/locate");
  await ask(page);
  const { error } = await (await response).json();
  await page.locator("#k-error").waitFor();
  assert.equal(await page.textContent("#k-error"), error.message);
  assert.equal(await page.evaluate(() => document.activeElement.id), "k", "in the options, which open for it");
  await expectAccessible(page);
}, { expected: /422/ });

onPage("nothing to ask is said without asking", async (page) => {
  await withRepository(page);
  await page.click("#ask-submit");
  assert.equal(await page.textContent("#title-error"), "Write a title or a body, or add a screenshot.");
});

onPage("a busy server says when, and another try works", async (page) => {
  await withRepository(page);
  let tries = 0;
  await page.route("**/locate", (route) => {
    tries += 1;
    if (tries > 1) return route.continue();
    return route.fulfill({ status: 429, headers: { "Retry-After": "1" }, json: { error: { message: "12 questions wait", type: "rate_limit_error", code: "overloaded", param: null } } });
  });
  await ask(page);
  await page.locator("#ask-error").waitFor();
  assert.equal(await page.textContent("#ask-error"), "12 questions wait. The server asks to wait a second.");
  await page.getByRole("button", { name: "Try again", exact: true }).click();
  await answered(page);
  assert.equal(await page.isVisible("#ask-error"), false);
}, { expected: /429/ });

onPage("a server that is gone is said in words", async (page) => {
  await withRepository(page);
  await page.route("**/locate", (route) => route.abort("connectionrefused"));
  await ask(page);
  await page.locator("#ask-error").waitFor();
  assert.equal(await page.textContent("#ask-error"), "The server can't be reached, or closed the connection.");
}, { expected: /ERR_CONNECTION_REFUSED|locate/ });

test("a key is asked for, kept in the tab alone and left out of the command", { skip: process.env.PAGE_URL && "needs a server of its own" }, async () => {
  const guarded = await start(["right-key-right-key-right-key-right"]);
  const page = await open(browser, guarded.url);
  try {
    await page.locator("#key-dialog[open]").waitFor();
    await expectAccessible(page);
    await page.fill("#key", "wrong-key");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => !document.querySelector("#key-message").textContent.startsWith("The server asks") && document.querySelector("#key-dialog").open);
    await page.fill("#key", "right-key-right-key-right-key-right");
    await page.keyboard.press("Enter");
    await addByPath(page, "guarded");
    await ready(page, "guarded");
    await ask(page);
    await answered(page);
    await page.getByRole("button", { name: "Copy as curl" }).click();
    assert.match(await clipboard(page), /-H "Authorization: Bearer \$SIGHTLINE_API_KEY"/);
    assert.doesNotMatch(await clipboard(page), /right-key/);
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("right-key")), false);
    await page.reload();
    await stateIs(page, "Ready.");
    assert.equal(await page.isVisible("#key-dialog"), false, "a reload of the tab keeps it");
  } finally {
    await shoot(page, "key");
    await page.context().close();
    await guarded.stop();
  }
});

// The preview.

/** What the preview makes of Markdown, as markup. */
async function checkPreview(page, text, expected) {
  await page.fill("#body", text);
  await page.click("#preview-switch");
  assert.equal(await page.locator("#preview").evaluate((it) => it.innerHTML), expected, text);
  await page.click("#preview-switch");
}

onPage("Markdown is shown, and never followed", async (page) => {
  const check = (text, expected) => checkPreview(page, text, expected);
  await check("# One\n## Two ##", '<h4 class="level-1">One</h4><h5 class="level-2">Two</h5>');
  await check("a **b** *c* __d__ _e_ ~~f~~ `g*h*`", "<p>a <strong>b</strong> <em>c</em> <strong>d</strong> <em>e</em> <del>f</del> <code>g*h*</code></p>");
  await check("snake_case_name 2 * 3 * 4 a*", "<p>snake_case_name 2 * 3 * 4 a*</p>");
  await check("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>");
  await check("```js\na < b\n# c\n```\nd", '<pre tabindex="0"><code data-language="js">a &lt; b\n# c</code></pre><p>d</p>');
  await check("~~~\nopen", '<pre tabindex="0"><code>open</code></pre>');
  await check("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>");
  await check("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>');
  await check("- [x] a\n- [ ] b", '<ul><li class="tasked"><span class="task">☑ </span>a</li><li class="tasked"><span class="task">☐ </span>b</li></ul>');
  await check("> a\n> b", "<blockquote><p>a<br>b</p></blockquote>");
  await check("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>");
  await check("[a](https://b.example)", '<p><span class="link">a<span class="target"> (https://b.example)</span></span></p>');
  await check("see https://b.example/c.", '<p>see <span class="link">https://b.example/c</span>.</p>');
  await check("![alt](x.png)", '<p><span class="picture-place">picture: alt</span></p>');
  await check('<img src="x" onerror="alert(1)">', '<p><span class="picture-place">picture: x</span></p>');
  await check("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>");
  await check("[a](javascript:alert(1))", '<p><span class="link">a<span class="target"> (javascript:alert(1)</span></span>)</p>');
  await check("\\*a\\*", "<p>*a*</p>");
});

onPage("no text makes the preview slow", async (page) => {
  for (const piece of ["*", "*a ", "**a ", "_a", "[", "![", "[a](", "`", "`a", "` a", "<", "<a ", "> ", "- ", "  - a\n", "https://", "~~", "#", "\n"]) {
    const took = await page.evaluate(async (text) => {
      const { render } = await import(new URL("page/markdown.js", document.baseURI));
      const started = performance.now();
      render(text);
      return performance.now() - started;
    }, piece.repeat(200_000 / piece.length));
    assert.ok(took < 5000, `${JSON.stringify(piece)} took ${took} ms`); // 0.4 s at most on an idle machine
  }
});

// How it looks and feels.

onPage("the first page is accessible, and so in the dark", async (page) => {
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(page);
});

onPage("an answer in the dark is accessible", async (page) => {
  await withRepository(page);
  await page.setInputFiles("#pictures-input", picture("rgb_8_key.png"));
  await ask(page);
  await answered(page);
  await page.click("#preview-switch");
  await page.click("#options summary");
  await expectAccessible(page);
}, { colorScheme: "dark" });

onPage("a chosen theme is remembered", async (page) => {
  await page.click("#theme");
  await page.click("#theme");
  assert.equal(await page.textContent("#theme"), "Theme: dark");
  await page.reload();
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "dark");
});

onPage("keys alone reach everything, in the order of the page", async (page) => {
  await withRepository(page);
  await page.evaluate(() => document.activeElement.blur());
  await page.locator("body").press("Tab");
  const seen = [];
  for (let n = 0; n < 40; n += 1) {
    const focused = await page.evaluate(() => {
      const it = document.activeElement;
      return { name: it.id || it.textContent.trim(), ring: getComputedStyle(it).outlineStyle !== "none" };
    });
    assert.ok(focused.ring, `${focused.name} shows that it has the focus`);
    seen.push(focused.name);
    if (focused.name === "ask-submit") break;
    await page.keyboard.press("Tab");
  }
  const wanted = ["Skip to the issue", "Skip to the answer", "API", "theme", "repository", "index-again", "delete", "Add a repository", "title", "preview-switch", "body", "pictures-input", "Options", "ask-submit"];
  assert.deepEqual(seen.filter((it) => wanted.includes(it)), wanted);
});

onPage("a narrow screen has no sideways scrolling", async (page) => {
  await withRepository(page);
  await ask(page, { body: `${BODY}\n\n${"x".repeat(500)}` });
  await answered(page);
  assert.equal(await page.evaluate(() => document.activeElement.id), "answer", "a person is led to the answer below");
  await page.click("#options summary");
  const { wide, screen } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, screen: document.documentElement.clientWidth }));
  assert.ok(wide <= screen, `${wide} > ${screen}`);
}, { viewport: { width: 390, height: 844 } });

onPage("nothing jumps while the page loads", async (page) => {
  await page.reload();
  await page.locator("#repository option").first().waitFor({ state: "attached" });
  const moved = await page.evaluate(() => new Promise((resolve) => {
    let total = 0;
    new PerformanceObserver((list) => { for (const it of list.getEntries()) total += it.value; }).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => resolve(total), 300);
  }));
  assert.ok(moved < 0.05, String(moved));
});

// The API's page.

onPage("the API's page has every route of the document, with a command", async (page) => {
  await page.locator(".route").first().waitFor();
  const { paths } = await (await fetch(new URL("openapi.json", server.url))).json();
  const routes = Object.entries(paths).flatMap(([at, item]) => ["get", "put", "post", "patch", "delete"].filter((it) => item[it]).map((it) => `${it.toUpperCase()} ${at}`));
  assert.deepEqual((await texts(page, ".route h3")).sort(), routes.sort());
  assert.equal(await page.locator(".route .command").count(), routes.length);
  const dead = await page.evaluate(() => [...document.querySelectorAll('main a[href^="#"]')].filter((it) => !document.getElementById(it.getAttribute("href").slice(1))).map((it) => it.href));
  assert.deepEqual(dead, []);
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(page);
}, { path: "docs" });
