import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { type WireFormat } from "../format.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { Faults } from "../request-faults.ts"
import { namedEvents } from "../streams/written-events.ts"
import { boundMembers } from "../token-upper-bound.ts"
import { imageBound } from "./bound.ts"
import { ImageGathering, ImageReader, tellsOfImage } from "./stream.ts"
import { unitsOfImages, usageOfImages } from "./usage.ts"

/** Members of a request that cost no more than the images and the bytes. */
const generationMembers = boundMembers(
  "model prompt n size quality background moderation output_compression output_format partial_images response_format " +
    "stream style user"
)

const mostImages = 100
const mostPartialImages = 100

/** The faults of the members that metering reads. */
export const imageFaults = (body: Json) =>
  new Faults(body)
    .expect("prompt", typeof body.prompt === "string", "a text")
    .limit("n", 1, mostImages)
    .limit("partial_images", 0, mostPartialImages)
    .switch("stream")

const isImage = (image: unknown): boolean =>
  isJson(image) && [image.b64_json, image.url].some((one) => typeof one === "string" && one !== "")

const hasImages = (answer: unknown): boolean => isJson(answer) && listIn(answer.data).some(isImage)

/** A whole answer as the events of a stream; undefined where an image is not in it. */
export const streamedImages =
  (type: string) =>
  (answer: string): string | undefined => {
    const whole: unknown = JSON.parse(answer)
    if (!isJson(whole)) return undefined
    const { created, data, usage, ...members } = whole
    const images = listIn(data).filter(isJson)
    if (images.length === 0 || images.some(({ b64_json: image }) => typeof image !== "string")) return undefined
    const last = images.length - 1
    return namedEvents(
      images.map(({ b64_json }, index) =>
        Object.assign(
          { type, b64_json, created_at: created },
          members,
          index === last && usage !== undefined && { usage }
        )
      )
    )
  }

/** OpenAI's generation of images (API reference, "Images", "Create image"). */
export const openAiImages: WireFormat = {
  ...openAiChat,
  operation: "generate-image",
  api: "images",
  pathOf: () => "/images/generations",
  route: { path: "/v1/images/generations", capability: "llm:complete" },
  modelKind: "image",
  chargesBound: { medium: "image" },
  faults: (body) => imageFaults(body).found,
  metered: new Set([...openAiChat.metered, "size", "quality", "partial_images"]),
  bound: (body, terms) => imageBound(body, terms, generationMembers, { bytes: terms.bodyBytes, images: 0 }),
  edit: ({ body, bytes }, { model }) => edited(bytes, mergePatch(bytes, body, body.model === model ? {} : { model })),
  translation: {},
  usageIn: (value) => usageOfImages(value),
  unitsIn: unitsOfImages,
  hasContent: hasImages,
  holdsAnything: hasImages,
  tells: tellsOfImage,
  wordsIn: () => [],
  rewriting: () => undefined,
  pass: (given) => given,
  reader: (progress) => new ImageReader(progress),
  gathering: () => new ImageGathering(),
  streamed: streamedImages("image_generation.completed")
}
