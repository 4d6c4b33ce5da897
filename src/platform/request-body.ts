import { type ByteSize, Effect } from "effect"
import { type Headers, HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"

/**
 * Whether a body is refused by what its Content-Length declares, in bytes: so that nobody sends, and no request waits
 * for, what will not be taken.
 */
export const declaresMoreThan = (headers: Headers.Headers, most: number | ByteSize.ByteSize | undefined): boolean =>
  most !== undefined && Number(headers["content-length"] ?? 0) > Number(most)

const decoder = new TextDecoder()
const noJson = "\0"

/**
 * Reads a JSON body that is not UTF-8 as what is no JSON (RFC 8259 §8.1); taken leniently, its bytes would be kept as other
 * text than was sent.
 */
export const inUtf8 = <A, E, R>(
  httpEffect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R | HttpServerRequest.HttpServerRequest> =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
    // A request made of this one, as a prototype or a copy, would cost a twentieth of the time of a small POST.
    Object.defineProperty(request, "text", {
      configurable: true,
      value: Effect.map(request.arrayBuffer, (bytes) =>
        isUtf8(new Uint8Array(bytes)) ? decoder.decode(bytes) : noJson
      )
    })
    return httpEffect
  })
