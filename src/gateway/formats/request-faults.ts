import { Result, Schema } from "effect"
import { isJson, type Json, listIn } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { faultOptions, faultsOf } from "../../platform/http/validation.ts"
import { maxMessages } from "./domain.ts"

/** Above the output of any model, and small enough for the ledger to store the cost. */
export const maxOutputTokens = 2_147_483_647
export const maxChoices = 1024
export const maxInputs = 2048
/** How many faults of a request are looked for; a list may have a million. */
const maxFaults = 5000

/** Members of a request that some servers read as a beta header; the SDKs send them as one. */
export const betaMembers = ["betas", "anthropic_beta"]

/** The members that metering reads in any vendor's requests, in small letters. */
export const usualMetered: ReadonlySet<string> = new Set(
  ["messages", "model", "input", "max_tokens", "max_completion_tokens", "n", "prediction", "stream", "tools"].concat(
    ["service_tier", "modalities", "audio", "web_search_options", "search_parameters", "models", "plugins"],
    ["context_management", "max_output_tokens", "previous_response_id", "background", "conversation", "instructions"],
    ["prompt", "best_of", ...betaMembers]
  )
)

const isLimit = (value: unknown, least: number, most: number): boolean =>
  value === undefined || value === null || (Number.isInteger(value) && Number(value) >= least && Number(value) <= most)

const isTooLong = (list: unknown): boolean => Array.isArray(list) && list.length > maxMessages

/** Gathers the faults of the members that metering reads. */
export class Faults {
  readonly found: Array<Fault> = []
  private readonly body: Json

  constructor(body: Json) {
    this.body = body
  }

  expect(member: string, isGood: boolean, expected: string): this {
    if (!isGood) this.found.push({ path: [member], message: `Expected ${expected}` })
    return this
  }

  /** A whole number, if it is given. */
  limit(member: string, least: number, most = maxOutputTokens): this {
    return this.expect(member, isLimit(this.body[member], least, most), `a whole number from ${least} to ${most}`)
  }

  /** A boolean, if it is given. */
  switch(member: string): this {
    const value = this.body[member] ?? null
    return this.expect(member, value === null || typeof value === "boolean", "a boolean")
  }

  /** A text, or a list with a first element; `isLimited` says whether the length of the list has a limit. */
  texts(member: string, expected: string, isLimited: (list: ReadonlyArray<unknown>) => boolean, kind: string): this {
    const value = this.body[member]
    this.expect(member, typeof value === "string" || (Array.isArray(value) && value.length > 0), expected)
    if (!Array.isArray(value)) return this
    return this.expect(member, value.length <= maxInputs || !isLimited(value), `at most ${maxInputs} ${kind}`)
  }

  /** The elements of a list, each of which has to be good; `expected` is what a list has too many of. */
  each(
    member: string,
    kind: string,
    isGood: (element: Json) => boolean,
    path: ReadonlyArray<string>,
    expected: string
  ) {
    const list = this.body[member]
    if (isTooLong(list)) return this.expect(member, false, `at most ${maxMessages} ${kind}`)
    for (const [index, element] of listIn(list).entries()) {
      if (isJson(element) && isGood(element)) continue
      this.found.push({ path: [member, index, ...path], message: `Expected ${expected}` })
      if (this.found.length > maxFaults) break
    }
    return this
  }
}

/** Whether a prompt is a list of texts, and not the tokens of one. */
export const isTexts = (prompt: ReadonlyArray<unknown>): boolean => typeof prompt[0] !== "number"

/** Decodes a request, or tells its faults by their paths. */
export const decoding = <A>(schema: Schema.ConstraintDecoder<A>) => {
  const decode = Schema.decodeUnknownResult(schema)
  return (body: unknown): Result.Result<A, ReadonlyArray<Fault>> =>
    Result.mapError(decode(body, faultOptions(body)), (error) =>
      faultsOf("body", error).map(({ message, path }) => ({ message, path: path.slice(1) }))
    )
}
