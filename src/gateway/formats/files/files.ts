import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type Dialect } from "../domain.ts"

/** What files of an API are for, where a form says it. */
export interface FilePurposes {
  /** The purpose of files with the requests of a batch. */
  readonly batch: string
  /** What is wrong with another purpose; undefined if a provider may get a file of it. */
  faultOf(purpose: string | undefined): string | undefined
}

/** How providers of a dialect keep files, which later requests name by their ids. */
export interface FilesApi {
  readonly dialect: Dialect
  /** What errors call it. */
  readonly name: string
  /** Where files are, at a provider, below its base URL. */
  readonly path: string
  /** The vendors and platforms whose providers get a file before others that speak the dialect. */
  readonly keepers: ReadonlySet<string>
  readonly purposes?: FilePurposes
  /** When a provider removes a file by itself, in milliseconds since 1970; undefined if it does not. */
  expiresAt(file: Json): number | undefined
}
