import { isJson } from "../../kernel/json/parsed-json.ts"

/**
 * Models that reason unless a request turns it off, and do not show how: OpenAI's o-series and GPT-5 and later, and
 * Gemini 2.5 and later.
 */
const reasonsByDefault = /(?:^|\/)(?:o[1-9](?:-|$)|gpt-(?:[5-9]|\d\d)(?!.*chat)|gemini-(?:2\.5|[3-9]))/i

const efforts = new Set<unknown>(["none", "minimal"])

/**
 * Whether a model may produce tokens that its stream does not show, by what the request asks for: a reasoning effort
 * (OpenAI), thinking, whose text is withheld or summarized (Anthropic), or nothing with a model that reasons by default.
 */
export const thinksUnseen = (body: Readonly<Record<string, unknown>>, model: string): boolean => {
  const { reasoning, reasoning_effort: effort, thinking } = body
  if (isJson(thinking)) return thinking.type !== "disabled"
  const asked = effort ?? (isJson(reasoning) ? reasoning.effort : undefined) ?? undefined
  return asked === undefined ? reasonsByDefault.test(model) : !efforts.has(asked)
}
