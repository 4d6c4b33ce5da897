import { Clock, Context, Effect, Layer, Stream } from "effect"
import { type Dialect, type TokenUsage } from "../translation/domain.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type CallAnswer } from "./call-answers.ts"
import { type Cacheable, cacheKey } from "./cache-key.ts"
import { type UsageMeter } from "../metering/usage-meter.ts"
import { cacheLooked } from "./cache-metrics.ts"
import { type GatewaySnapshot, type ServedModel } from "../configuration/gateway-snapshot.ts"

/** An answer as it is kept: its bytes in the dialect that was asked in. */
interface Kept {
  readonly bytes: Uint8Array
  readonly isStream: boolean
  readonly status: number
  readonly provider: string
  readonly model: string
  readonly usage: TokenUsage
  readonly dialect: Dialect
  readonly until: number
}

/** The place of a call's answer in the cache. */
export interface CacheSlot {
  readonly find: Effect.Effect<CallAnswer | undefined>
  /** The answer as it is handed on; it is kept once its end is there, and only if that is a good one. */
  keep(answer: CallAnswer, meter: UsageMeter): Effect.Effect<CallAnswer>
}

const maxBytes = 67_108_864
const largestAnswerBytes = 1_048_576

/**
 * Answers that were given before, to the same question of the same tenant: byte for byte the same body, asked for by the
 * model's configuration or the caller. In the memory of this replica; what was asked least lately makes room.
 */
export class ResponseCache extends Context.Service<
  ResponseCache,
  {
    /** Undefined where the call is not to be cached. */
    slot(call: Cacheable, model: ServedModel, tenantId: TenantId, gateway: GatewaySnapshot): CacheSlot | undefined
  }
>()("app/gateway/ResponseCache") {
  static readonly layer = Layer.sync(ResponseCache, () => {
    const kept = new Map<string, Kept>()
    let bytesKept = 0

    const drop = (key: string): void => {
      bytesKept -= kept.get(key)?.bytes.length ?? 0
      kept.delete(key)
    }

    const put = (key: string, answer: Kept, maxEntries: number): void => {
      drop(key)
      kept.set(key, answer)
      bytesKept += answer.bytes.length
      // The first is the one that was used least lately.
      for (const [oldest] of kept) {
        if (kept.size <= maxEntries && bytesKept <= maxBytes) break
        drop(oldest)
      }
    }

    const slot = (call: Cacheable, tenantId: TenantId, { cache, catalogueVersion }: GatewaySnapshot): CacheSlot => {
      const key = cacheKey(call, tenantId, catalogueVersion)

      const find = Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const found = kept.get(key)
        if (found !== undefined && found.until <= now) drop(key)
        if (found === undefined || found.until <= now) return Effect.as(cacheLooked(false), undefined)
        kept.delete(key)
        kept.set(key, found)
        return Effect.as(cacheLooked(true), answerOf(found))
      })

      const store = ({ report, status }: CallAnswer, bytes: Uint8Array, isStream: boolean, usage: TokenUsage) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          if (bytes.length > largestAnswerBytes) return
          const { model, provider } = report
          const until = now + cache.ttlSeconds * 1000
          put(key, { bytes, isStream, status, provider, model, usage, dialect: call.dialect, until }, cache.maxEntries)
        })

      const keep = (answer: CallAnswer, meter: UsageMeter): Effect.Effect<CallAnswer> => {
        const { body, report } = answer
        const told = { ...answer, headers: { ...answer.headers, "x-cache": "miss" } }
        if (body instanceof Uint8Array) return Effect.as(store(answer, body, false, report.usage), told)
        const parts: Array<Uint8Array> = []
        let length = 0
        const gathered = Stream.map(body, (bytes) => {
          length += bytes.length
          if (length <= largestAnswerBytes) parts.push(bytes)
          return bytes
        })
        const ended = Effect.suspend(() =>
          meter.completedWith === undefined || length > largestAnswerBytes
            ? Effect.void
            : store(answer, Buffer.concat(parts), true, meter.completedWith)
        )
        return Effect.succeed({ ...told, body: Stream.onEnd(gathered, ended) })
      }

      return { find, keep }
    }

    return ResponseCache.of({
      slot: (call, model, tenantId, gateway) =>
        (call.cache ?? model.cached) ? slot(call, tenantId, gateway) : undefined
    })
  })
}

/** A kept answer as it is given again: it costs nothing, and no reservation stands behind it. */
const answerOf = ({ bytes, isStream, model, provider, status, usage }: Kept): CallAnswer => ({
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
    costOf: () => 0n,
    latencyMs: 0,
    upstreamLatencyMs: 0,
    cached: true
  }
})
