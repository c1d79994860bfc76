// A server in the place of a gateway, and what the tests share.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import timers from "node:timers";
import { Cadenza } from "../index.js";

export const key = "cadenza-test-key-0001";

// Server answers as its answer says: a function of the request {path, query, headers, body} that
// returns {status, headers, body}, or nothing where it answers through response itself.
export class Server {
  requests = [];
  #waiting = [];

  static async start(t, answer) {
    const server = new Server();
    server.answer = answer;
    server.http = createServer((request, response) => server.#serve(request, response));
    await server.listen(0);
    t.after(() => server.stop());
    return server;
  }

  async listen(port) {
    this.http.listen(port, "127.0.0.1");
    await once(this.http, "listening");
    this.port = this.http.address().port;
    this.url = `http://127.0.0.1:${this.port}`;
  }

  async stop() {
    if (!this.http.listening) return;
    this.http.closeAllConnections();
    this.http.close();
    await once(this.http, "close");
  }

  async #serve(request, response) {
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) text += chunk;
    const { pathname: path, searchParams: query } = new URL(request.url, this.url);
    const asked = { path, query, headers: request.headers, text, body: text && JSON.parse(text) };
    this.requests.push(asked);
    this.#waiting = this.#waiting.filter((look) => !look());
    const { status = 200, headers, body } = (await this.answer(asked, response)) ?? {};
    if (body !== undefined || status !== 200) {
      response.writeHead(status, { "Content-Type": "application/json", ...headers });
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    }
  }

  // until waits until a condition on what was asked holds.
  until(what, holds) {
    return holds() ? undefined : new Promise((done, fail) => {
      const patience = AbortSignal.timeout(30_000);
      patience.addEventListener("abort", () => fail(new Error(`waited for: ${what}`)));
      this.#waiting.push(() => holds() && (done(), true));
    });
  }

  asked = (path) => this.requests.filter((request) => request.path === path);
}

// until waits until a condition holds that no request tells of.
export async function until(what, holds) {
  for (const end = performance.now() + 30_000; !holds(); await new Promise(setImmediate)) {
    if (performance.now() > end) throw new Error(`waited for: ${what}`);
  }
}

// fake stops the client's clock, not that of fetch, and lists for how long the client means
// to wait: its sleeps are between two tries of flags, its timeouts all other waits.
export function fake(t) {
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2026, 0, 1) });
  let waiting = [];
  const clock = { sleeps: [], timeouts: [] };
  const add = (list, wait, done) => {
    list.push(wait);
    const timer = { due: Date.now() + wait, done, unref() {} };
    waiting.push(timer);
    return timer;
  };
  const clear = (timer) => void (waiting = waiting.filter((other) => other !== timer));
  t.mock.method(timers, "setTimeout", (done, wait) => add(clock.timeouts, wait, done));
  t.mock.method(timers, "clearTimeout", clear);
  t.mock.method(timers.promises, "setTimeout", (wait, value, { signal }) =>
    new Promise((done, fail) => {
      const timer = add(clock.sleeps, wait, done);
      signal.addEventListener("abort", () => (clear(timer), fail(signal.reason)));
    }));
  clock.tick = (wait) => {
    t.mock.timers.tick(wait);
    const due = waiting.filter((timer) => timer.due <= Date.now());
    waiting = waiting.filter((timer) => !due.includes(timer));
    for (const { done } of due) done();
  };
  // next waits until the client waits for the nth time, checks for how long, and has that pass.
  clock.next = async (list, n, least, most = least) => {
    await until(`wait ${n}`, () => clock[list].length >= n);
    const wait = clock[list][n - 1];
    assert.ok(wait >= least && wait <= most, `it waits ${wait} ms, want ${least} to ${most}`);
    clock.tick(Math.ceil(wait));
  };
  return clock;
}

// connect returns a client, and the errors that it tells of.
export function connect(t, url, options) {
  const errors = [];
  const client = new Cadenza({ url, key, timeout: 30_000, onError: (error) => errors.push(error), ...options });
  t.after(() => client.close());
  return { client, errors };
}

export function folder(t) {
  const name = mkdtempSync(join(tmpdir(), "cadenza"));
  t.after(() => rmSync(name, { recursive: true }));
  return name;
}

// flag is OFREP's answer about one flag.
export const flag = (key, value, more) => ({ key, value, reason: "STATIC", variant: "default", metadata: { trace_id: `trace-of-${key}` }, ...more });

export const failure = (status, code) => ({ status, body: { error: { code, message: `it is ${code}` }, name: code, error_code: code } });
