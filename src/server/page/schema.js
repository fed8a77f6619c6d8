// JSON schemas (those of OpenAPI 3.1) in words: types with links to named ones, properties as a list, an example value.

import { el } from "./dom.js";
import * as markdown from "./markdown.js";

const DEEPEST = 6; // of examples: a schema may hold itself

const CONSTRAINTS = {
  minimum: "at least",
  exclusiveMinimum: "more than",
  maximum: "at most",
  exclusiveMaximum: "less than",
  minLength: "length at least",
  maxLength: "length at most",
  minItems: "items at least",
  maxItems: "items at most",
  pattern: "pattern",
};

export class Schemas {
  /** The named schemas of a document. */
  constructor(all) {
    this.all = all;
  }

  nameOf(schema) {
    return schema?.$ref?.split("/").pop();
  }

  /** What a schema is, with its references followed and the parts of `allOf` put together. */
  resolved(schema, depth = 0) {
    const name = this.nameOf(schema);
    if (depth > DEEPEST) return {};
    if (name) return this.resolved(this.all[name] ?? {}, depth + 1);
    if (!schema.allOf) return schema;
    const parts = schema.allOf.map((it) => this.resolved(it, depth + 1));
    return {
      ...Object.assign({}, ...parts),
      ...schema,
      properties: Object.assign({}, ...parts.map((it) => it.properties), schema.properties),
      required: [...parts.flatMap((it) => it.required ?? []), ...(schema.required ?? [])],
    };
  }

  /** A type in words. */
  type(schema) {
    return el("span", { className: "type" }, this.typeParts(schema, 0));
  }

  typeParts(schema, depth) {
    if (!schema || schema === true || depth > DEEPEST) return ["anything"];
    const name = this.nameOf(schema);
    if (name) return [el("a", { href: `#schema-${name}` }, name)];
    const choices = schema.oneOf ?? schema.anyOf;
    if (choices) return this.joined(choices, depth);
    if (schema.allOf?.length === 1) return this.typeParts(schema.allOf[0], depth + 1);
    if (schema.enum) return [values(schema.enum)];
    if (schema.const !== undefined) return [JSON.stringify(schema.const)];
    return [schema.type ?? (schema.properties || schema.allOf ? "object" : "anything")].flat().flatMap((type, at) => [at ? " or " : "", this.single(type, schema, depth)]).flat();
  }

  joined(choices, depth) {
    const last = (schema) => (schema.type === "null" ? 1 : 0);
    return [...choices].sort((a, b) => last(a) - last(b)).flatMap((it, at) => [at ? " or " : "", ...this.typeParts(it, depth + 1)]);
  }

  single(type, schema, depth) {
    if (schema.format === "binary") return ["file"];
    if (type === "array" && schema.prefixItems) return ["[", ...schema.prefixItems.flatMap((it, at) => [at ? ", " : "", ...this.typeParts(it, depth + 1)]), "]"];
    if (type === "array") return ["list of ", ...this.typeParts(schema.items, depth + 1)];
    if (type === "object" && schema.additionalProperties) return ["map to ", ...this.typeParts(schema.additionalProperties, depth + 1)];
    return [type, schema.format && type !== "null" ? ` (${schema.format})` : ""];
  }

  /** The properties of an object's schema as a list, or nothing. Choices that are objects are listed one after the other. */
  properties(schema) {
    const it = this.resolved(schema);
    const own = Object.entries(it.properties ?? {});
    const lists = own.length ? [el("dl", { className: "properties" }, own.map(([name, property]) => this.property(name, property, it.required?.includes(name))))] : [];
    for (const choice of [...(it.oneOf ?? []), ...(it.anyOf ?? [])]) {
      if (!this.nameOf(choice) && choice.properties) lists.push(el("p", { className: "hint" }, choice.description ?? "or"), this.properties(choice));
    }
    return lists.length ? el("div", {}, lists) : null;
  }

  /** One property: its name, its type, what it means. */
  property(name, schema, required, place) {
    const notes = [required ? "required" : null, place ? `in the ${place}` : null, ...limits(schema)].filter(Boolean);
    return [
      el("dt", {}, el("code", {}, name), " ", this.type(schema), notes.length ? el("span", { className: "hint" }, ` ${notes.join(", ")}`) : null),
      el("dd", {}, schema.description ? markdown.render(schema.description) : null),
    ];
  }

  /** A named schema with an anchor. */
  article(name) {
    const schema = this.all[name];
    const listed = this.properties(schema);
    return el("article", { className: "panel schema", id: `schema-${name}` },
      el("h3", {}, name),
      schema.description ? markdown.render(schema.description) : null,
      listed ?? el("p", {}, this.type(schema)));
  }

  /** A value that fits a schema: its example, or its properties that are required or have one (all, if none does). */
  sample(schema, depth = 0) {
    const it = this.resolved(schema);
    if (it.example !== undefined) return it.example;
    if (it.examples?.length) return it.examples[0];
    if (it.default !== undefined && it.default !== null) return it.default;
    if (it.enum) return it.enum[0];
    if (it.const !== undefined) return it.const;
    const choice = [...(it.oneOf ?? []), ...(it.anyOf ?? [])].find(({ type }) => type !== "null");
    if (choice) return depth > DEEPEST ? null : this.sample(choice, depth + 1);
    return this.sampleOfType([it.type ?? (it.properties ? "object" : "null")].flat()[0], it, depth);
  }

  sampleOfType(type, it, depth) {
    switch (type) {
      case "string": return it.format === "binary" ? "@FILE" : "…";
      case "integer":
      case "number": return it.minimum ?? 1;
      case "boolean": return true;
      case "array": return depth > DEEPEST ? [] : (it.prefixItems ?? [it.items ?? {}]).map((item) => this.sample(item, depth + 1));
      case "object": return depth > DEEPEST ? {} : this.sampleObject(it, depth);
      default: return null;
    }
  }

  sampleObject(it, depth) {
    const all = Object.entries(it.properties ?? {});
    const isRequired = ([name]) => it.required?.includes(name);
    const shown = all.filter((property) => isRequired(property) || this.hasExample(property[1]));
    const chosen = depth > 0 ? all.filter(isRequired) : shown.length ? shown : all;
    return Object.fromEntries(chosen.map(([name, schema]) => [name, this.sample(schema, depth + 1)]));
  }

  /** Whether whoever wrote a schema gave an example of it, or of something in it. */
  hasExample(schema, depth = 0) {
    const it = this.resolved(schema);
    if (it.example !== undefined || it.examples?.length) return true;
    const within = [...Object.values(it.properties ?? {}), ...(it.oneOf ?? []), ...(it.anyOf ?? [])];
    return depth < DEEPEST && within.some((part) => this.hasExample(part, depth + 1));
  }
}

const values = (list) => list.map((it) => JSON.stringify(it)).join(" | ");

function limits(schema) {
  const found = Object.entries(CONSTRAINTS).filter(([name]) => schema[name] !== undefined).map(([name, words]) => `${words} ${schema[name]}`);
  if (schema.default !== undefined && schema.default !== null) found.push(`default ${JSON.stringify(schema.default)}`);
  return found;
}
