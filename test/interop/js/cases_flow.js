// SPDX-License-Identifier: Apache-2.0
//
// What orchestrations are made of: activities, timers, events, children, retries, generations.
"use strict";

const { test } = require("node:test");
const h = require("./harness.js");
const { assert, sdk, shared } = h;

const attempts = new Map();

function countAttempt(key) {
  attempts.set(key, (attempts.get(key) ?? 0) + 1);
  return attempts.get(key);
}

const orchestrators = {
  async *sequence(ctx, start) {
    let value = start;
    for (let i = 0; i < 3; i++) value = yield ctx.callActivity("add_one", value);
    return value;
  },
  async *fan(ctx, width) {
    const tasks = [];
    for (let i = 0; i < width; i++) tasks.push(ctx.callActivity("add_one", i));
    const results = yield sdk.whenAll(tasks);
    return results.reduce((sum, value) => sum + value, 0);
  },
  async *echo(_ctx, input) {
    return input;
  },
  async *echo_by_activity(ctx, input) {
    return yield ctx.callActivity("same", input);
  },
  async *sleeper(ctx, seconds) {
    const before = ctx.currentUtcDateTime.getTime();
    yield ctx.createTimer(seconds);
    return ctx.currentUtcDateTime.getTime() - before;
  },
  async *race(ctx, seconds) {
    const event = ctx.waitForExternalEvent("go");
    const timer = ctx.createTimer(seconds);
    const winner = yield sdk.whenAny([event, timer]);
    return winner === event ? event.getResult() : "late";
  },
  async *three_events(ctx) {
    const values = [];
    for (let i = 0; i < 3; i++) values.push(yield ctx.waitForExternalEvent("value"));
    return values;
  },
  async *teller(ctx, target) {
    ctx.sendEvent(target, "go", { from: ctx.instanceId });
    return "told";
  },
  async *parent(ctx, children) {
    const tasks = [];
    for (let i = 0; i < children; i++) tasks.push(ctx.callSubOrchestrator("sequence", i));
    return yield sdk.whenAll(tasks);
  },
  async *parent_of_failure(ctx) {
    try {
      yield ctx.callSubOrchestrator("fails");
    } catch (error) {
      return `caught: ${error.message}`;
    }
    return "not caught";
  },
  async *named_child(ctx, id) {
    return yield ctx.callSubOrchestrator("who_am_i", null, { instanceId: id });
  },
  async *who_am_i(ctx) {
    return { id: ctx.instanceId, parent: ctx.parent?.instanceId };
  },
  // eslint-disable-next-line require-yield -- it fails before it could
  async *fails() {
    throw new Error("on purpose");
  },
  async *retries(ctx, { key, failures, attempts_n }) {
    const retry = new sdk.RetryPolicy({
      maxNumberOfAttempts: attempts_n,
      firstRetryIntervalInMilliseconds: 50,
    });
    return yield ctx.callActivity("flaky", { key, failures }, { retry });
  },
  async *retries_child(ctx, { key, failures }) {
    const retry = new sdk.RetryPolicy({
      maxNumberOfAttempts: 5,
      firstRetryIntervalInMilliseconds: 50,
    });
    return yield ctx.callSubOrchestrator("flaky_child", { key, failures }, { retry });
  },
  async *flaky_child(ctx, input) {
    return yield ctx.callActivity("flaky", input);
  },
  async *counts_down(ctx, n) {
    yield ctx.callActivity("add_one", n);
    if (n > 0) ctx.continueAsNew(n - 1, false);
    else return "landed";
  },
  // One event for each generation; those that came early must live through the change.
  async *collects(ctx, seen) {
    seen.push(yield ctx.waitForExternalEvent("item"));
    if (seen.length === 5) return seen;
    ctx.continueAsNew(seen, true);
  },
  async *shows_progress(ctx) {
    ctx.setCustomStatus({ step: 1, text: "grüß dich" });
    yield ctx.waitForExternalEvent("next");
    ctx.setCustomStatus("second");
    yield ctx.waitForExternalEvent("next");
    return "done";
  },
  async *calls_unknown_activity(ctx) {
    return yield ctx.callActivity("nobody_knows_me");
  },
};

const activities = {
  add_one: async (_ctx, n) => n + 1,
  same: async (_ctx, value) => value,
  flaky: async (_ctx, { key, failures }) => {
    const attempt = countAttempt(key);
    if (attempt <= failures) throw new Error(`attempt ${attempt} fails`);
    return attempt;
  },
};

h.register({ orchestrators, activities });

test("activities run one after the other", async () => {
  assert.equal(await h.run("sequence", 10), 13);
});

test("a hundred activities fan out and in", async () => {
  assert.equal(await h.run("fan", 100), 5050);
});

test("inputs and outputs keep their bytes", async () => {
  const value = { text: "Größe ☃ \u0000 \"quoted\" \\ \n 𝄞", list: [1.5, null, true, {}], empty: "" };
  assert.deepEqual(await h.run("echo", value), value);
  assert.deepEqual(await h.run("echo_by_activity", value), value);
});

test("an orchestration without input and output completes", async () => {
  assert.equal(await h.run("echo"), undefined);
});

// The default limit of most gRPC servers, 4 MB, would leave it stuck. The last turn carries the payload
// three times (started, scheduled, completed) and must stay below our own limit of 16 MiB.
test("payloads of five megabytes pass", async () => {
  const value = "x".repeat(5_000_000);
  assert.equal(await h.run("echo_by_activity", value), value);
});

test("a timer fires when it is due and not before", async () => {
  const elapsed_ms = await h.run("sleeper", 1.2);
  assert.ok(elapsed_ms >= 1200, `fired after ${elapsed_ms} ms`);
  assert.ok(elapsed_ms < 5000, `fired after ${elapsed_ms} ms`);
});

