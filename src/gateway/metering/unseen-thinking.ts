import { isJson } from "../../kernel/json/parsed-json.ts"
import { type ModelTraits } from "../formats/traits-domain.ts"

const efforts = new Set<unknown>(["none", "minimal"])

/**
 * Whether a model may produce tokens that its stream does not show, by what the request asks for: a reasoning effort
 * (OpenAI), thinking, whose text is withheld or summarized (Anthropic), or nothing with a model that thinks by default.
 */
export const thinksUnseen = (
  body: Readonly<Record<string, unknown>>,
  { hidesThoughts = false, thinking: usual }: Pick<ModelTraits, "hidesThoughts" | "thinking">
): boolean => {
  const { reasoning, reasoning_effort: effort, thinking } = body
  if (usual === "always" && hidesThoughts) return true
  if (isJson(thinking)) return thinking.type !== "disabled"
  const asked = effort ?? (isJson(reasoning) ? reasoning.effort : undefined) ?? undefined
  return asked === undefined ? usual === "default" && hidesThoughts : !efforts.has(asked)
}
