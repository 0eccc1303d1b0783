// SPDX-License-Identifier: Apache-2.0
//
// What nobody plans: the server or a worker is killed while work is under way. Whatever was acknowledged
// goes on; each activity runs at least once; every result is right.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { once } = require("node:events");
const { spawn } = require("node:child_process");
const { test } = require("node:test");
const h = require("./harness.js");
const { NornServer } = require("./norn_server.js");
const { assert, sdk } = h;

const INSTANCES_N = 50;
const STEPS_N = 5;
const HUB = "crash";

// A server, a client and any number of worker processes; all of them end with the case.
class World {
  constructor(t) {
    this.server = new NornServer();
    this.ledger = path.join(this.server.directory, "ledger");
    this.workers = [];
    t.after(async () => {
      this.workers.forEach((worker) => worker.kill("SIGKILL"));
      if (this.client) h.stopLater(this.client);
      await this.server.remove();
    });
  }

  async start() {
    await this.server.start();
    this.client = h.makeClient(this.server.address, HUB);
    await this.startWorker();
  }

  // A client whose server was away fails at once until its back-off is over; a new one works.
  async reconnect() {
    await this.server.start();
    h.stopLater(this.client);
    this.client = h.makeClient(this.server.address, HUB);
  }

  // Kills the server; `meanwhile` happens while there is none.
  async crash(meanwhile = () => h.sleep(300)) {
    await this.server.kill();
    await meanwhile();
    await this.reconnect();
  }

  async startWorker() {
    const program = path.join(__dirname, "worker_process.js");
    const child = spawn(process.execPath, [program, this.server.address, HUB, this.ledger], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.workers.push(child);
    await once(child.stdout, "data");
    return child;
  }

  async killWorker() {
    const child = this.workers.pop();
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  // How often each activity ran.
  runs() {
    const counts = new Map();
    if (!fs.existsSync(this.ledger)) return counts;
    for (const line of fs.readFileSync(this.ledger, "utf8").trim().split("\n")) {
      counts.set(line, (counts.get(line) ?? 0) + 1);
    }
    return counts;
  }

  async startSequences() {
    const starts = [];
    for (let i = 0; i < INSTANCES_N; i++) {
      const input = { key: `s${i}`, steps: STEPS_N };
      starts.push(this.client.scheduleNewOrchestration("durable_sequence", input, `s${i}`));
    }
    return Promise.all(starts);
  }

  // In the middle: some steps ran, most did not.
  async untilHalfWay() {
    await h.eventually(async () => this.runs().size >= INSTANCES_N, "the first steps have run");
  }

  async expectSequences() {
    for (let i = 0; i < INSTANCES_N; i++) {
      const expected = [...Array(STEPS_N).keys()].map((step) => `s${i}/${step}`);
      assert.deepEqual(await h.output(this.client, `s${i}`), expected);
      for (const step of expected) assert.ok(this.runs().get(step) >= 1, `${step} never ran`);
    }
  }
}

async function world(t) {
  const made = new World(t);
  await made.start();
  return made;
}

test("fifty orchestrations survive kill -9 of the server", async (t) => {
  const w = await world(t);
  await w.startSequences();
  await w.untilHalfWay();
  await w.crash();
  await w.expectSequences();
});

test("fifty orchestrations survive five kills of the server in a row", async (t) => {
  const w = await world(t);
  await w.startSequences();
  for (let i = 0; i < 5; i++) {
    await h.sleep(i * 150);
    await w.crash(() => h.sleep(50));
  }
  await w.expectSequences();
});

test("fifty orchestrations survive kill -9 of their worker", async (t) => {
  const w = await world(t);
  await w.startSequences();
  await w.untilHalfWay();
  await w.killWorker();
  await w.startWorker();
  await w.expectSequences();
});

test("fifty orchestrations survive kill -9 of server and worker together", async (t) => {
  const w = await world(t);
  await w.startSequences();
  await w.untilHalfWay();
  await w.crash(() => w.killWorker());
  await w.startWorker();
  await w.expectSequences();
});

test("a start that was acknowledged is there after a kill", async (t) => {
  const w = await world(t);
  await w.killWorker(); // nothing moves: what is there was written by the start alone
  const ids = await w.startSequences();
  await w.crash();
  for (const id of ids) {
    assert.equal((await w.client.getOrchestrationState(id))?.runtimeStatus, sdk.OrchestrationStatus.PENDING);
  }
  await w.startWorker();
  await w.expectSequences();
});

test("timers, events, children and entities survive kill -9 of the server", async (t) => {
  const w = await world(t);
  const ids = [];
  for (let i = 0; i < 10; i++) {
    const input = { key: `m${i}`, counter: "all" };
    ids.push(await w.client.scheduleNewOrchestration("durable_mix", input, `m${i}`));
    await w.client.raiseOrchestrationEvent(`m${i}`, "go", i); // before anybody waits for it
  }
  await h.eventually(async () => w.runs().size >= 10, "every first step has run");
  await w.crash(() => h.sleep(1700)); // the timers fall due while there is no server
  for (let i = 0; i < 10; i++) {
    const expected = [`m${i}/first`, i, `m${i}/child/0`, `m${i}/child/1`];
    assert.deepEqual(await h.output(w.client, ids[i]), expected);
  }
  const tally = new sdk.EntityInstanceId("tally", "all");
  await h.eventually(async () => (await w.client.getEntity(tally))?.state === 10, "ten signals, each once");
  await w.crash();
  assert.equal((await w.client.getEntity(tally)).state, 10);
});

test("what is finished is there after a kill, and purged stays purged", async (t) => {
  const w = await world(t);
  await w.startSequences();
  await w.expectSequences();
  const before = await w.client.getOrchestrationHistory("s7");
  assert.equal((await w.client.purgeOrchestration("s8")).deletedInstanceCount, 1);
  await w.crash();
  assert.deepEqual(await w.client.getOrchestrationHistory("s7"), before);
  assert.equal(await w.client.getOrchestrationState("s8"), undefined);
  assert.equal((await h.collect(w.client.getAllInstances())).length, INSTANCES_N - 1);
});

test("a server that is stopped and started again goes on", async (t) => {
  const w = await world(t);
  await w.startSequences();
  await w.untilHalfWay();
  await w.server.stop();
  await w.reconnect();
  await w.expectSequences();
});
