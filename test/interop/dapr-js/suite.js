// SPDX-License-Identifier: Apache-2.0
//
// The cases that this SDK can express, over one shared server, and the crashes over servers of their own.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { once } = require("node:events");
const { spawn } = require("node:child_process");
const { after, before, test } = require("node:test");
const h = require("./harness.js");
const { NornServer } = require("../js/norn_server.js");
const { assert } = h;
const { FAILED, PENDING, RUNNING, SUSPENDED, TERMINATED } = h.OrchestrationStatus;

// Numbers start at 1: this SDK gives a program no input at all where the input is 0.
const orchestrators = {
  async *sequence(ctx, start) {
    let value = start;
    for (let i = 0; i < 3; i++) value = yield ctx.callActivity("add_one", value);
    return value;
  },
  async *fan(ctx, width) {
    const tasks = [];
    for (let i = 1; i <= width; i++) tasks.push(ctx.callActivity("add_one", i));
    const results = yield h.whenAll(tasks);
    return results.reduce((sum, value) => sum + value, 0);
  },
  async *echo(_ctx, input) {
    return input;
  },
  async *sleeper(ctx, seconds) {
    const start = ctx.currentUtcDateTime.getTime();
    yield ctx.createTimer(seconds);
    return ctx.currentUtcDateTime.getTime() - start;
  },
  async *race(ctx, seconds) {
    const event = ctx.waitForExternalEvent("go");
    const winner = yield h.whenAny([event, ctx.createTimer(seconds)]);
    return winner === event ? event.getResult() : "late";
  },
  async *three_events(ctx) {
    const values = [];
    for (let i = 0; i < 3; i++) values.push(yield ctx.waitForExternalEvent("value"));
    return values;
  },
  async *parent(ctx, children) {
    const tasks = [];
    for (let i = 1; i <= children; i++) tasks.push(ctx.callSubOrchestrator("sequence", i));
    return yield h.whenAll(tasks);
  },
  async *parent_of_failure(ctx) {
    try {
      yield ctx.callSubOrchestrator("fails");
    } catch (error) {
      return `caught: ${error.message}`;
    }
    return "not caught";
  },
  async *fails(ctx) {
    yield ctx.callActivity("fails_always");
  },
  async *counts_down(ctx, n) {
    yield ctx.callActivity("add_one", n);
    if (n > 0) ctx.continueAsNew(n - 1, false);
    else return "landed";
  },
  // It reads an item only after they all have come: this SDK keeps events for a name that was not waited
  // for yet in this generation, and drops those that come after a wait for their name was over.
  async *collects(ctx, seen) {
    if (seen.length === 0) yield ctx.waitForExternalEvent("all_sent");
    else yield ctx.callActivity("add_one", 1);
    seen.push(yield ctx.waitForExternalEvent("item"));
    if (seen.length === 5) return seen;
    ctx.continueAsNew(seen, true);
  },
  async *shows_progress(ctx) {
    ctx.setCustomStatus("first");
    yield ctx.waitForExternalEvent("next");
    ctx.setCustomStatus("second");
    return "done";
  },
};

const activities = {
  add_one: async (_ctx, n) => n + 1,
  fails_always: async () => {
    throw new Error("on purpose");
  },
};

const server = new NornServer();
let client;
let worker;

before(async () => {
  await server.start();
  client = h.makeClient(server.address);
  worker = h.makeWorker(server.address, { orchestrators, activities });
  await worker.start();
});

after(async () => {
  await worker?.stop();
  await client?.stop();
  await server.remove();
});

async function run(name, input) {
  return h.output(client, await client.scheduleNewOrchestration(name, input));
}

async function startRunning(name, input) {
  const id = await client.scheduleNewOrchestration(name, input);
  await client.waitForOrchestrationStart(id, false, 30);
  return id;
}

async function statusOf(id) {
  return (await client.getOrchestrationState(id))?.runtimeStatus;
}

test("activities run one after the other", async () => {
  assert.equal(await run("sequence", 10), 13);
});

test("a hundred activities fan out and in", async () => {
  assert.equal(await run("fan", 100), 5150);
});

test("inputs and outputs keep their bytes", async () => {
  const value = { text: 'Größe ☃ "quoted" \\ \n 𝄞', list: [1.5, null, true, {}], empty: "" };
  assert.deepEqual(await run("echo", value), value);
});

test("a timer fires when it is due and not before", async () => {
  const elapsed_ms = await run("sleeper", 1);
  assert.ok(elapsed_ms >= 1000, `fired after ${elapsed_ms} ms`);
  assert.ok(elapsed_ms < 5000, `fired after ${elapsed_ms} ms`);
});

test("an orchestration starts at its scheduled time", async () => {
  const startAt = new Date(Date.now() + 1500);
  const id = await client.scheduleNewOrchestration("echo", 1, undefined, startAt);
  assert.equal(await statusOf(id), PENDING);
  assert.equal(await h.output(client, id), 1);
  assert.ok(Date.now() >= startAt.getTime());
});

test("an event wins against a timer, and a timer against no event", async () => {
  const winner = await client.scheduleNewOrchestration("race", 60);
  await client.raiseOrchestrationEvent(winner, "go", { answer: 42 });
  assert.deepEqual(await h.output(client, winner), { answer: 42 });
  assert.equal(await run("race", 1), "late");
});

test("events of one name arrive in the order they were raised", async () => {
  const id = await client.scheduleNewOrchestration("three_events");
  for (const value of ["a", "b", "c"]) await client.raiseOrchestrationEvent(id, "value", value);
  assert.deepEqual(await h.output(client, id), ["a", "b", "c"]);
});

