// SPDX-License-Identifier: Apache-2.0
//
// Every case, one after the other, over one shared server; see harness.js.
"use strict";

const { after, before } = require("node:test");
const { startShared, stopShared } = require("./harness.js");

before(startShared);
after(stopShared);

require("./cases_flow.js");
require("./cases_control.js");
require("./cases_query.js");
require("./cases_entity.js");
require("./cases_worker.js");
require("./cases_crash.js");
