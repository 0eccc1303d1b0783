// SPDX-License-Identifier: Apache-2.0
//
// What an operator does to an orchestration: terminate, suspend, purge, restart, rewind.
"use strict";

const { test } = require("node:test");
const h = require("./harness.js");
const { assert, sdk, shared } = h;
const { COMPLETED, FAILED, PENDING, RUNNING, SUSPENDED, TERMINATED } = sdk.OrchestrationStatus;

// Activities that fail while their key is in here: what an operator repairs before a rewind.
const broken = new Set();
const activityRuns = new Map();

const orchestrators = {
  async *waits(ctx) {
    return yield ctx.waitForExternalEvent("go");
  },
  async *parent_of_waiting(ctx, children) {
    const tasks = children.map((id) => ctx.callSubOrchestrator("waits", null, { instanceId: id }));
    return yield sdk.whenAll(tasks);
  },
  async *parent_of_quick(ctx, children) {
    const tasks = children.map((id) => ctx.callSubOrchestrator("echo", id, { instanceId: id }));
    return yield sdk.whenAll(tasks);
  },
  async *breaks(ctx, key) {
    const first = yield ctx.callActivity("counts_runs", `${key}-first`);
    return first + (yield ctx.callActivity("counts_runs", key));
  },
  async *parent_of_breaking(ctx, key) {
    return yield ctx.callSubOrchestrator("breaks", key);
  },
};

const activities = {
  counts_runs: async (_ctx, key) => {
    activityRuns.set(key, (activityRuns.get(key) ?? 0) + 1);
    if (broken.has(key)) throw new Error(`${key} is broken`);
    return activityRuns.get(key);
  },
};

h.register({ orchestrators, activities });

async function startRunning(name, input, id) {
  const started = await shared.client.scheduleNewOrchestration(name, input, id);
  await shared.client.waitForOrchestrationStart(started, false, 30);
  return started;
}

async function statusOf(id, client = shared.client) {
  return (await client.getOrchestrationState(id))?.runtimeStatus;
}

async function startFailed(name, key) {
  broken.add(key);
  const id = await shared.client.scheduleNewOrchestration(name, key);
  assert.equal((await h.finished(shared.client, id)).runtimeStatus, FAILED);
  return id;
}

test("a running id is refused, a finished one can be used again", async () => {
  const id = `again-${h.randomUUID()}`;
  await startRunning("waits", null, id);
  await assert.rejects(shared.client.scheduleNewOrchestration("waits", null, id), { code: 6 });
  await shared.client.raiseOrchestrationEvent(id, "go", 1);
  assert.equal(await h.output(shared.client, id), 1);
  assert.equal(await h.run("echo", 2, id), 2);
});

test("an unknown instance has no state", async () => {
  assert.equal(await shared.client.getOrchestrationState("no-such-instance"), undefined);
  await assert.rejects(shared.client.raiseOrchestrationEvent("no-such-instance", "go"), { code: 5 });
});

test("an id that is too long and a name that is empty are refused", async () => {
  const long = shared.client.scheduleNewOrchestration("echo", 1, "x".repeat(101));
  await assert.rejects(long, { code: 3 });
  await assert.rejects(shared.client.scheduleNewOrchestration("", 1), { code: 3 });
});

test("terminate ends an orchestration with the given output", async () => {
  const id = await startRunning("waits");
  await shared.client.terminateOrchestration(id, { why: "enough" });
  const state = await h.finished(shared.client, id);
  assert.equal(state.runtimeStatus, TERMINATED);
  assert.deepEqual(JSON.parse(state.serializedOutput), { why: "enough" });
  await shared.client.terminateOrchestration(id, "again"); // without effect and without error
  assert.equal(await statusOf(id), TERMINATED);
});

test("terminate needs no worker", async (t) => {
  const { client } = h.ownHub(t);
  const id = await client.scheduleNewOrchestration("waits");
  assert.equal(await statusOf(id, client), PENDING);
  await client.terminateOrchestration(id, "nobody came");
  assert.equal((await h.finished(client, id)).runtimeStatus, TERMINATED);
});

test("terminate reaches the children only when it is recursive", async () => {
  for (const recursive of [true, false]) {
    const children = [`c1-${h.randomUUID()}`, `c2-${h.randomUUID()}`];
    const id = await startRunning("parent_of_waiting", children);
    for (const child of children) {
      await h.eventually(async () => (await statusOf(child)) === RUNNING, "the child runs");
    }
    await shared.client.terminateOrchestration(id, sdk.terminateOptions({ recursive, output: "end" }));
    assert.equal((await h.finished(shared.client, id)).runtimeStatus, TERMINATED);
    for (const child of children) {
      if (recursive) {
        assert.equal((await h.finished(shared.client, child)).runtimeStatus, TERMINATED);
        continue;
      }
      assert.equal(await statusOf(child), RUNNING);
      await shared.client.raiseOrchestrationEvent(child, "go", 7);
      assert.equal(await h.output(shared.client, child), 7);
    }
  }
});

