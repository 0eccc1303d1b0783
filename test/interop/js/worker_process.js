// SPDX-License-Identifier: Apache-2.0
//
// A worker as a process of its own, so that it can be killed:
//
//     node worker_process.js ADDRESS HUB LEDGER
//
// Each activity appends its input to the file LEDGER before it answers: what ran is known even when the
// answer, the worker or the server was lost. Prints "ready" once it is connected.
"use strict";

const fs = require("node:fs");
const h = require("./harness.js");
const { assert, sdk } = h;

const ACTIVITY_MS = 20;

const orchestrators = {
  async *durable_sequence(ctx, { key, steps }) {
    const done = [];
    for (let i = 0; i < steps; i++) done.push(yield ctx.callActivity("durable_step", `${key}/${i}`));
    return done;
  },
  async *durable_mix(ctx, { key, counter }) {
    const first = yield ctx.callActivity("durable_step", `${key}/first`);
    yield ctx.createTimer(1.5);
    const event = yield ctx.waitForExternalEvent("go");
    const child = yield ctx.callSubOrchestrator("durable_sequence", { key: `${key}/child`, steps: 2 });
    ctx.entities.signalEntity(new sdk.EntityInstanceId("tally", counter), "add", 1);
    return [first, event, ...child];
  },
};

// Adds up numbers; its state is the sum.
class Tally {
  run(operation) {
    assert.equal(operation.name, "add");
    operation.state.setState((operation.state.getState(0) ?? 0) + operation.getInput());
  }
}

async function main([address, hub, ledger]) {
  const activities = {
    durable_step: async (_ctx, name) => {
      fs.appendFileSync(ledger, `${name}\n`);
      await h.sleep(ACTIVITY_MS);
      return name;
    },
  };
  // start() does not wait for the connection, and a worker whose first call fails never tries again: a
  // server that is killed too early would test nothing. Only the log tells when it is connected.
  const tell = (text) => /Successfully connected/.test(text) && process.stdout.write("ready\n");
  const logger = { error() {}, warn() {}, info: tell, debug() {} };
  const entities = { tally: () => new Tally() };
  await h.makeWorker(address, hub, { orchestrators, activities, entities }, { logger }).start();
}

main(process.argv.slice(2));
