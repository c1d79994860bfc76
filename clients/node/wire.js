// How the gateway is spoken to.

// CadenzaError is what went wrong. Its code is the gateway's, or one of this client:
// away, invalid_answer, lost, ignored, spool. record is the report that it is about.
export class CadenzaError extends Error {
  constructor(message, { code, status, retryAfter = 0, record, cause } = {}) {
    super(message, { cause });
    Object.assign(this, { name: "CadenzaError", code, status, retryAfter, record });
  }

  // refused reports whether the gateway has judged the request itself: another try is
  // useless, and what it said before no longer holds.
  get refused() {
    if (this.status === 404) return ["FLAG_NOT_FOUND", "unknown_key", "unknown_trace"].includes(this.code);
    return this.status >= 400 && this.status < 500 && ![401, 403, 405, 407, 408, 409, 425, 429].includes(this.status);
  }
}

// stable is JSON with members in the order of their names: equal requests are equal texts.
export const stable = (value) =>
  JSON.stringify(value, (_, v) => (Object(v) === v && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v));

// backoff returns the milliseconds to wait after so many failures, at random.
export const backoff = (failures, first, last) => Math.min(last, first * 2 ** Math.min(failures - 1, 20)) * (0.5 + Math.random() / 2);

export const retryAfter = (response) => 1000 * response.headers.get("Retry-After") || 0;
export const reason = (error) => error.cause?.message || error.cause?.code || error.message; // why fetch failed

// wire returns a function that sends JSON to a path. It returns status, headers, text and
// the parsed body of a 200 that is valid, or of a 304, and throws for all else.
export const wire = ({ url, key, timeout }) => async (path, body, valid, { headers, patience = 0 } = {}) => {
  let response, text, answer;
  try {
    response = await fetch(url + path, {
      method: "POST", redirect: "error", // which would take the key elsewhere
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
      body,
      signal: AbortSignal.timeout(Math.max(timeout, patience)),
    });
    text = await response.text();
  } catch (cause) {
    throw new CadenzaError(`${path}: no answer: ${reason(cause)}`, { code: "away", cause });
  }
  const { status } = response;
  try {
    answer = text && JSON.parse(text);
  } catch {} // of a proxy
  if (status === 304 || (status === 200 && answer && valid(answer))) return { status, headers: response.headers, text, answer };
  const code = answer?.errorCode ?? answer?.error?.code ?? (status === 200 ? "invalid_answer" : undefined);
  const said = answer?.errorDetails ?? answer?.error?.message ?? text.slice(0, 200);
  throw new CadenzaError(`${path}: ${status} ${code ?? ""}: ${said}`, { code, status, retryAfter: retryAfter(response) });
};

// printing is an onError that prints, the same line once in ten seconds.
export const printing = (last, until) => ({ message }) => {
  if (message !== last || Date.now() > until) [last, until] = [message, Date.now() + 10_000, console.warn(`cadenza: ${message}`)];
};
