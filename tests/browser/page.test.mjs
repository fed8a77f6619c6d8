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
  assert.match(await page.textContent(".notices"), /The screenshot checkout\.png was not used: .*text only/);
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
