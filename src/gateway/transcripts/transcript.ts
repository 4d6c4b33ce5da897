import { Effect, Stream } from "effect"
import { utf8Text } from "../../kernel/utf8.ts"
import { type Said } from "./domain.ts"

const maxBytes = 1_048_576

/** The part of a response that the transcript stores. */
export class Transcript {
  private readonly parts: Array<Uint8Array> = []
  private length = 0

  private add(bytes: Uint8Array): void {
    if (this.length < maxBytes) this.parts.push(bytes.subarray(0, maxBytes - this.length))
    this.length += bytes.length
  }

  words({ dialect, operation, request }: Pick<Said, "dialect" | "operation"> & { readonly request: Uint8Array }): Said {
    return {
      dialect,
      operation,
      request: utf8Text(request.subarray(0, maxBytes)),
      response: utf8Text(Buffer.concat(this.parts)),
      truncated: request.length > maxBytes || this.length > maxBytes
    }
  }

  /** Passes a response on and records it; the record is stored when the response ends, even if the caller disconnects. */
  static of<A extends Uint8Array | Stream.Stream<Uint8Array>>(
    answer: A,
    keep: (transcript: Transcript) => Effect.Effect<void>
  ): Effect.Effect<A> {
    const transcript = new Transcript()
    if (answer instanceof Uint8Array) {
      transcript.add(answer)
      return Effect.as(keep(transcript), answer)
    }
    const heard = Stream.map(answer as Stream.Stream<Uint8Array>, (bytes) => {
      transcript.add(bytes)
      return bytes
    })
    return Effect.succeed(
      Stream.ensuring(
        heard,
        Effect.suspend(() => keep(transcript))
      ) as Stream.Stream<Uint8Array> as A
    )
  }
}
