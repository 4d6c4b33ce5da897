import { Context, Effect } from "effect"
import { HttpApi } from "effect/http-api"
import { groupHandlersWith } from "../http/served-api.ts"
import { responseWriter } from "./response-writer.ts"
import { installReader } from "./schema-reader.ts"

/** `groupHandlers` for the hot groups, with readers for their payloads and writers for their responses, where their schemas allow it. */
export const fastGroupHandlers = groupHandlersWith((api, built) => {
  const options = Context.getOrUndefined(api.annotations, HttpApi.SuccessParseOptions)
  for (const [name, entry] of built.handlers) {
    for (const { schemas } of entry.endpoint.payload.values()) schemas.forEach(installReader)
    const toResponse = responseWriter(entry.endpoint, options)
    built.handlers.set(name, { ...entry, handler: (request) => Effect.map(entry.handler(request), toResponse) })
  }
  return built
})
