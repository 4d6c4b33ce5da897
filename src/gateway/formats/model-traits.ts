import { Schema } from "effect"

const describe = <S extends Schema.Top>(schema: S, description: string) =>
  Schema.optionalKey(schema).pipe(Schema.annotateKey({ description }))
const Tokens = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))
const Members = Schema.Array(
  Schema.String.pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(100))).annotate({
    examples: ["max_completion_tokens"]
  })
).pipe(Schema.check(Schema.isMaxLength(100)))

export const TokenEncoding = Schema.Literals(["o200k_base", "cl100k_base"])
export type TokenEncoding = typeof TokenEncoding.Type

/** What is known of a family of models besides its prices, as a catalogue has it. */
export const traitFields = {
  kind: describe(Schema.Literals(["chat", "embedding"]), "What it does; `chat` unless given"),
  thinking: describe(
    Schema.Literals(["none", "asked", "default", "always"]),
    "Whether it thinks: never, where a request asks for it, unless a request turns it off, or always"
  ),
  thinkingBy: describe(
    Schema.Literals(["budget", "adaptive", "level"]),
    "How a request in its vendor's format asks for thoughts: by a budget of tokens, by an effort beside adaptive thinking, or by a level"
  ),
  minThinkingTokens: describe(Tokens, "The smallest budget of thoughts that it takes"),
  hidesThoughts: describe(Schema.Boolean, "Whether its stream leaves out thoughts that are billed"),
  requiresThoughts: describe(
    Schema.Boolean,
    "Whether it refuses a call of a tool in the history without the thoughts before it"
  ),
  takes: describe(Members, "Members of a request that it takes, which not every server of its dialect does"),
  refuses: describe(Members, "Members of a request that it refuses, or does not read"),
  searches: describe(
    Schema.Literals(["once", "unbounded"]),
    "Whether it searches or runs tools by itself: once for each answer, or as often as it decides"
  ),
  takesOnlyImages: describe(
    Schema.Boolean,
    "Whether it reads nothing but an image at the address of an image; elsewhere that may be a document"
  ),
  imageTokens: describe(Tokens, "The most that an image costs, where that is more than usual"),
  tokenizer: describe(TokenEncoding, "Its public tokenizer"),
  minCachedTokens: describe(Tokens, "The shortest beginning of a request that its provider caches"),
  soldOtherwise: describe(
    Schema.Boolean,
    "Whether it is billed by more than text tokens, so that the built-in catalogue does not offer it"
  )
}

type Facts = typeof TraitFacts.Type
const TraitFacts = Schema.Struct(traitFields)

/** What is known of one model at one vendor; a member that is missing is not known. */
export interface ModelTraits extends Omit<Facts, "takes" | "refuses"> {
  readonly takes: ReadonlySet<string>
  readonly refuses: ReadonlySet<string>
}

/** A model of which nothing is known. */
export const noTraits: ModelTraits = { takes: new Set(), refuses: new Set() }
