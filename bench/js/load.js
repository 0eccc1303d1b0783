// SPDX-License-Identifier: Apache-2.0
//
// Puts workflows on a server and prints one JSON object: see README.md for the settings.
"use strict";

const { fork } = require("node:child_process");
const path = require("node:path");
const { TaskHubGrpcClient, OrchestrationStatus, NoOpLogger } = require("@microsoft/durabletask-js");

function setting(name, otherwise) {
  const value = process.env[name] === undefined ? otherwise : Number(process.env[name]);
  if (!Number.isInteger(value) || value < 0) throw new Error(`${name}: give a whole number`);
  return value;
}

const endpoint = process.env.ENDPOINT || "127.0.0.1:4001";
const steps = setting("STEPS", 5);
const inFlight = setting("IN_FLIGHT", 100);
const seconds = setting("SECONDS", 10);
const workersN = setting("WORKERS", 1);
const warmUpMs = 500;

function startWorker() {
  return new Promise((resolve, reject) => {
    const child = fork(path.join(__dirname, "worker.js"));
    child.once("message", () => resolve(child));
    child.once("exit", (code) => reject(new Error(`a worker ended with exit code ${code}`)));
  });
}

function percentile(sorted, share) {
  if (sorted.length === 0) return null;
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

// Starts one workflow after the other until the time is over.
async function runSlot(clock, client, figures) {
  while (performance.now() < clock.endMs) {
    const startMs = performance.now();
    const id = await client.scheduleNewOrchestration("norn_bench", steps);
    const state = await client.waitForOrchestrationCompletion(id, true, 60);
    const nowMs = performance.now();
    if (state === undefined || state.runtimeStatus !== OrchestrationStatus.COMPLETED) {
      throw new Error(`${id} did not complete`);
    }
    if (nowMs >= clock.countMs && nowMs < clock.endMs) figures.push(nowMs - startMs);
  }
}

async function main() {
  const workers = [];
  for (let n = 0; n < workersN; n++) workers.push(await startWorker());
  const client = new TaskHubGrpcClient({ hostAddress: endpoint, logger: new NoOpLogger() });
  const figures = [];
  const nowMs = performance.now();
  const clock = { countMs: nowMs + warmUpMs, endMs: nowMs + warmUpMs + seconds * 1000 };
  const slots = [];
  for (let n = 0; n < inFlight; n++) slots.push(runSlot(clock, client, figures));
  await Promise.all(slots);
  await client.stop();
  for (const worker of workers) {
    worker.removeAllListeners("exit");
    worker.kill("SIGTERM");
  }
  figures.sort((a, b) => a - b);
  console.log(
    JSON.stringify({
      benchmark: "js",
      endpoint,
      steps,
      in_flight: inFlight,
      workers: workersN,
      seconds,
      workflows: figures.length,
      workflows_per_s: figures.length / seconds,
      work_items_per_s: (figures.length * (2 * steps + 1)) / seconds,
      p50_ms: percentile(figures, 0.5),
      p90_ms: percentile(figures, 0.9),
      p99_ms: percentile(figures, 0.99),
    }),
  );
}

main().catch((error) => {
  console.error(`load: ${error.message}`);
  process.exit(1);
});
