import { Schema, Struct } from "effect"
import { text } from "../../kernel/text.ts"
import { ProviderApi } from "../formats/domain.ts"
import { traitFields } from "../formats/traits-domain.ts"
import { mediaClasses, PriceFactor, Prices, ToolFees, UsdPerMTok } from "./rate-domain.ts"

const optional = Schema.optionalKey
const describe = <S extends Schema.Top>(schema: S, description: string) =>
  schema.pipe(Schema.annotateKey({ description }))

const Vendor = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^[a-z0-9][a-z0-9._-]{0,62}$/u, { expected: "1 to 63 of a-z, 0-9, '.', '_' and '-'" }))
).annotate({ examples: ["openai"] })
const Tokens = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))
const Source = text(1, 1000)
const Day = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^\d{4}-\d{2}-\d{2}$/u, { expected: "a date, as 2026-11-22" }))
).annotate({ examples: ["2026-11-22"] })

const CatalogueFact = Schema.Struct({
  provider: describe(Vendor, "The vendor, or the id of a configured provider"),
  model: describe(text(1, 200).annotate({ examples: ["gpt-4o"] }), "The provider's own name for the model"),
  ...Struct.omit(Prices.fields, ["gpuHour"]),
  inputUsdPerMTok: describe(
    optional(UsdPerMTok),
    "Tokens that are read; the price of the model is not known unless given"
  ),
  apis: describe(
    optional(
      Schema.Array(ProviderApi).pipe(
        Schema.check(Schema.isMinLength(1), Schema.isMaxLength(ProviderApi.literals.length))
      )
    ),
    "The APIs that have it, such as `responses` alone; all that its provider has unless given"
  ),
  contextTokens: describe(optional(Tokens), "The longest request that it takes"),
  maxOutputTokens: describe(optional(Tokens), "The longest answer that it gives"),
  source: describe(optional(Source), "Where the facts are from; the catalogue's source unless given")
}).annotate({ identifier: "CatalogueModel" })
export type CatalogueFact = typeof CatalogueFact.Type

const ToolFact = Schema.Struct({
  provider: describe(Vendor, "The vendor, or the id of a configured provider"),
  ...ToolFees.fields,
  source: describe(optional(Source), "Where the fees are from; the catalogue's source unless given"),
  asOf: describe(optional(Day), "When they were read")
}).annotate({ identifier: "CatalogueTools" })

const BetaFact = Schema.Struct({
  provider: describe(Vendor, "The vendor whose beta header has it"),
  beta: describe(text(1, 200).annotate({ examples: ["context-1m-2025-08-07"] }), "A value of the header"),
  changes: describe(
    Schema.Literals(["nothing", "context", "cost"]),
    "Nothing of what a call may cost, how long requests may be, or what has no bound"
  ),
  contextTokens: describe(optional(Tokens), "The longest request with it"),
  source: optional(Source),
  asOf: optional(Day)
}).annotate({ identifier: "CatalogueBeta" })
export type BetaFact = typeof BetaFact.Type

const VendorPattern = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(/^[a-z0-9*][a-z0-9*._-]{0,62}$/u, { expected: "1 to 63 of a-z, 0-9, '.', '_', '-' and '*'" })
  )
).annotate({ examples: ["openai*"] })
const ModelPattern = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(/^\/?[A-Za-z0-9*?]+(?:[./:@_-]+[A-Za-z0-9*?]+)*$/u, {
      expected: "words of letters and digits, in which '*' is any part of a word and '?' one character"
    }),
    Schema.isMaxLength(200)
  )
).annotate({ examples: ["gpt-5"] })

export const ModelFamily = Schema.Struct({
  provider: describe(optional(VendorPattern), "The vendor, or a provider's id; any unless given"),
  models: describe(
    Schema.Array(ModelPattern).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(100))),
    "Words of the models' names, one after the other"
  ),
  ...traitFields,
  source: describe(optional(Source), "The catalogue's unless given"),
  asOf: describe(optional(Day), "When they were read")
}).annotate({ identifier: "CatalogueFamily" })
export type ModelFamily = typeof ModelFamily.Type
const Models = Schema.Array(text(1, 200)).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(1000)))

const FactorFact = Schema.Struct({
  provider: describe(Vendor, "The vendor, or the id of a configured provider"),
  models: describe(optional(Models), "The provider's own names for the models; all of it unless given"),
  ...PriceFactor.fields,
  source: optional(Source),
  asOf: optional(Day)
}).annotate({ identifier: "CatalogueFactor" })
export type FactorFact = typeof FactorFact.Type

const MediaFact = Schema.Struct({
  provider: describe(Vendor, "The vendor, or the id of a configured provider"),
  models: describe(Models, "The provider's own names for the models"),
  ...mediaClasses,
  source: optional(Source),
  asOf: optional(Day)
}).annotate({ identifier: "CatalogueMedia" })
export type MediaFact = typeof MediaFact.Type

/** Facts about models and tools, in the form of the built-in catalogue. */
export const CatalogueDocument = Schema.Struct({
  source: describe(Source, "Where the facts are from"),
  asOf: describe(Day, "When they were read"),
  unit: optional(Schema.Literal("US dollars per million tokens")),
  models: Schema.Array(CatalogueFact).pipe(Schema.check(Schema.isMaxLength(20_000))),
  tools: describe(
    optional(Schema.Array(ToolFact).pipe(Schema.check(Schema.isMaxLength(1000)))),
    "What each use of a tool costs that a provider runs, in US dollars"
  ),
  betas: describe(
    optional(Schema.Array(BetaFact).pipe(Schema.check(Schema.isMaxLength(1000)))),
    "What values of the vendors' beta headers change; under a hard cap others are not sent"
  ),
  families: describe(
    optional(Schema.Array(ModelFamily).pipe(Schema.check(Schema.isMaxLength(1000)))),
    "What models do, take and refuse, by their names"
  ),
  factors: describe(
    optional(Schema.Array(FactorFact).pipe(Schema.check(Schema.isMaxLength(5000)))),
    "What other tiers, speeds and geographies cost; of a model, those of its own entry go before these"
  ),
  media: describe(
    optional(Schema.Array(MediaFact).pipe(Schema.check(Schema.isMaxLength(5000)))),
    "What tokens of audio, images and video cost; prices of the model's own entry go before these"
  )
}).annotate({
  identifier: "Catalogue",
  description: "What models cost, in US dollars per million tokens, and how long their requests and answers may be"
})
export type CatalogueDocument = typeof CatalogueDocument.Type
