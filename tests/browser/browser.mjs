// The browser: Debian's chromium, a page that remembers its faults, rules of accessibility, pictures of the screen.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

import { chromium } from "playwright-core";

const AXE = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WAIT_MS = 30_000; // a loaded machine is slow, and nothing waits that long that works

export function launch() {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  // As root there is no sandbox to be had; what is opened is our own.
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
}

/** A page in a profile of its own. `page.faults` collects errors of scripts and of the policy, and requests to other servers. */
export async function open(browser, url, { viewport = { width: 1280, height: 900 }, colorScheme = "light" } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(error.message));
  page.on("console", (message) => { if (message.type() === "error") page.faults.push(`${message.text()} ${message.location().url}`); });
  page.on("dialog", (dialog) => page.faults.push(`a dialog: ${dialog.message()}`));
  page.on("request", (request) => {
    const address = new URL(request.url());
    if (address.protocol.startsWith("http") && address.origin !== new URL(url).origin) page.faults.push(`asked ${address.origin}`);
  });
  if (process.env.PAGE_SOURCES) await context.route(/\/(page\/[a-z.]+|docs)?$/, edited);
  const response = await page.goto(url);
  assert.equal(response.headers()["content-security-policy"]?.includes("default-src 'none'"), true, "the page has a policy");
  return page;
}

const SOURCES = path.resolve(import.meta.dirname, "../../src/server/page");

/** A file of the page as it lies in the source, with the headers of the one in the program. */
async function edited(route) {
  const name = path.basename(new URL(route.request().url()).pathname);
  const file = path.join(SOURCES, { "": "index.html", docs: "docs.html" }[name] ?? name);
  const response = await route.fetch();
  if (!fs.existsSync(file)) return route.fulfill({ response });
  if (response.ok()) return route.fulfill({ response, body: fs.readFileSync(file) });
  return route.fulfill({ path: file }); // one that the program doesn't have yet
}

/** No rule of WCAG 2.2 AA that a program can check is broken. */
export async function expectAccessible(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(" ")}: ${node.failureSummary}`));
  });
  assert.deepEqual(found, []);
}

/** With PAGE_SHOTS, each test leaves a picture of its last screen there. */
export async function shoot(page, name) {
  const folder = process.env.PAGE_SHOTS;
  if (!folder) return;
  fs.mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: path.join(folder, `${name.replace(/\W+/g, "-")}.png`), fullPage: true }).catch(() => {});
}
