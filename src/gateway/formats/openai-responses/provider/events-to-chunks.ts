import { isJson, type Json, textIn } from "../../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../../kernel/lookup-table.ts"
import { chunkOf } from "../../common-form/answers.ts"
import { annotationOf } from "../../common-form/citations.ts"
import { type ServerEvent, typeOf } from "../../event-reader.ts"
import { type AnswerHead, type CommonReader } from "../../format.ts"
import { endsResponse } from "../stream.ts"
import { betweenSummaries, callOfItem, citationOf, finishReasonOf, logprobsOf, wordsOf } from "./answers.ts"
import { objectsIn, TurnItems } from "./turn-items.ts"

type Member = "content" | "refusal" | "reasoning_content"

/** An item of the output that has begun. */
interface OpenItem {
  /** What was passed on of it so far, in characters. */
  readonly said: Record<Member | "arguments", number>
  /** The place of its call among the calls; undefined for other items. */
  call: number | undefined
  /** Whether its thoughts are read from their summary or from themselves, and the part that they are in. */
  thoughts: { readonly event: string; part: unknown } | undefined
  isDone: boolean
}

const members: ReadonlyArray<Member> = ["reasoning_content", "content", "refusal"]

/** The events with a text, and what it is in a chat completion. */
const textEvents = lookupTable<Member>({
  "response.output_text.delta": "content",
  "response.refusal.delta": "refusal",
  "response.reasoning_summary_text.delta": "reasoning_content",
  "response.reasoning_text.delta": "reasoning_content"
})

/** Translates the events of a response to the chunks of a chat completion. */
export class EventsToChunks implements CommonReader {
  private readonly head: AnswerHead
  private id: string
  private isStarted = false
  private calls = 0
  /** The length of the text so far, of all items. */
  private written = 0
  private response: Json = {}
  private readonly items = new Map<unknown, OpenItem>()
  /** The places of items in the events, by their ids. */
  private readonly places = new Map<unknown, unknown>()
  private readonly turn = new TurnItems()

  constructor(head: AnswerHead) {
    this.head = head
    this.id = head.id
  }

  push(value: Json, event: ServerEvent): ReadonlyArray<Json> {
    const chunks: Array<Json> = []
    const { item, response } = value
    const id = value.item_id ?? (isJson(item) ? item.id : undefined)
    const index = value.output_index ?? id
    if (id !== undefined) this.places.set(id, index)
    if (isJson(response)) this.response = response
    if (!this.isStarted) this.id = textIn(this.response.id) || this.id
    const type = typeOf(event, value)
    const member = textEvents[type]
    if (member !== undefined) this.write(chunks, member, index, value, type)
    else if (type === "response.function_call_arguments.delta") this.argue(chunks, index, textIn(value.delta))
    else if (type === "response.output_text.annotation.added") this.cite(chunks, index, value)
    else if (type === "response.output_item.added" && isJson(item)) this.open(chunks, index, item)
    else if (type === "response.output_item.done" && isJson(item)) this.close(chunks, index, item)
    // Some servers send items in the last event alone.
    else if (endsResponse(value, event)) {
      for (const [place, last] of objectsIn(this.response.output).entries()) {
        this.close(chunks, this.places.get(last.id) ?? place, last)
      }
    }
    return chunks
  }

  end(): ReadonlyArray<Json> {
    const chunks: Array<Json> = []
    this.start(chunks)
    chunks.push(chunkOf(this.head, this.id, 0, {}, finishReasonOf(this.response, this.calls > 0)))
    return chunks
  }

  private start(chunks: Array<Json>): void {
    if (this.isStarted) return
    this.isStarted = true
    chunks.push(chunkOf(this.head, this.id, 0, { role: "assistant", content: "", refusal: null }))
  }

  private say(chunks: Array<Json>, delta: Json, logprobs: Json | null = null): void {
    this.start(chunks)
    const chunk = chunkOf(this.head, this.id, 0, delta)
    chunks.push(logprobs === null ? chunk : { ...chunk, choices: [{ index: 0, delta, logprobs, finish_reason: null }] })
  }

  private itemAt(place: unknown): OpenItem {
    const known = this.items.get(place)
    if (known !== undefined) return known
    const said = { content: 0, refusal: 0, reasoning_content: 0, arguments: 0 }
    const item: OpenItem = { said, call: undefined, thoughts: undefined, isDone: false }
    this.items.set(place, item)
    return item
  }

  private open(chunks: Array<Json>, place: unknown, item: Json): OpenItem {
    const open = this.itemAt(place)
    if (item.type === "function_call" && open.call === undefined) {
      open.call = this.calls++
      this.say(chunks, { tool_calls: [{ index: open.call, ...callOfItem(item, "") }] })
    }
    return open
  }

  private write(chunks: Array<Json>, member: Member, place: unknown, value: Json, event: string): void {
    const { delta, logprobs } = value
    const item = this.itemAt(place)
    let text = textIn(delta)
    if (member === "reasoning_content") {
      const part = value.summary_index ?? value.content_index
      item.thoughts ??= { event, part }
      // Where there are both, a summary and the thoughts themselves, the first one counts.
      if (item.thoughts.event !== event) return
      if (item.thoughts.part !== part) text = betweenSummaries + text
      item.thoughts.part = part
    }
    this.tell(chunks, item, member, text, logprobsOf(objectsIn(logprobs)))
  }

  private tell(chunks: Array<Json>, { said }: OpenItem, member: Member, text: string, logprobs?: Json | null): void {
    if (text === "") return
    said[member] += text.length
    if (member === "content") this.written += text.length
    this.say(chunks, { [member]: text }, logprobs)
  }

  private cite(chunks: Array<Json>, place: unknown, { annotation }: Json): void {
    const before = this.written - this.itemAt(place).said.content
    const citations = isJson(annotation) ? citationOf(annotation, before) : []
    if (citations.length > 0) this.say(chunks, { annotations: citations.map(annotationOf) })
  }

  private argue(chunks: Array<Json>, place: unknown, text: string): void {
    const item = this.itemAt(place)
    // What comes before the name of a function is passed on with its item.
    if (item.call === undefined || text === "") return
    item.said.arguments += text.length
    this.say(chunks, { tool_calls: [{ index: item.call, function: { arguments: text } }] })
  }

  /** Passes on what an item has beyond its events, and what is to be given back of it. */
  private close(chunks: Array<Json>, place: unknown, item: Json): void {
    const open = this.open(chunks, place, item)
    if (open.isDone) return
    open.isDone = true
    const words = wordsOf(item)
    for (const member of members) this.tell(chunks, open, member, words[member].slice(open.said[member]))
    if (open.call !== undefined) {
      this.argue(chunks, place, textIn(item.arguments).slice(open.said.arguments))
    }
    const state = this.turn.add(item, open.said.content)
    if (state.length > 0) this.say(chunks, { turn_state: state })
  }
}
