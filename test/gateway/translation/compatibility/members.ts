/** The formats that callers write. */
export const formats = ["chat", "messages", "responses", "gemini"] as const
export type FormatName = (typeof formats)[number]

const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
const chatTool = { type: "function", function: { name: "weather", description: "Weather", parameters: schema } }
const responsesTool = { type: "function", name: "weather", description: "Weather", parameters: schema, strict: false }
const messagesTool = { name: "weather", description: "Weather", input_schema: schema }
const geminiTools = [{ functionDeclarations: [{ name: "weather", description: "Weather", parameters: schema }] }]
const location = { type: "approximate", approximate: { city: "Oslo", country: "NO" } }

/** A member of a request, by its path, with a value that is not its default. */
export interface Member {
  readonly value: unknown
  /** What a request needs besides for the member to mean something. */
  readonly beside?: object
}

const withTools = { tools: [chatTool] }
const withMessagesTools = { tools: [messagesTool] }
const withResponsesTools = { tools: [responsesTool] }
const of = (value: unknown, beside?: object): Member => (beside === undefined ? { value } : { value, beside })

/** The members that each vendor documents, except for the model, the conversation and the stream. */
export const documented: Readonly<Record<FormatName, Readonly<Record<string, Member>>>> = {
  chat: {
    audio: of({ voice: "alloy", format: "wav" }, { modalities: ["text", "audio"] }),
    frequency_penalty: of(0.5),
    logit_bias: of({ 50256: -100 }),
    logprobs: of(true),
    max_completion_tokens: of(33),
    max_tokens: of(33),
    metadata: of({ job: "7" }),
    modalities: of(["text", "audio"], { audio: { voice: "alloy", format: "wav" } }),
    moderation: of({ model: "omni-moderation-latest" }),
    n: of(2),
    parallel_tool_calls: of(false, withTools),
    prediction: of({ type: "content", content: "It is noon." }),
    presence_penalty: of(0.5),
    prompt_cache_key: of("a-session"),
    prompt_cache_options: of({ ttl: "30m" }),
    prompt_cache_retention: of("24h"),
    reasoning_effort: of("high"),
    response_format: of({ type: "json_schema", json_schema: { name: "city", schema, strict: true } }),
    safety_identifier: of("a-person"),
    seed: of(7),
    service_tier: of("flex"),
    stop: of(["END"]),
    store: of(true),
    temperature: of(0.3),
    tool_choice: of("required", withTools),
    tools: of([chatTool]),
    top_logprobs: of(2, { logprobs: true }),
    top_p: of(0.4),
    user: of("a-person"),
    verbosity: of("low"),
    web_search_options: of({ user_location: location })
  },
  messages: {
    cache_control: of({ type: "ephemeral" }),
    container: of("container_1"),
    context_management: of({ edits: [{ type: "clear_tool_uses_20250919" }] }),
    inference_geo: of("us"),
    mcp_servers: of([{ type: "url", url: "https://mcp.example.com", name: "m" }]),
    metadata: of({ user_id: "a-person" }),
    "output_config.effort": of("low"),
    "output_config.format": of({ type: "json_schema", schema }),
    service_tier: of("standard_only"),
    speed: of("fast"),
    stop_sequences: of(["END"]),
    system: of("Be brief."),
    temperature: of(0.3),
    thinking: of({ type: "enabled", budget_tokens: 1024 }, { max_tokens: 4096 }),
    "thinking.display": of("summarized", { max_tokens: 4096, thinking: { type: "enabled", budget_tokens: 1024 } }),
    tool_choice: of({ type: "any" }, withMessagesTools),
    tools: of([messagesTool]),
    top_k: of(7),
    top_p: of(0.95),
    user_profile_id: of("profile_1"),
    workspace_id: of("wrkspc_1")
  },
  responses: {
    background: of(true),
    context_management: of([{ type: "compaction", compact_threshold: 1000 }]),
    conversation: of("conv_1"),
    include: of(["message.output_text.logprobs"]),
    instructions: of("Be brief."),
    max_output_tokens: of(33),
    max_tool_calls: of(2, withResponsesTools),
    metadata: of({ job: "7" }),
    moderation: of({ model: "omni-moderation-latest" }),
    parallel_tool_calls: of(false, withResponsesTools),
    prompt: of({ id: "pmpt_1" }),
    prompt_cache_key: of("a-session"),
    prompt_cache_options: of({ ttl: "30m" }),
    prompt_cache_retention: of("24h"),
    "reasoning.effort": of("high"),
    "reasoning.summary": of("auto", { reasoning: { effort: "high" } }),
    safety_identifier: of("a-person"),
    service_tier: of("flex"),
    temperature: of(0.3),
    "text.format": of({ type: "json_schema", name: "city", schema, strict: true }),
    "text.verbosity": of("low"),
    tool_choice: of("required", withResponsesTools),
    tools: of([responsesTool]),
    top_logprobs: of(2, { include: ["message.output_text.logprobs"] }),
    top_p: of(0.4),
    truncation: of("auto"),
    user: of("a-person")
  },
  gemini: {
    cachedContent: of("cachedContents/1"),
    "generationConfig.audioTimestamp": of(true),
    "generationConfig.candidateCount": of(2),
    "generationConfig.enableEnhancedCivicAnswers": of(true),
    "generationConfig.frequencyPenalty": of(0.5),
    "generationConfig.imageConfig": of({ aspectRatio: "1:1" }),
    "generationConfig.logprobs": of(2, { generationConfig: { responseLogprobs: true } }),
    "generationConfig.maxOutputTokens": of(33),
    "generationConfig.mediaResolution": of("MEDIA_RESOLUTION_LOW"),
    "generationConfig.presencePenalty": of(0.5),
    "generationConfig.responseJsonSchema": of(schema, { generationConfig: { responseMimeType: "application/json" } }),
    "generationConfig.responseLogprobs": of(true),
    "generationConfig.responseMimeType": of("application/json"),
    "generationConfig.responseModalities": of(["TEXT", "AUDIO"]),
    "generationConfig.responseSchema": of(schema, { generationConfig: { responseMimeType: "application/json" } }),
    "generationConfig.seed": of(7),
    "generationConfig.speechConfig": of({ voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } } }),
    "generationConfig.stopSequences": of(["END"]),
    "generationConfig.temperature": of(0.3),
    "generationConfig.thinkingConfig": of({ thinkingBudget: 1024 }),
    "generationConfig.topK": of(7),
    "generationConfig.topP": of(0.4),
    labels: of({ team: "a" }),
    safetySettings: of([{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }]),
    serviceTier: of("flex"),
    store: of(true),
    systemInstruction: of({ parts: [{ text: "Be brief." }] }),
    "toolConfig.functionCallingConfig": of({ mode: "ANY" }, { tools: geminiTools }),
    "toolConfig.retrievalConfig": of({ languageCode: "en" }, { tools: geminiTools }),
    tools: of(geminiTools)
  }
}

