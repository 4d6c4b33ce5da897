import { type Answerer, json, sse } from "./provider.ts"
import { messageFault } from "./vendor-rules.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- requests of every format
type Json = any

/** The question of the loop, what is called for it turn by turn, and the answer that the results lead to. */
export const question = "What is the weather in Oslo and in Bergen?"
export const cities = ["Oslo", "Bergen"] as const
export const weatherOf = (city: string): string => `Weather in ${city}: ${city === "Oslo" ? "rain" : "sun"}`
export const conclusion = "Rain in Oslo, sun in Bergen."

/** The shells of command-line clients, with the arguments that print the weather. */
const shells: Readonly<Record<string, (command: string) => object>> = {
  exec_command: (cmd) => ({ cmd }),
  shell: (command) => ({ command: ["bash", "-c", command] }),
  shell_command: (command) => ({ command }),
  Bash: (command) => ({ command, description: "Print the weather" })
}

/** The call of a turn: of the client's shell where it has one. */
const callFor = (names: ReadonlyArray<string>, city: string): { readonly name: string; readonly input: object } => {
  const shell = names.find((name) => Object.hasOwn(shells, name))
  return shell === undefined
    ? { name: "weather", input: { city } }
    : { name: shell, input: shells[shell]!(`echo '${weatherOf(city)}'`) }
}

/** What is thought and said before each call. */
const thoughts = ["Oslo comes first.", "Bergen is left."] as const
const remarks = ["", "One more."] as const

/** A vendor as its documentation, and reports of its refusals, describe it. */
export interface ScriptedVendor {
  readonly answer: Answerer
  /** The provider of the configuration, at this address. */
  readonly provider: (url: string) => object
  readonly model: string
  /** Another one behind Claude Code. */
  readonly modelOfClaudeCode?: string
  /** Whether a turn of its own comes back with all that it attached; undefined where it wants nothing back. */
  readonly isWhole?: (message: Json, turn: number) => boolean
}

const list = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value : [])
const used = { input: 1000, cached: 900, output: 50 }

interface ChatRules {
  /** Members of the message of a turn, in a whole answer. */
  readonly said: (turn: number) => Json
  /** The same in pieces. */
  readonly deltas?: (turn: number) => ReadonlyArray<Json>
  /** The id of a turn's call. */
  readonly id: (turn: number) => string
  readonly usage: Json
  /** Where a stream has its usage; after all choices unless given. */
  readonly placeUsage?: (usage: Json) => Json
  /** Why the vendor refuses what it said in this turn, as it is sent back. */
  readonly refuses: (message: Json, turn: number) => string | undefined
  /** The members that a message may have. */
  readonly members: ReadonlyArray<string>
  readonly call?: (turn: number) => Json
}

const usual = ["role", "content", "name", "tool_calls", "tool_call_id"]

const chatFault = ({ id, members, refuses }: ChatRules, messages: ReadonlyArray<Json>): string | undefined => {
  let turn = 0
  let open: ReadonlyArray<string> = []
  for (const [index, message] of messages.entries()) {
    const unknown = Object.keys(message).find((name) => !members.includes(name) && message[name] !== null)
    if (unknown !== undefined) return `messages.${index}: property '${unknown}' is unsupported`
    if (message.role === "tool") {
      if (!open.includes(message.tool_call_id)) return `messages.${index}: tool_call_id not found`
      open = open.filter((one) => one !== message.tool_call_id)
      continue
    }
    if (open.length > 0) return "An assistant message with 'tool_calls' must be followed by tool messages"
    if (message.role !== "assistant") continue
    open = list(message.tool_calls).map((call) => call.id)
    if (open.length > 0 && open[0] !== id(turn)) return `messages.${index}: id ${open[0]}`
    const fault = refuses(message, turn)
    if (fault !== undefined) return fault
    turn++
  }
  return open.length > 0 ? "calls without results" : undefined
}

const choices = (delta: Json, rest: object = {}) => [{ index: 0, delta, finish_reason: null, ...rest }]