test("an orchestration starts at its scheduled time", async () => {
  const startAt = new Date(Date.now() + 1500);
  const id = await shared.client.scheduleNewOrchestration("echo", 1, { startAt });
  const early = await shared.client.getOrchestrationState(id);
  assert.equal(early.runtimeStatus, sdk.OrchestrationStatus.PENDING);
  assert.equal(await h.output(shared.client, id), 1);
  assert.ok(Date.now() >= startAt.getTime());
});

test("an event wins against a timer, and a timer against no event", async () => {
  const winner = await shared.client.scheduleNewOrchestration("race", 60);
  await shared.client.raiseOrchestrationEvent(winner, "go", { answer: 42 });
  assert.deepEqual(await h.output(shared.client, winner), { answer: 42 });
  assert.equal(await h.run("race", 0.2), "late");
});

test("events of one name arrive in the order they were raised", async () => {
  const id = await shared.client.scheduleNewOrchestration("three_events");
  for (const value of ["a", "b", "c"]) {
    await shared.client.raiseOrchestrationEvent(id, "value", value);
  }
  assert.deepEqual(await h.output(shared.client, id), ["a", "b", "c"]);
});

test("one orchestration sends an event to another", async () => {
  const target = await shared.client.scheduleNewOrchestration("race", 60);
  await shared.client.waitForOrchestrationStart(target, false, 30);
  const teller = await shared.client.scheduleNewOrchestration("teller", target);
  assert.equal(await h.output(shared.client, teller), "told");
  assert.deepEqual(await h.output(shared.client, target), { from: teller });
});

test("children answer their parent", async () => {
  assert.deepEqual(await h.run("parent", 5), [3, 4, 5, 6, 7]);
});

test("a child has the id it was given and knows its parent", async () => {
  const id = `parent-${h.randomUUID()}`;
  const child = `child-${h.randomUUID()}`;
  assert.deepEqual(await h.run("named_child", child, id), { id: child, parent: id });
});

test("the failure of a child can be caught", async () => {
  assert.match(await h.run("parent_of_failure"), /^caught: .*on purpose/s);
});

test("a failed orchestration tells its error", async () => {
  const id = await shared.client.scheduleNewOrchestration("fails");
  const state = await h.finished(shared.client, id);
  assert.equal(state.runtimeStatus, sdk.OrchestrationStatus.FAILED);
  assert.match(state.failureDetails.message, /on purpose/);
  assert.equal(state.failureDetails.errorType, "Error");
});

test("what nobody has registered fails with its name", async () => {
  for (const name of ["nobody_knows_this", "calls_unknown_activity"]) {
    const id = await shared.client.scheduleNewOrchestration(name);
    const state = await h.finished(shared.client, id);
    assert.equal(state.runtimeStatus, sdk.OrchestrationStatus.FAILED);
    assert.match(state.failureDetails.message, /nobody_knows/);
  }
});

test("a failing activity is retried by its policy", async () => {
  const key = h.randomUUID();
  assert.equal(await h.run("retries", { key, failures: 2, attempts_n: 5 }), 3);
  assert.equal(attempts.get(key), 3);
});

test("a retry policy gives up after its last attempt", async () => {
  const key = h.randomUUID();
  const input = { key, failures: 9, attempts_n: 3 };
  const id = await shared.client.scheduleNewOrchestration("retries", input);
  const state = await h.finished(shared.client, id);
  assert.equal(state.runtimeStatus, sdk.OrchestrationStatus.FAILED);
  assert.match(state.failureDetails.message, /attempt 3 fails/);
  assert.equal(attempts.get(key), 3);
});

// The SDK starts each attempt under the same child id: a finished child must be replaced.
test("a failing child is retried by its policy", async () => {
  assert.equal(await h.run("retries_child", { key: h.randomUUID(), failures: 2 }), 3);
});

// Twice as many generations as the limit at which a well-known server gives up.
test("an orchestration continues as new forty times", async () => {
  const id = await shared.client.scheduleNewOrchestration("counts_down", 40);
  assert.equal(await h.output(shared.client, id), "landed");
  const history = await shared.client.getOrchestrationHistory(id);
  assert.equal(history.filter((event) => event.type === "TaskScheduled").length, 1);
});

test("events that are not read yet live through continue-as-new", async () => {
  const id = await shared.client.scheduleNewOrchestration("collects", []);
  for (let i = 0; i < 5; i++) await shared.client.raiseOrchestrationEvent(id, "item", i);
  assert.deepEqual(await h.output(shared.client, id), [0, 1, 2, 3, 4]);
});

test("a custom status is seen while the orchestration runs", async () => {
  const id = await shared.client.scheduleNewOrchestration("shows_progress");
  const custom = async () => (await shared.client.getOrchestrationState(id)).serializedCustomStatus;
  const first = JSON.stringify({ step: 1, text: "grüß dich" });
  await h.eventually(async () => (await custom()) === first, "the first custom status");
  await shared.client.raiseOrchestrationEvent(id, "next");
  await h.eventually(async () => (await custom()) === '"second"', "the second custom status");
  await shared.client.raiseOrchestrationEvent(id, "next");
  assert.equal(await h.output(shared.client, id), "done");
  assert.equal(await custom(), '"second"');
});

test("three hundred orchestrations at once", async () => {
  const starts = [];
  for (let i = 0; i < 300; i++) starts.push(shared.client.scheduleNewOrchestration("sequence", i));
  const outputs = await Promise.all((await Promise.all(starts)).map((id) => h.output(shared.client, id)));
  outputs.forEach((value, i) => assert.equal(value, i + 3));
});
