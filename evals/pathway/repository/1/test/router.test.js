"use strict";

const assert = require("node:assert");
const test = require("node:test");
const { Router } = require("../src");

test("finds a route by method and path", () => {
  const router = new Router().get("/a", () => 1).post("/a", () => 2).get("/a/b", () => 3);
  assert.strictEqual(router.handle({ method: "GET", url: "/a" }), 1);
  assert.strictEqual(router.handle({ method: "POST", url: "/a" }), 2);
  assert.strictEqual(router.handle({ method: "GET", url: "/a/b/" }), 3);
});

test("gives parameters", () => {
  const router = new Router().get("/users/:id/posts/:post", (request, params) => params);
  const params = router.handle({ method: "GET", url: "/users/7/posts/x" });
  assert.deepStrictEqual({ ...params }, { id: "7", post: "x" });
});

test("says when there is nothing", () => {
  assert.throws(() => new Router().handle({ method: "GET", url: "/x" }), { status: 404 });
});
