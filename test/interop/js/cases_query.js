// SPDX-License-Identifier: Apache-2.0
//
// What can be asked about orchestrations: lists in pages, histories, tags.
"use strict";

const { test } = require("node:test");
const h = require("./harness.js");
const { assert, sdk, shared } = h;
const { COMPLETED, FAILED, TERMINATED } = sdk.OrchestrationStatus;

// A hub with ten completed, three failed and two running instances.
async function mixedHub(t) {
  const own = h.ownHub(t);
  await own.work();
  const { client } = own;
  for (let i = 0; i < 10; i++) {
    await h.output(client, await client.scheduleNewOrchestration("echo", i, `good-${i}`));
  }
  for (let i = 0; i < 3; i++) {
    await h.finished(client, await client.scheduleNewOrchestration("fails", i, `bad-${i}`));
  }
  for (let i = 0; i < 2; i++) {
    await client.scheduleNewOrchestration("waits", i, `open-${i}`);
    await client.waitForOrchestrationStart(`open-${i}`, false, 30);
  }
  return client;
}

function ids(states) {
  return states.map((state) => state.instanceId).sort();
}

test("instances are listed by status, prefix, time and page", async (t) => {
  const client = await mixedHub(t);
  const list = (query) => h.collect(client.getAllInstances(query));

  assert.equal((await list()).length, 15);
  assert.deepEqual(ids(await list({ statuses: [FAILED] })), ["bad-0", "bad-1", "bad-2"]);
  assert.deepEqual(ids(await list({ instanceIdPrefix: "open-" })), ["open-0", "open-1"]);
  assert.equal((await list({ statuses: [COMPLETED, FAILED] })).length, 13);
  assert.equal((await list({ statuses: [TERMINATED] })).length, 0);
  assert.equal((await list({ createdFrom: new Date(Date.now() + 60_000) })).length, 0);
  assert.equal((await list({ createdTo: new Date(Date.now() + 60_000) })).length, 15);

  const pages = await h.collect(client.getAllInstances({ pageSize: 4 }).asPages());
  assert.ok(pages.every((page) => page.values.length <= 4));
  assert.ok(pages.length >= 4);
  const listed = ids(pages.flatMap((page) => [...page.values]));
  assert.equal(new Set(listed).size, 15, "each instance is on one page");
});

test("a list has inputs and outputs only when they are asked for", async (t) => {
  const client = await mixedHub(t);
  const query = { instanceIdPrefix: "good-7" };
  const [full] = await h.collect(client.getAllInstances({ ...query, fetchInputsAndOutputs: true }));
  assert.equal(full.serializedInput, "7");
  assert.equal(full.serializedOutput, "7");
  const [bare] = await h.collect(client.getAllInstances({ ...query, fetchInputsAndOutputs: false }));
  assert.equal(bare.serializedInput ?? "", "");
  assert.equal(bare.serializedOutput ?? "", "");
  assert.equal(bare.name, "echo");
});

test("finished ids are listed in pages", async (t) => {
  const client = await mixedHub(t);
  const found = [];
  let lastInstanceKey;
  do {
    const page = await client.listInstanceIds({ pageSize: 5, lastInstanceKey });
    assert.ok(page.values.length <= 5);
    found.push(...page.values);
    lastInstanceKey = page.continuationToken;
  } while (lastInstanceKey);
  assert.equal(found.length, 13);
  assert.equal(new Set(found).size, 13);
  const failed = await client.listInstanceIds({ runtimeStatus: [FAILED] });
  assert.deepEqual([...failed.values].sort(), ["bad-0", "bad-1", "bad-2"]);
});

test("a history tells every step in order", async () => {
  const id = await shared.client.scheduleNewOrchestration("sequence", 0);
  await h.output(shared.client, id);
  const history = await shared.client.getOrchestrationHistory(id);
  const turn = ["OrchestratorStarted", "TaskCompleted", "TaskScheduled"];
  assert.deepEqual(
    history.map((event) => event.type),
    [
      ...["OrchestratorStarted", "ExecutionStarted", "TaskScheduled"],
      ...turn,
      ...turn,
      ...["OrchestratorStarted", "TaskCompleted", "ExecutionCompleted"],
    ],
  );
  for (let i = 1; i < history.length; i++) {
    assert.ok(history[i].timestamp >= history[i - 1].timestamp, `event ${i} is older than the one before`);
  }
});

// More than one message of the stream.
test("a history of a thousand events is whole", async () => {
  const id = await shared.client.scheduleNewOrchestration("fan", 500);
  assert.equal(await h.output(shared.client, id), 125_250);
  const history = await shared.client.getOrchestrationHistory(id);
  const scheduled = history.filter((event) => event.type === "TaskScheduled").map((event) => event.eventId);
  const completed = history.filter((event) => event.type === "TaskCompleted");
  assert.equal(new Set(scheduled).size, 500);
  assert.equal(new Set(completed.map((event) => event.taskScheduledId)).size, 500);
});

test("the history of an unknown instance is empty", async () => {
  assert.deepEqual(await shared.client.getOrchestrationHistory("no-such-instance"), []);
});

test("tags stay with the orchestration", async () => {
  const tags = { team: "payments", "grüße": "ja" };
  const id = await shared.client.scheduleNewOrchestration("echo", 1, { tags });
  const state = await h.finished(shared.client, id);
  assert.deepEqual(state.tags, tags);
});
