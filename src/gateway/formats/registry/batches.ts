import { anthropicBatches } from "../batches/anthropic-batches.ts"
import { type BatchApi } from "../batches/batches.ts"
import { openAiBatches } from "../batches/openai-batches.ts"
import { type Dialect } from "../domain.ts"

/** The batches of vendors that have them, as far as the gateway serves them. */
export const batchApis: Readonly<Partial<Record<Dialect, BatchApi>>> = {
  openai: openAiBatches,
  anthropic: anthropicBatches
}
