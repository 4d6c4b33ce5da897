import { Context, Effect, Layer } from "effect"
import { createHmac, hash } from "node:crypto"
import { type Principal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type GatewayError, invalidMember } from "../errors/gateway-error.ts"
import { type WireFormat } from "../formats/format.ts"
import { cacheKeyMembers } from "../formats/sent-changes.ts"

/** What calls of one session share. */
export interface CallSession {
  /** Tells it from others in a vendor's prompt cache, without a caller's own words. */
  readonly cacheKey: string
  /** Orders the targets of a model, by its id; undefined where calls may go to any of them. */
  readonly orderOf: ((model: string) => SessionOrder) | undefined
}

/** The same order for each call of a session; a target comes first in as many sessions as its weight says. */
export type SessionOrder = (targets: ReadonlyArray<ModelTarget>) => ReadonlyArray<ModelTarget>

/** Headers in which clients name their session, the first of which counts; none of them is of a single request. */
const sessionHeaders = [
  "x-session-id",
  "x-claude-code-session-id",
  "session-id",
  "x-session-affinity",
  "x-amp-thread-id"
]
const longestName = 256

const isName = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && Buffer.byteLength(value) <= longestName

type RequestHeaders = Readonly<Record<string, string | undefined>>

/** What a caller names its session; undefined if it names none. */
export const sessionNameIn = (
  headers: RequestHeaders,
  body: Json,
  { sessionIn }: Pick<WireFormat, "sessionIn">
): string | undefined => {
  for (const header of sessionHeaders) if (isName(headers[header])) return headers[header]
  for (const member of cacheKeyMembers) if (isName(body[member])) return body[member]
  const named = sessionIn?.(body)
  return isName(named) ? named : undefined
}

/** A number between 0 and 1 for a session at a target. */
const draw = (session: Uint8Array, { model, provider }: ModelTarget): number =>
  (hash("sha256", Buffer.concat([session, Buffer.from(`${provider.id}/${model}`)]), "buffer").readUIntBE(0, 6) + 0.5) /
  2 ** 48

/**
 * Weighted rendezvous hashing: each target has a score of its own, so that the loss of one moves its sessions alone, and
 * replicas agree without a table.
 */
export const inSessionOrder =
  (session: Uint8Array): SessionOrder =>
  (targets) =>
    targets.length < 2
      ? targets
      : targets
          .map((target) => ({ target, score: -target.weight / Math.log(draw(session, target)) }))
          .toSorted((one, other) => other.score - one.score)
          .map(({ target }) => target)

const noSwitch = invalidMember("x-affinity", "x-affinity: Expected on or off")

/** Finds the sessions of calls, which share a prompt cache with their provider. */
export class CallSessions extends Context.Service<
  CallSessions,
  {
    /** The session of a call; undefined if its caller names none. */
    of(
      tenantId: TenantId,
      principal: Pick<Principal, "kind" | "name">,
      headers: RequestHeaders,
      body: Json,
      format: Pick<WireFormat, "sessionIn">
    ): CallSession | GatewayError | undefined
  }
>()("app/gateway/CallSessions") {
  static readonly layer = Layer.effect(
    CallSessions,
    Effect.gen(function* () {
      const secret = yield* (yield* Sealing).fingerprint(new TextEncoder().encode("gateway-sessions/v1"))
      const digest = (parts: ReadonlyArray<string>) =>
        createHmac("sha256", secret).update(JSON.stringify(parts)).digest()

      return CallSessions.of({
        of: (tenantId, { kind, name: principal }, headers, body, format) => {
          const { "x-affinity": affinity } = headers
          if (affinity !== undefined && affinity !== "on" && affinity !== "off") return noSwitch
          const name = sessionNameIn(headers, body, format)
          const given = cacheKeyMembers.map((member) => body[member] ?? null).find((key) => key !== null)
          const hasKey = given !== undefined
          if (name === undefined && !hasKey) return undefined
          const cached = hasKey ? JSON.stringify(given) : JSON.stringify(name)
          return {
            cacheKey: digest(["cache", tenantId, cached]).toString("base64url"),
            orderOf:
              name === undefined || affinity === "off"
                ? undefined
                : (model) => inSessionOrder(digest(["route", tenantId, kind, principal, model, name]))
          }
        }
      })
    })
  )
}
