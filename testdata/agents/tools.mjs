// What the loops of libraries share: where the gateway is, and two tools.
import { readFile, writeFile } from "node:fs/promises";

export const { CADENZA_API_KEY: key, CADENZA_URL: url, DOOR: door, MODEL: model, TASK: task } = process.env;
export const read = ({ path }) => readFile(path, "utf8");
export const write = async ({ path, content }) => (await writeFile(path, content), "Written.");
