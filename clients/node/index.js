"use strict";

const { Client, Sequence, Worker } = require("./lib/client.js");
const { ClockError, Closed, GetidError, Refused, Unavailable } = require("./lib/errors.js");
const { Layout } = require("./lib/layout.js");

module.exports = { Client, ClockError, Closed, GetidError, Layout, Refused, Sequence, Unavailable, Worker };
