import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type BoundTerms } from "../format.ts"
import { filesIn } from "../forms/form.ts"
import { unboundedModels } from "../provider-tools.ts"
import { askedIn } from "../served-domain.ts"
import { boundMembers, BoundWalk, perRequest, type TokenUpperBound } from "../token-upper-bound.ts"
import { member } from "../usage.ts"

/** Members of a request that cost no more than the audio and the bytes. */
const transcriptionMembers = boundMembers(
  "model file prompt language response_format temperature stream include timestamp_granularities"
)

/** About the length of the pieces that audio is cut into where a request asks for it. */
const secondsPerPiece = 30

const isCut = (body: Json): boolean => Object.keys(body).some((name) => name.startsWith("chunking_strategy"))

/** The most seconds that a model gets: those of the file, or what the providers of all models take. */
const secondsOf = (body: Json, models: BoundTerms["models"]): number => {
  const given = filesIn(body, "file").reduce((sum, file) => sum + Number(member(file, "maxSeconds")), 0)
  const limits = models.map(({ traits }) => traits.maxAudioSeconds ?? Infinity)
  return Math.min(given, limits.length === 0 ? Infinity : Math.max(...limits))
}

/** The bytes of the texts of a request. */
const textBytes = (body: Json): number =>
  Object.entries(body).reduce((sum, [name, value]) => {
    return name === "file" ? sum : sum + Buffer.byteLength(JSON.stringify(value) ?? "")
  }, 0)

/** The maximum usage of a request for a transcription: seconds, and tokens where a model is sold by these. */
export const transcriptionBound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const { maxOutputTokens, models } = terms
  const walk = new BoundWalk(terms.imageTokens)
  walk.members(body, transcriptionMembers)
  walk.unbounded.push({
    path: ["model"],
    message:
      "What a second costs is not known of this model: `audioTokensPerSecond` of the catalogue, or a price of seconds, says it",
    isBoundedAt: ({ rates, traits }) =>
      traits.audioTokensPerSecond !== undefined || rates?.unitRates?.audioSecondUsd !== undefined
  })
  const seconds = secondsOf(body, models)
  const rates = models.flatMap(({ traits }) => traits.audioTokensPerSecond ?? [])
  const audio = rates.length === 0 ? 0 : Math.ceil(seconds * Math.max(...rates))
  const writes = rates.length > 0
  if (writes && maxOutputTokens === null) {
    walk.refuse(["model"], "What this model writes has no bound where its `maxOutputTokens` is not configured")
  }
  const pieces = writes && isCut(body) ? Math.max(1, Math.ceil(seconds / secondsPerPiece)) : 1
  return {
    mediaTokens: audio,
    inputTokens: writes ? audio + textBytes(body) + perRequest : 0,
    readings: pieces,
    extraOutputTokens: 0,
    choices: pieces,
    askedOutputTokens: writes ? (maxOutputTokens ?? undefined) : 0,
    asksFor: askedIn(body),
    writesText: true,
    units: { audioMilliseconds: Math.ceil(seconds * 1000) },
    unbounded: [...walk.unbounded, ...unboundedModels(models)]
  }
}
