import { Schema } from "effect"
import { Prices } from "./rate-domain.ts"
import facts from "./model-prices.json" with { type: "json" }

/** Known facts about a vendor's model. */
export interface ModelFacts {
  readonly vendor: string
  readonly model: string
  readonly kind: "chat" | "embedding"
  readonly maxOutputTokens: number | null
  readonly prices: Prices | null
}

const { longContext: _, ...written } = Prices.fields
const Fact = Schema.Struct({
  ...written,
  provider: Schema.String,
  model: Schema.String,
  inputUsdPerMTok: Schema.optionalKey(Prices.fields.inputUsdPerMTok),
  maxOutputTokens: Schema.optionalKey(Schema.Int)
})
type Fact = typeof Fact.Type

/** Models billed by more than text tokens, for which token prices alone would charge too little. */
const soldOtherwise =
  /realtime|audio|tts|whisper|transcribe|image|imagen|veo|video|dall-e|sora|search|sonar|online|deep-research|computer-use|moderation|live|^ft:|orpheus|playai/

const pricesOf = ({ maxOutputTokens: _max, model: _model, provider: _provider, ...prices }: Fact): Prices | null => {
  const { cacheReadUsdPerMTok, inputUsdPerMTok, ...rest } = prices
  if (inputUsdPerMTok === undefined) return null
  // A cache price above the input price is a storage price, not a price per token.
  const cacheRead =
    cacheReadUsdPerMTok === undefined || cacheReadUsdPerMTok > inputUsdPerMTok ? {} : { cacheReadUsdPerMTok }
  return { inputUsdPerMTok, ...rest, ...cacheRead }
}

/** Google lists the prices of one model under two names: up to a number of thousand tokens, and above it. */
const tiered = /^(.*)-(lte|gt)-(\d+)k$/

const gather = (all: ReadonlyArray<Fact>): ReadonlyMap<string, ModelFacts> => {
  const gathered = new Map<string, ModelFacts>()
  const above: Array<{ readonly key: string; readonly aboveTokens: number; readonly prices: Prices }> = []
  for (const fact of all) {
    if (soldOtherwise.test(fact.model)) continue
    const [, base = fact.model, side, thousands] = tiered.exec(fact.model) ?? []
    const key = keyOf(fact.provider, base)
    const kind = /embed|^ada-v2$/.test(base) ? "embedding" : "chat"
    const known = pricesOf(fact)
    const prices = kind === "chat" && known?.outputUsdPerMTok === undefined ? null : known
    if (side === "gt") {
      if (prices !== null) above.push({ key, aboveTokens: Number(thousands) * 1000, prices })
      continue
    }
    gathered.set(key, {
      vendor: fact.provider,
      model: base,
      kind,
      maxOutputTokens: fact.maxOutputTokens ?? null,
      prices
    })
  }
  for (const { aboveTokens, key, prices } of above) {
    const model = gathered.get(key)
    if (model?.prices) {
      gathered.set(key, { ...model, prices: { ...model.prices, longContext: [{ aboveTokens, ...prices }] } })
    }
  }
  return gathered
}

const keyOf = (vendor: string, model: string) => `${vendor}/${model}`

const models = gather(Schema.decodeUnknownSync(Schema.Array(Fact))(facts.models))

/** Version of the catalogue's facts; stored with every charge. */
export const factsVersion: string = facts.asOf

/** The known facts about a vendor's model, or undefined. */
export const factsOf = (vendor: string, model: string): ModelFacts | undefined => models.get(keyOf(vendor, model))

/** All known models of a vendor. */
export const modelsOf = (vendor: string): ReadonlyArray<ModelFacts> =>
  [...models.values()].filter((model) => model.vendor === vendor)
