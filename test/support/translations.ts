import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { gatewaySnapshot } from "../../src/gateway/configuration/gateway-snapshot.ts"
import { type Dialect } from "../../src/gateway/formats/domain.ts"
import { type WireFormat } from "../../src/gateway/formats/format.ts"
import { Omissions } from "../../src/gateway/formats/omissions.ts"
import { providerRequest } from "../../src/gateway/pipeline/provider-request.ts"
import { knownModel, spokenDialects } from "./formats.ts"
import { runningLoopback } from "./loopback.ts"
import { readableSeals } from "./turn-seals.ts"
import { chatFault, messageFault } from "./vendor-rules.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every format
type Any = any

const [target] = gatewaySnapshot({}, null, runningLoopback, [], []).models.flatMap(({ targets }) => targets)

const models = { openai: "gpt-5", anthropic: "claude-sonnet-4-5", gemini: "gemini-3-pro" }
const limits = { limit: undefined, outputTokens: 4096, toolLimit: undefined }

export interface Destination {
  readonly model?: string
  readonly vendor?: string
}

const sent = (body: Any, from: WireFormat, to: Dialect, { model = models[to], vendor }: Destination) => {
  assert.isDefined(target)
  const provider = { ...target.provider, vendor, speaks: spokenDialects[to] }
  const bytes = new TextEncoder().encode(JSON.stringify(body))
  const request = { format: from, model: body.model, streams: false, body, bytes, states: readableSeals }
  const omissions = new Omissions()
  return Effect.map(
    providerRequest(request, { ...target, ...knownModel(model, vendor), provider }, limits, omissions),
    (out) => ({
      body: JSON.parse(typeof out === "string" ? out : Buffer.from(out).toString("utf8")),
      omitted: omissions.headers()
    })
  )
}

/** A request as a provider of a dialect gets it, who must not refuse it, and the headers that name what was left out. */
export const translated = (
  given: Any,
  from: WireFormat,
  to: Dialect,
  destination: Destination = {}
): { readonly body: Any; readonly omitted: Readonly<Record<string, string>> } => {
  const { body, omitted } = Effect.runSync(sent(given, from, to, destination))
  const asked = { method: "POST", path: "/v1/messages", headers: { "anthropic-version": "2023-06-01" }, body }
  // Mistral has parts of its own.
  if (to === "openai" && destination.vendor !== "mistral-ai") assert.isUndefined(chatFault(asked))
  if (to === "anthropic") assert.isUndefined(messageFault(asked))
  return { body, omitted }
}

/** Why a request has no form at a provider of a dialect. */
export const refusal = (given: Any, from: WireFormat, to: Dialect): string =>
  Effect.runSync(Effect.map(Effect.flip(sent(given, from, to, {})), ({ error }) => error.message))
