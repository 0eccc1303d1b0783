// SPDX-License-Identifier: Apache-2.0
//
// A worker as a process of its own, so that it can be killed:
//
//     node worker_process.js ADDRESS LEDGER
//
// Each activity appends its input to the file LEDGER before it answers: what ran is known even when the
// answer, the worker or the server was lost. Prints "ready" once it is connected.
"use strict";

const fs = require("node:fs");
const h = require("./harness.js");

const ACTIVITY_MS = 20;

const orchestrators = {
  async *durable_sequence(ctx, { key, steps }) {
    const done = [];
    for (let i = 0; i < steps; i++) done.push(yield ctx.callActivity("durable_step", `${key}/${i}`));
    return done;
  },
};

async function main([address, ledger]) {
  const activities = {
    durable_step: async (_ctx, name) => {
      fs.appendFileSync(ledger, `${name}\n`);
      await h.sleep(ACTIVITY_MS);
      return name;
    },
  };
  // start() does not wait for the connection, and a worker whose first call fails never tries again: a
  // server that is killed too early would test nothing. Only the log tells when it is connected.
  console.log = (text) => /Successfully connected/.test(text) && process.stdout.write("ready\n");
  await h.makeWorker(address, { orchestrators, activities }).start();
}

main(process.argv.slice(2));
