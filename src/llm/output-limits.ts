import { type RunningTarget } from "./running.ts"

/** The members that limit an output in OpenAI's dialect: its own newer one, and the older that its speakers know. */
type LimitMember = "max_completion_tokens" | "max_tokens"

/** Those who know the newer one; whom a provider is of is also told by its id. */
const knowsNewer = /^(?:openai|azure|openrouter|x-ai|groq|cerebras|google)\b/
/** OpenAI's models that refuse the older one, whoever serves them. */
const refusesOlder = /(?:^|\/)(?:o\d|gpt-5)/

/** Which member a target reads its limit from. Some leave the other one unread, and write on without a limit. */
export const limitMember = ({ model, provider: { vendor } }: RunningTarget): LimitMember =>
  vendor === undefined || knowsNewer.test(vendor) || refusesOlder.test(model) ? "max_completion_tokens" : "max_tokens"
