// A request as a command line that does the same. The key is not in it: it names the variable where a person keeps theirs.

/** One word of a POSIX shell, whatever it holds. */
export function quote(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** `curl` with a form, or with JSON where a picture has a text, for which a form has no field. */
export function curl(url, request, withKey) {
  const start = [`curl -sS ${quote(url)}`];
  if (withKey) start.push('-H "Authorization: Bearer $SIGHTLINE_API_KEY"');
  const corrected = request.images?.some(({ text }) => text !== undefined);
  return corrected ? withJson(start, request) : withForm(start, request);
}

/** Text goes by --form-string, since -F reads a file where a value begins with @ or <. */
function withForm(start, request) {
  const lines = [...start];
  for (const [name, value] of fields(request)) lines.push(`--form-string ${quote(`${name}=${value}`)}`);
  for (const { name } of request.images ?? []) lines.push(`-F ${quote(`image=@${fileName(name)}`)}`);
  return lines.join(" \\\n  ");
}

/** The pictures' files are put into the JSON on the way. */
function withJson(start, { images, ...others }) {
  const pieces = [`${JSON.stringify(others).slice(0, -1)}, "images": [`];
  const commands = [];
  images.forEach(({ name, text }, at) => {
    const known = JSON.stringify({ name, text }).slice(0, -1);
    commands.push(`printf %s ${quote(`${pieces.pop()}${known}, "data": "`)}`, `base64 < ${quote(name.startsWith("-") ? `./${name}` : name)} | tr -d '\\n'`);
    pieces.push(at + 1 < images.length ? '"}, ' : '"}]}');
  });
  commands.push(`printf %s ${quote(pieces.pop())}`);
  const lines = [...start, "-H 'Content-Type: application/json'", "--data-binary @-"];
  return `{ ${commands.join("\n  ")}; } |\n${lines.join(" \\\n  ")}`;
}

/** Fields of a form: what is no text is JSON. */
function fields({ images, ...others }) {
  return Object.entries(others).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
}

// Within -F a comma or semicolon ends a file's name unless it is quoted.
function fileName(name) {
  return /[,;"\\]/.test(name) ? `"${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"` : name;
}
