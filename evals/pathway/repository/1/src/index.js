"use strict";

const { Router } = require("./router");
const { HttpError } = require("./errors");

module.exports = { Router, HttpError };
