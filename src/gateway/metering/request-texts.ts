import { isJson, listIn, type Json } from "../../kernel/json/parsed-json.ts"
import { isSealedState } from "../formats/common-form/turn-state.ts"
import { base64Of, embedded } from "../formats/token-upper-bound.ts"

/** What a tokenizer can count of a request. */
export interface RequestTexts {
  readonly texts: ReadonlyArray<string>
  /** How many ids of tokens stand in the place of texts. */
  readonly tokens: number
  /** The minimum number of bytes that all of it takes of the request's JSON. */
  readonly bytes: number
}

/** Members that say how to read the others, and a signature of what is there as text. */
const unread: ReadonlySet<string> = new Set(
  ["type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "status", "detail", "media_type"].concat([
    "cache_control",
    "signature",
    "thoughtSignature",
    "inlineData",
    "inline_data"
  ])
)

/** Parts that are images, sounds or documents: their tokens are bounded, not counted. */
const media: ReadonlySet<unknown> = new Set(
  ["image_url", "image", "input_image", "computer_screenshot", "image_generation_call", "input_audio"].concat([
    "container_upload"
  ])
)

/** The text of a file that is part of the request; undefined for what is not text. */
const textOfFile = ({ file_data: data }: Json): string | undefined =>
  typeof data === "string" && !embedded.test(data) ? data : undefined

class Words {
  readonly texts: Array<string> = []
  tokens = 0
  bytes = 0

  text(text: string): void {
    // What it is opened to is another text, which its bytes bound.
    if (isSealedState(text)) return
    this.texts.push(text)
    // The canonical JSON of a string is the shortest.
    this.bytes += Buffer.byteLength(JSON.stringify(text))
  }

  /** A part of a form, whose quotes the model may read as well. */
  private quoted(text: string): void {
    if (isSealedState(text)) return
    this.text(text)
    this.bytes -= 2
  }

  /** All names, texts and numbers of a value: models read these, written in fewer tokens than its JSON has. */
  all(value: unknown): void {
    if (typeof value === "string") this.quoted(value)
    else if (typeof value === "number") {
      this.texts.push(String(value))
      this.bytes += 1
    } else if (Array.isArray(value)) for (const element of value) this.all(element)
    else if (isJson(value)) {
      for (const [name, member] of Object.entries(value)) {
        this.quoted(name)
        this.all(member)
      }
    }
  }

  /** A text, or a list of parts. */
  content(content: unknown): void {
    if (typeof content === "string") this.text(content)
    for (const part of listIn(content)) {
      if (isJson(part)) this.part(part)
      else this.all(part)
    }
  }

  /** A message, an item of the Responses API, or a part of one. */
  part(part: Json): void {
    if (media.has(part.type)) return
    if (part.type === "file" || part.type === "input_file") {
      const text = textOfFile(isJson(part.file) ? part.file : part)
      return text === undefined ? undefined : this.text(text)
    }
    for (const [name, member] of Object.entries(part)) {
      if (unread.has(name)) continue
      if (Array.isArray(member) || typeof member === "string") this.content(member)
      else if (!isJson(member) || name === "input") this.all(member)
      else if (name === "source") this.source(member)
      else this.part(member)
    }
  }

  /** Where a document of Anthropic's is. */
  private source(source: Json): void {
    if (source.type === "content") this.content(source.content)
    else if (base64Of(source) === undefined) this.content(source.data)
  }

  /** Texts, ids of tokens, or items. */
  input(given: unknown): void {
    for (const one of Array.isArray(given) ? given : [given]) {
      if (typeof one === "string") this.text(one)
      else if (isJson(one)) this.part(one)
      else {
        const ids = typeof one === "number" ? 1 : listIn(one).length
        this.tokens += ids
        this.bytes += ids
      }
    }
  }
}

/** Around the words of all tools, and of each of them, OpenAI's models read this. */
const toolsFrame = "# Tools\n\n## functions\n\nnamespace functions {\n\n} // namespace functions"
const toolFrame = "type = () => any;"

/** Members that have contents with parts, or requests with contents. */
const contentMembers = ["contents", "content", "requests", "systemInstruction", "system_instruction"]

/** The texts of messages, inputs, tools and forms of answers; the rest of a request is bounded by its bytes. */
export const textsOf = (body: Json): RequestTexts => {
  const words = new Words()
  words.content(body.system)
  words.content(body.messages)
  for (const name of contentMembers) if (body[name] !== undefined) words.content([body[name]].flat())
  words.content(body.instructions)
  words.input(body.input ?? [])
  words.input(body.prompt ?? [])
  for (const form of [body.response_format, isJson(body.text) ? body.text.format : undefined, body.output_config]) {
    if (isJson(form) && form.type !== "text" && form.type !== "json_object") words.all(form)
  }
  const tools = [...listIn(body.tools), ...listIn(body.functions)].map((tool) => {
    const own = new Words()
    own.all(isJson(tool) && isJson(tool.function) ? tool.function : tool)
    words.bytes += own.bytes
    return [toolFrame, ...own.texts].join(" ")
  })
  return {
    texts: [...words.texts, ...(tools.length > 0 ? [toolsFrame] : []), ...tools],
    tokens: words.tokens,
    bytes: words.bytes
  }
}
