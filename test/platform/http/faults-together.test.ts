import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { integerParameter } from "../../../src/kernel/http/parameter.ts"
import { IntegerId } from "../../../src/kernel/identifier.ts"
import { Validation } from "../../../src/kernel/problems/validation.ts"
import { text } from "../../../src/kernel/text.ts"
import { ValidationLayer } from "../../../src/platform/http/validation.ts"

const strict = { errors: "all", onExcessProperty: "error" } as const

/** No operation of the service reads all three parts, so this one does. */
class ThreePartsApi extends HttpApi.make("three-parts")
  .add(
    HttpApiGroup.make("things").add(
      HttpApiEndpoint.post("change", "/things/:id", {
        params: { id: integerParameter(IntegerId) },
        query: { limit: integerParameter(IntegerId) },
        payload: Schema.Struct({ name: text(1, 10), count: Schema.Int }),
        success: Schema.String
      })
    )
  )
  .middleware(Validation)
  .annotateMerge(
    Context.make(HttpApi.ParamsParseOptions, strict).pipe(
      Context.add(HttpApi.QueryParseOptions, strict),
      Context.add(HttpApi.PayloadParseOptions, strict)
    )
  ) {}

const Things = HttpApiBuilder.group(ThreePartsApi, "things", (handlers) =>
  handlers.handle("change", () => Effect.succeed("changed"))
)

const faultsOf = (path: string, body: string) =>
  Effect.acquireUseRelease(
    Effect.sync(() =>
      HttpRouter.toWebHandler(
        HttpApiBuilder.layer(ThreePartsApi).pipe(
          Layer.provide(Things),
          Layer.provide(ValidationLayer),
          Layer.provide(HttpServer.layerServices)
        ),
        { disableLogger: true }
      )
    ),
    ({ handler }) =>
      Effect.promise(async () => {
        const headers = { "content-type": "application/json" }
        const response = await handler(new Request(`http://localhost${path}`, { method: "POST", headers, body }))
        const answer: { errors?: ReadonlyArray<{ path: ReadonlyArray<string>; message: string }> } =
          await response.json()
        return { status: response.status, faults: answer.errors?.map((fault) => fault.path.join(".")) }
      }),
    ({ dispose }) => Effect.promise(dispose)
  )

it.effect("200: nothing wrong with any of them", () =>
  Effect.gen(function* () {
    const answer = yield* faultsOf("/things/1?limit=2", `{"name":"a","count":3}`)
    assert.strictEqual(answer.status, 200)
  })
)

it.effect("400: the address, the query and the body, all at once", () =>
  Effect.gen(function* () {
    const answer = yield* faultsOf("/things/01?limit=x&more=1", `{"name":"","count":"3","other":null}`)
    assert.strictEqual(answer.status, 400)
    assert.sameMembers(answer.faults ?? [], [
      "params.id",
      "query.limit",
      "query.more",
      "payload.name",
      "payload.count",
      "payload.other"
    ])
  })
)

it.effect("400: the address and the body, past a query with nothing wrong", () =>
  Effect.gen(function* () {
    const answer = yield* faultsOf("/things/0?limit=1", `{"name":"a"}`)
    assert.sameMembers(answer.faults ?? [], ["params.id", "payload.count"])
  })
)

it.effect("400: the query and a body that is no JSON", () =>
  Effect.gen(function* () {
    const answer = yield* faultsOf("/things/1", `{`)
    assert.sameMembers(answer.faults ?? [], ["query.limit", "payload"])
  })
)
