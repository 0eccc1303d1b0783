// SPDX-License-Identifier: Apache-2.0
//
// A norn server of a test's own, in a temporary data directory (which stays when INTEROP_KEEP is set). The port is chosen by the system at the
// first start and kept afterwards, so that clients and workers find the server again after a kill.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { once } = require("node:events");
const { spawn } = require("node:child_process");

const READY_MS_MAX = 20_000;
const READY_LINE = / ready on (\S+:\d+)/;

class NornServer {
  constructor() {
    this.directory = fs.mkdtempSync(path.join(os.tmpdir(), "norn-interop-"));
    this.address = "127.0.0.1:0";
    this.process = null;
  }

  // Resolves when the server answers; rejects with what it printed when it does not.
  async start() {
    const log = fs.openSync(path.join(this.directory, "server.log"), "a");
    const child = spawn(
      process.env.NORN,
      ["server", "--data", path.join(this.directory, "data"), "--listen", this.address],
      { stdio: ["ignore", "pipe", log] },
    );
    fs.closeSync(log);
    this.process = child;
    this.address = await this.#readyAddress(child);
  }

  // As a power cut or the kernel's memory killer would: no warning, nothing is flushed.
  async kill() {
    await this.#end("SIGKILL");
  }

  async stop() {
    await this.#end("SIGTERM");
  }

  // The last lines of the server's log, for the report of a failure.
  logTail() {
    const text = fs.readFileSync(path.join(this.directory, "server.log"), "utf8");
    return text.split("\n").slice(-20).join("\n");
  }

  async remove() {
    await this.kill();
    if (process.env.INTEROP_KEEP) return;
    fs.rmSync(this.directory, { recursive: true, force: true });
  }

  async #end(signal) {
    const child = this.process;
    this.process = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill(signal);
    await ended;
  }

  #readyAddress(child) {
    return new Promise((resolve, reject) => {
      let printed = "";
      const timer = setTimeout(() => fail("the server is not ready in time"), READY_MS_MAX);
      const fail = (why) => {
        clearTimeout(timer);
        reject(new Error(`${why}; it printed: ${printed}${this.logTail()}`));
      };
      child.once("error", (error) => fail(error.message));
      child.once("exit", (code, signal) => fail(`the server ended with ${code ?? signal}`));
      child.stdout.on("data", (bytes) => {
        printed += bytes;
        const found = READY_LINE.exec(printed);
        if (found === null) return;
        clearTimeout(timer);
        resolve(found[1]);
      });
    });
  }
}

module.exports = { NornServer };
