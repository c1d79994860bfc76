// Where the gateway is, and what the tests share.
import assert from "node:assert/strict";

export const url = process.env.CADENZA_URL;
export const key = process.env.CADENZA_API_KEY;
export const baseURL = url + "/v1";

// pixel is an image of one pixel.
export const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

// all returns what an iterator gives until it ends.
export async function all(iterator) {
  const found = [];
  for await (const x of iterator) found.push(x);
  return found;
}

// raises returns the error that a promise ends with.
export async function raises(promise, type) {
  try {
    const value = await promise;
    assert.fail("no error, but " + JSON.stringify(value));
  } catch (e) {
    if (e instanceof assert.AssertionError) throw e;
    if (type) assert.ok(e instanceof type, `${e.constructor.name}: ${e.message}`);
    return e;
  }
}

// counted returns options for a client, and how many requests it has made.
export function counted() {
  const requests = { made: 0 };
  const counting = (...args) => (requests.made++, fetch(...args));
  return { requests, fetch: counting };
}
