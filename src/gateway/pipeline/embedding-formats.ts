import { isJson } from "../../kernel/parsed-json.ts"

/** Where the first vector of an answer begins, if it is one of numbers. */
const numbers = /"embedding"\s*:\s*\[/
const longestHead = 4096

const inBase64 = (item: unknown): unknown =>
  isJson(item) && Array.isArray(item.embedding)
    ? { ...item, embedding: Buffer.from(Float32Array.from(item.embedding.map(Number)).buffer).toString("base64") }
    : item

/** Vectors in base64, which OpenAI's SDK asks for by itself and reads nothing else as, whatever its provider answers. */
export const vectorsInBase64 = (answer: Uint8Array): Uint8Array => {
  if (!numbers.test(Buffer.from(answer.subarray(0, longestHead)).toString("latin1"))) return answer
  try {
    const body: unknown = JSON.parse(Buffer.from(answer).toString("utf8"))
    if (!isJson(body) || !Array.isArray(body.data)) return answer
    return new TextEncoder().encode(JSON.stringify({ ...body, data: body.data.map(inBase64) }))
  } catch {
    return answer
  }
}
