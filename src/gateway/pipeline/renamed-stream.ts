import { parsedJson } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { type Renaming } from "../json/kept-ids.ts"

const nothing = new Uint8Array()
const utf8 = new TextEncoder()

/** An event with the empty line after it, and what comes after the last one. */
const blocks = /[^]*?(?:\r\n|\n|\r(?!\n)){2}|[^]+$/g
const lines = /[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$/g
const data = /^\uFEFF?data(?:: ?|[\r\n]|$)/

/** Where the last event in these bytes ends, with the empty line after it. */
const endOfEvents = (bytes: Buffer): number => {
  const ends = ["\n\n", "\r\r", "\n\r"].map((end) => bytes.lastIndexOf(end) + 2)
  const last = Math.max(...ends)
  return last < 2 ? 0 : bytes[last - 1] === 0x0d && bytes[last] === 0x0a ? last + 1 : last
}

/** Members that may have an id as their value, objects that may have a member `id`, and parts that are rewritten. */
const named = /_ids?"|"container|"conversation|_stores?"|"type"\s*:\s*"thinking"/
const plain = /"(?!(?:content_block|delta|function|user|error|usage)")[^"\\]*"\s*:\s*\{/

/** Whether an event has to be parsed to find what it has of these; quotes within texts are escaped. */
const mayHaveIds = (text: string): boolean => named.test(text) || (text.includes('"id"') && plain.test(text))

/**
 * Events of a stream that pass byte for byte, but for those with an id of what their provider keeps. Bytes are held back
 * until their event has ended; one that breaks off does not pass.
 */
export class RenamedStream {
  private held: Uint8Array = nothing
  private readonly rename: Renaming

  constructor(rename: Renaming) {
    this.rename = rename
  }

  push(bytes: Uint8Array): Uint8Array {
    const all = Buffer.concat([this.held, bytes])
    const end = endOfEvents(all)
    this.held = all.subarray(end)
    return this.renamed(all.subarray(0, end))
  }

  /** The last event, with the empty line that it lacks; nothing where it broke off. */
  end(): Uint8Array {
    const { held } = this
    this.held = nothing
    const json = dataOf(utf8Text(held).match(lines) ?? [])
    const isWhole = json === "[DONE]" || parsedJson(json) !== undefined
    return isWhole ? this.renamed(Buffer.concat([held, utf8.encode("\n\n")])) : nothing
  }

  private renamed(bytes: Uint8Array): Uint8Array {
    if (bytes.length === 0) return bytes
    const text = utf8Text(bytes)
    if (!mayHaveIds(text)) return bytes
    const renamed = text.replace(blocks, (block) => this.event(block))
    return renamed === text ? bytes : utf8.encode(renamed)
  }

  private event(block: string): string {
    if (!mayHaveIds(block)) return block
    const given = block.match(lines) ?? []
    const json = dataOf(given)
    const renamed = this.rename(json, parsedJson(json))
    if (renamed === json) return block
    const first = given.find((line) => data.test(line)) ?? ""
    const end = first.slice(first.search(/[\r\n]*$/))
    const written = renamed.split("\n").map((line) => `data: ${line}${end}`)
    return given.flatMap((line) => (line === first ? written.splice(0) : data.test(line) ? [] : [line])).join("")
  }
}

const dataOf = (given: ReadonlyArray<string>): string =>
  given.flatMap((line) => (data.test(line) ? [line.replace(data, "").replace(/[\r\n]+$/, "")] : [])).join("\n")
