import { Context, Effect, Layer, Option } from "effect"
import { type HttpServerRequest } from "effect/http"
import { isJson, type Json } from "../../kernel/json/parsed-json.ts"
import { type GatewayError, type GatewayProblem, invalidMember } from "../errors/gateway-error.ts"
import { openAiFiles } from "../formats/files/openai-files.ts"
import { parseRequest } from "../pipeline/call-request.ts"
import { type BatchCaller } from "./batch-input.ts"
import { KeptFiles } from "./files.ts"
import { Batches, type MadeThing } from "./service.ts"

type Failure = GatewayError<GatewayProblem>

const maxBodyBytes = 65_536

/** OpenAI allows 16, of which one is the mark by which the batch is found again. */
const maxMetadata = 15

/** The members of a request for a batch; what another one would cost is not known. */
const members = new Set(["input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"])

const faultIn = (body: Json): Failure | undefined => {
  const unknown = Object.keys(body).find((name) => !members.has(name))
  if (unknown !== undefined)
    return invalidMember(unknown, `${unknown}: The gateway does not know this member of a batch`)
  const metadata = body.metadata ?? {}
  return isJson(metadata) && Object.keys(metadata).length <= maxMetadata
    ? undefined
    : invalidMember("metadata", `metadata: Expected an object with at most ${maxMetadata} members`)
}

/** Batches whose requests are in a file that was uploaded before. */
export class OpenAiFileBatches extends Context.Service<OpenAiFileBatches>()("app/gateway/OpenAiFileBatches", {
  make: Effect.gen(function* () {
    const batches = yield* Batches
    const files = yield* KeptFiles
    return {
      create: Effect.fn("OpenAiFileBatches.create")(function* (
        request: HttpServerRequest.HttpServerRequest,
        of: BatchCaller
      ): Effect.fn.Return<MadeThing, Failure> {
        const { body, bytes } = yield* parseRequest(request, maxBodyBytes)
        const fault = faultIn(body)
        if (fault !== undefined) return yield* fault
        const param = "input_file_id"
        const { tenantId } = of.caller.subject
        const { file, thing } = yield* files.find(tenantId, openAiFiles, String(body[param] ?? ""), param)
        if (Option.isNone(file) || file.value.terms === null) {
          return yield* invalidMember(param, `${param}: Expected a file that was uploaded here for a batch`)
        }
        const { places, terms } = file.value
        if (terms.url !== body.endpoint) {
          return yield* invalidMember("endpoint", `endpoint: The requests of the file are for ${terms.url}`)
        }
        return yield* batches.submit({
          ...of,
          provider: thing.provider,
          terms,
          places,
          bytes,
          body: (mark) => JSON.stringify(of.api.marked?.({ ...body, [param]: thing.id }, mark))
        })
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
