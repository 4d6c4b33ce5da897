import { type Json } from "../../../kernel/json/parsed-json.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { type FormatTarget, type WireFormat } from "../format.ts"
import { filesIn } from "../forms/form.ts"
import { boundMembers } from "../token-upper-bound.ts"
import { imageBound } from "./bound.ts"
import { imageFaults, openAiImages, streamedImages } from "./format.ts"
import { ImageReader } from "./stream.ts"
import { usageOfImages } from "./usage.ts"

/** Members of a request that cost no more than the images and the bytes. */
const editMembers = boundMembers(
  "model prompt image mask n size quality background input_fidelity moderation output_compression output_format " +
    "partial_images response_format stream user"
)

const mostSources = 100

const changes = ({ model }: Json, target: FormatTarget) => (model === target.model ? {} : { model: target.model })

const { betaHeader: _, ...generation } = openAiImages

/** OpenAI's edits of images (API reference, "Images", "Create image edit"), whose requests are forms. */
export const openAiImageEdits: WireFormat = {
  ...generation,
  operation: "edit-image",
  pathOf: () => "/images/edits",
  route: { path: "/v1/images/edits", capability: "llm:complete" },
  form: {
    files: new Set(["image", "mask"]),
    numbers: new Set(["n", "partial_images", "output_compression"]),
    switches: new Set(["stream"]),
    changes
  },
  faults: (body) => {
    const count = filesIn(body, "image").length
    return imageFaults(body)
      .expect(
        "image",
        count > 0 && count === [body.image].flat().length && count <= mostSources,
        "a file, or a list of files"
      )
      .expect("mask", body.mask === undefined || filesIn(body, "mask").length === 1, "a file").found
  },
  bound: (body, terms) =>
    imageBound(body, terms, editMembers, {
      bytes: terms.bodyBytes,
      images: filesIn(body, "image").length + filesIn(body, "mask").length
    }),
  edit: ({ body, bytes }, target) => edited(bytes, mergePatch(bytes, body, changes(body, target))),
  usageIn: (value) => usageOfImages(value, true),
  reader: (progress) => new ImageReader(progress, true),
  streamed: streamedImages("image_edit.completed")
}
