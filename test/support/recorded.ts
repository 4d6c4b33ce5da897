import * as fs from "node:fs"
import * as path from "node:path"
import * as zlib from "node:zlib"

/** Recorded exchanges with providers, in the form of the README beside them; not a part of the project. */
export const recordedFile =
  process.env.RECORDED_EXCHANGES ??
  path.resolve(import.meta.dirname, "../../../shared/data/recorded/exchanges.jsonl.gz")

export const hasRecorded = fs.existsSync(recordedFile)

/** A provider's answer as it was recorded. */
export interface RecordedExchange {
  readonly id: string
  readonly vendor: string
  readonly dialect: string
  readonly streamed: boolean
  /** The body that was sent, where it is known. */
  readonly request?: Readonly<Record<string, unknown>>
  readonly features: ReadonlyArray<string>
  readonly status: number
  readonly contentType: string
  readonly headers: Readonly<Record<string, string>>
  /** `anthropic-beta`, where it was sent. */
  readonly requestHeaders?: Readonly<Record<string, string>>
  /** Whether only the answer was recorded. */
  readonly requestIsOurs?: boolean
  readonly body: string
}

export const readRecorded = (): ReadonlyArray<RecordedExchange> =>
  zlib
    .gunzipSync(fs.readFileSync(recordedFile))
    .toString("utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as RecordedExchange)
