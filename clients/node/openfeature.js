// A provider for OpenFeature's server SDK: it evaluates as the client does, with the last
// good value while the gateway is away, whose reason is STALE.
const codes = ["FLAG_NOT_FOUND", "INVALID_CONTEXT", "PARSE_ERROR", "TARGETING_KEY_MISSING", "TYPE_MISMATCH"];

export class CadenzaProvider {
  metadata = { name: "cadenza" };
  runsOn = "server";
  #client;

  constructor(client) {
    this.#client = client;
    for (const type of ["Boolean", "String", "Number", "Object"]) {
      this[`resolve${type}Evaluation`] = (key, fallback, context) => this.#resolve(key, fallback, context);
    }
  }

  async #resolve(key, fallback, context) {
    const { value, reason, variant, metadata, stale, error } = await this.#client.details(key, fallback, context);
    if (error && (!stale || error.code === "TYPE_MISMATCH")) {
      return { value: fallback, reason: "ERROR", errorCode: codes.includes(error.code) ? error.code : "GENERAL", errorMessage: error.message };
    }
    return { value, reason: stale ? "STALE" : reason, variant, flagMetadata: metadata };
  }
}
