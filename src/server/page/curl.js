// A request as a command line that does the same. The key is not in it: it names the variable where a person keeps theirs.

/** One word of a POSIX shell, whatever it holds. */
export function quote(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** `curl` with a form. Text goes by --form-string, since -F reads a file where a value begins with @ or <. */
export function curl(url, request, withKey) {
  const lines = [`curl -sS ${quote(url)}`];
  if (withKey) lines.push('-H "Authorization: Bearer $SIGHTLINE_API_KEY"');
  for (const [name, value] of fields(request)) lines.push(`--form-string ${quote(`${name}=${value}`)}`);
  for (const { name } of request.images ?? []) lines.push(`-F ${quote(`image=@${fileName(name)}`)}`);
  return lines.join(" \\\n  ");
}

/** Fields of a form: what is no text is JSON. */
function fields({ images, ...others }) {
  return Object.entries(others).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
}

// Within -F a comma or semicolon ends a file's name unless it is quoted.
function fileName(name) {
  return /[,;"\\]/.test(name) ? `"${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"` : name;
}
