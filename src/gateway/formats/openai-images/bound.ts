import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type ImageUnits } from "../domain.ts"
import { type BoundTerms } from "../format.ts"
import { type BoundTarget, unboundedModels } from "../provider-tools.ts"
import { askedIn } from "../served-domain.ts"
import { type BoundMembers, BoundWalk, perRequest, positive, type TokenUpperBound } from "../token-upper-bound.ts"
import { type ModelTraits } from "../traits-domain.ts"

/** What each partial image of a stream costs besides the image (OpenAI, "Image generation", Partial images cost). */
const perPartialImage = 100

/** A member that names one of several things; undefined where the model chooses. */
export const chosen = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" && value !== "auto" ? value : undefined

/** The most tokens of one image at a model; undefined where they are not known. */
const imageTokens = ({ quality, size }: Json, { outputImages = [] }: ModelTraits): number | undefined => {
  const [ofQuality, ofSize] = [chosen(quality), chosen(size)]
  const good = outputImages.filter((one) => ofQuality === undefined || one.quality === ofQuality)
  // What is not listed may be any of those that are.
  const known = good.length > 0 ? good : outputImages
  const sized = ofSize === undefined ? known : known.filter((one) => one.size === ofSize)
  const free = known.filter((one) => one.size === undefined)
  const meant = sized.length > 0 ? sized : free.length > 0 ? free : known
  return meant.length === 0 ? undefined : Math.max(...meant.map(({ tokens }) => tokens))
}

/** The most tokens that one image costs with what is written beside it; undefined if that is not known of a model. */
const outputTokens = (body: Json, { maxOutputTokens, models }: BoundTerms): number | undefined => {
  const partial = perPartialImage * (positive(body.partial_images) ?? 0)
  let most = 0
  for (const { traits } of models) {
    const image = imageTokens(body, traits)
    const beside = traits.writesBesideImages === true ? maxOutputTokens : 0
    if (image === undefined || beside === null) return undefined
    most = Math.max(most, image + beside)
  }
  return models.length === 0 ? undefined : most + partial
}

const isSoldByImage = ({ rates }: Pick<BoundTarget, "rates">): boolean => rates?.unitRates?.image !== undefined

/** The images of a request as they are sold by themselves; what it leaves open is as usual, if all models agree. */
const unitsOf = (body: Json, { models: [model, ...others] }: BoundTerms, count: number): ImageUnits => {
  const usual = others.length === 0 ? model?.traits.usualImage : undefined
  return { count, size: chosen(body.size) ?? usual?.size, quality: chosen(body.quality) ?? usual?.quality }
}

/** The maximum usage of a request for images, each of which is made and billed by itself, with all that is read. */
export const imageBound = (
  body: Json,
  terms: BoundTerms,
  members: BoundMembers,
  given: { readonly bytes: number; readonly images: number }
): TokenUpperBound => {
  const walk = new BoundWalk(terms.imageTokens)
  walk.members(body, members)
  const most = outputTokens(body, terms)
  if (most === undefined) {
    walk.unbounded.push({
      path: ["model"],
      message:
        "What an image costs at most is not known of this model: `outputImages` of the catalogue, or prices of images, say it",
      isBoundedAt: isSoldByImage
    })
  }
  // What is sold by the image has no tokens.
  const isByImage = most === undefined && terms.models.length > 0 && terms.models.every(isSoldByImage)
  const images = isByImage ? 0 : given.images * terms.imageTokens
  const n = positive(body.n) ?? 1
  return {
    mediaTokens: images,
    inputTokens: isByImage ? 0 : given.bytes + perRequest + images,
    readings: n,
    extraOutputTokens: 0,
    choices: n,
    askedOutputTokens: isByImage ? 0 : most,
    units: { images: [unitsOf(body, terms, n)] },
    asksFor: askedIn(body),
    unbounded: [...walk.unbounded, ...unboundedModels(terms.models)]
  }
}
