import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeApplication, makeFile, save } from "../support/configuration.ts"
import { serviceLayer, TestService } from "../support/service.ts"

const lines = (seed: string) => Array.from({ length: 500_000 }, (_, index) => seed[index % 7]).join("\n")

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("large configuration files", (it) => {
  it.effect("201: as much YAML as a file may hold, under a schema", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      const schema = '{"additionalProperties":{"type":"number"}}'
      const schemaId = yield* makeFile(service, applicationId, "schema.json", schema)
      const keys = Array.from({ length: 47_000 }, (_, index) => `a-longer-key-${index}: 0`)
      const body = { applicationId, name: "large.yaml", type: "file", schemaId }
      const content = keys.join("\n").padEnd(1_048_576)
      const answer = yield* service.call("POST", "/api/configuration", { body: { ...body, content } })
      assert.strictEqual(answer.status, 201)
    })
  )

  it.effect("two contents of half a million other lines each are compared all the same", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", lines("abcdefg"))
      yield* save(service, id, lines("gfedcba"))
      const { status, text } = yield* service.call("GET", `/api/configuration/${id}/diff`)
      assert.strictEqual(status, 200)
      assert.include(text.slice(0, 200), "@@ -1,")
    })
  )
})
