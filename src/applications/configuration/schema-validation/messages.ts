import { type Fault } from "../../../kernel/problem.ts"

/** A file's text with its name, whose ending says how it is read. */
export interface SourceFile {
  readonly name: string
  readonly content: string
}

/** Asks for a content to be checked against a schema; without a content for the schema itself. */
export interface CheckRequest {
  readonly schema: SourceFile
  readonly content?: SourceFile
}

/** What was found, each fault with its place in the content (or, where `schemaAtFault`, in the schema). */
export interface CheckReply {
  readonly schemaAtFault: boolean
  readonly faults: ReadonlyArray<Fault>
}
