import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { Transcripts } from "./service.ts"
import { TranscriptsApi } from "./api.ts"

export const TranscriptsHandlers = groupHandlers(
  TranscriptsApi,
  Effect.fn(function* (handlers) {
    const contents = yield* Transcripts
    return handlers.handleAll({ get: ({ params }) => contents.get(params.id) })
  })
)
