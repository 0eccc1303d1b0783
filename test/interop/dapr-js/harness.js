// SPDX-License-Identifier: Apache-2.0
//
// What suite.js and worker_process.js share. This SDK is an older fork: it knows neither hubs nor
// completion tokens, so everything is in the default hub and cases are kept apart by their ids.
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const sdk = require("@dapr/durabletask-js");
const { whenAll, whenAny } = require("@dapr/durabletask-js/task");
const {
  OrchestrationStatus,
} = require("@dapr/durabletask-js/orchestration/enum/orchestration-status.enum");

const WAIT_SECONDS = 60;
const CHANNEL_OPTIONS = { "grpc.use_local_subchannel_pool": 1 };

// The SDK talks on standard output, where the test report goes.
console.log = console.info = (...words) => {
  if (process.env.INTEROP_VERBOSE) console.error(...words);
};

function makeClient(address) {
  return new sdk.TaskHubGrpcClient(address, CHANNEL_OPTIONS);
}

function makeWorker(address, { orchestrators, activities }) {
  const worker = new sdk.TaskHubGrpcWorker(address, CHANNEL_OPTIONS);
  for (const [name, fn] of Object.entries(orchestrators)) worker.addNamedOrchestrator(name, fn);
  for (const [name, fn] of Object.entries(activities)) worker.addNamedActivity(name, fn);
  return worker;
}

async function finished(client, id) {
  const state = await client.waitForOrchestrationCompletion(id, true, WAIT_SECONDS);
  assert.ok(state, `${id} does not exist`);
  return state;
}

// The output of an orchestration that must complete.
async function output(client, id) {
  const state = await finished(client, id);
  const status = OrchestrationStatus[state.runtimeStatus];
  assert.equal(status, "COMPLETED", `${id}: ${state.failureDetails?.message}`);
  return state.serializedOutput ? JSON.parse(state.serializedOutput) : undefined;
}

// Asks again until the answer is true: for what has no call that waits for it.
async function eventually(question, what) {
  const deadline = Date.now() + WAIT_SECONDS * 1000;
  while (!(await question())) {
    assert.ok(Date.now() < deadline, `not in time: ${what}`);
    await sleep(25);
  }
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

module.exports = {
  OrchestrationStatus,
  assert,
  eventually,
  finished,
  makeClient,
  makeWorker,
  output,
  randomUUID,
  sleep,
  whenAll,
  whenAny,
};
