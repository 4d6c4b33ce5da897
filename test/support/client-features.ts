/** What each client is tried with, behind every kind of provider: two answers, and for tools a turn more of each. */
export const clientFeatures = {
  "OpenAI's SDK, by responses": { api: "responses", hasTools: true },
  "OpenAI's SDK, by chat": { api: "chat completions", hasTools: true },
  "Anthropic's SDK": { api: "messages", hasTools: true },
  "the AI SDK, by default": { api: "responses", hasTools: true },
  "the AI SDK, by chat": { api: "chat completions", hasTools: true },
  "the AI SDK, for compatible providers": { api: "chat completions", hasTools: true },
  "the AI SDK, for Anthropic": { api: "messages", hasTools: true },
  "the Agents SDK, by default": { api: "responses", hasTools: true },
  "the Agents SDK, by chat": { api: "chat completions", hasTools: true },
  "LangChain, by chat": { api: "chat completions", hasTools: false },
  "LangChain, by responses": { api: "responses", hasTools: false },
  "LangChain, for Anthropic": { api: "messages", hasTools: false }
} as const
export type ClientName = keyof typeof clientFeatures

/** The command-line tools, which stream a task with a tool; `npm run test:system` runs them. */
export const commandLineFeatures = {
  Codex: { api: "responses" },
  "Claude Code": { api: "messages" }
} as const
export type CommandLineName = keyof typeof commandLineFeatures

/** The models that they are tried with, and what the providers of these speak. */
export const servedBy = {
  gpt: "OpenAI's dialect",
  claude: "Anthropic's dialect",
  "o-native": "the Responses API alone"
} as const

const tried = (hasTools: boolean): string => `answer, stream${hasTools ? ", tools" : ""}`

/** The table of the clients that the tests run, for the manual. */
export const clientsMarkdown: string = [
  `| Client | Speaks | ${Object.values(servedBy)
    .map((behind) => `Behind it ${behind}`)
    .join(" | ")} |`,
  `| --- | --- | ${Object.values(servedBy)
    .map(() => "---")
    .join(" | ")} |`,
  ...Object.entries(clientFeatures).map(
    ([client, { api, hasTools }]) =>
      `| ${client} | ${api} | ${Object.values(servedBy)
        .map(() => tried(hasTools))
        .join(" | ")} |`
  ),
  ...Object.entries(commandLineFeatures).map(
    ([client, { api }]) =>
      `| ${client} | ${api} | ${Object.keys(servedBy)
        .map(() => "stream, tools")
        .join(" | ")} |`
  )
].join("\n")