const chatAnswerer =
  (rules: ChatRules): Answerer =>
  ({ body }, response) => {
    const fault = chatFault(rules, body.messages)
    if (fault !== undefined) return json(response, 400, { error: { message: fault, type: "invalid_request_error" } })
    const turn = list(body.messages).filter(({ role }) => role === "tool").length
    const head = { id: `chat-${turn}`, object: "chat.completion", created: 1, model: body.model }
    const city = cities[turn]
    const names = list(body.tools).map(({ function: tool }) => tool?.name)
    const { input, name } = callFor(names, city ?? "")
    const call = {
      id: rules.id(turn),
      type: "function",
      function: { name, arguments: JSON.stringify(input) },
      ...rules.call?.(turn)
    }
    const finish_reason = city === undefined ? "stop" : "tool_calls"
    const message = city === undefined ? { content: conclusion } : { ...rules.said(turn), tool_calls: [call] }
    if (body.stream !== true) {
      const choice = { index: 0, message: { role: "assistant", ...message }, finish_reason }
      return json(response, 200, { ...head, choices: [choice], usage: rules.usage })
    }
    const deltas =
      city === undefined
        ? [{ content: conclusion.slice(0, 5) }, { content: conclusion.slice(5) }]
        : [
            ...(rules.deltas?.(turn) ?? [rules.said(turn)]),
            { tool_calls: [{ index: 0, ...call, function: { name, arguments: "" } }] },
            { tool_calls: [{ index: 0, function: { arguments: call.function.arguments } }] }
          ]
    const last = { choices: choices({}, { finish_reason }) }
    sse(response, [
      ...[{ role: "assistant", content: "" }, ...deltas].map((delta) =>
        Object.assign({ choices: choices(delta) }, head)
      ),
      ...(rules.placeUsage === undefined
        ? [
            { ...head, ...last },
            { ...head, choices: [], usage: rules.usage }
          ]
        : [{ ...head, ...rules.placeUsage(last) }]),
      "data: [DONE]\n\n"
    ])
    response.end()
  }

const openAiUsage = {
  prompt_tokens: used.input,
  completion_tokens: used.output,
  total_tokens: used.input + used.output
}
const chat = (model: string, rules: ChatRules, isWhole?: (message: Json, turn: number) => boolean): ScriptedVendor => ({
  model,
  answer: chatAnswerer(rules),
  provider: (url) => ({ dialect: "openai", baseUrl: `${url}/v1`, apis: ["chat"] }),
  ...(isWhole === undefined ? {} : { isWhole })
})

const hasCalls = ({ tool_calls: calls }: Json): boolean => list(calls).length > 0

/** It takes any thought, but not a call without one. */
const refusesThoughtless = (message: Json): string | undefined =>
  hasCalls(message) && !message.reasoning_content
    ? "The `reasoning_content` in the thinking mode must be passed back to the API."
    : undefined
const hasThought = (message: Json, turn: number): boolean => message.reasoning_content === thoughts[turn]

const signatures = (message: Json): ReadonlyArray<unknown> =>
  list(message.tool_calls).map((call) => call.extra_content?.google?.thought_signature)
/** What Google takes for a signature that is lost (Gemini API, "Thought Signatures"). */
const noSignature = "skip_thought_signature_validator"
const unsigned = "Function call is missing a thought_signature in functionCall parts."

const inPieces = (name: string, text: string): ReadonlyArray<Json> => [
  { [name]: text.slice(0, 4) },
  { [name]: text.slice(4) }
]

const details = (turn: number) => [
  { type: "reasoning.text", text: thoughts[turn], format: "anthropic-claude-v1", index: 0, signature: `c2ln${turn}` },
  { type: "reasoning.encrypted", data: `ZGF0YQ${turn}`, format: "anthropic-claude-v1", index: 1 }
]

const hasDetails = (message: Json, turn: number): boolean =>
  JSON.stringify(message.reasoning_details) === JSON.stringify(details(turn))

const thoughtOf = (turn: number) => ({
  type: "thinking",
  thinking: thoughts[turn],
  signature: `c2lnbmVk${turn}`
})

/** Claude as Bedrock serves it: Anthropic's messages, with their thoughts where they are asked for. */
const messagesAnswerer: Answerer = (request, response) => {
  const { body } = request
  const refuse = (message: string) =>
    json(response, 400, { type: "error", error: { type: "invalid_request_error", message } })
  const fault = messageFault(request)
  if (fault !== undefined) return refuse(fault)
  const turns = list(body.messages).filter(({ role }) => role === "assistant")
  const isThinking = body.thinking !== undefined && body.thinking.type !== "disabled"
  for (const [turn, { content }] of turns.entries()) {
    // Where thinking is adaptive, a turn may begin without a thought.
    if (body.thinking?.type === "enabled" && JSON.stringify(list(content)[0]) !== JSON.stringify(thoughtOf(turn)))
      return refuse(`messages: Expected \`thinking\`, found ${JSON.stringify(list(content)[0])}`)
  }
  const turn = turns.length
  const city = cities[turn]
  const content: ReadonlyArray<Json> =
    city === undefined
      ? [{ type: "text", text: conclusion }]
      : [
          ...(isThinking ? [thoughtOf(turn)] : []),
          ...(remarks[turn] ? [{ type: "text", text: remarks[turn] }] : []),
          {
            type: "tool_use",
            id: `toolu_bdrk_${turn}`,
            ...callFor(
              list(body.tools).map(({ name }) => name),
              city
            )
          }
        ]
  const model = String(body.model).replace(/^(?:\w+\.)?anthropic\.|-v1:0$/g, "")
  const head = { id: `msg_bdrk_${turn}`, type: "message", role: "assistant", model, stop_sequence: null }
  const stop_reason = city === undefined ? "end_turn" : "tool_use"
  const usage = {
    input_tokens: used.input - used.cached,
    cache_read_input_tokens: used.cached,
    output_tokens: used.output
  }
  if (body.stream !== true) return json(response, 200, { ...head, content, stop_reason, usage })
  const events: ReadonlyArray<Json> = [
    {
      type: "message_start",
      message: { ...head, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } }
    },
    ...content.flatMap(blockEvents),
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
    { type: "message_stop" }
  ]
  sse(
    response,
    events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  )
  response.end()
}

