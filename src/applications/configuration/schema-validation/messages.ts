import { type Fault } from "../../../kernel/problems/problem.ts"

/** A file's text with its name, whose ending says how it is read. */
export interface SourceFile {
  readonly name: string
  readonly content: string
}

/** Validates a content against a schema; without a content, the schema itself. */
export interface ValidationRequest {
  readonly schema: SourceFile
  readonly content?: SourceFile
}

/** What was found, each fault with its place in the content (or, where `schemaAtFault`, in the schema). */
export interface ValidationReply {
  readonly schemaAtFault: boolean
  readonly faults: ReadonlyArray<Fault>
}
