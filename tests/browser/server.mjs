// Starts the built binary as a user would, on a port that the system chooses, and ends it again.

import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export const root = path.resolve(import.meta.dirname, "../..");
const WITHIN_MS = 60_000;

/** A running service and a folder for what it keeps. `keys` makes it ask for one. */
export async function start(keys = []) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "sightline-page-"));
  const binary = process.env.PAGE_BINARY ?? path.join(root, "target/release/sightline");
  const settings = path.join(folder, "settings.toml");
  fs.writeFileSync(settings, settingsText(folder, keys));
  const service = spawn(binary, ["serve", "--config", settings], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [service.stdout, service.stderr]) stream.on("data", (data) => { output += data; });
  const failure = () => `the service did not start:\n${output}`;
  const lives = () => service.exitCode === null;
  try {
    const url = await until(() => /http:\/\/[\d.]+:\d+/.exec(output)?.[0], failure, lives);
    await until(async () => (await fetch(`${url}/ready`).catch(() => ({}))).ok, failure, lives);
    return { url: `${url}/`, stop: () => stop(service, folder) };
  } catch (error) {
    await stop(service, folder);
    throw error;
  }
}

function settingsText(folder, keys) {
  const list = (values) => `[${values.map((value) => JSON.stringify(value)).join(", ")}]`;
  return [
    "[index]",
    `data_dir = ${JSON.stringify(path.join(folder, "data"))}`,
    "[server]",
    'host = "127.0.0.1"',
    "port = 0",
    `roots = ${list([path.join(root, "tests/fixtures"), path.join(root, "target")])}`,
    `keys = ${list(keys)}`,
  ].join("\n");
}

/** Waits until `look` gives something, and gives it. `goesOn` ends the wait early. */
export async function until(look, failure, goesOn = () => true) {
  const end = Date.now() + WITHIN_MS;
  while (Date.now() < end && goesOn()) {
    const value = await look();
    if (value) return value;
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  throw new Error(failure());
}

async function stop(service, folder) {
  const ended = new Promise((resolve) => { service.once("exit", resolve); });
  if (service.exitCode === null && service.kill("SIGTERM")) await ended;
  fs.rmSync(folder, { recursive: true, force: true });
}