const blockEvents = (block: Json, index: number): ReadonlyArray<Json> => [
  { type: "content_block_start", index, content_block: emptied(block) },
  ...deltasOf(block).map((delta) => ({ type: "content_block_delta", index, delta })),
  { type: "content_block_stop", index }
]

const emptied = (block: Json): Json => {
  if (block.type === "thinking") return { ...block, thinking: "", signature: "" }
  return block.type === "text" ? { ...block, text: "" } : { ...block, input: {} }
}

const deltasOf = (block: Json): ReadonlyArray<Json> => {
  switch (block.type) {
    case "thinking":
      return [
        { type: "thinking_delta", thinking: block.thinking },
        { type: "signature_delta", signature: block.signature }
      ]
    case "text":
      return [{ type: "text_delta", text: block.text }]
    default:
      return [{ type: "input_json_delta", partial_json: JSON.stringify(block.input) }]
  }
}

/** Gemini 3, which wants the signature of each call back. */
const geminiAnswerer: Answerer = ({ body, path }, response) => {
  const calls = list(body.contents).flatMap(({ parts }) => list(parts).filter(({ functionCall }) => functionCall))
  const isUnsigned = calls.some(({ thoughtSignature: one }, turn) => one !== `U0lH${turn}` && one !== noSignature)
  if (isUnsigned) return json(response, 400, { error: { code: 400, message: unsigned, status: "INVALID_ARGUMENT" } })
  const turn = calls.length
  const city = cities[turn]
  const call = callFor(
    list(body.tools).flatMap(({ functionDeclarations }) => list(functionDeclarations).map(({ name }) => name)),
    city ?? ""
  )
  const parts: ReadonlyArray<Json> =
    city === undefined
      ? [{ text: conclusion }]
      : [
          { text: thoughts[turn], thought: true },
          ...(remarks[turn] ? [{ text: remarks[turn] }] : []),
          { functionCall: { id: `fc${turn}`, name: call.name, args: call.input }, thoughtSignature: `U0lH${turn}` }
        ]
  const answer = (some: ReadonlyArray<Json>, rest: object) => ({
    candidates: [{ index: 0, content: { role: "model", parts: some }, ...rest }],
    responseId: `gemini-${turn}`,
    usageMetadata: {
      promptTokenCount: used.input,
      cachedContentTokenCount: used.cached,
      candidatesTokenCount: used.output - 5,
      thoughtsTokenCount: 5,
      totalTokenCount: used.input + used.output
    }
  })
  if (!path.includes(":stream")) return json(response, 200, answer(parts, { finishReason: "STOP" }))
  sse(response, [...parts.map((part) => answer([part], {})), answer([], { finishReason: "STOP" })])
  response.end()
}

