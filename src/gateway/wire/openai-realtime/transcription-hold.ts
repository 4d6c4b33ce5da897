import { Clock, Deferred, Effect, type Fiber, Semaphore } from "effect"
import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type GivenBody } from "../../formats/format.ts"
import {
  type ProviderAnswer,
  type ProviderFailure,
  type ProviderRequest,
  type Sender
} from "../../providers/provider.ts"
import { bad, failure } from "../../providers/transport-failures.ts"

/** Seconds of audio that are held for at a time, and what each of them may be cut into. */
const heldSeconds = 300
const maxItems = 8

/** A request for the transcription of seconds of audio. */
export const transcriptionOf = (model: string, seconds: number): GivenBody => {
  const body = { model, seconds, pieces: maxItems }
  return { body, bytes: Buffer.from(JSON.stringify(body)) }
}

/** What remains of the time of a request when it is answered with what is known. */
const marginMillis = 5000

const nothing = failure("status", bad(400, "Nothing was transcribed.", "nothing_transcribed"), false)

const numberIn = (value: unknown): number => (typeof value === "number" && value > 0 ? value : 0)

/** The sum of what transcriptions used: seconds of some models, tokens of others. */
class Used {
  private seconds = 0
  private readonly tokens = { input: 0, output: 0, text: 0, audio: 0 }

  /** `itemSeconds`: the length of what was transcribed, where no usage is reported. */
  add(usage: unknown, itemSeconds: number): void {
    if (!isJson(usage)) {
      this.seconds += itemSeconds
      return
    }
    const details = isJson(usage.input_token_details) ? usage.input_token_details : {}
    this.seconds += numberIn(usage.seconds)
    this.tokens.input += numberIn(usage.input_tokens)
    this.tokens.output += numberIn(usage.output_tokens)
    this.tokens.text += numberIn(details.text_tokens)
    this.tokens.audio += numberIn(details.audio_tokens)
  }

  /** As an answer of a transcription reports it; undefined if nothing was used. */
  get reported(): Json | undefined {
    const { audio, input, output, text } = this.tokens
    if (input + output > 0) {
      return {
        type: "tokens",
        input_tokens: input,
        output_tokens: output,
        total_tokens: input + output,
        input_token_details: { text_tokens: text, audio_tokens: audio }
      }
    }
    return this.seconds > 0 ? { type: "duration", seconds: this.seconds } : undefined
  }
}

/** A request for the transcription of audio that is still to be said: it is held for, and answered once that is over. */
class Block implements Sender {
  /** Done once the cost is held. */
  readonly held = Deferred.makeUnsafe<boolean>()
  readonly used = new Used()
  /** Bytes that may still be sent. */
  left: number
  /** Bytes of the audio that is no item yet, as far as they are held for. */
  uncommitted = 0
  items = 0
  endsAt = Infinity
  isOver = false
  fiber: Fiber.Fiber<unknown, unknown> | undefined
  private readonly over = Deferred.makeUnsafe<void>()

  constructor(bytes: number) {
    this.left = bytes
  }

  readonly send = Effect.fnUntraced(
    { self: this },
    function* (
      this: Block,
      { deadline = Infinity }: ProviderRequest
    ): Effect.fn.Return<ProviderAnswer, ProviderFailure> {
      const now = yield* Clock.currentTimeMillis
      this.endsAt = deadline - marginMillis
      yield* Deferred.succeed(this.held, true)
      yield* Effect.timeoutOption(Deferred.await(this.over), Math.max(0, this.endsAt - now))
      this.isOver = true
      const { reported } = this.used
      if (reported === undefined) return yield* nothing
      const body = Buffer.from(JSON.stringify({ text: "", usage: reported }))
      return { status: 200, headers: { "content-type": "application/json" }, body }
    }
  )

  get end(): Effect.Effect<unknown> {
    return Deferred.succeed(this.over, undefined)
  }

  /** Whether what more is used would be charged. */
  get isUsable(): Effect.Effect<boolean> {
    return Effect.map(Clock.currentTimeMillis, (now) => this.items < maxItems && now < this.endsAt - marginMillis)
  }
}

/** Serves the request of a block; `held` is false once it is refused. */
export type ServeBlock = (
  given: GivenBody,
  via: Sender,
  held: Deferred.Deferred<boolean>
) => Fiber.Fiber<unknown, unknown>

