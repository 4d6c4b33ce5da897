import { DateTime } from "effect"
import { type Dialect } from "./domain.ts"

/** What a limit of requests or tokens leaves. */
export interface Quota {
  readonly unit: "requests" | "tokens"
  readonly limit: bigint
  readonly remaining: bigint
  /** When all of it is there again, in milliseconds since 1970; null where it never is. */
  readonly resetsAt: number | null
}

const secondMillis = 1000

/** A time to wait as OpenAI writes it: `41s`, `6m0s`, `1h0m0s`. */
const waitText = (millis: number): string => {
  const total = Math.max(1, Math.ceil(millis / secondMillis))
  const hours = Math.floor(total / 3600)
  const minutes = Math.floor(total / 60) % 60
  return `${hours > 0 ? `${hours}h` : ""}${total >= 60 ? `${minutes}m` : ""}${total % 60}s`
}

/** A moment as Anthropic writes it, in whole seconds. */
const momentText = (millis: number): string =>
  DateTime.formatIso(DateTime.makeUnsafe(Math.ceil(millis / secondMillis) * secondMillis)).replace(".000Z", "Z")

/** The headers by which the SDKs of a dialect know what a limit leaves. */
export const quotaHeaders = (
  dialect: Dialect,
  { limit, remaining, resetsAt, unit }: Quota,
  now: number
): Readonly<Record<string, string>> => {
  const name = (what: string) =>
    dialect === "openai" ? `x-ratelimit-${what}-${unit}` : `anthropic-ratelimit-${unit}-${what}`
  const reset = resetsAt === null ? undefined : dialect === "openai" ? waitText(resetsAt - now) : momentText(resetsAt)
  return {
    [name("limit")]: String(limit),
    [name("remaining")]: String(remaining),
    ...(reset === undefined ? {} : { [name("reset")]: reset })
  }
}
