import { Schema } from "effect"
import { text } from "../../kernel/text.ts"
import { modelKinds } from "./domain.ts"

const describe = <S extends Schema.Top>(schema: S, description: string) =>
  Schema.optionalKey(schema).pipe(Schema.annotateKey({ description }))
const Tokens = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))
const Members = Schema.Array(text(1, 100)).pipe(Schema.check(Schema.isMaxLength(100)))

export const TokenEncoding = Schema.Literals(["o200k_base", "cl100k_base"])
export type TokenEncoding = typeof TokenEncoding.Type

/** What is known of a family of models besides its prices, as a catalogue has it. */
export const traitFields = {
  kind: describe(Schema.Literals(modelKinds), "`chat` unless given"),
  thinking: describe(
    Schema.Literals(["none", "asked", "default", "always"]),
    "Never, where a request asks, unless it turns it off, or always"
  ),
  thinkingBy: describe(
    Schema.Literals(["budget", "adaptive", "level"]),
    "What it is asked with: a budget, adaptive thinking and an effort, or a level"
  ),
  minThinkingTokens: describe(Tokens, "The smallest budget of thoughts"),
  hidesThoughts: describe(Schema.Boolean, "Streams leave billed thoughts out"),
  requiresThoughts: describe(Schema.Boolean, "Calls in the history are refused without their thoughts"),
  thoughtsIn: describe(
    Schema.Literals(["reasoning", "content", "signatures"]),
    "Where messages of chat completions have thoughts: the member `reasoning`, parts of the content, or signatures of calls; `reasoning_content` unless given"
  ),
  callIdLength: describe(Tokens, "Ids of calls have exactly so many letters and digits"),
  longestCallId: describe(Tokens, "The most characters of an id of a call"),
  takes: describe(
    Members,
    "Members of a request that it takes: `max_completion_tokens`, `prompt_cache_key`, `max_tokens_per_doc`, `top_k`; others have no effect"
  ),
  refuses: describe(
    Members,
    "Members that it refuses, which are left out: `max_tokens`, `max_completion_tokens`, `temperature`, `prompt_cache_key`, `session_id`, `top_n`; others have no effect"
  ),
  searches: describe(Schema.Literals(["once", "unbounded"]), "Searches by itself, once or as often as it decides"),
  takesOnlyImages: describe(Schema.Boolean, "The address of an image is never read as a document"),
  imageTokens: describe(Tokens, "The most that an image costs"),
  outputImages: describe(
    Schema.Array(
      Schema.Struct({
        size: describe(text(1, 63).annotate({ examples: ["1024x1024"] }), "Any that is not listed unless given"),
        quality: describe(text(1, 63).annotate({ examples: ["high"] }), "Any unless given"),
        tokens: Tokens.pipe(Schema.annotateKey({ description: "The most of one image" }))
      })
    ).pipe(Schema.check(Schema.isMaxLength(100))),
    "The tokens of an image that it makes, by its size and quality"
  ),
  usualImage: describe(
    Schema.Struct({
      size: text(1, 63)
        .annotate({ examples: ["1024x1024"] })
        .pipe(Schema.annotateKey({ description: "Its size" })),
      quality: describe(text(1, 63).annotate({ examples: ["standard"] }), "Its quality")
    }),
    "The image that it makes where a request does not say which, if it is always the same"
  ),
  audioTokensPerSecond: describe(Tokens, "The tokens of a second of audio that it reads, where it is sold by tokens"),
  maxAudioSeconds: describe(Tokens, "The longest audio that it takes; its provider refuses a longer one"),
  writesBesideImages: describe(
    Schema.Boolean,
    "Writes and bills a text beside each image; under a hard cap it needs `maxOutputTokens` of the model, which bounds the text"
  ),
  tokenizer: describe(TokenEncoding, "Its public tokenizer"),
  minCachedTokens: describe(Tokens, "The shortest beginning of a request that is cached"),
  soldOtherwise: describe(Schema.Boolean, "Billed by more than text tokens: not offered as built in")
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
