"use strict";

/** "/users/:id" as its parts: text, or the name of a parameter. */
function compile(pattern) {
  return split(pattern).map((part) =>
    part.startsWith(":") ? { name: part.slice(1) } : { text: part }
  );
}

/** The parameters of a path, or null when it does not fit. */
function match(parts, path) {
  const words = split(path);
  if (words.length !== parts.length) return null;
  const params = {};
  for (let i = 0; i < parts.length; i++) {
    if (parts[i].name) params[parts[i].name] = words[i];
    else if (parts[i].text !== words[i]) return null;
  }
  return params;
}

function split(path) {
  return path.split("/").filter((part) => part !== "");
}

module.exports = { compile, match };
