import { Clock, Context, Effect, Layer, Metric, Stream } from "effect"
import { LRUCache } from "lru-cache"
import { hash } from "node:crypto"
import { type TenantId } from "../../kernel/identifier.ts"
import { parsedJson } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { type GatewaySnapshot, type ServedModel } from "../configuration/gateway-snapshot.ts"
import { type TokenUsage } from "../formats/domain.ts"
import { type UsageMeter } from "../metering/usage-meter.ts"
import { type Call } from "./call-request.ts"
import { type CallAnswer } from "./response-relay.ts"

/** The part of a call that the cache depends on. */
type CacheableCall = Omit<Call, "caller" | "states" | "writeError">

/** Headers that do not affect the response. */
const withoutEffect = new Set(["accept", "user-agent"])

/** Identifies a call by its tenant, the configuration, and its request byte for byte. */
const cacheKey = (
  { bytes, fallbacks, format, headers }: CacheableCall,
  tenantId: TenantId,
  catalogueVersion: string
): string => {
  const relevant = Object.entries(headers)
    .filter(([name]) => !withoutEffect.has(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  const form = [format.dialect, format.operation, format.isSpoken !== false]
  const head = JSON.stringify([tenantId, catalogueVersion, form, fallbacks ?? [], relevant])
  return hash("sha256", Buffer.concat([Buffer.from(`${head}\n`), bytes]), "base64url")
}

const lookupsThat = (result: "hit" | "miss") =>
  Metric.counter("app.gateway.cache.lookups", {
    description: "Calls that the response cache was asked for, by whether it had their answer",
    attributes: { result, unit: "{call}" },
    incremental: true
  })
const hits = lookupsThat("hit")
const misses = lookupsThat("miss")
const registry = Context.empty()

const countLookup = (isHit: boolean): Effect.Effect<void> =>
  Effect.sync(() => (isHit ? hits : misses).updateUnsafe(1, registry))

/** A stored answer: its bytes in the dialect of the caller. */
interface Kept {
  readonly bytes: Uint8Array
  readonly isStream: boolean
  readonly status: number
  readonly provider: string
  readonly model: string
  readonly usage: TokenUsage
  readonly costNanoUsd: bigint
  readonly until: number
}

/** The place of a call's answer in the cache. */
export interface CacheSlot {
  readonly find: Effect.Effect<CallAnswer | undefined>
  /** The answer to send on; it is stored when it has ended well. */
  keep(answer: CallAnswer, meter: UsageMeter): Effect.Effect<CallAnswer>
}

const maxBytes = 67_108_864
const largestAnswerBytes = 1_048_576

/**
 * Answers to equal requests of a tenant, byte for byte, where the model's configuration or the caller asks for it. In the
 * memory of this replica; the least recently used are evicted.
 */
export class ResponseCache extends Context.Service<
  ResponseCache,
  {
    /** Undefined where the call is not to be cached. */
    slot(call: CacheableCall, model: ServedModel, tenantId: TenantId, gateway: GatewaySnapshot): CacheSlot | undefined
  }
>()("app/gateway/ResponseCache") {
  static readonly layer = Layer.sync(ResponseCache, () => {
    const kept = new LRUCache<string, Kept>({
      maxSize: maxBytes,
      sizeCalculation: ({ bytes }) => Math.max(1, bytes.length)
    })

    const slot = (call: CacheableCall, tenantId: TenantId, { cache, catalogueVersion }: GatewaySnapshot): CacheSlot => {
      const key = cacheKey(call, tenantId, catalogueVersion)

      const find = Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const found = kept.get(key)
        if (found === undefined || found.until <= now) {
          kept.delete(key)
          return Effect.as(countLookup(false), undefined)
        }
        return Effect.as(countLookup(true), answerOf(found))
      })

      const store = (
        { report, status }: CallAnswer,
        bytes: Uint8Array,
        isStream: boolean,
        usage: TokenUsage,
        costNanoUsd: bigint
      ) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          if (bytes.length > largestAnswerBytes) return
          const { model, provider } = report
          const until = now + cache.ttlSeconds * 1000
          kept.set(key, { bytes, isStream, status, provider, model, usage, costNanoUsd, until })
          while (kept.size > cache.maxEntries) kept.pop()
        })

      const keep = (answer: CallAnswer, meter: UsageMeter): Effect.Effect<CallAnswer> => {
        const { body, report } = answer
        const missed = { ...answer, headers: { ...answer.headers, "x-cache": "miss" } }
        if (body instanceof Uint8Array) {
          if (!meter.endedWell || !call.format.hasContent(parsedJson(utf8Text(body)))) return Effect.succeed(missed)
          return Effect.as(store(answer, body, false, report.usage, report.costNanoUsd), missed)
        }
        const parts: Array<Uint8Array> = []
        let length = 0
        const gathered = Stream.map(body, (bytes) => {
          length += bytes.length
          if (length <= largestAnswerBytes) parts.push(bytes)
          return bytes
        })
        const ended = Effect.suspend(() =>
          meter.completedUsage === undefined || !meter.endedWell || !meter.hasSaid || length > largestAnswerBytes
            ? Effect.void
            : store(answer, Buffer.concat(parts), true, meter.completedUsage, report.costOf(meter.completedUsage))
        )
        return Effect.succeed({ ...missed, body: Stream.onEnd(gathered, ended) })
      }

      return { find, keep }
    }

    return ResponseCache.of({
      slot: (call, model, tenantId, gateway) =>
        (call.cache ?? model.cached) && call.format.answersBytes !== true ? slot(call, tenantId, gateway) : undefined
    })
  })
}

/** A stored answer, given again: it costs nothing, and has no reservation. */
const answerOf = ({ bytes, costNanoUsd, isStream, model, provider, status, usage }: Kept): CallAnswer => ({
  status,
  headers: {
    "content-type": isStream ? "text/event-stream" : "application/json",
    "x-cache": "hit",
    "x-cost-usd": "0"
  },
  body: isStream ? Stream.make(bytes) : bytes,
  report: {
    reservationId: null,
    provider,
    model,
    attempts: [],
    usage,
    costNanoUsd: 0n,
    savedNanoUsd: costNanoUsd,
    costOf: () => 0n,
    latencyMs: 0,
    upstreamLatencyMs: 0,
    cached: true
  }
})
