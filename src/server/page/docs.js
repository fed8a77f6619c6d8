// The API's documentation: routes by tag, what they take and answer, and a command line for each, from the served OpenAPI document.

import { base, forgetKey, key, request } from "./api.js";
import { quote } from "./curl.js";
import { $, copy, el } from "./dom.js";
import * as markdown from "./markdown.js";
import { Schemas } from "./schema.js";

const METHODS = ["get", "put", "post", "patch", "delete"];
const REASONS = { 200: "OK", 202: "Accepted", 204: "No content" };

let api;
let schemas;

async function setUp() {
  $("forget-key").hidden = !key();
  $("forget-key").addEventListener("click", forgetKey);
  try {
    api = await request("GET", "openapi.json");
  } catch (error) {
    $("routes").replaceChildren(el("p", { className: "error", role: "alert" }, error.message));
    return;
  }
  schemas = new Schemas(api.components?.schemas ?? {});
  const groups = byTag();
  $("contents").replaceChildren(...contents(groups));
  $("routes").replaceChildren(...introduction(), ...groups.map(group), schemaSection());
  // The part that the address names was not there when the browser looked for it.
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

/** [{ tag, description, operations }], in the order of the document's tags, then of first use. */
function byTag() {
  const groups = new Map((api.tags ?? []).map(({ name, description }) => [name, { tag: name, description, operations: [] }]));
  for (const [path, item] of Object.entries(api.paths ?? {})) {
    for (const method of METHODS.filter((it) => item[it])) {
      const tag = item[method].tags?.[0] ?? "Other";
      if (!groups.has(tag)) groups.set(tag, { tag, operations: [] });
      groups.get(tag).operations.push({ path, method, ...item[method], parameters: [...(item.parameters ?? []), ...(item[method].parameters ?? [])] });
    }
  }
  return [...groups.values()].filter(({ operations }) => operations.length);
}

const anchor = ({ method, path }) => `${method}-${path}`.replace(/[^A-Za-z0-9]+/g, "-");

function contents(groups) {
  const link = (operation) => el("li", {}, el("a", { href: `#${anchor(operation)}` }, badge(operation.method), ` ${operation.path}`));
  const parts = groups.flatMap(({ tag, operations }) => [el("h2", {}, tag), el("ul", {}, operations.map(link))]);
  return [...parts, el("h2", {}, el("a", { href: "#schemas" }, "Schemas"))];
}

const badge = (method) => el("span", { className: `method ${method}` }, method.toUpperCase());

function introduction() {
  const { title, version, description } = api.info ?? {};
  return [el("section", { className: "panel" }, el("h2", {}, [title, version].filter(Boolean).join(" ")), description ? markdown.render(description) : null)];
}

function group({ tag, description, operations }) {
  const id = `tag-${tag.replace(/\W+/g, "-")}`;
  return el("section", { "aria-labelledby": id }, el("h2", { id, className: "tag" }, tag), description ? markdown.render(description) : null, operations.map(route));
}

function route(operation) {
  const id = anchor(operation);
  return el("article", { className: "panel route", id, "aria-labelledby": `${id}-heading` },
    el("h3", { id: `${id}-heading` }, badge(operation.method), " ", el("code", {}, operation.path)),
    operation.summary ? el("p", { className: "summary" }, operation.summary) : null,
    operation.description && operation.description !== operation.summary ? markdown.render(operation.description) : null,
    operation.deprecated ? el("p", { className: "warn" }, "Deprecated.") : null,
    parameters(operation.parameters.map(resolve)),
    requestBody(resolve(operation.requestBody)),
    responses(operation.responses ?? {}),
    example(operation));
}

/** An object in place of a reference to one in `components`. */
function resolve(it) {
  if (!it?.$ref) return it;
  return it.$ref.replace(/^#\//, "").split("/").reduce((found, part) => found?.[part], api) ?? {};
}

function parameters(list) {
  if (list.length === 0) return null;
  const rows = list.map((it) => schemas.property(it.name, { ...it.schema, description: it.description ?? it.schema?.description }, it.required, it.in));
  return part("Parameters", el("dl", { className: "properties" }, rows));
}

const part = (title, ...children) => el("div", { className: "part-of-route" }, el("h4", {}, title), ...children);

function requestBody(body) {
  if (!body?.content) return null;
  return part("Request", body.description ? el("p", {}, body.description) : null, contentViews(body.content));
}

function contentViews(content) {
  return Object.entries(content).map(([type, { schema }]) => el("div", {}, el("p", { className: "media" }, el("code", {}, type), " ", schema ? schemas.type(schema) : null), schema ? schemas.properties(schema) : null));
}

function responses(all) {
  const codes = Object.keys(all).sort();
  const [good, bad] = [codes.filter((it) => it.startsWith("2")), codes.filter((it) => !it.startsWith("2"))];
  return part("Responses", good.map((code) => response(code, resolve(all[code]))), bad.length ? errors(bad.map((code) => [code, resolve(all[code])])) : null);
}

function response(code, it) {
  const title = el("p", { className: "response" }, el("b", { className: "good" }, code), " ", markdown.inline(it.description || REASONS[code] || ""));
  return el("div", {}, title, it.content ? el("div", { className: "inset" }, contentViews(it.content)) : null);
}

/** Errors are the same on nearly every route, so they are folded, and their form is shown once. */
function errors(list) {
  const rows = list.flatMap(([code, it]) => [el("dt", {}, el("b", { className: "bad" }, code)), el("dd", {}, markdown.inline(it.description ?? ""), headers(it))]);
  const form = list.map(([, it]) => Object.values(it.content ?? {})[0]?.schema).find(Boolean);
  return el("details", { className: "response" },
    el("summary", {}, "Errors: ", list.map(([code]) => code).join(", ")),
    form ? el("p", {}, "As ", schemas.type(form)) : null,
    el("dl", { className: "errors" }, rows));
}

const headers = (it) => Object.entries(it.headers ?? {}).map(([name, header]) => [" ", el("code", {}, name), ` ${resolve(header).description ?? ""}`]);

function schemaSection() {
  const names = Object.keys(schemas.all).sort();
  return el("section", { "aria-labelledby": "schemas" }, el("h2", { id: "schemas", className: "tag" }, "Schemas"), names.map((name) => schemas.article(name)));
}

// A command line for each route.

function example(operation) {
  const text = commandLine(operation);
  const button = el("button", { type: "button", "aria-label": "Copy the command" }, "Copy");
  button.addEventListener("click", () => copy(text, button));
  return part("Example", el("div", { className: "command" }, el("pre", { tabIndex: 0 }, el("code", {}, text)), button));
}

function commandLine(operation) {
  const given = operation.parameters.map(resolve);
  const path = operation.path.replace(/\{([^}]+)\}/g, (_, name) => encodeURIComponent(sampleOf(given.find((it) => it.name === name), name)));
  const query = given.filter((it) => it.in === "query" && it.required).map((it) => `${it.name}=${encodeURIComponent(sampleOf(it, it.name))}`).join("&");
  const url = new URL(path.slice(1) + (query ? `?${query}` : ""), base).href;
  const method = operation.method === "get" ? "" : `-X ${operation.method.toUpperCase()} `;
  return [`curl -sS ${method}${quote(url)}`, ...authorization(operation), ...bodyArguments(resolve(operation.requestBody))].join(" \\\n  ");
}

const sampleOf = (parameter, name) => String(parameter?.example ?? (parameter?.schema?.example ?? name.toUpperCase()));

function authorization(operation) {
  const security = operation.security ?? api.security ?? [];
  return security.some((it) => Object.keys(it).length) ? ['-H "Authorization: Bearer $SIGHTLINE_API_KEY"'] : [];
}

function bodyArguments(body) {
  const types = Object.entries(body?.content ?? {});
  const [type, media] = types.find(([it]) => it === "application/json") ?? types[0] ?? [];
  if (!type) return [];
  if (type === "application/json") {
    const sample = media.example ?? Object.values(media.examples ?? {})[0]?.value ?? schemas.sample(media.schema ?? {});
    return ["-H 'Content-Type: application/json'", `-d ${quote(JSON.stringify(sample))}`];
  }
  if (type.startsWith("multipart/")) {
    return Object.entries(schemas.sample(media.schema ?? {}) ?? {}).map(([name, value]) => `-F ${quote(`${name}=${value}`)}`);
  }
  return [`-H ${quote(`Content-Type: ${type}`)}`, "--data-binary @FILE"];
}

setUp();