/**
 * What the transcription of a session's audio may cost, held before the audio is sent on: the provider transcribes what is
 * committed without being asked, and says later what that used.
 */
export class TranscriptionHold {
  /** By the name of the model, which has its own price. */
  private readonly blocks = new Map<string, Block>()
  /** The bytes of audio that are no item yet. */
  private uncommitted = 0
  /** The items that were not reported. */
  private readonly items = new Map<unknown, { readonly model: string; readonly bytes: number }>()
  private isEnding = false
  private readonly serve: ServeBlock
  private readonly oneAtATime = Semaphore.makeUnsafe(1)

  constructor(serve: ServeBlock) {
    this.serve = serve
  }

  /** Makes room for the audio that is no item yet, with bytes more, to be transcribed by a model; false where it has none. */
  reserve(model: string | undefined, bytes: number, bytesPerSecond: number): Effect.Effect<boolean> {
    if (model === undefined) {
      this.uncommitted += bytes
      return Effect.succeed(true)
    }
    return this.oneAtATime.withPermit(this.reserveOne(model, bytes, bytesPerSecond))
  }

  private readonly reserveOne = Effect.fnUntraced(
    { self: this },
    function* (this: TranscriptionHold, model: string, bytes: number, bytesPerSecond: number) {
      const before = this.blocks.get(model)
      let block = before
      const isUsable = yield* before?.isUsable ?? Effect.succeed(false)
      if (block === undefined || !isUsable || block.left < this.uncommitted + bytes - block.uncommitted) {
        const open = this.unreported(model)
        const seconds = Math.max(heldSeconds, Math.ceil((open + this.uncommitted + bytes) / bytesPerSecond))
        block = new Block(seconds * bytesPerSecond - open)
        block.fiber = this.serve(transcriptionOf(model, seconds), block, block.held)
        if (!(yield* Deferred.await(block.held))) return false
        this.blocks.set(model, block)
        yield* before?.end ?? Effect.void
      }
      this.uncommitted += bytes
      block.left -= this.uncommitted - block.uncommitted
      block.uncommitted = this.uncommitted
      return true
    }
  )

  /** Makes room for the audio that is no item yet, if there is any. */
  renew(model: string | undefined, bytesPerSecond: number): Effect.Effect<boolean> {
    return this.uncommitted === 0 ? Effect.succeed(true) : this.reserve(model, 0, bytesPerSecond)
  }

  /** The audio so far became an item, which a model transcribes if one is named. */
  committed(itemId: unknown, model: string | undefined): void {
    if (model !== undefined) {
      this.items.set(itemId, { model, bytes: this.uncommitted })
      const block = this.blocks.get(model)
      if (block !== undefined) block.items += 1
    }
    this.cleared()
  }

  /** The audio so far was dropped. */
  cleared(): void {
    this.uncommitted = 0
    for (const block of this.blocks.values()) block.uncommitted = 0
  }

  /** An item was transcribed, or could not be. */
  readonly reported = Effect.fnUntraced(
    { self: this },
    function* (this: TranscriptionHold, itemId: unknown, usage: Json | null | undefined, bytesPerSecond: number) {
      const item = this.items.get(itemId)
      if (item === undefined) return
      const { bytes, model } = item
      // What is reported after its block has ended is charged to another one.
      if (usage !== undefined && this.blocks.get(model)?.isOver === true) {
        yield* this.reserve(model, 0, bytesPerSecond)
      }
      this.items.delete(itemId)
      if (usage !== undefined) this.blocks.get(model)?.used.add(usage, bytes / bytesPerSecond)
      if (this.items.size === 0 && this.isEnding) yield* this.end
    }
  )

  /** Charges what was used once all items are reported. */
  get leave(): Effect.Effect<unknown> {
    this.isEnding = true
    return this.items.size === 0 ? this.end : Effect.void
  }

  /** Charges what was used so far. */
  get end(): Effect.Effect<unknown> {
    const blocks = [...this.blocks.values()]
    this.blocks.clear()
    return Effect.forEach(blocks, ({ end }) => end, { discard: true })
  }

  /** The requests that are in progress. */
  get fibers(): ReadonlyArray<Fiber.Fiber<unknown, unknown>> {
    return [...this.blocks.values()].flatMap(({ fiber = undefined }) => (fiber === undefined ? [] : [fiber]))
  }

  private unreported(of: string): number {
    return [...this.items.values()].reduce((sum, { bytes, model }) => sum + (model === of ? bytes : 0), 0)
  }
}
