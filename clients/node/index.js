// A client of the Cadenza gateway: values, prompts and reports. docs/clients.md says
// what it does when the gateway is away.
import { follow, read } from "./flags.js";
import { reports } from "./reports.js";
import { CadenzaError, printing, stable, wire } from "./wire.js";

const maxKept = 8 << 20; // characters of answers and of their requests
export { CadenzaError };
export class Cadenza {
  #wire; #context; #reports;
  #closing = new AbortController();
  #kept = new Map(); // the last good answers by their requests, the oldest first
  #size = 0; #awaySince = 0; #pausedUntil = 0;

  constructor({ url, key, context, timeout = 1000, poll = 60_000, spool, spoolSize = 16 << 20, onError = printing() }) {
    if (!url || !key) throw new TypeError("new Cadenza needs a url and a key");
    url = url.replace(/\/+$/, "");
    const warn = (error) => queueMicrotask(() => onError(error)); // what it throws is no matter of this client
    this.#wire = { url, timeout, poll, warn, closing: this.#closing.signal, post: wire({ url, key, timeout }) };
    this.#context = context;
    this.#reports = reports(this.#wire, spool, spoolSize);
  }

  // value returns what the gateway says, else what it said last for the same key and
  // context, else the default.
  value(key, fallback, context) {
    return this.details(key, fallback, context).then((found) => found.value);
  }
  async details(key, fallback, context) {
    const path = "/ofrep/v1/evaluate/flags/" + encodeURIComponent(key);
    const { answer, error, stale } = await this.#ask(path, { context: { ...this.#context, ...context } }, (flag) => flag.key);
    const found = read(answer, fallback, error);
    if (found.error !== error) this.#wire.warn(found.error);
    return { ...found, stale };
  }

  // prompt returns a prompt with its variables filled in, in the same way. Where there is
  // none it throws, unless it has a default.
  async prompt(key, { context, variables, metadata, ...options } = {}) {
    const body = { keys: [key], context: { ...this.#context, ...context }, variables, metadata };
    const { answer, error, stale } = await this.#ask("/v1/prompts", body, (prompts) => prompts[key]?.value);
    if (!answer && !("default" in options)) throw error;
    const { value = options.default, trace_id: traceId } = answer?.[key] ?? {};
    return { value, traceId, stale, error };
  }

  // follow resolves, after a first try, to all flags for a context, which stay fresh.
  follow(context) {
    return follow(this.#wire, { ...this.#context, ...context });
  }

  // report queues a record on a trace, or on the decision_id that it has. It resolves when
  // the record is on the disk, and to false where there is no room.
  async report(traceId, record) {
    if (!traceId && !record?.decision_id) throw new TypeError("a report needs a trace id or a decision_id");
    return this.#reports.add(JSON.stringify(traceId ? { trace_id: traceId, ...record } : record));
  }

  // lost is how many reports there was no room for, or the gateway refused.
  get lost() { return this.#reports.lost(); }

  // flush sends what is queued, and returns how many reports are left.
  flush() { return this.#reports.flush(); }

  // close flushes, and ends all that runs. Reports that are left stay in the spool.
  close() {
    this.#closing.abort();
    return this.#reports.close();
  }

  // ask returns the answer to a request, or the last good one. While the gateway is away
  // one call at a time tries, and the others need not wait.
  async #ask(path, body, valid) {
    const text = stable(body), id = path + stable({ ...body, metadata: undefined });
    let error = Date.now() < this.#pausedUntil && new CadenzaError(`${path}: the gateway was away just now`, { code: "away" });
    if (!error) {
      if (this.#awaySince) this.#pausedUntil = Date.now() + this.#wire.timeout;
      try {
        const { text: found, answer } = await this.#wire.post(path, text, valid);
        this.#awaySince = this.#pausedUntil = 0;
        this.#forget(id);
        this.#kept.set(id, found);
        this.#size += id.length + found.length;
        while (this.#size > maxKept) this.#forget(this.#kept.keys().next().value);
        return { answer, stale: false };
      } catch (cause) {
        this.#wire.warn((error = cause));
        if (error.refused) this.#forget(id);
        if (error.code === "away" || error.status >= 502) {
          this.#awaySince ||= Date.now();
          const pause = Math.min(5000, Math.max(250, Date.now() - this.#awaySince)) * (0.5 + Math.random() / 2);
          this.#pausedUntil = Date.now() + Math.max(error.retryAfter, pause);
        } else this.#awaySince = this.#pausedUntil = 0;
      }
    }
    const last = this.#kept.get(id);
    return { answer: last && JSON.parse(last), stale: last !== undefined, error };
  }

  #forget(id) {
    if (this.#kept.has(id)) this.#size -= id.length + this.#kept.get(id).length;
    this.#kept.delete(id);
  }
}
