"use strict";

const { Router } = require("./router");
const { HttpError } = require("./errors");
const { serve } = require("./serve");

module.exports = { Router, HttpError, serve };
