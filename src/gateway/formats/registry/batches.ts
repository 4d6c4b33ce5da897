import { anthropicBatches } from "../anthropic-batches/batches.ts"
import { type BatchApi } from "../batches.ts"
import { type Dialect } from "../domain.ts"
import { openAiBatches } from "../openai-batches/batches.ts"

/** The batches of vendors that have them, as far as the gateway serves them. */
export const batchApis: Readonly<Partial<Record<Dialect, BatchApi>>> = {
  openai: openAiBatches,
  anthropic: anthropicBatches
}
