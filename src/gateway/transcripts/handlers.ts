import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { TranscriptsApi } from "./api.ts"
import { Transcripts } from "./service.ts"

export const TranscriptsHandlers = groupHandlers(
  TranscriptsApi,
  Effect.fn(function* (handlers) {
    const contents = yield* Transcripts
    return handlers.handleAll({ get: ({ params }) => contents.get(params.id) })
  })
)
