"use strict";

const { FakeClient } = require("./lib/testing.js");

module.exports = { FakeClient };
