// SPDX-License-Identifier: Apache-2.0
//
// What Node's HTTP/1.1 (llhttp) makes of bytes; see read_norn.c for what goes in and out.
'use strict';
const http = require('http');
const readline = require('readline');
const { Duplex } = require('stream');

const FIELDS = ['host', 'content-length', 'content-type', 'x-a'];
const hex = (text) => Buffer.from(text, 'latin1').toString('hex');

class Wire extends Duplex {
  constructor() {
    super();
    this.out = '';
  }
  _read() {}
  _write(chunk, encoding, done) {
    this.out += chunk.toString('latin1');
    done();
  }
  setTimeout() { return this; }
  setNoDelay() { return this; }
  setKeepAlive() { return this; }
}

const server = http.createServer({ keepAliveTimeout: 0, requestTimeout: 0 });
const take = (req, res) => {
  const request = { req, body: [], isWhole: false };
  req.socket.requests.push(request);
  req.on('data', (part) => request.body.push(part));
  req.on('end', () => { request.isWhole = true; });
  req.on('error', () => {});
  res.end();
};
server.on('request', take);
server.on('checkContinue', (req, res) => { res.writeContinue(); take(req, res); });
server.on('clientError', (error, wire) => { wire.isRefused = true; wire.destroy(); });

// Events of streams come one after the other, some of them after the next turn of the loop.
const settle = async () => {
  for (let i = 0; i < 6; i++) await new Promise((resolve) => setImmediate(resolve));
};

const describe = ({ req, body }) => {
  const [path, ...query] = req.url.split('?');
  const fields = {};
  for (const name of FIELDS) {
    const at = req.rawHeaders.findIndex((text, i) => i % 2 === 0 && text.toLowerCase() === name);
    if (at >= 0 && req.rawHeaders[at + 1] !== '') fields[name] = hex(req.rawHeaders[at + 1]);
  }
  return { method: hex(req.method), path: hex(path), query: hex(query.join('?')), fields,
           body: Buffer.concat(body).toString('hex') };
};

const read = async (bytes) => {
  const wire = new Wire();
  wire.requests = [];
  wire.on('error', () => {});
  server.emit('connection', wire);
  // Whether something incomplete is left cannot be asked. An empty line is nothing, and a request
  // that ends the input is complete, when one more request is understood behind it.
  wire.push(bytes);
  await settle();
  const whole = wire.requests.filter((request) => request.isWhole);
  const statuses = [...wire.out.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]);
  const isRefused = wire.isRefused || statuses.some((status) => !['100', '200'].includes(status));
  const isOver = wire.destroyed || wire.writableEnded;
  const result = { requests: whole.map(describe), end: 'done' };
  if (isRefused) result.end = 'refused';
  else if (!isOver && bytes.length > 0) {
    const before = whole.length;
    wire.push(Buffer.from('GET /probe HTTP/1.1\r\nHost: probe\r\n\r\n'));
    await settle();
    const after = wire.requests.filter((request) => request.isWhole);
    const isNext = after.length === before + 1 && after[before].req.url === '/probe' &&
        after[before].req.headers.host === 'probe';
    if (!isNext) result.end = 'more';
  }
  wire.destroy();
  return result;
};

const main = async () => {
  const lines = readline.createInterface({ input: process.stdin });
  const inputs = [];
  for await (const line of lines) inputs.push(Buffer.from(line, 'hex'));
  for (let i = 0; i < inputs.length; i += 100) {
    const results = await Promise.all(inputs.slice(i, i + 100).map(read));
    for (const result of results) console.log(JSON.stringify(result));
  }
};
main();
