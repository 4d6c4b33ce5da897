import { Clock, Deferred, Effect, type Fiber } from "effect"
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
  items = 0
  endsAt = Infinity
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
      const { reported } = this.used
      if (reported === undefined) return yield* nothing
      const body = Buffer.from(JSON.stringify({ text: "", usage: reported }))
      return { status: 200, headers: { "content-type": "application/json" }, body }
    }
  )

  get end(): Effect.Effect<unknown> {
    return Deferred.succeed(this.over, undefined)
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
  private block: Block | undefined
  /** The bytes of audio that are no item yet, and of the items that were not reported. */
  private uncommitted = 0
  private readonly items = new Map<unknown, number>()
  private isEnding = false
  private readonly serve: ServeBlock

  constructor(serve: ServeBlock) {
    this.serve = serve
  }

  /** Makes room for bytes of audio to be transcribed by a model; false where they may not be sent. */
  readonly reserve = Effect.fnUntraced(
    { self: this },
    function* (this: TranscriptionHold, model: string | undefined, bytes: number, bytesPerSecond: number) {
      const now = yield* Clock.currentTimeMillis
      const { block: before } = this
      const hasRoom =
        before !== undefined && before.left >= bytes && before.items < maxItems && now < before.endsAt - marginMillis
      if (model !== undefined && !hasRoom) {
        const open = this.unreported
        const seconds = Math.max(heldSeconds, Math.ceil((open + bytes) / bytesPerSecond))
        const block = new Block(seconds * bytesPerSecond - open)
        block.fiber = this.serve(transcriptionOf(model, seconds), block, block.held)
        if (!(yield* Deferred.await(block.held))) return false
        this.block = block
        yield* before?.end ?? Effect.void
      }
      if (this.block !== undefined) this.block.left -= bytes
      this.uncommitted += bytes
      return true
    }
  )

  /** The audio so far became an item. */
  committed(itemId: unknown, isTranscribed: boolean): void {
    if (isTranscribed) {
      this.items.set(itemId, this.uncommitted)
      if (this.block !== undefined) this.block.items += 1
    }
    this.uncommitted = 0
  }

  /** The audio so far was dropped. */
  cleared(): void {
    this.uncommitted = 0
  }

  /** An item was transcribed, or could not be. */
  reported(itemId: unknown, usage: Json | null | undefined, bytesPerSecond: number): Effect.Effect<unknown> {
    const bytes = this.items.get(itemId)
    if (bytes === undefined) return Effect.void
    this.items.delete(itemId)
    if (usage !== undefined) this.block?.used.add(usage, bytes / bytesPerSecond)
    return this.items.size === 0 && this.isEnding ? this.end : Effect.void
  }

  /** Charges what was used once all items are reported. */
  get leave(): Effect.Effect<unknown> {
    this.isEnding = true
    return this.items.size === 0 ? this.end : Effect.void
  }

  /** Charges what was used so far. */
  get end(): Effect.Effect<unknown> {
    const { block } = this
    this.block = undefined
    return block?.end ?? Effect.void
  }

  /** The request that is in progress, if there is one. */
  get fiber(): Fiber.Fiber<unknown, unknown> | undefined {
    return this.block?.fiber
  }

  private get unreported(): number {
    return [...this.items.values()].reduce((sum, bytes) => sum + bytes, this.uncommitted)
  }
}
