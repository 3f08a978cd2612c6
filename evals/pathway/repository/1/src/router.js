"use strict";

const { compile, match } = require("./pattern");
const { HttpError } = require("./errors");

class Router {
  constructor() {
    this.routes = [];
  }

  add(method, pattern, handler) {
    this.routes.push({ method, pattern, parts: compile(pattern), handler });
    return this;
  }

  get(pattern, handler) {
    return this.add("GET", pattern, handler);
  }

  post(pattern, handler) {
    return this.add("POST", pattern, handler);
  }

  /** What the first route that fits gives; an HttpError when there is none. */
  handle(request) {
    for (const route of this.routes) {
      if (route.method !== request.method) continue;
      const params = match(route.parts, request.url);
      if (params) return route.handler(request, params);
    }
    throw new HttpError(404, `nothing at ${request.method} ${request.url}`);
  }
}

module.exports = { Router };
