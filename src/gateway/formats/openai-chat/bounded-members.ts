import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { boundMembers, positive } from "../token-upper-bound.ts"

/** Tiers at the model's prices, or below them. */
export const freeTiers: ReadonlyArray<unknown> = ["auto", "default", "flex", "on_demand"]

/** Members of generation that OpenAI documents, and those that other vendors and servers document as samplers and labels. */
const generation =
  "model stream stream_options temperature top_p top_k min_p top_a typical_p frequency_penalty presence_penalty " +
  "repetition_penalty seed random_seed stop stop_token_ids logit_bias logprobs top_logprobs max_tokens n best_of user " +
  "metadata ignore_eos skip_special_tokens include_stop_str_in_output guided_json guided_regex guided_choice " +
  "guided_grammar structured_outputs grammar keep_alive"

/** Whether arguments of a template only switch something: any other value may have it write more than the request has. */
const areSwitches = (value: unknown): boolean =>
  isJson(value) && Object.values(value).every((one) => typeof one === "boolean")

/** Thoughts beside the output limit are bounded by a budget of their own alone. */
const isBudgeted = (value: unknown, { thinking_budget: budget }: Json): boolean =>
  value === false || (value === true && positive(budget) !== undefined)

/** How audio is to sound, which costs nothing besides its tokens. */
const isVoice = (value: unknown): boolean =>
  isJson(value) && Object.keys(value).every((name) => name === "voice" || name === "format")

/** Members of a chat completion that are bounded. */
export const chatMembers = boundMembers(
  `${generation} messages max_completion_tokens functions function_call tools tool_choice parallel_tool_calls ` +
    "response_format reasoning reasoning_effort reasoning_format reasoning_split include_reasoning thinking thinking_budget " +
    "think clear_thinking verbosity prediction modalities store safety_identifier safe_prompt prompt_cache_key " +
    "prompt_cache_options prompt_cache_retention usage transforms cache_control context_management web_search_options " +
    "mcp_servers",
  {
    service_tier: freeTiers,
    audio: isVoice,
    enable_thinking: isBudgeted,
    chat_template_kwargs: areSwitches,
    enable_search: [false],
    echo: [false]
  }
)

/** Members of a text completion that are bounded. */
export const completionMembers = boundMembers(`${generation} prompt suffix echo`, { service_tier: freeTiers })

/** Members of an embedding request that are bounded. */
export const embeddingMembers = boundMembers(
  "model input encoding_format dimensions stream user metadata input_type task truncate truncation output_dtype output_dimension " +
    "embedding_type embedding_types normalized late_chunking truncate_prompt_tokens add_special_tokens",
  { service_tier: freeTiers }
)
