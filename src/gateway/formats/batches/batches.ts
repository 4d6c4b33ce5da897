import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type Dialect } from "../domain.ts"
import { type ErrorWriter } from "../error-writer.ts"
import { type WireFormat } from "../format.ts"

/** A result of a batch, as its provider writes it in a line. */
export interface BatchResult {
  /** The caller's id of the request. */
  readonly customId: string
  /** The answer that is charged; undefined where the request failed, was cancelled or expired. */
  readonly answer: Json | undefined
}

/** The ids and addresses that a caller gets in the place of a provider's. */
export interface BatchNames {
  id(id: string): string
  /** Where the results of the batch with this id, as the caller has it, are served. */
  resultsUrl(id: string): string
}

/** How providers of a dialect take many requests at once, to be answered within a day. */
export interface BatchApi {
  readonly dialect: Dialect
  readonly errors: ErrorWriter
  /** Whether a batch takes its requests from a file and has its results in one; else it is made with its requests in one body. */
  readonly hasFiles: boolean
  /** Where batches are, at a provider, below its base URL. */
  readonly path: string
  /** Where a batch is cancelled, below its own path. */
  readonly cancelPath: string
  /** The formats of requests, by the paths that requests of it name. */
  readonly formats: ReadonlyMap<string, WireFormat>
  readonly maxRequests: number
  readonly maxBytes: number
  /** What ids of requests are. */
  readonly customId: RegExp
  /** Whether the provider has stopped working on a batch. */
  isEnded(batch: Json): boolean
  /** Where the results of a batch that has ended are, below the provider's base URL; none where nothing was completed. */
  resultPaths(batch: Json): ReadonlyArray<string>
  /** The result in a line of these; undefined if there is none. */
  resultIn(line: Json): BatchResult | undefined
  /** A request for a batch, marked so that it can be found again among those of the provider; undefined where none can be. */
  marked?(request: Json, mark: string): Json
  /** The mark of a batch. */
  markIn?(batch: Json): unknown
  /** The batch as its caller sees it. */
  shown(batch: Json, names: BatchNames): Json
}
