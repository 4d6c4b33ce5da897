import { capabilities, type CapabilityKey } from "./capabilities.ts"
import { providers } from "./subject.ts"

export const dialects = ["openai", "anthropic"] as const
export type DialectName = (typeof dialects)[number]

const packages = { openai: "`openai`", anthropic: "`@anthropic-ai/sdk`" }

/** Where a cell of the table stands. */
export const cellKey = (capability: CapabilityKey, dialect: DialectName, provider: string): string =>
  `${capability} ${dialect} ${provider}`

const row = (title: string, texts: ReadonlyArray<string>) => `| ${[title, ...texts].join(" | ")} |`

/** What the tests found, in Markdown: a row for each capability, a column for each SDK before each provider. */
export const compatibilityMarkdown = (cells: ReadonlyMap<string, string>): string => {
  const columns = dialects.flatMap((dialect) => providers.map((provider) => ({ dialect, provider })))
  const keys = Object.keys(capabilities) as ReadonlyArray<CapabilityKey>
  return [
    "# Which SDK can do what with which provider",
    "",
    "Written by the tests in `test/gateway/translation/compatibility.test.ts`, which run the vendors' own SDKs against the service",
    "(`npm run compatibility`). In the columns: the SDK, and the provider behind the gateway. _Unchanged_: what the SDK sends",
    "reaches the provider as it is, but for the model's name and the request for usage. _Translated_: into the provider's",
    "dialect and back. –: the SDK or the provider has no such thing.",
    "",
    "Threads, which Anthropic would hold between calls, are refused as `thread_unsupported_request`: no call could be let in by",
    "what it may cost, or go to another provider. The SDK's tool runner asks for one first, and goes on without.",
    "",
    "Claude's models from Opus 4.7 on decide by themselves how much to think: `reasoning_effort` becomes their `effort`, and as",
    "they refuse `temperature` and `top_p`, these are left out. Older ones are given a budget.",
    "",
    row(
      "",
      columns.map(({ dialect, provider }) => `${packages[dialect]} → ${provider}`)
    ),
    row(
      "---",
      columns.map(() => "---")
    ),
    ...keys.map((key) =>
      row(
        capabilities[key].title,
        columns.map(({ dialect, provider }) => cells.get(cellKey(key, dialect, provider)) ?? "–")
      )
    ),
    ""
  ].join("\n")
}
