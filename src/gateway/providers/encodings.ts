import { Effect } from "effect"
import * as zlib from "node:zlib"
import { type ProviderAnswer, type ProviderFailure } from "./provider.ts"
import { bad, failure } from "./transport-failures.ts"

type Decode = (
  bytes: Uint8Array,
  options: { readonly maxOutputLength: number },
  told: (error: Error | null, decoded: Buffer) => void
) => void

const decoders: Readonly<Record<string, Decode>> = {
  gzip: zlib.gunzip,
  "x-gzip": zlib.gunzip,
  deflate: zlib.inflate,
  br: zlib.brotliDecompress,
  zstd: zlib.zstdDecompress
}

const unreadable = failure(
  "broken-off",
  bad(502, "The provider's answer is encoded as nobody asked for, and cannot be read.", "provider-error"),
  true
)

/**
 * An answer without its content coding: nobody asks for any, and some providers, or proxies before them, use one all the
 * same (RFC 9110, section 8.4). A stream in one cannot be read as it comes.
 */
export const decoded = (answer: ProviderAnswer, maxBytes: number): Effect.Effect<ProviderAnswer, ProviderFailure> => {
  const coding = answer.headers["content-encoding"]?.trim().toLowerCase()
  if (coding === undefined || coding === "" || coding === "identity") return Effect.succeed(answer)
  const decode = decoders[coding]
  const { body } = answer
  if (decode === undefined || !(body instanceof Uint8Array)) return Effect.fail(unreadable)
  return Effect.callback((resume) =>
    decode(body, { maxOutputLength: maxBytes }, (error, bytes) =>
      resume(error === null ? Effect.succeed({ ...answer, body: bytes }) : Effect.fail(unreadable))
    )
  )
}
