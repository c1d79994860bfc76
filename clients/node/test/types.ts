// What the types allow, compiled by a test.
import { Cadenza, CadenzaError, type Prompt } from "@cadenza-gateway/client";
import { CadenzaProvider } from "@cadenza-gateway/client/openfeature";
import { OpenFeature } from "@openfeature/server-sdk";

const client = new Cadenza({ url: "http://localhost:8080", key: "k", spool: "reports", onError: (error: CadenzaError) => error.record?.score });
const on: boolean = await client.value("new_checkout", false, { plan: "pro" });
const limits: { rpm: number } = await client.value("limits", { rpm: 60 });
// @ts-expect-error a number is no text
const wrong: string = await client.value("limit", 1);
const { value, traceId, stale }: { value: Prompt; traceId?: string; stale: boolean } = await client.prompt("reply", { variables: { question: "why" } });
const kept: boolean = await client.report(traceId, { score: 1, values: { resolved: 1 } });
// @ts-expect-error it is called values
await client.report(traceId, { value: 1 });
const flags = await client.follow({ user: "ann" });
const size: number = flags.get("size", 1);
flags.onChange((keys) => keys.join())();
OpenFeature.setProvider(new CadenzaProvider(client));
console.log(on, limits, wrong, value, stale, kept, size, (await client.close()) + 1);