const question = "What time is it in Oslo?"

/** The least request of a format. */
export const leastRequest: Readonly<Record<FormatName, object>> = {
  chat: { messages: [{ role: "user", content: question }] },
  messages: { max_tokens: 2000, messages: [{ role: "user", content: question }] },
  responses: { input: question, store: false },
  gemini: { contents: [{ role: "user", parts: [{ text: question }] }] }
}

/** A request with a member, and the same without it. */
export const withMember = (format: FormatName, path: string): readonly [given: object, without: object] => {
  const { beside = {}, value } = documented[format][path]!
  const without = { ...leastRequest[format], ...beside }
  const [outer = "", inner] = path.split(".")
  if (inner === undefined) return [{ ...without, [outer]: value }, without]
  const config = (without as Readonly<Record<string, object | undefined>>)[outer]
  return [{ ...without, [outer]: { ...config, [inner]: value } }, without]
}

/** The columns of the table: where a request goes. */
export const destinations = ["OpenAI", "Anthropic", "Gemini", "Responses API"] as const
export type DestinationName = (typeof destinations)[number]

/** The destination that speaks a format itself. */
export const ownDestination: Readonly<Record<FormatName, DestinationName>> = {
  chat: "OpenAI",
  messages: "Anthropic",
  responses: "Responses API",
  gemini: "Gemini"
}
