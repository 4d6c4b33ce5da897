import { Context, Effect, Layer } from "effect"
import { CurrentPrincipal } from "../../../kernel/authority/principal.ts"
import { makeWorkerProcess } from "../../../platform/runtime/worker-process.ts"
import { type ValidationReply, type ValidationRequest } from "./messages.ts"

/** A megabyte of YAML takes half of it. */
const seconds = 3
const megabytes = 128

/**
 * Checks contents against JSON Schemas (drafts 7, 2019-09 and 2020-12) in a process of its own, which has three seconds of
 * the processor and 128 MiB for each: an expression that never ends, or a document that unfolds without bound, ends with its
 * process and leaves the service alone. References to other files are not followed.
 */
export class SchemaValidator extends Context.Service<SchemaValidator>()("app/applications/SchemaValidator", {
  make: Effect.gen(function* () {
    const module = new URL("schema-validation-worker.ts", import.meta.url)
    const ask = yield* makeWorkerProcess<ValidationRequest, ValidationReply>({ module, seconds, megabytes })
    return {
      validate: Effect.fn("SchemaValidator.validate")(function* (request: ValidationRequest) {
        const { name } = yield* CurrentPrincipal
        return yield* Effect.catchTag(ask(name, request), "WorkerProcessEnded", ({ reason }) =>
          Effect.succeed({
            schemaAtFault: false,
            faults: [{ path: [], message: `Could not be checked against the schema: ${reason}` }]
          })
        )
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
