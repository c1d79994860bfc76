// The playground with streams. Without this module the form posts, and answers come whole.

/** seconds returns a time in milliseconds as pages show it. */
function seconds(ms) {
  return ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${Number(ms.toPrecision(3))} ms`;
}

/** dollars returns an amount as pages show it. */
function dollars(amount) {
  if (amount === null) return "no price";
  return amount >= 1 ? `$${amount.toFixed(2)}` : `$${Number(amount.toPrecision(3))}`;
}

/** events yields the events of a stream, each with its type and data. */
export async function* events(body) {
  let rest = "";
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + piece).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const event = { type: "message", data: "" };
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) event.type = line.slice(7);
        if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      yield event;
    }
  }
}

class Playground extends HTMLElement {
  weighing = 0;

  connectedCallback() {
    this.form = this.querySelector("form");
    this.columns = [...this.querySelectorAll("[data-column]")];
    for (const column of this.columns) this.out(column, "stop").addEventListener("click", () => this.stop(column));
    this.form.addEventListener("submit", (event) => {
      if (event.submitter?.value !== "ask") return;
      event.preventDefault();
      this.askAll();
    });
    this.form.addEventListener("change", () => this.weigh());
    this.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.columns.length) this.askAll();
      if (event.key === "Escape") this.columns.forEach((column) => this.stop(column));
    });
    this.dataset.ready = "";
  }

  out(column, name) {
    return column.querySelector(`[data-out="${name}"]`);
  }

  /** request returns what the form asks for in a column. */
  request(column) {
    const [kind, ...key] = this.dataset.of.split("/");
    const request = { [kind]: key.join("/"), context: {}, variables: {} };
    for (const input of this.form.querySelectorAll("[data-field]")) {
      const value = input.value.trim();
      if (value) set(request.context, input.dataset.field.split("."), input.dataset.type === "list" ? value.split(",").map((item) => item.trim()) : value);
    }
    for (const area of this.form.querySelectorAll("[data-variable]")) {
      if (area.value) request.variables[area.dataset.variable] = area.value;
    }
    const turns = [...this.form.querySelectorAll("[data-turn]")]
      .map((turn) => ({ role: turn.querySelector("select").value, content: turn.querySelector("textarea").value }))
      .filter((turn) => turn.content);
    if (turns.length) request.messages = turns;
    for (const part of column.querySelectorAll("[data-part]")) {
      if (part.value) request[part.dataset.part] = part.value;
    }
    const texts = [...column.querySelectorAll("[data-text]")].map((area) => (!("saved" in area.dataset) || area.value === area.dataset.saved ? null : area.value));
    const shown = column.querySelector("[data-texts]").value === `${this.dataset.of}@${request.variant ?? ""}`;
    if (shown && texts.some((text) => text !== null)) request.texts = texts;
    return request;
  }

  post(request, signal) {
    return fetch("/console/api/play", { method: "POST", body: JSON.stringify(request), signal });
  }

  askAll() {
    for (const column of this.columns) this.ask(column);
  }

  /** ask makes a column's call, and shows it as it comes. */
  async ask(column) {
    this.stop(column);
    const call = { state: "asking", text: "", calls: "", problem: "", done: null, began: performance.now(), stopping: new AbortController() };
    column.call = call;
    this.render();
    try {
      const answer = await this.post({ ...this.request(column), stream: true }, call.stopping.signal);
      if (!answer.ok) {
        call.state = "refused";
        call.problem = (await answer.json()).error;
      } else {
        for await (const event of events(answer.body)) this.take(call, event);
      }
    } catch (problem) {
      if (call.state !== "stopped") console.warn(problem);
    }
    if (under(call)) call.state = "cut";
    call.took ??= performance.now() - call.began;
    this.announce(column, call);
    this.render();
  }

  /** take adds an event of a stream to a call. */
  take(call, event) {
    if (call.state === "stopped" || event.data === "[DONE]") return;
    const data = JSON.parse(event.data);
    if (event.type === "done") {
      call.done = data;
      call.took = data.took_ms;
      call.state = data.error ? "failed" : "ended";
      return;
    }
    call.trace ??= data.trace_id;
    call.first ??= performance.now() - call.began;
    call.state = "streaming";
    call.text += data.content;
    if (data.tool_calls) call.calls = JSON.stringify(data.tool_calls, null, 2);
    this.render();
  }

  /** stop ends a column's call. What came stays. */
  stop(column) {
    if (!under(column.call)) return;
    column.call.state = "stopped";
    column.call.stopping.abort();
  }

  announce(column, call) {
    const tokens = call.done ? `, ${call.done.completion_tokens} tokens` : "";
    this.out(this, "said").textContent = `${column.querySelector("h2").textContent}: ${call.problem || this.outcome(call)} in ${seconds(call.took)}${tokens}`;
  }

  outcome(call) {
    const words = { asking: "asking…", cut: "cut: the connection ended", failed: `failed: ${call.done?.error}` };
    return words[call.state] ?? call.done?.finish_reason ?? call.state;
  }

  /** weigh asks what the calls may cost, a moment after the last change. */
  weigh() {
    const turn = ++this.weighing;
    setTimeout(async () => {
      if (turn !== this.weighing) return;
      for (const column of this.columns) {
        const answer = await this.post({ ...this.request(column), dry_run: true }).catch(() => null);
        if (turn !== this.weighing) return;
        const dry = answer?.ok ? await answer.json() : null;
        this.out(column, "most").textContent = dry ? most(dry) : "";
        if (dry && column === this.columns[0]) this.out(this, "test").textContent = test(this.request(column).context, dry.row);
      }
    }, 400);
  }

  render() {
    for (const column of this.columns) {
      const call = column.call;
      if (!call) continue;
      const done = call.done;
      const texts = {
        state: this.outcome(call), text: call.text, calls: call.calls,
        target: done?.target ?? "", variant: done?.variant ?? "",
        first: done?.first_token_ms ? seconds(done.first_token_ms) : call.first ? seconds(call.first) : "",
        took: call.took ? seconds(call.took) : "",
        tokens: done ? `${done.prompt_tokens} + ${done.completion_tokens}${done.estimated ? ", estimated" : ""}` : "",
        cost: done ? dollars(done.cost_usd) : "",
      };
      for (const [name, text] of Object.entries(texts)) {
        const element = this.out(column, name);
        if (element.textContent !== text) element.textContent = text;
      }
      this.out(column, "problem").hidden = !call.problem;
      this.out(column, "problem").firstElementChild.textContent = call.problem;
      this.out(column, "answer").hidden = call.state === "refused";
      this.out(column, "stop").hidden = !under(call);
      const trace = this.out(column, "trace");
      trace.hidden = under(call) || !(done ? done.trace_id : call.trace);
      if (!trace.hidden) trace.href = "/console/traces/" + encodeURIComponent(done?.trace_id ?? call.trace);
    }
  }
}

/** under reports whether a call is under way. */
function under(call) {
  return call?.state === "asking" || call?.state === "streaming";
}

/** set puts a value into a context, below the members of its path. */
function set(context, path, value) {
  for (const name of path.slice(0, -1)) context = context[name] ??= {};
  context[path.at(-1)] = value;
}

/** most says what an attempt may use. */
function most(dry) {
  const cost = dry.most_cost_usd === undefined ? "; not all targets have a known price." : `, ${dollars(dry.most_cost_usd)}.`;
  return `An attempt at ${dry.targets.join(" or ")} may use at most ${dry.most_tokens.toLocaleString("en")} tokens${cost}`;
}

/** test returns a test of the row that answers a context, as a line of the member tests. */
function test(context, row) {
  const at = new Date().toISOString().replace(/\.\d+/, "");
  return `tests:\n  - { at: ${at}, context: ${JSON.stringify(context)}, rule: ${JSON.stringify(row || "default")} }`;
}

customElements.define("play-ground", Playground);
