// Asks Sightline about an issue with a screenshot. Needs Node 18 or newer.
//
//   node docs/clients/locate.mjs REPOSITORY TITLE [PICTURE]
//
// REPOSITORY is the name of one that the service has. SIGHTLINE_URL (http://127.0.0.1:7411) says where it is; SIGHTLINE_API_KEY is sent if
// the service wants one.

import { openAsBlob } from "node:fs";
import { basename } from "node:path";

const { SIGHTLINE_URL: url = "http://127.0.0.1:7411", SIGHTLINE_API_KEY: key } = process.env;
const [repository, title, picture] = process.argv.slice(2);

if (!title) {
  console.error("usage: node docs/clients/locate.mjs REPOSITORY TITLE [PICTURE]");
  process.exit(2);
}

const form = new FormData();
form.set("title", title);
form.set("k", "5");
if (picture) form.append("image", await openAsBlob(picture), basename(picture));

const headers = key ? { Authorization: `Bearer ${key}` } : {};
const response = await fetch(`${url}/v1/repositories/${encodeURIComponent(repository)}/locate`, { method: "POST", headers, body: form });
const located = await response.json();
if (!response.ok) {
  const { code, message, param } = located.error;
  console.error(`${response.status} ${code}: ${message} (${param})`);
  process.exit(1);
}
for (const { path, start_line, function: name, score } of located.functions) {
  console.log(`${path}:${start_line}  ${name}  ${score.toFixed(3)}`);
}