test("a suspended orchestration takes its events after it is resumed", async () => {
  const id = await startRunning("three_events");
  await shared.client.suspendOrchestration(id);
  await h.eventually(async () => (await statusOf(id)) === SUSPENDED, "it is suspended");
  for (const value of [1, 2, 3]) await shared.client.raiseOrchestrationEvent(id, "value", value);
  await h.sleep(300);
  assert.equal(await statusOf(id), SUSPENDED);
  await shared.client.resumeOrchestration(id);
  assert.deepEqual(await h.output(shared.client, id), [1, 2, 3]);
});

test("a suspended orchestration can be terminated", async () => {
  const id = await startRunning("waits");
  await shared.client.suspendOrchestration(id);
  await shared.client.suspendOrchestration(id); // twice is as once
  await shared.client.terminateOrchestration(id, "end");
  assert.equal((await h.finished(shared.client, id)).runtimeStatus, TERMINATED);
});

test("purge removes what is finished and nothing else", async () => {
  const done = await shared.client.scheduleNewOrchestration("echo", 1);
  await h.output(shared.client, done);
  const running = await startRunning("waits");
  assert.equal((await shared.client.purgeOrchestration(done)).deletedInstanceCount, 1);
  assert.equal((await shared.client.purgeOrchestration(done)).deletedInstanceCount, 0);
  assert.equal(await shared.client.getOrchestrationState(done), undefined);
  assert.equal((await shared.client.purgeOrchestration(running)).deletedInstanceCount, 0);
  assert.equal(await statusOf(running), RUNNING);
  await shared.client.terminateOrchestration(running);
});

test("purge takes the children along when it is recursive", async () => {
  const children = [`c1-${h.randomUUID()}`, `c2-${h.randomUUID()}`, `c3-${h.randomUUID()}`];
  const id = await shared.client.scheduleNewOrchestration("parent_of_quick", children);
  assert.deepEqual(await h.output(shared.client, id), children);
  const purged = await shared.client.purgeOrchestration(id, { recursive: true });
  assert.equal(purged.deletedInstanceCount, 4);
  for (const child of children) assert.equal(await statusOf(child), undefined);
});

test("purge by criteria takes the matching ones of its hub", async (t) => {
  const own = h.ownHub(t);
  await own.work();
  const from = new Date(Date.now() - 1000);
  for (let i = 0; i < 5; i++) {
    await h.output(own.client, await own.client.scheduleNewOrchestration("echo", i));
  }
  await h.finished(own.client, await own.client.scheduleNewOrchestration("fails"));
  const criteria = new sdk.PurgeInstanceCriteria();
  criteria.setCreatedTimeFrom(from);
  criteria.setRuntimeStatusList([COMPLETED]);
  assert.equal((await own.client.purgeOrchestration(criteria)).deletedInstanceCount, 5);
  const left = await h.collect(own.client.getAllInstances());
  assert.deepEqual(left.map((state) => state.name), ["fails"]);
});

test("restart runs the same input again, under the old id or a new one", async () => {
  const id = `restart-${h.randomUUID()}`;
  assert.equal(await h.run("sequence", 4, id), 7);
  assert.equal(await shared.client.restartOrchestration(id), id);
  assert.equal(await h.output(shared.client, id), 7);
  const other = await shared.client.restartOrchestration(id, true);
  assert.notEqual(other, id);
  assert.equal(await h.output(shared.client, other), 7);
  await assert.rejects(shared.client.restartOrchestration("no-such-instance"));
});

test("restart of a running orchestration is refused under its own id", async () => {
  const id = await startRunning("waits");
  await assert.rejects(shared.client.restartOrchestration(id));
  await shared.client.terminateOrchestration(id);
});

test("rewind runs again only what failed", async () => {
  const key = h.randomUUID();
  const id = await startFailed("breaks", key);
  broken.delete(key);
  await shared.client.rewindInstance(id, "repaired");
  assert.equal(await h.output(shared.client, id), 3);
  assert.equal(activityRuns.get(`${key}-first`), 1);
  assert.equal(activityRuns.get(key), 2);
});

test("rewind goes down into the failed child", async () => {
  const key = h.randomUUID();
  const id = await startFailed("parent_of_breaking", key);
  broken.delete(key);
  await shared.client.rewindInstance(id, "repaired");
  assert.equal(await h.output(shared.client, id), 3);
  assert.equal(activityRuns.get(`${key}-first`), 1);
});

test("rewind can fail again and be repeated", async () => {
  const key = h.randomUUID();
  const id = await startFailed("breaks", key);
  await shared.client.rewindInstance(id, "hoping");
  await h.eventually(async () => activityRuns.get(key) === 2, "the activity runs again");
  assert.equal((await h.finished(shared.client, id)).runtimeStatus, FAILED);
  broken.delete(key);
  await shared.client.rewindInstance(id, "repaired");
  assert.equal(await h.output(shared.client, id), 4);
});

test("only a failed orchestration can be rewound", async () => {
  const id = await shared.client.scheduleNewOrchestration("echo", 1);
  await h.output(shared.client, id);
  await assert.rejects(shared.client.rewindInstance(id, "why not"));
  await assert.rejects(shared.client.rewindInstance("no-such-instance", "why not"));
});
