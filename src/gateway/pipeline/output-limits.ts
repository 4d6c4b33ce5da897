import { type ModelTarget } from "../configuration/gateway-snapshot.ts"

/** The members that limit an output in OpenAI's dialect: its own newer one, and the older that all its speakers know. */
type LimitMember = "max_completion_tokens" | "max_tokens"

/** Those who know the newer one; whom a provider is of is also told by its id. */
const knowsNewer = /^(?:openai|azure|openrouter|x-ai|groq|cerebras|google)\b/
/** Those who refuse it, or leave it unread and write on without a limit. */
const knowsOlderAlone = /^(?:mistral|deepseek|cohere|moonshot|ollama)/
/** OpenAI's models that refuse the older one, whoever serves them. */
const refusesOlder = /(?:^|\/)(?:o\d|gpt-5)/

/** By which member a target is told a limit that its caller did not give. */
export const limitMember = ({ model, provider: { vendor } }: ModelTarget): LimitMember =>
  vendor === undefined || knowsNewer.test(vendor) || refusesOlder.test(model) ? "max_completion_tokens" : "max_tokens"

/** Whether a target has to be told by the older one what its caller said by the newer. */
export const knowsOlderLimitAlone = ({ provider: { vendor } }: ModelTarget): boolean =>
  vendor !== undefined && knowsOlderAlone.test(vendor)
