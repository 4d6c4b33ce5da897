import { type ShownModel } from "../format.ts"

/** A model as OpenAI's clients see it. */
export const openAiModel = ({ id, targets }: ShownModel) => ({
  id,
  object: "model",
  created: 0,
  owned_by: targets[0]?.provider.id ?? "application-manager"
})

/** Every model as OpenAI's clients list them. */
export const openAiModels = (models: ReadonlyArray<ShownModel>) => ({
  object: "list",
  data: models.map(openAiModel)
})
