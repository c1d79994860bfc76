// The values of all flags for one context, kept fresh by events.
import timers from "node:timers";
import { backoff, CadenzaError, reason, retryAfter, stable } from "./wire.js";

const path = "/ofrep/v1/evaluate/flags";
const patience = 10_000; // for an answer with all flags, and for a stream to open
const silence = 90_000; // after which a stream counts as dead
const maxEvent = 64 << 10; // characters

const kind = (value) => (Array.isArray(value) ? "list" : typeof value);

// read returns what an answer about a flag says: the default where it has no value, or
// one of another type.
export function read(flag, fallback, error) {
  const { value = null, reason, variant, metadata } = flag ?? {};
  if (flag?.errorCode) error = new CadenzaError(flag.errorDetails ?? flag.errorCode, { code: flag.errorCode });
  else if (flag && (value === null || (fallback ?? null) === null || kind(value) === kind(fallback))) {
    return { value: value ?? fallback, reason, variant, metadata, traceId: metadata?.trace_id, error };
  } else if (flag) error = new CadenzaError(`${flag.key} is no ${kind(fallback)}, as its default is, but a ${kind(value)}`, { code: "TYPE_MISMATCH" });
  return { value: fallback, reason: "ERROR", error };
}

export function follow({ url, post, warn, poll, closing }, context) {
  const body = stable({ context }), own = new AbortController(), stop = AbortSignal.any([own.signal, closing]), listeners = new Set();
  let flags, etag, stream; // by key; of them; the address of the events
  let failure = new CadenzaError("the flags have not arrived yet", { code: "away" });

  // refresh asks for all flags, and says which have changed.
  async function refresh({ etag: flagConfigEtag, lastModified: flagConfigLastModified } = {}) {
    const query = new URLSearchParams(JSON.parse(JSON.stringify({ flagConfigEtag, flagConfigLastModified })));
    const { status, answer, headers: got } = await post(path + (query.size ? `?${query}` : ""), body, (all) => Array.isArray(all.flags), {
      headers: etag && { "If-None-Match": etag }, patience,
    });
    failure = undefined;
    if (status === 304) return;
    const before = flags, { url: whole, endpoint } = answer.eventStreams?.find(({ type }) => type === "sse") ?? {};
    stream = whole ?? (endpoint && new URL(endpoint.requestUri, endpoint.origin ?? url).href);
    flags = new Map(answer.flags.map((flag) => [flag.key, flag]));
    etag = got.get("ETag");
    const changed = [...new Map([...(before ?? []), ...flags]).keys()].filter((key) => stable(before?.get(key)?.value) !== stable(flags.get(key)?.value));
    if (before && changed.length && !stop.aborted) for (const listener of listeners) queueMicrotask(() => listener(changed));
  }

  // listen refreshes at each event until the stream ends. The stream's address has a
  // token of its own: the API key is not sent there.
  async function listen() {
    const dead = new AbortController();
    let rest = "", data = "", timer;
    const expect = (milliseconds) => {
      timers.clearTimeout(timer);
      timer = timers.setTimeout(() => dead.abort(new Error("it is silent")), milliseconds);
    };
    try {
      expect(patience);
      const response = await fetch(stream, { headers: { Accept: "text/event-stream" }, redirect: "error", signal: AbortSignal.any([stop, dead.signal]) });
      if (response.status !== 200 || !response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
        etag = undefined; // the next answer is whole, and has an address that may be new
        throw new CadenzaError(`the stream of events: ${response.status}`, { status: response.status, retryAfter: retryAfter(response) });
      }
      expect(silence);
      await refresh(); // what changed before it was open
      for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
        expect(silence);
        const lines = (rest + text).split(/\r?\n/);
        rest = lines.pop();
        for (const line of lines) {
          if (line.startsWith("data:")) data += line.slice(5) + "\n";
          if (line !== "" || data === "") continue;
          const event = JSON.parse(data);
          data = "";
          if (event?.type === "refetchEvaluation") await refresh(event);
        }
        if (rest.length + data.length > maxEvent) throw new Error("an event is too long");
      }
    } finally {
      timers.clearTimeout(timer);
      dead.abort(); // closes a connection that is left
    }
  }

  async function run(tried) {
    let failures = 0;
    do {
      let wait = 0, began = Date.now();
      try {
        await refresh();
        tried();
        if (stream) await listen();
      } catch (cause) {
        tried();
        if (stop.aborted) break;
        failure = cause instanceof CadenzaError ? cause : new CadenzaError(`the stream of events broke off: ${reason(cause)}`, { code: "away", cause });
        wait = failure.retryAfter;
        warn(failure);
      }
      if (Date.now() - began > silence) failures = 0;
      if (stream || failure) wait = Math.max(wait, backoff(++failures, 1000, 60_000));
      else [failures, wait] = [0, poll];
      await timers.promises.setTimeout(wait, undefined, { ref: false, signal: stop }).catch(() => {});
    } while (!stop.aborted);
  }

  const details = (key, fallback) => {
    const flag = flags?.get(key) ?? (flags && { key, errorCode: "FLAG_NOT_FOUND", errorDetails: `there is no flag ${key}` });
    const found = read(structuredClone(flag), fallback, failure);
    if (found.error !== failure) warn(found.error);
    return { ...found, stale: flags !== undefined && failure !== undefined };
  };
  return new Promise(run).then(() => ({
    details,
    get: (key, fallback) => details(key, fallback).value,
    onChange: (listener) => (listeners.add(listener), () => listeners.delete(listener)),
    close: () => own.abort(),
  }));
}
