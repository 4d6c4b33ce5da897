import { Option, Schema } from "effect"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"
import { type ChatRequest } from "../common-form/domain.ts"
import { TurnPlaces } from "../common-form/turn-order.ts"
import { type ModelTraits } from "../traits-domain.ts"
import { type AnsweredBlock } from "./domain.ts"

/** Whether a model decides for itself how much to think: it takes an effort, and no budget. */
const thinksAdaptively = ({ thinkingBy }: ModelTraits): boolean => thinkingBy === "adaptive"

/** The thinking parameters for one of Anthropic's models. */
interface Asked {
  readonly thinking?: Json
  readonly effort?: string
}

/** Thinking cannot be disabled on some of these models, so `none` maps to the lowest effort. */
const efforts = lookupTable<string>({
  none: "low",
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "xhigh",
  max: "max"
})

const budgets = lookupTable<number>({ low: 1024, medium: 4096, high: 16_384, xhigh: 32_768, max: 65_536 })

/** The minimum budget of other models behind Anthropic's API. */
const usualLeastBudget = 1024

/** The share of the output limit that is left for the answer. */
const answerShare = 0.2

/**
 * Maps a request's reasoning effort to Anthropic's parameters. Thinking is off when a tool is forced. With a token budget
 * it is also off in the middle of a turn, because that turn would have to begin with a thinking block.
 */
export const thinkingOf = (request: ChatRequest, traits: ModelTraits, maxTokens: number, isMidway: boolean): Asked => {
  if (traits.thinking === "none") return {}
  const asked = request.reasoning_effort ?? ""
  const choice = request.tool_choice ?? "auto"
  const isForced = choice === "required" || typeof choice === "object"
  if (!thinksAdaptively(traits)) {
    const { minThinkingTokens: leastBudget = usualLeastBudget } = traits
    const budget = Math.min(budgets[asked] ?? 0, Math.floor(maxTokens * (1 - answerShare)))
    return budget < leastBudget || isForced || isMidway ? {} : { thinking: { type: "enabled", budget_tokens: budget } }
  }
  const effort = efforts[asked]
  if (effort === undefined) return {}
  // Anthropic omits thinking text from the response unless `display` requests it.
  return isForced || asked === "none" ? { effort } : { effort, thinking: { type: "adaptive", display: "summarized" } }
}

/** Whether a model accepts temperature and other sampling parameters: some never do, others unless they think. */
export const takesSampling = ({ refuses }: ModelTraits, { thinking }: Asked): boolean =>
  thinking === undefined && !refuses.has("temperature")

/** A signed thought, as Anthropic takes it back: the signature covers the text. */
const ThinkingBlock = Schema.Union([
  Schema.Struct({ type: Schema.Literal("redacted_thinking"), data: Schema.NonEmptyString }),
  Schema.Struct({ type: Schema.Literal("thinking"), thinking: Schema.String, signature: Schema.NonEmptyString })
])
export type ThinkingBlock = typeof ThinkingBlock.Type

/** A piece of a turn's state: a thought, or what stands between thoughts; a block that is not carried back has no form. */
const TurnPiece = Schema.Union([
  ThinkingBlock,
  Schema.Struct({ text: Schema.Int }),
  Schema.Struct({ call: Schema.String }),
  Schema.Struct({ type: Schema.Literal("omitted") })
])
export type TurnPiece = typeof TurnPiece.Type

const decode = Schema.decodeUnknownOption(TurnPiece)

const isOmitted = (piece: TurnPiece): boolean => "type" in piece && piece.type === "omitted"

/**
 * The pieces of a turn in their order; none where a block is left out before a thought, which Anthropic then takes for one
 * that was changed.
 */
export const turnPiecesIn = (state: ReadonlyArray<unknown> | null | undefined): ReadonlyArray<TurnPiece> => {
  const pieces = (state ?? []).flatMap((piece) => Option.toArray(decode(piece)))
  return pieces.some(isOmitted) ? [] : pieces
}

const isThinkingBlock = Schema.is(ThinkingBlock)

/** Notes the thoughts of a turn that Anthropic takes back, each with what stands before it. */
export class TurnThoughts {
  private readonly places = new TurnPlaces()
  private omits = false

  /** Adds a block; returns the pieces up to it if it is a signed thought. */
  add(block: AnsweredBlock): ReadonlyArray<TurnPiece> {
    switch (block.type) {
      case "text":
        this.places.text(block.text ?? "")
        return []
      case "tool_use":
        this.places.call(block.id ?? "")
        return []
      case "thinking":
      case "redacted_thinking": {
        const { data, signature, thinking = "", type } = block
        const thought = type === "thinking" ? { type, thinking, signature } : { type, data }
        if (!isThinkingBlock(thought)) return []
        return this.omits ? [{ type: "omitted" }, ...this.places.upTo(thought)] : this.places.upTo(thought)
      }
      default:
        this.omits = true
        return []
    }
  }
}
