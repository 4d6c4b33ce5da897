import type * as Encoding from "gpt-tokenizer/encoding/o200k_base"
import { createRequire } from "node:module"
import { replyWith } from "../../platform/runtime/worker-process-body.ts"
import type { CountRequest } from "./token-counts.ts"

const load = createRequire(import.meta.url)

// Special tokens in a request are ordinary text.
const asText = { disallowedSpecial: new Set<string>() }

replyWith(({ encoding, texts }: CountRequest): number => {
  // Loading an encoding takes longer than counting with it, so it is loaded on first use.
  const { countTokens } = load(`gpt-tokenizer/encoding/${encoding}`) as typeof Encoding
  return texts.reduce((sum, text) => sum + countTokens(text, asText), 0)
})
