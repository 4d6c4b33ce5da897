import { type Answerer, json, sse } from "./provider.ts"

/** A pixel, in base64. */
export const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

/** What an image of the stand-in uses, of text and of images. */
export const imageUsage = { text: 12, image: 30, output: 1056 }

const sizes = new Set([undefined, "auto", "1024x1024", "1024x1536", "1536x1024"])
const qualities = new Set([undefined, "auto", "low", "medium", "high"])

/** The first fault of a request for images, as OpenAI has them; undefined if it has none. */
const imageFault = (body: Readonly<Record<string, unknown>>, isEdit: boolean): string | undefined => {
  const { n = 1, partial_images: partial, prompt, quality, response_format: format, size, stream } = body
  if (typeof prompt !== "string" || prompt === "" || prompt.length > 32_000) return "Invalid prompt"
  if (typeof body.model !== "string") return "you must provide a model parameter"
  if (!Number.isInteger(n) || Number(n) < 1 || Number(n) > 10) return "Invalid n"
  if (partial !== undefined && (stream !== true || !(Number(partial) >= 0 && Number(partial) <= 3))) {
    return "Invalid partial_images"
  }
  if (format !== undefined) return "Unknown parameter: 'response_format'."
  if (!sizes.has(size as string | undefined)) return "Invalid size"
  if (!qualities.has(quality as string | undefined)) return "Invalid quality"
  if (isEdit && body.image === undefined && body["image[]"] === undefined) return "Missing required parameter: 'image'."
  return undefined
}

const numbers = new Set(["n", "partial_images", "output_compression"])

/** The fields of a form as JSON has them. */
const typed = (form: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(form).map(([name, value]) => {
      if (numbers.has(name)) return [name, Number(value)]
      return [name, value === "true" || value === "false" ? value === "true" : value]
    })
  )

/** OpenAI's images, as its reference describes those of GPT Image models. */
export const imageVendor: Answerer = ({ body: received, headers, path }, response) => {
  const isEdit = path.endsWith("/edits")
  // OpenAI takes edits as forms.
  if (isEdit !== headers["content-type"]?.startsWith("multipart/form-data")) return json(response, 415, { error: {} })
  // oxlint-disable-next-line typescript/no-explicit-any -- a request of any shape
  const body: any = isEdit ? typed(received) : received
  const fault = imageFault(body, isEdit)
  if (fault !== undefined) {
    const error = { message: fault, type: "invalid_request_error", param: null, code: null }
    return json(response, 400, { error })
  }
  const { n = 1, partial_images: partial = 0 } = body
  const image = isEdit ? imageUsage.image : 0
  const usageOf = (made: number, extra = 0) => ({
    input_tokens: made * (imageUsage.text + image),
    input_tokens_details: { text_tokens: made * imageUsage.text, image_tokens: made * image },
    output_tokens: made * imageUsage.output + extra,
    total_tokens: made * (imageUsage.text + image + imageUsage.output) + extra
  })
  const described = { background: "opaque", output_format: "png", quality: "medium", size: "1024x1024" }
  if (body.stream !== true) {
    const data = Array.from({ length: n }, () => ({ b64_json: pixel }))
    return json(response, 200, { created: 1_700_000_000, ...described, data, usage: usageOf(n) })
  }
  const name = isEdit ? "image_edit" : "image_generation"
  const event = (type: string, members: object) => {
    const value = { type: `${name}.${type}`, b64_json: pixel, created_at: 1_700_000_000, ...described, ...members }
    return `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`
  }
  const parts = Array.from({ length: partial }, (_, index) => event("partial_image", { partial_image_index: index }))
  sse(response, [...parts, event("completed", { usage: usageOf(1, 100 * partial) })])
  response.end()
}

/** What a transcription of the stand-in says and uses. */
export const transcribed = { text: "It is noon in Oslo.", audio: 14, textTokens: 2, output: 45, seconds: 9 }

const formats: Readonly<Record<string, ReadonlySet<unknown>>> = {
  "whisper-1": new Set([undefined, "json", "text", "srt", "verbose_json", "vtt"]),
  "gpt-4o-transcribe": new Set([undefined, "json"])
}

/** OpenAI's transcriptions: `whisper-1` is sold by the second, and does not stream. */
export const transcriptionVendor: Answerer = ({ body, headers }, response) => {
  if (headers["content-type"]?.startsWith("multipart/form-data") !== true) return json(response, 415, { error: {} })
  const { file, model, response_format: format, stream } = body
  const fault = (message: string) =>
    json(response, 400, { error: { message, type: "invalid_request_error", param: null, code: null } })
  if (!(file?.bytes instanceof Buffer) || file.bytes.length === 0) return fault("Audio file is missing")
  if (formats[model]?.has(format) !== true) return fault(`response_format '${format}' is not compatible with model`)
  const { audio, output, seconds, text, textTokens } = transcribed
  const isByTime = model === "whisper-1"
  const usage = isByTime
    ? { type: "duration", seconds }
    : {
        type: "tokens",
        input_tokens: audio + textTokens,
        input_token_details: { audio_tokens: audio, text_tokens: textTokens },
        output_tokens: output,
        total_tokens: audio + textTokens + output
      }
  if (stream === "true" && !isByTime) {
    const deltas = text.split(/(?= )/).map((delta) => ({ type: "transcript.text.delta", delta }))
    sse(response, [...deltas, { type: "transcript.text.done", text, usage }])
    return response.end()
  }
  if (format === "text") return response.writeHead(200, { "content-type": "text/plain" }).end(`${text}\n`)
  const segments = [
    { id: 0, start: 0, end: 4.5, text: " It is noon" },
    { id: 1, start: 4.5, end: 3661.25, text: " in --> Oslo." }
  ]
  json(response, 200, {
    text,
    ...(format === "verbose_json" ? { task: "transcribe", language: "english", duration: 8.47, segments } : {}),
    usage
  })
}

/** The head of a WAV file with uncompressed audio, or what says so. */
export const wav = ({ bits = 16, channels = 1, rate = 16_000, tag = 1 }): Buffer => {
  const head = Buffer.alloc(44)
  head.write("RIFF\0\0\0\0WAVEfmt ", "latin1")
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(tag, 20)
  head.writeUInt16LE(channels, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt16LE(bits, 34)
  head.write("data", 36, "latin1")
  return head
}
