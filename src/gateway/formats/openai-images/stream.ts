import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type TokenUsage } from "../domain.ts"
import { type DialectError, errorInEvent, readError } from "../errors.ts"
import { type ServerEvent, typeOf } from "../event-reader.ts"
import { type Gathering, type StreamProgress, type StreamReader } from "../format.ts"
import { usageOfImages, withImage } from "./usage.ts"

const partial = /^image_(?:generation|edit)\.partial_image$/
const completed = /^image_(?:generation|edit)\.completed$/

/** Whether an event has an image, whole or in part, or an error. */
export const tellsOfImage = (value: unknown): boolean =>
  isJson(value) && (Boolean(value.error) || value.type === "error" || typeof value.b64_json === "string")

/** Reads the events of images, of which each ends with one that has its usage. */
export class ImageReader implements StreamReader {
  readonly rewrites = false
  readonly holdsTerminator = false
  readonly endsByTerminator = true
  isOpen = false
  private readonly progress: StreamProgress
  private reported: TokenUsage | undefined
  private images = 0

  private readonly readsImages: boolean

  constructor(progress: StreamProgress, readsImages = false) {
    this.progress = progress
    this.readsImages = readsImages
  }

  take(value: unknown, event: ServerEvent): string {
    const failure = errorInEvent(value)
    if (failure !== undefined) this.progress.failed(failure)
    const type = typeOf(event, value)
    if (partial.test(type)) this.isOpen = true
    if (completed.test(type)) this.complete(value)
    return ""
  }

  terminator(): string {
    return ""
  }

  closing(): string {
    return ""
  }

  private complete(value: unknown): void {
    this.isOpen = false
    const usage = usageOfImages(value, this.readsImages)
    // One without a usage leaves that of the whole unknown.
    this.reported =
      usage === undefined || (this.images > 0 && this.reported === undefined)
        ? undefined
        : withImage(this.reported, usage)
    this.progress.report(this.reported, true)
    this.progress.finish("completed", this.images++)
  }
}

/** Members of an event that those of a whole answer have as well. */
const common = ["background", "output_format", "quality", "size"]

/** Assembles the events of images into a whole answer. */
export class ImageGathering implements Gathering {
  readonly endsByTerminator = true
  readonly done = false
  failure: DialectError | undefined
  private readonly images: Array<Json> = []

  get isFinished(): boolean {
    return this.images.length > 0
  }

  take(value: Json, event: ServerEvent): void {
    const type = typeOf(event, value)
    if (type === "error") this.failure = readError(502, value)
    if (value.error) this.failure = readError(502, { error: value.error })
    if (completed.test(type)) this.images.push(value)
  }

  whole(): Json {
    const last = this.images.at(-1)
    const usages = this.images.map(({ usage }) => usage)
    return {
      created: last?.created_at ?? 0,
      ...Object.fromEntries(
        common.flatMap((name) => (last?.[name] === undefined ? [] : [[name, last[name]] as const]))
      ),
      data: this.images.map(({ b64_json }) => ({ b64_json })),
      ...(usages.length === 1 && usages[0] !== undefined ? { usage: usages[0] } : {})
    }
  }
}