/** By the ids of their providers, by which the catalogue knows them. */
export const scriptedVendors: Readonly<Record<string, ScriptedVendor>> = {
  deepseek: chat(
    "deepseek-v4",
    {
      said: (turn) => ({ content: remarks[turn] || null, reasoning_content: thoughts[turn] }),
      deltas: (turn) => [...inPieces("reasoning_content", thoughts[turn] ?? ""), { content: remarks[turn] }],
      id: (turn) => `call_0${turn}_ab`,
      usage: {
        ...openAiUsage,
        prompt_cache_hit_tokens: used.cached,
        prompt_cache_miss_tokens: used.input - used.cached
      },
      refuses: refusesThoughtless,
      members: [...usual, "reasoning_content"]
    },
    hasThought
  ),
  moonshot: chat(
    "kimi-k3",
    {
      said: (turn) => ({ content: remarks[turn], reasoning_content: thoughts[turn] }),
      id: (turn) => `functions.weather:${turn}`,
      usage: { ...openAiUsage, cached_tokens: used.cached },
      placeUsage: ({ choices: [choice] }) => ({
        choices: [{ ...choice, usage: { ...openAiUsage, cached_tokens: used.cached } }]
      }),
      refuses: refusesThoughtless,
      members: [...usual, "reasoning_content"]
    },
    hasThought
  ),
  mistral: chat("magistral-medium", {
    said: (turn) => ({
      content: [
        { type: "thinking", thinking: [{ type: "text", text: thoughts[turn] }], closed: true },
        { type: "text", text: remarks[turn] }
      ]
    }),
    deltas: (turn) => [
      { content: [{ type: "thinking", thinking: [{ type: "text", text: thoughts[turn]?.slice(0, 4) }] }] },
      { content: [{ type: "thinking", thinking: [{ type: "text", text: thoughts[turn]?.slice(4) }] }] },
      { content: remarks[turn] }
    ],
    id: (turn) => `D681PevK${turn}`,
    usage: { ...openAiUsage, num_cached_tokens: used.cached },
    // What it thought may be missing, and is refused in any other form.
    refuses: ({ content }) =>
      list(content).some(({ type }) => type !== "text" && type !== "thinking") ? "extra_forbidden" : undefined,
    members: [...usual, "prefix"]
  }),
  groq: chat("qwen/qwen3-32b", {
    said: (turn) => ({ content: remarks[turn] || null, reasoning: thoughts[turn] }),
    deltas: (turn) => [...inPieces("reasoning", thoughts[turn] ?? ""), { content: remarks[turn] }],
    id: (turn) => `fc_${turn}`,
    usage: { ...openAiUsage, prompt_tokens_details: { cached_tokens: used.cached } },
    placeUsage: (last) => ({
      ...last,
      x_groq: { usage: { ...openAiUsage, prompt_tokens_details: { cached_tokens: used.cached } } }
    }),
    refuses: () => undefined,
    members: [...usual, "reasoning"]
  }),
  openrouter: chat(
    "anthropic/claude-sonnet-5",
    {
      said: (turn) => ({ content: remarks[turn], reasoning: thoughts[turn], reasoning_details: details(turn) }),
      deltas: (turn) => [
        { reasoning: thoughts[turn], reasoning_details: details(turn).slice(0, 1) },
        { reasoning_details: details(turn).slice(1) },
        { content: remarks[turn] }
      ],
      id: (turn) => `toolu_vrtx_${turn}`,
      usage: { ...openAiUsage, prompt_tokens_details: { cached_tokens: used.cached }, cost: 0.0123 },
      refuses: (message, turn) =>
        message.reasoning_details !== undefined && !hasDetails(message, turn)
          ? "Invalid signature in thinking block"
          : undefined,
      members: [...usual, "reasoning", "reasoning_details", "reasoning_content"]
    },
    hasDetails
  ),
  google: chat(
    "gemini-3-pro",
    {
      said: () => ({ content: null }),
      id: (turn) => `function-call-${turn}`,
      usage: { ...openAiUsage, prompt_tokens_details: { cached_tokens: used.cached } },
      call: (turn) => ({ extra_content: { google: { thought_signature: `U0lH${turn}` } } }),
      refuses: (message, turn) =>
        signatures(message).some((one) => one !== `U0lH${turn}` && one !== noSignature) ? unsigned : undefined,
      members: usual
    },
    (message, turn) => signatures(message).every((one) => one === `U0lH${turn}`)
  ),
  gemini: {
    model: "gemini-3-pro",
    answer: geminiAnswerer,
    provider: (url) => ({ dialect: "gemini", baseUrl: `${url}/v1beta` })
  },
  bedrock: {
    model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    // It asks for adaptive thinking, and keeps the thoughts of the model alone that it asked.
    modelOfClaudeCode: "us.anthropic.claude-sonnet-5",
    answer: messagesAnswerer,
    provider: (url) => ({ dialect: "anthropic", baseUrl: url })
  }
}

/** What each turn costs with these prices, in nano-dollars, whatever the name and place of the cached tokens. */
export const loopPrices = { inputUsdPerMTok: 2, cacheReadUsdPerMTok: 0.5, outputUsdPerMTok: 10 }
export const turnCostNanoUsd = (used.input - used.cached) * 2000 + used.cached * 500 + used.output * 10_000

/** Whether the turns of a vendor came back in these requests with all that it attached to them. */
export const wholeTurns = ({ isWhole }: ScriptedVendor, requests: ReadonlyArray<{ readonly body: Json }>): boolean =>
  requests.every(({ body }) =>
    list(body?.messages)
      .filter(({ role }) => role === "assistant")
      .every((message, turn) => isWhole?.(message, turn) ?? true)
  )
