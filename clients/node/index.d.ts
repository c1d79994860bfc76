export type Context = { [name: string]: unknown };

export interface Options {
  /** Where the gateway is, with a path where it has one. */
  url: string;
  /** The API key. */
  key: string;
  /** Fields of every request's context; those of a request come over them. */
  context?: Context;
  /** How many milliseconds a value or a prompt may take. 1000 where it is not set. */
  timeout?: number;
  /** How often followed flags are asked for, in milliseconds, where the gateway offers no events. 60000 where it is not set. */
  poll?: number;
  /** The file in which reports wait; its folder exists. No two clients may have the same one. Without it they wait in memory. */
  spool?: string;
  /** How many characters of reports may wait. 16 Mi where it is not set. */
  spoolSize?: number;
  /** Hears of every error, also of those that a last good value or a default covers. Prints them where it is not set. */
  onError?: (error: CadenzaError) => void;
}

export interface Details<T> {
  value: T;
  /** OFREP's reason, or ERROR where the default is not the gateway's choice. */
  reason?: string;
  variant?: string;
  metadata?: Record<string, boolean | number | string>;
  /** The trace to report on. Followed flags have none. */
  traceId?: string;
  /** Whether the value is the last good one, because the gateway gave none. */
  stale: boolean;
  error?: CadenzaError;
}

/** A prompt as the gateway gives it, in docs/http-api.md. */
export interface Prompt {
  name?: string;
  messages: { role: string; content: unknown }[];
  provider?: string;
  model?: string;
  [member: string]: unknown;
}

export interface PromptOptions<P = Prompt> {
  context?: Context;
  variables?: Record<string, unknown>;
  /** Kept with the trace. */
  metadata?: Record<string, unknown>;
  /** What is returned where there is no prompt. Without it that is an error. */
  default?: P;
}

/** Members of a metrics record, in docs/http-api.md. */
export interface Report {
  decision_id?: string;
  score?: number;
  values?: Record<string, number>;
  metadata?: Record<string, unknown>;
  latency?: number;
  llm_response?: string;
  chain_id?: string;
  conversation_id?: string;
  economics?: { prompt_tokens?: number; completion_tokens?: number; total_tokens?: number };
}

/** The values of all flags for one context, kept fresh by events. */
export interface Flags {
  get<T>(key: string, fallback: T): Widen<T>;
  details<T>(key: string, fallback: T): Details<Widen<T>>;
  /** Has a function called with the keys whose values have changed. The function it returns ends that. */
  onChange(listener: (keys: string[]) => void): () => void;
  close(): void;
}

/** false as a default stands for a boolean, "" for a string. */
export type Widen<T> = T extends boolean ? boolean : T extends number ? number : T extends string ? string : T;

export class CadenzaError extends Error {
  /** The gateway's code, or away, invalid_answer, lost, ignored or spool. */
  code?: string;
  status?: number;
  /** How many milliseconds the gateway asks to wait. */
  retryAfter: number;
  /** The report that the error is about. */
  record?: Report;
  /** Whether the gateway has judged the request itself. */
  readonly refused: boolean;
}

export class Cadenza {
  constructor(options: Options);
  /** Asks for a value: the gateway's, else the last good one for this key and context, else the default. */
  value<T>(key: string, fallback: T, context?: Context): Promise<Widen<T>>;
  /** The same, and where the value comes from. */
  details<T>(key: string, fallback: T, context?: Context): Promise<Details<Widen<T>>>;
  /** Asks for a prompt with its variables filled in. */
  prompt<P = Prompt>(key: string, options?: PromptOptions<P>): Promise<{ value: P; traceId?: string; stale: boolean; error?: CadenzaError }>;
  /** Resolves, after a first try, to all flags for a context. */
  follow(context?: Context): Promise<Flags>;
  /** Queues a record on a trace or, without a trace id, on its decision_id. Resolves when it is on the disk, and to false where there is no room. */
  report(traceId: string | null | undefined, record: Report): Promise<boolean>;
  /** How many reports there was no room for, or the gateway refused. */
  readonly lost: number;
  /** Sends what is queued, and returns how many reports are left. */
  flush(): Promise<number>;
  /** Flushes, and ends all that runs. Returns how many reports are left. */
  close(): Promise<number>;
}
