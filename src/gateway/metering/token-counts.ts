import { Context, Effect, Layer, Option } from "effect"
import { makeWorkerProcess } from "../../platform/runtime/worker-process.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type TokenEncoding } from "../formats/traits-domain.ts"

/** A message to the worker process. */
export interface CountRequest {
  readonly encoding: TokenEncoding
  readonly texts: ReadonlyArray<string>
}

/** The time limit of a count: a single message of whitespace would take seconds. */
const deadline = "50 millis"
const maxBytes = 262_144
const module = new URL("./token-count-worker.ts", import.meta.url)
/** Loading an encoding takes half a second of a fast processor. */
const seconds = 5
const megabytes = 256

export const encodingOf = ({ traits }: Pick<ModelTarget, "traits">): TokenEncoding | undefined => traits.tokenizer

/** The tokenizer that all of these targets share; undefined if they differ, or if one is unknown. */
export const encodingOfAll = (targets: ReadonlyArray<ModelTarget>): TokenEncoding | undefined => {
  const [first, ...others] = new Set(targets.map(encodingOf))
  return others.length === 0 ? first : undefined
}

/** Counts tokens with a model's own tokenizer, in a worker process, because hostile texts take long. */
export class TokenCounts extends Context.Service<
  TokenCounts,
  {
    /** None if counting takes too long, or if the tokenizer is still loading. The parties in `forWhom` take turns. */
    count(forWhom: string, request: CountRequest): Effect.Effect<Option.Option<number>>
    /** The same with a target's tokenizer, if that is known. */
    countFor(forWhom: string, target: ModelTarget, texts: ReadonlyArray<string>): Effect.Effect<Option.Option<number>>
  }
>()("app/gateway/TokenCounts") {
  static readonly layer = Layer.effect(
    TokenCounts,
    Effect.gen(function* () {
      const ask = yield* makeWorkerProcess<CountRequest, number>({ module, seconds, megabytes })
      const scope = yield* Effect.scope
      const loaded = new Set<TokenEncoding>()
      const loading = new Set<TokenEncoding>()

      const load = (encoding: TokenEncoding) =>
        Effect.suspend(() => {
          if (loading.has(encoding)) return Effect.void
          loading.add(encoding)
          return ask("", { encoding, texts: [] }).pipe(
            Effect.tap(() => Effect.sync(() => loaded.add(encoding))),
            Effect.ignore,
            Effect.ensuring(Effect.sync(() => loading.delete(encoding))),
            Effect.forkIn(scope)
          )
        })

      const count = Effect.fn("TokenCounts.count")(function* (forWhom: string, request: CountRequest) {
        const bytes = request.texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
        if (bytes > maxBytes) return Option.none<number>()
        if (!loaded.has(request.encoding)) {
          yield* load(request.encoding)
          return Option.none<number>()
        }
        const counted = yield* Effect.timeoutOption(Effect.option(ask(forWhom, request)), deadline)
        // A timeout ends the process, and its successor has to load every encoding again.
        if (Option.isNone(Option.flatten(counted))) loaded.clear()
        return Option.flatten(counted)
      })

      return TokenCounts.of({
        count,
        countFor: (forWhom, target, texts) => {
          const encoding = encodingOf(target)
          return encoding === undefined ? Effect.succeedNone : count(forWhom, { encoding, texts })
        }
      })
    })
  )
}