test("children answer their parent", async () => {
  assert.deepEqual(await run("parent", 5), [4, 5, 6, 7, 8]);
});

test("the failure of a child can be caught", async () => {
  assert.match(await run("parent_of_failure"), /^caught: /);
});

test("a failed orchestration tells its error", async () => {
  const state = await h.finished(client, await client.scheduleNewOrchestration("fails"));
  assert.equal(state.runtimeStatus, FAILED);
  assert.match(state.failureDetails.message, /on purpose/);
});

test("an orchestration continues as new forty times", async () => {
  assert.equal(await run("counts_down", 40), "landed");
});

// Four of the five events go from the first generation to the next, then three, two and one.
test("events that are not read yet live through continue-as-new", async () => {
  const id = await client.scheduleNewOrchestration("collects", []);
  for (let i = 1; i <= 5; i++) await client.raiseOrchestrationEvent(id, "item", i);
  await client.raiseOrchestrationEvent(id, "all_sent", true);
  assert.deepEqual(await h.output(client, id), [1, 2, 3, 4, 5]);
});

test("a custom status is seen while the orchestration runs", async () => {
  const id = await client.scheduleNewOrchestration("shows_progress");
  const custom = async () => (await client.getOrchestrationState(id)).serializedCustomStatus;
  await h.eventually(async () => /first/.test(await custom()), "the first custom status");
  await client.raiseOrchestrationEvent(id, "next");
  assert.equal(await h.output(client, id), "done");
  assert.match(await custom(), /second/);
});

test("a running id is refused, a finished one can be used again", async () => {
  const id = await startRunning("three_events");
  await assert.rejects(client.scheduleNewOrchestration("three_events", null, id), { code: 6 });
  await client.terminateOrchestration(id);
  await h.finished(client, id);
  await client.scheduleNewOrchestration("echo", 2, id);
  assert.equal(await h.output(client, id), 2);
});

test("terminate ends an orchestration with the given output", async () => {
  const id = await startRunning("three_events");
  await client.terminateOrchestration(id, "enough");
  const state = await h.finished(client, id);
  assert.equal(state.runtimeStatus, TERMINATED);
  assert.equal(JSON.parse(state.serializedOutput), "enough");
});

test("a suspended orchestration takes its events after it is resumed", async () => {
  const id = await startRunning("three_events");
  await client.suspendOrchestration(id);
  await h.eventually(async () => (await statusOf(id)) === SUSPENDED, "it is suspended");
  for (const value of [1, 2, 3]) await client.raiseOrchestrationEvent(id, "value", value);
  await h.sleep(300);
  assert.equal(await statusOf(id), SUSPENDED);
  await client.resumeOrchestration(id);
  assert.deepEqual(await h.output(client, id), [1, 2, 3]);
});

test("purge removes what is finished and nothing else", async () => {
  const done = await client.scheduleNewOrchestration("echo", 1);
  await h.output(client, done);
  const running = await startRunning("three_events");
  assert.equal((await client.purgeOrchestration(done)).deletedInstanceCount, 1);
  assert.equal(await statusOf(done), undefined);
  assert.equal((await client.purgeOrchestration(running)).deletedInstanceCount, 0);
  assert.equal(await statusOf(running), RUNNING);
});

test("three hundred orchestrations at once", async () => {
  const starts = [];
  for (let i = 1; i <= 300; i++) starts.push(client.scheduleNewOrchestration("sequence", i));
  const outputs = await Promise.all((await Promise.all(starts)).map((id) => h.output(client, id)));
  outputs.forEach((value, i) => assert.equal(value, i + 4));
});

// Crashes. This SDK waits five seconds before it connects again.

const INSTANCES_N = 50;
const STEPS_N = 5;

async function startWorkerProcess(t, address, ledger) {
  const program = path.join(__dirname, "worker_process.js");
  const child = spawn(process.execPath, [program, address, ledger], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  await once(child.stdout, "data");
  return child;
}

function linesOf(file) {
  return new Set(fs.existsSync(file) ? fs.readFileSync(file, "utf8").trim().split("\n") : []);
}

// Fifty orchestrations are under way when `disturb` happens; it answers the client to go on with.
async function surviveDisturbance(t, disturb) {
  const own = new NornServer();
  t.after(() => own.remove());
  await own.start();
  const ledger = path.join(own.directory, "ledger");
  const starter = h.makeClient(own.address);
  const child = await startWorkerProcess(t, own.address, ledger);
  for (let i = 0; i < INSTANCES_N; i++) {
    await starter.scheduleNewOrchestration("durable_sequence", { key: `s${i}`, steps: STEPS_N }, `s${i}`);
  }
  await h.eventually(async () => linesOf(ledger).size >= INSTANCES_N, "the first steps have run");
  starter.stop(); // it sleeps a second, for nothing
  await disturb(own, child, ledger);

  const reader = h.makeClient(own.address);
  t.after(() => void reader.stop());
  for (let i = 0; i < INSTANCES_N; i++) {
    const expected = [...Array(STEPS_N).keys()].map((step) => `s${i}/${step}`);
    assert.deepEqual(await h.output(reader, `s${i}`), expected);
    for (const step of expected) assert.ok(linesOf(ledger).has(step), `${step} never ran`);
  }
}

test("fifty orchestrations survive kill -9 of the server", async (t) => {
  await surviveDisturbance(t, async (own) => {
    await own.kill();
    await own.start();
  });
});

test("fifty orchestrations survive kill -9 of their worker", async (t) => {
  await surviveDisturbance(t, async (own, child, ledger) => {
    child.kill("SIGKILL");
    await once(child, "exit");
    await startWorkerProcess(t, own.address, ledger);
  });
});
