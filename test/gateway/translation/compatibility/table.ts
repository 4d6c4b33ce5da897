import { capabilities, type CapabilityKey } from "./capabilities.ts"
import { providers } from "./subject.ts"

export const dialects = ["openai", "anthropic"] as const
export type DialectName = (typeof dialects)[number]

const packages = { openai: "`openai`", anthropic: "`@anthropic-ai/sdk`" }

/** The key of a cell of the table. */
export const cellKey = (capability: CapabilityKey, dialect: DialectName, provider: string): string =>
  `${capability} ${dialect} ${provider}`

const row = (title: string, texts: ReadonlyArray<string>) => `| ${[title, ...texts].join(" | ")} |`

/** The results of the tests in Markdown: a row for each feature, a column for each SDK and provider. */
export const compatibilityMarkdown = (cells: ReadonlyMap<string, string>): string => {
  const columns = dialects.flatMap((dialect) => providers.map((provider) => ({ dialect, provider })))
  const keys = Object.keys(capabilities) as ReadonlyArray<CapabilityKey>
  return [
    "# Which SDK can do what with which provider",
    "",
    "Written by the tests in `test/gateway/translation/compatibility.test.ts`, which run the vendors' own SDKs against the service",
    "(`npm run compatibility`). The columns are the SDK and the provider behind the gateway. _Unchanged_: the request reaches",
    "the provider as the SDK sent it, except for the model's name and the request for usage. _Translated_: into the provider's",
    "dialect and back. Behind _Responses API_ is a model that has this API alone. –: the SDK or the provider does not have the feature.",
    "",
    "Threads, which Anthropic stores between calls, are refused with `thread_unsupported_request`: the cost of such a call has",
    "no upper bound, and no other provider could answer it. The SDK's tool runner asks for a thread first, and then continues",
    "without one.",
    "",
    "Claude models since Opus 4.7 choose their thinking budget themselves: `reasoning_effort` becomes their `effort`, and",
    "`temperature` and `top_p`, which they refuse, are omitted. Older models get a thinking budget.",
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
