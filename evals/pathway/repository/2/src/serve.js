"use strict";

const http = require("node:http");

/** A server that answers with JSON. */
function serve(router) {
  return http.createServer((request, response) => {
    let status = 200;
    let body;
    try {
      body = router.handle(request);
    } catch (error) {
      status = error.status || 500;
      body = { error: status === 500 ? "internal error" : error.message };
    }
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  });
}

module.exports = { serve };
