// SPDX-License-Identifier: Apache-2.0
//
// A worker of the JavaScript SDK: the orchestration norn_bench calls as many no-op activities in a
// row as its input says. The same names as in `norn bench grpc`.
"use strict";

const { TaskHubGrpcWorker, NoOpLogger } = require("@microsoft/durabletask-js");

const endpoint = process.env.ENDPOINT || "127.0.0.1:4001";

async function norn_bench_step() {
  return "pong";
}

async function* norn_bench(context, steps) {
  for (let n = 0; n < steps; n++) {
    yield context.callActivity(norn_bench_step, "ping");
  }
  return "done";
}

async function main() {
  const worker = new TaskHubGrpcWorker({ hostAddress: endpoint, logger: new NoOpLogger() });
  worker.addOrchestrator(norn_bench);
  worker.addActivity(norn_bench_step);
  await worker.start();
  if (process.send) process.send("ready");
  process.on("SIGTERM", async () => {
    await worker.stop();
    process.exit(0);
  });
}

main().catch((error) => {
  console.error(`worker: ${error.message}`);
  process.exit(1);
});
