// Starts the built binary as a user would, on a port that the system chooses, and ends it again.

import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export const root = path.resolve(import.meta.dirname, "../..");
const STARTS_WITHIN_MS = 60_000;

/** A running service and a folder for what it keeps. `keys` makes it ask for one. */
export async function start(keys = []) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "sightline-page-"));
  const binary = process.env.SIGHTLINE_BIN ?? path.join(root, "target/release/sightline");
  const settings = path.join(folder, "settings.toml");
  fs.writeFileSync(settings, settingsText(folder, keys));
  const process_ = spawn(binary, ["serve", "--config", settings], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [process_.stdout, process_.stderr]) stream.on("data", (data) => { output += data; });
  const url = await found(() => /http:\/\/[\d.]+:\d+/.exec(output)?.[0], process_, () => output);
  await found(async () => (await fetch(`${url}/ready`).catch(() => ({}))).ok, process_, () => output);
  return { url: `${url}/`, folder, output: () => output, stop: () => stop(process_, folder) };
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

async function found(look, process_, output) {
  const end = Date.now() + STARTS_WITHIN_MS;
  while (Date.now() < end && process_.exitCode === null) {
    const value = await look();
    if (value) return value;
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  process_.kill();
  throw new Error(`the service did not start:\n${output()}`);
}

async function stop(process_, folder) {
  const ended = new Promise((resolve) => { process_.once("exit", resolve); });
  process_.kill("SIGTERM");
  await ended;
  fs.rmSync(folder, { recursive: true, force: true });
}
