import { type ResponseItem } from "./domain.ts"

/** Images and files are no text. */
const withoutData = (_: string, value: unknown): unknown =>
  typeof value === "string" && value.startsWith("data:") ? undefined : value

const calls = new Set(["function_call", "custom_tool_call"])
const outputs = new Set(["function_call_output", "custom_tool_call_output"])

/**
 * The latest items of a conversation, gathered from its end: all of them, or so many bytes of text at most, as
 * `truncation: "auto"` asks for. The last item stays in any case, and no output of a tool without its call.
 */
export class LatestItems {
  private readonly parts: Array<ReadonlyArray<ResponseItem>> = []
  private readonly maxBytes: number
  private bytes = 0
  private isCut = false

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  /** Whether older items may be left out. */
  get mayCut(): boolean {
    return this.maxBytes < Infinity
  }

  /** Whether older items are left out from here on. */
  get isFull(): boolean {
    return this.isCut
  }

  /** Leaves out what is older. */
  cut(): void {
    this.isCut = true
  }

  /** Adds the items before those that are there. */
  prepend(items: ReadonlyArray<ResponseItem>): void {
    let first = items.length
    if (!this.mayCut) first = 0
    while (first > 0 && !this.isCut) {
      this.bytes += Buffer.byteLength(JSON.stringify(items[first - 1], withoutData))
      const isLast = this.parts.length === 0 && first === items.length
      if (this.bytes > this.maxBytes && !isLast) this.isCut = true
      else first -= 1
    }
    if (first < items.length) this.parts.push(items.slice(first))
  }

  get items(): ReadonlyArray<ResponseItem> {
    const all = this.parts.toReversed().flat()
    if (!this.isCut) return all
    const called = new Set(all.flatMap(({ call_id: id, type }) => (calls.has(type ?? "") ? [id] : [])))
    return all.filter(({ call_id: id, type }) => !outputs.has(type ?? "") || called.has(id))
  }
}
