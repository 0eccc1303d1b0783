// SPDX-License-Identifier: Apache-2.0
//
// What a worker is given: filters, versions, hubs, several workers.
"use strict";

const { test } = require("node:test");
const h = require("./harness.js");
const { assert, sdk, shared } = h;
const { PENDING } = sdk.OrchestrationStatus;

function names(...all) {
  return all.map((name) => ({ name }));
}

// Long enough that an item which were offered would be done; too short is a missed bug, not a failure.
const NOTHING_HAPPENS_MS = 400;

async function isPending(client, id) {
  await h.sleep(NOTHING_HAPPENS_MS);
  return (await client.getOrchestrationState(id)).runtimeStatus === PENDING;
}

test("equal ids in two hubs are two instances", async (t) => {
  const [one, two] = [h.ownHub(t), h.ownHub(t)];
  for (const [own, text] of [[one, "one"], [two, "two"]]) {
    await own.work({ orchestrators: { who: async (_ctx, input) => `${text}: ${input}` } });
  }
  await one.client.scheduleNewOrchestration("who", 1, "same");
  await two.client.scheduleNewOrchestration("who", 2, "same");
  assert.equal(await h.output(one.client, "same"), "one: 1");
  assert.equal(await h.output(two.client, "same"), "two: 2");
  assert.equal((await one.client.purgeOrchestration("same")).deletedInstanceCount, 1);
  assert.equal(await one.client.getOrchestrationState("same"), undefined);
  assert.equal(await h.output(two.client, "same"), "two: 2");
  assert.equal((await h.collect(two.client.getAllInstances())).length, 1);
});

test("a worker gets only what its filters name", async (t) => {
  const own = h.ownHub(t);
  const filters = { orchestrations: names("echo"), activities: [], entities: [] };
  await own.work(h.programs, { workItemFilters: filters });
  const mine = await own.client.scheduleNewOrchestration("echo", 1);
  const other = await own.client.scheduleNewOrchestration("sequence", 1);
  assert.equal(await h.output(own.client, mine), 1);
  assert.ok(await isPending(own.client, other));
  await own.work(); // takes everything
  assert.equal(await h.output(own.client, other), 4);
});

test("filters made from what is registered split the work between two workers", async (t) => {
  const own = h.ownHub(t);
  const { sequence } = h.programs.orchestrators;
  const { add_one } = h.programs.activities;
  await own.work({ orchestrators: { sequence } }, { workItemFilters: "auto" });
  const id = await own.client.scheduleNewOrchestration("sequence", 1);
  await own.client.waitForOrchestrationStart(id, false, 30);
  await own.work({ activities: { add_one } }, { workItemFilters: "auto" });
  assert.equal(await h.output(own.client, id), 4);
});

test("a filter may name versions", async (t) => {
  const own = h.ownHub(t);
  const orchestrators = { version: async (ctx) => ctx.version };
  const only = (version) => ({
    workItemFilters: { orchestrations: [{ name: "version", versions: [version] }], activities: [] },
  });
  await own.work({ orchestrators }, only("1.0"));
  const first = await own.client.scheduleNewOrchestration("version", null, { version: "1.0" });
  const second = await own.client.scheduleNewOrchestration("version", null, { version: "2.0" });
  assert.equal(await h.output(own.client, first), "1.0");
  assert.ok(await isPending(own.client, second));
  await own.work({ orchestrators }, only("2.0"));
  assert.equal(await h.output(own.client, second), "2.0");
});

test("a worker that rejects a version leaves the work to another", async (t) => {
  const own = h.ownHub(t);
  const orchestrators = { version: async (ctx) => ctx.version };
  const strict = (version) => ({
    versioning: {
      version,
      matchStrategy: sdk.VersionMatchStrategy.Strict,
      failureStrategy: sdk.VersionFailureStrategy.Reject,
    },
  });
  await own.work({ orchestrators }, strict("1.0"));
  const id = await own.client.scheduleNewOrchestration("version", null, { version: "2.0" });
  await h.sleep(NOTHING_HAPPENS_MS);
  await own.work({ orchestrators }, strict("2.0"));
  assert.equal(await h.output(own.client, id), "2.0");
});

test("a worker that fails a version fails the orchestration", async (t) => {
  const own = h.ownHub(t);
  const versioning = {
    version: "1.0",
    matchStrategy: sdk.VersionMatchStrategy.CurrentOrOlder,
    failureStrategy: sdk.VersionFailureStrategy.Fail,
  };
  await own.work({ orchestrators: { version: async (ctx) => ctx.version } }, { versioning });
  const old = await own.client.scheduleNewOrchestration("version", null, { version: "0.9" });
  const young = await own.client.scheduleNewOrchestration("version", null, { version: "1.1" });
  assert.equal(await h.output(own.client, old), "0.9");
  const state = await h.finished(own.client, young);
  assert.equal(state.runtimeStatus, sdk.OrchestrationStatus.FAILED);
  assert.equal(state.failureDetails.errorType, "VersionMismatch");
});

test("a worker that goes leaves the rest to the next one", async (t) => {
  const own = h.ownHub(t);
  const first = await own.work();
  const id = await own.client.scheduleNewOrchestration("three_events");
  await own.client.waitForOrchestrationStart(id, false, 30);
  await own.client.raiseOrchestrationEvent(id, "value", 1);
  await first.stop();
  await own.client.raiseOrchestrationEvent(id, "value", 2);
  await own.client.raiseOrchestrationEvent(id, "value", 3);
  await own.work();
  assert.deepEqual(await h.output(own.client, id), [1, 2, 3]);
});

test("waiting for a completion that does not come ends in time", async () => {
  const id = await shared.client.scheduleNewOrchestration("waits");
  await assert.rejects(shared.client.waitForOrchestrationCompletion(id, true, 0.3), /time|Timeout/i);
  await shared.client.terminateOrchestration(id);
});
