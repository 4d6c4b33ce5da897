import { type RunningModel } from "./running.ts"

/** Nobody knows when most models were made; the SDKs want a moment. */
const unknownMoment = "1970-01-01T00:00:00Z"

/** Every model as OpenAI's clients list them. */
export const openAiModels = (models: ReadonlyArray<RunningModel>) => ({
  object: "list",
  data: models.map(({ id, targets }) => ({
    id,
    object: "model",
    created: 0,
    owned_by: targets[0]?.provider.id ?? "application-manager"
  }))
})

/** Every chat model as Anthropic's clients list them, on one page. */
export const anthropicModels = (models: ReadonlyArray<RunningModel>) => {
  const data = models
    .filter(({ kind }) => kind === "chat")
    .map(({ contextTokens, id, maxOutputTokens }) => ({
      type: "model",
      id,
      display_name: id,
      created_at: unknownMoment,
      max_input_tokens: contextTokens,
      max_tokens: maxOutputTokens
    }))
  return { data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null }
}
