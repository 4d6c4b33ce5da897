import { Clock, Context, Effect, Layer, Option } from "effect"
import { createHash } from "node:crypto"
import { isJson, listIn, parsedJson, type Json } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type Counting, type WireFormat } from "../formats/format.ts"

/** A request as a target would get it, in a format whose providers count. */
export interface CountableRequest {
  readonly format: WireFormat
  readonly body: Json
  readonly headers: Readonly<Record<string, string>>
  /** The one provider that would get the request like this, because each gets back what its own models attached to it. */
  readonly onlyProvider?: string | undefined
}

/** A request in the names of what is counted; undefined where that is not all that the model reads of it. */
const countedWhole = ({ idle, list, members, read }: Counting, request: CountableRequest) => {
  const body = read === undefined ? request.body : read(request.body)
  const isWhole = (member: string) => member === list || members.includes(member) || idle.includes(member)
  return body !== undefined && Object.keys(body).every(isWhole) ? { ...request, body } : undefined
}

/** How a target's provider counts requests of a format; undefined if it does not. */
export const countingAt = (
  { apis, provider }: ModelTarget,
  { api, counting, dialect }: WireFormat
): Counting | undefined => (provider.speaks.dialect === dialect && apis.has(api) ? counting : undefined)

const deadline = "1 second"
const deadlineMs = 1000
/** Counts are kept in memory, the oldest going first. */
const maxKept = 10_000
const unsupported = new Set<number | undefined>([404, 405, 501])
/** For so long a provider that does not count is not asked again. */
const restMs = 300_000
/** A count is an estimate, which the provider says may differ a little from what it charges. */
const margin = (tokens: number): number => tokens + Math.ceil(tokens / 50) + 100
/** What follows a prefix that is known is bounded by its bytes, if it is at most this part of it. */
const mostSuffix = 0.25
const perMessage = 16

/** Has the provider count a request, which is free, and remembers the counts of conversations by the hashes of their prefixes. */
export class ProviderCounts extends Context.Service<
  ProviderCounts,
  {
    /** The request's tokens as its provider counts them; none if it does not, or not in time. */
    exact(target: ModelTarget, request: CountableRequest): Effect.Effect<Option.Option<number>>
    /** An upper bound of the request's tokens, with its images and documents; none if it cannot be counted in time. */
    count(target: ModelTarget, request: CountableRequest): Effect.Effect<Option.Option<number>>
  }
>()("app/gateway/ProviderCounts") {
  static readonly layer = Layer.effect(
    ProviderCounts,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const kept = new Map<string, number>()
      const resting = new Map<string, number>()

      const remember = (key: string, tokens: number) => {
        const [oldest] = kept.size < maxKept ? [] : kept.keys()
        if (oldest !== undefined) kept.delete(oldest)
        kept.set(key, tokens)
      }

      const ask = (
        { model, provider: { id, provider } }: ModelTarget,
        { format, list, members, request: written, tokensIn }: Counting,
        { body, headers }: CountableRequest
      ) => {
        const given = [list, ...members].flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]]))
        const request = JSON.stringify(written(Object.fromEntries(given), model))
        const now = clock.currentTimeMillisUnsafe()
        return Effect.scoped(
          provider.send({ format, model, streams: false, body: request, headers, deadline: now + deadlineMs })
        ).pipe(
          Effect.map(({ body: answer }) => {
            const value = answer instanceof Uint8Array ? parsedJson(utf8Text(answer)) : undefined
            const tokens = isJson(value) ? tokensIn(value) : 0
            return tokens > 0 ? Option.some(tokens) : Option.none<number>()
          }),
          Effect.timeoutOrElse({
            duration: deadline,
            orElse: () => Effect.fail({ received: undefined, reason: "timeout" as const })
          }),
          Effect.catch(({ reason, received }) =>
            Effect.sync(() => {
              // A request that it refuses says nothing of other requests.
              const countsNone = reason === "timeout" || reason === "connection" || unsupported.has(received)
              if (countsNone) resting.set(id, clock.currentTimeMillisUnsafe() + restMs)
              return Option.none<number>()
            })
          )
        )
      }

      const exact = Effect.fn("ProviderCounts.exact")(function* (target: ModelTarget, request: CountableRequest) {
        const rests = (resting.get(target.provider.id) ?? 0) > clock.currentTimeMillisUnsafe()
        const counting = countingAt(target, request.format)
        return rests || counting === undefined ? Option.none<number>() : yield* ask(target, counting, request)
      })

      const countOne = Effect.fn("ProviderCounts.count")(function* (target: ModelTarget, request: CountableRequest) {
        const counting = countingAt(target, request.format)
        const whole = counting && countedWhole(counting, request)
        if (counting === undefined || whole === undefined) return Option.none<number>()
        const { keys, sizes } = prefixesOf(target, counting, whole)
        let suffix = 0
        for (let place = keys.length - 1; place >= 0; place--) {
          const known = kept.get(keys[place] ?? "")
          if (known !== undefined && suffix <= known * mostSuffix) return Option.some(margin(known) + suffix)
          suffix += (sizes[place] ?? 0) + perMessage
        }
        const tokens = yield* exact(target, whole)
        if (Option.isSome(tokens)) remember(keys.at(-1) ?? "", tokens.value)
        return Option.map(tokens, margin)
      })

      return ProviderCounts.of({ count: countOne, exact })
    })
  )
}

/** What is more tokens than bytes: images, files, and references to either, in any format. */
const notBoundByBytes =
  /"type":"(?:image|document|input_image|input_file|item_reference|computer_call_output|image_generation_call)"|"(?:inlineData|fileData)":/

/**
 * The hashes of a request up to each of its messages or items, with the bytes of each. Images and files need a count of
 * their own.
 */
const prefixesOf = (
  { model, provider }: ModelTarget,
  { format, list, members }: Counting,
  { body, headers }: CountableRequest
) => {
  const hash = createHash("sha256")
  hash.update(
    JSON.stringify([
      provider.id,
      model,
      format.operation,
      headers["anthropic-beta"] ?? null,
      ...members.map((name) => body[name] ?? null)
    ])
  )
  const keys: Array<string> = []
  const sizes: Array<number> = []
  const given = body[list]
  for (const message of typeof given === "string" ? [given] : listIn(given)) {
    const text = JSON.stringify(message)
    hash.update(`\n${text}`)
    keys.push(hash.copy().digest("base64"))
    sizes.push(notBoundByBytes.test(text) ? Infinity : Buffer.byteLength(text))
  }
  return { keys, sizes }
}
