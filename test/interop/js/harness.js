// SPDX-License-Identifier: Apache-2.0
//
// What the cases share: one server, and in its hub "main" one client and one worker that knows the
// programs of every case. A case that needs a worker, a hub or a server of its own makes one.
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const grpc = require("@grpc/grpc-js");
const sdk = require("@microsoft/durabletask-js");
const { NornServer } = require("./norn_server.js");

// Far above what anything takes here, also on a busy machine: a case that reaches it hangs. After a crash
// it is the SDK that takes long: its pauses between attempts to connect grow up to half a minute.
const WAIT_SECONDS = 60;

const programs = { orchestrators: {}, activities: {}, entities: {} };
const shared = { server: null, client: null, worker: null };

// The server tells hubs apart by this header; the packages for Azure set it in the same way.
function hubHeader(hub) {
  return async () => {
    const metadata = new grpc.Metadata();
    metadata.set("taskhub", hub);
    return metadata;
  };
}

// A channel of its own for each client and worker: a new one knows nothing of the failed attempts of an
// older one, so after a restart of the server it connects at once.
const CHANNEL_OPTIONS = { "grpc.use_local_subchannel_pool": 1 };

// Standard output belongs to the test report.
const say = (...words) => console.error(new Date().toISOString(), ...words);
const errorLogger = { error: say, warn: say, info: say, debug: () => {} };

function connection(address, hub) {
  return {
    hostAddress: address,
    options: CHANNEL_OPTIONS,
    metadataGenerator: hubHeader(hub),
    logger: process.env.INTEROP_VERBOSE ? errorLogger : new sdk.NoOpLogger(),
  };
}

function makeClient(address, hub) {
  return new sdk.TaskHubGrpcClient(connection(address, hub));
}

// A worker that is not started yet; `which` is like `programs`.
function makeWorker(address, hub, which, options = {}) {
  const worker = new sdk.TaskHubGrpcWorker({ ...connection(address, hub), ...options });
  for (const [name, fn] of Object.entries(which.orchestrators ?? {})) {
    worker.addNamedOrchestrator(name, fn);
  }
  for (const [name, fn] of Object.entries(which.activities ?? {})) worker.addNamedActivity(name, fn);
  for (const [name, fn] of Object.entries(which.entities ?? {})) worker.addNamedEntity(name, fn);
  return worker;
}

// Adds the programs of a case file to what the shared worker and the worker processes run.
function register(more) {
  for (const kind of Object.keys(programs)) Object.assign(programs[kind], more[kind]);
}

async function startShared() {
  shared.server = new NornServer();
  await shared.server.start();
  shared.client = makeClient(shared.server.address, "main");
  shared.worker = makeWorker(shared.server.address, "main", programs);
  await shared.worker.start();
}

async function stopShared() {
  await shared.worker?.stop();
  await shared.client?.stop();
  await shared.server?.remove();
}

// Clients and workers sleep a second in stop(), for good measure; no case needs to wait for that.
function stopLater(stoppable) {
  stoppable.stop().catch(() => {}); // a case may have stopped it already
}

// A hub of the shared server that no other case sees, with its own client; both go with the case.
function ownHub(t) {
  const hub = `hub-${randomUUID()}`;
  const client = makeClient(shared.server.address, hub);
  t.after(() => stopLater(client));
  return {
    hub,
    client,
    async work(which = programs, options = {}) {
      const worker = makeWorker(shared.server.address, hub, which, options);
      await worker.start();
      t.after(() => stopLater(worker));
      return worker;
    },
  };
}

async function finished(client, id) {
  const state = await client.waitForOrchestrationCompletion(id, true, WAIT_SECONDS);
  assert.ok(state, `${id} does not exist`);
  return state;
}

// The output of an orchestration that must complete.
async function output(client, id) {
  const state = await finished(client, id);
  assert.equal(
    sdk.OrchestrationStatus[state.runtimeStatus],
    "COMPLETED",
    `${id}: ${state.failureDetails?.message}`,
  );
  return state.serializedOutput === undefined ? undefined : JSON.parse(state.serializedOutput);
}

// Starts in the hub "main", waits, answers the output.
async function run(name, input, id) {
  return output(shared.client, await shared.client.scheduleNewOrchestration(name, input, id));
}

async function collect(iterable) {
  const all = [];
  for await (const item of iterable) all.push(item);
  return all;
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
  assert,
  collect,
  eventually,
  finished,
  makeClient,
  makeWorker,
  output,
  ownHub,
  programs,
  randomUUID,
  register,
  run,
  sdk,
  shared,
  sleep,
  startShared,
  stopLater,
  stopShared,
};
