"use strict";

const { Router, HttpError, serve } = require("../src");

const notes = new Map();
const router = new Router()
  .get("/notes", () => [...notes.keys()])
  .get("/notes/:name", (request, { name }) => {
    if (!notes.has(name)) throw new HttpError(404, `no note ${name}`);
    return { name, text: notes.get(name) };
  });

if (require.main === module) serve(router).listen(8080);

module.exports = { router, notes };
