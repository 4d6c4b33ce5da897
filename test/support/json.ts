import { type Schema } from "effect"

// V8 14.6 may read another escape in the place of a member that it knows as a lone backslash: after {"a":1,"\\":1} it finds
// a backslash in {"a":1,"\n":1}.
const loneBackslash = String.raw`"\\":`

/** Whether V8 reads JSON back as it was written, whatever it has read before. */
export const isReadBack = (value: Schema.Json): boolean => !JSON.stringify(value).includes(loneBackslash)
