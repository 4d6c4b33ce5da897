import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type DialectError, readError } from "../errors.ts"
import { type ServerEvent, typeOf } from "../event-reader.ts"
import { type Gathering } from "../format.ts"
import { addPieces, type Members } from "../streams/gathered-members.ts"
import { StreamedCalls } from "../streams/streamed-calls.ts"
import { withTextIn } from "./vendor-messages.ts"

interface Choice {
  readonly message: Members
  readonly calls: Map<number, Members>
  readonly streamedCalls: StreamedCalls
  /** Of a text completion. */
  text?: string
}

const objects = (value: unknown): ReadonlyArray<Json> => listIn(value).filter(isJson)

/** Assembles the chunks of a completion. */
export class ChunkGathering implements Gathering {
  readonly endsByTerminator = true
  readonly done = false
  failure: DialectError | undefined
  private readonly head: Members = {}
  private readonly choices = new Map<number, Choice>()
  private readonly reasons = new Map<number, unknown>()

  get isFinished(): boolean {
    return this.choices.size > 0 && this.reasons.size >= this.choices.size
  }

  take(value: Json, event: ServerEvent): void {
    const { choices, error, usage, ...head } = value
    if (typeOf(event, value) === "error") this.failure = readError(502, value)
    if (error) this.failure = readError(502, { error })
    addPieces(this.head, head)
    if (isJson(usage)) this.head.usage = usage
    for (const choice of objects(choices)) {
      // Some providers report it here alone.
      if (isJson(choice.usage)) this.head.usage ??= choice.usage
      this.takeChoice(choice)
    }
  }

  whole(): Json {
    const choices = [...this.choices].map(([index, { calls, message, text }]) => {
      const finish_reason = this.reasons.get(index) ?? (calls.size > 0 ? "tool_calls" : "stop")
      if (text !== undefined) return { index, text, finish_reason }
      const whole = calls.size === 0 ? message : { ...message, tool_calls: [...calls.values()] }
      return { index, message: whole, finish_reason }
    })
    const isText = this.head.object === "text_completion"
    return { ...this.head, object: isText ? "text_completion" : "chat.completion", choices }
  }

  private takeChoice(choice: Json): void {
    const place = typeof choice.index === "number" ? choice.index : 0
    const known: Choice = this.choices.get(place) ?? {
      message: { role: "assistant", content: null },
      calls: new Map(),
      streamedCalls: new StreamedCalls()
    }
    this.choices.set(place, known)
    if (choice.finish_reason) this.reasons.set(place, choice.finish_reason)
    const { delta: said } = choice
    if (typeof choice.text === "string" && !isJson(said)) known.text = (known.text ?? "") + choice.text
    const given = isJson(said) ? withTextIn(said) : { content: typeof said === "string" ? said : null }
    const { tool_calls: calls, ...delta } = given as Json
    addPieces(known.message, delta)
    for (const call of objects(calls)) takeCall(known, call)
  }
}

const takeCall = ({ calls, streamedCalls }: Choice, call: Json): void => {
  const { function: called, index: _, ...rest } = call
  const said = isJson(called) ? called : {}
  const place = streamedCalls.placeOf(call)
  const known = calls.get(place) ?? { type: "function", function: { name: "", arguments: "" } }
  calls.set(place, known)
  addPieces(known, rest)
  const before = isJson(known.function) ? known.function : {}
  known.function = {
    name: before.name || said.name || "",
    arguments: `${String(before.arguments)}${typeof said.arguments === "string" ? said.arguments : ""}`
  }
}
