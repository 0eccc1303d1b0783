// SPDX-License-Identifier: Apache-2.0
//
// Entities: small objects with a durable state, one operation at a time.
"use strict";

const { test } = require("node:test");
const h = require("./harness.js");
const { assert, sdk, shared } = h;

class Counter extends sdk.TaskEntity {
  initializeState() {
    return { value: 0 };
  }
  add(n) {
    this.state.value += n;
    return this.state.value;
  }
  get() {
    return this.state.value;
  }
  fail() {
    throw new Error("the counter refuses");
  }
  pass_on(key) {
    this.context.signalEntity(new sdk.EntityInstanceId("counter", key), "add", this.state.value);
  }
  start_sequence(id) {
    this.context.scheduleNewOrchestration("sequence", this.state.value, { instanceId: id });
  }
}

function counter(key) {
  return new sdk.EntityInstanceId("counter", key);
}

const orchestrators = {
  async *adds_and_gets(ctx, { key, n }) {
    ctx.entities.signalEntity(counter(key), "add", n);
    yield ctx.entities.callEntity(counter(key), "add", n);
    return yield ctx.entities.callEntity(counter(key), "get");
  },
  async *calls_failing_entity(ctx, key) {
    try {
      yield ctx.entities.callEntity(counter(key), "fail");
    } catch (error) {
      return error.message;
    }
    return "no error";
  },
  // Reads, waits, writes: without the lock two of them would lose an update.
  async *transfers(ctx, { from, to, amount }) {
    const lock = yield ctx.entities.lockEntities(counter(from), counter(to));
    const before = yield ctx.entities.callEntity(counter(from), "get");
    yield ctx.createTimer(0.02);
    yield ctx.entities.callEntity(counter(from), "add", -amount);
    yield ctx.entities.callEntity(counter(to), "add", amount);
    const after = yield ctx.entities.callEntity(counter(from), "get");
    lock.release();
    return before - after;
  },
  async *fails_in_critical_section(ctx, key) {
    yield ctx.entities.lockEntities(counter(key));
    throw new Error("lock in hand");
  },
  async *signals_later(ctx, { key, seconds }) {
    const signalTime = new Date(ctx.currentUtcDateTime.getTime() + seconds * 1000);
    ctx.entities.signalEntity(counter(key), "add", 1, { signalTime });
    return signalTime.getTime();
  },
};

h.register({ orchestrators, entities: { counter: () => new Counter() } });

async function valueOf(key, client = shared.client) {
  const entity = await client.getEntity(counter(key));
  return entity?.includesState ? entity.state?.value : undefined; // it throws where there is no state
}

test("signals of a client are applied, each once and in order", async () => {
  const key = h.randomUUID();
  for (let i = 0; i < 50; i++) await shared.client.signalEntity(counter(key), "add", i);
  await h.eventually(async () => (await valueOf(key)) === 1225, "all signals are applied");
});

test("an orchestration signals and calls an entity", async () => {
  assert.equal(await h.run("adds_and_gets", { key: h.randomUUID(), n: 4 }), 8);
});

test("the failure of an operation comes back to the caller", async () => {
  const key = h.randomUUID();
  await shared.client.signalEntity(counter(key), "add", 3);
  assert.match(await h.run("calls_failing_entity", key), /the counter refuses/);
  assert.equal(await valueOf(key), 3);
});

test("an entity that is unknown has no state", async () => {
  assert.equal(await shared.client.getEntity(counter(h.randomUUID())), undefined);
});

test("an entity signals another and starts an orchestration", async () => {
  const [key, other] = [h.randomUUID(), h.randomUUID()];
  const id = `by-entity-${key}`;
  await shared.client.signalEntity(counter(key), "add", 5);
  await shared.client.signalEntity(counter(key), "pass_on", other);
  await shared.client.signalEntity(counter(key), "start_sequence", id);
  await h.eventually(async () => (await valueOf(other)) === 5, "the other has the value");
  await h.eventually(async () => (await shared.client.getOrchestrationState(id)) !== undefined, id);
  assert.equal(await h.output(shared.client, id), 8);
});

test("critical sections exclude each other", async () => {
  const [a, b] = [h.randomUUID(), h.randomUUID()];
  const starts = [];
  for (let i = 0; i < 10; i++) {
    const [from, to] = i % 2 === 0 ? [a, b] : [b, a]; // both orders: none may wait for ever
    starts.push(shared.client.scheduleNewOrchestration("transfers", { from, to, amount: i }));
  }
  const moved = await Promise.all((await Promise.all(starts)).map((id) => h.output(shared.client, id)));
  assert.deepEqual(moved, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(await valueOf(a), -20 + 25);
  assert.equal(await valueOf(b), 20 - 25);
});

test("an orchestration that fails gives its locks back", async () => {
  const key = h.randomUUID();
  const id = await shared.client.scheduleNewOrchestration("fails_in_critical_section", key);
  assert.equal((await h.finished(shared.client, id)).runtimeStatus, sdk.OrchestrationStatus.FAILED);
  assert.equal(await h.run("adds_and_gets", { key, n: 1 }), 2);
});

test("a signal with a time waits for it", async () => {
  const key = h.randomUUID();
  const due_ms = await h.run("signals_later", { key, seconds: 1.5 });
  assert.equal(await valueOf(key), undefined);
  await h.eventually(async () => (await valueOf(key)) === 1, "the signal arrives");
  assert.ok(Date.now() >= due_ms);
});

test("entities are listed in pages, and apart from orchestrations", async (t) => {
  const own = h.ownHub(t);
  await own.work();
  for (let i = 0; i < 7; i++) await own.client.signalEntity(counter(`k${i}`), "add", i);
  for (let i = 0; i < 7; i++) {
    await h.eventually(async () => (await valueOf(`k${i}`, own.client)) === i, `k${i} has its value`);
  }
  const query = { instanceIdStartsWith: "counter", pageSize: 3 };
  const all = await h.collect(own.client.getEntities({ ...query, includeState: true }));
  assert.deepEqual(all.map((entity) => entity.state.value).sort(), [0, 1, 2, 3, 4, 5, 6]);
  const pages = await h.collect(own.client.getEntities(query).asPages());
  assert.ok(pages.every((page) => page.values.length <= 3));
  assert.equal((await h.collect(own.client.getEntities({ instanceIdStartsWith: "other" }))).length, 0);
  assert.equal((await h.collect(own.client.getAllInstances())).length, 0);
});

test("an entity id that is too long is refused", async () => {
  const signal = shared.client.signalEntity(counter("k".repeat(200)), "add", 1);
  await assert.rejects(signal, { code: 3 });
});

test("cleaning finds nothing that the engine has left", async () => {
  const cleaned = await shared.client.cleanEntityStorage();
  assert.equal(cleaned.emptyEntitiesRemoved, 0);
  assert.equal(cleaned.orphanedLocksReleased, 0);
});
