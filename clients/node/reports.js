// Reports on their way to the gateway, kept in a file until it has them.
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import timers from "node:timers";
import { promisify } from "node:util";
import { backoff, CadenzaError } from "./wire.js";

const atOnce = 4; // requests
const patience = 10_000; // for each of them
const collect = 1000; // milliseconds in which reports gather
const spare = 64 << 10; // characters of the file that are no longer needed
const append = promisify(fs.appendFile), sync = promisify(fs.fsync);

export function reports({ post, warn }, file, limit) {
  const queue = new Map(); // bodies by their ids, which are their Idempotency-Keys
  let size = 0, lost = 0, failures = 0, closed = false, timer, sending;
  let descriptor, written = 0, lines = "", current = Promise.resolve(), next; // the last write, and the one to come

  // hold has a report wait behind the others, or no longer where it has no body.
  const hold = (id, body) => {
    size += (body ?? "").length - (queue.get(id) ?? "").length;
    queue.delete(id);
    if (body) queue.set(id, body);
  };
  const lose = (error, body) => warn(Object.assign(error, { record: JSON.parse(body) }), lost++);

  // compact writes the file anew, with what is still to be sent.
  function compact(fresh = file + ".new") {
    const text = [...queue].map((line) => "\n" + JSON.stringify(line)).join("");
    fs.writeFileSync(fresh, text, { mode: 0o600, flush: true });
    if (descriptor !== undefined) fs.closeSync(descriptor);
    fs.renameSync(fresh, file);
    descriptor = fs.openSync(file, "a");
    written = text.length;
  }

  // write appends a line, and resolves when it is on the disk. Lines that come while
  // others are written go together. Each begins with the end of the one before, of which
  // a crash or a full disk may have left half.
  function write(line) {
    if (descriptor === undefined) return;
    lines += "\n" + JSON.stringify(line);
    return (next ??= current = current.then(async () => {
      const text = lines;
      [lines, next] = ["", undefined];
      try {
        if (written > 2 * size + spare) return compact();
        await append(descriptor, text);
        await sync(descriptor);
        written += text.length;
      } catch (cause) {
        warn(new CadenzaError(`${file}: ${cause.message}`, { code: "spool", cause }));
      }
    }));
  }

  // deliver sends one report. If that is still to be sent, the others come first.
  async function deliver([id, body]) {
    try {
      const { answer } = await post("/v1/metrics", body, ({ ok }) => ok, { headers: { "Idempotency-Key": id }, patience });
      if (answer.ignored) warn(new CadenzaError(`a report has what its trace does not take: ${answer.ignored}`, { code: "ignored", record: JSON.parse(body) }));
    } catch (error) {
      if (error.refused) lose(error, body);
      else return hold(id, body), error;
    }
    hold(id);
    write([id]);
  }

  // send sends until nothing is left, or the gateway takes nothing.
  async function send() {
    let wait = 0;
    while (queue.size && !wait) {
      const errors = await Promise.all(queue.entries().take(atOnce).map(deliver));
      failures = errors.every(Boolean) ? failures + 1 : 0;
      wait = Math.max(failures && backoff(failures, 1000, 60_000), ...errors.map((error) => error?.retryAfter ?? 0));
      if (wait) warn(errors.find(Boolean));
    }
    sending = undefined;
    if (wait) schedule(wait);
  }
  function flush() {
    timer = timers.clearTimeout(timer);
    return (sending ??= send()).then(() => queue.size);
  }
  function schedule(wait) {
    if (closed || timer || sending) return;
    timer = timers.setTimeout(flush, wait);
    if (file) timer.unref(); // what is in the file keeps no program running
  }

  if (file) {
    for (const line of fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n") : []) {
      try {
        if (line) hold(...JSON.parse(line));
      } catch {
        warn(new CadenzaError(`${file}: half a line, as a crash leaves it: ${line.slice(0, 80)}`, { code: "spool" }));
      }
    }
    compact();
    if (queue.size) schedule(collect);
  }
  return {
    flush,
    lost: () => lost,
    async add(body) {
      const why = closed ? "the client is closed" : size + body.length > limit && `${queue.size} wait already`;
      if (why) return lose(new CadenzaError(`a report is lost: ${why}`, { code: "lost" }), body), false;
      const id = randomUUID();
      hold(id, body);
      schedule(collect);
      await write([id, body]);
      return true;
    },
    async close() {
      closed = true;
      const left = await flush();
      await current;
      if (descriptor !== undefined) descriptor = fs.closeSync(descriptor);
      return left;
    },
  };
}
