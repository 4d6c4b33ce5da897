import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { makeApplication, makeFile, makeFolder, save } from "../../support/configuration.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { serviceLayer, sharedServiceLayer, TestService } from "../../support/service.ts"

const settings = JSON.stringify({
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    port: { type: "integer", minimum: 1 },
    hosts: { type: "array", items: { type: "string", format: "hostname" } }
  },
  required: ["port"],
  additionalProperties: false
})

const draft7 = JSON.stringify({
  $schema: "http://json-schema.org/draft-07/schema#",
  definitions: { port: { type: "integer" } },
  properties: { port: { $ref: "#/definitions/port" } }
})

/** Some of what is checked here costs seconds of a processor that others may use as well. */
const patience = 120_000

/** An application with a schema file; answers how to create a file bound to it, and the schema's id. */
const withSchema = Effect.fnUntraced(function* (content: string, name = "schema.json") {
  const service = yield* TestService
  const applicationId = yield* makeApplication(service)
  const schemaId = yield* makeFile(service, applicationId, name, content)
  const create = (name: string, content: string) =>
    service.call("POST", "/api/configuration", { body: { applicationId, name, type: "file", content, schemaId } })
  return { service, applicationId, schemaId, create }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "configuration under a schema",
  (it) => {
    it.effect("201 and 400: JSON and YAML are checked when they are made, and every place is named", () =>
      Effect.gen(function* () {
        const { create } = yield* withSchema(settings)
        for (const [name, good, bad] of [
          ["a.json", '{"port":80,"hosts":["a.example"]}', '{"hosts":["a.example",5],"more":1}'],
          ["a.yaml", "port: 80\nhosts: [a.example]\n", "hosts: [a.example, 5]\nmore: 1\n"]
        ] as const) {
          assert.strictEqual((yield* create(name, good)).status, 201, name)
          assert.deepStrictEqual(faultPaths(yield* create(`x${name}`, bad)).toSorted(), [
            "payload.content.hosts.1",
            "payload.content.more",
            "payload.content.port"
          ])
        }
      })
    )

    it.effect("400: what is no JSON or YAML, with the line and column", () =>
      Effect.gen(function* () {
        const { create } = yield* withSchema("true")
        const json = yield* create("a.json", "{\n  'a': 1\n}")
        assert.deepStrictEqual(faultPaths(json), ["payload.content"])
        assert.match(json.body.errors[0].message, /^Expected JSON: .*line 2 column 3/u)
        const yaml = yield* create("a.yml", "a: 1\n b: 2\n")
        assert.deepStrictEqual(faultPaths(yaml), ["payload.content"])
        assert.match(yaml.body.errors[0].message, /^Expected YAML: .*\(line 1 column 4\)$/u)
        assert.deepStrictEqual(faultPaths(yield* create("b.json", "")), ["payload.content"])
        const twice = yield* create("b.yaml", "a: 1\nb: { c: 1, c: 2 }\na: 2\n")
        assert.deepStrictEqual(
          twice.body.errors.map(({ message }: { message: string }) => message),
          ["(line 3 column 1)", "(line 2 column 12)"].map((place) => `Expected YAML: Map keys must be unique ${place}`)
        )
      })
    )

    it.effect("400: a number of YAML that JSON does not have", () =>
      Effect.gen(function* () {
        const { create } = yield* withSchema('{"additionalProperties":{"type":"number"}}')
        assert.deepStrictEqual(faultPaths(yield* create("nan.yaml", "a: .nan\nb: .inf\n")), [
          "payload.content.a",
          "payload.content.b"
        ])
      })
    )

    it.effect("YAML is read as the tools that use it do: merge keys, several documents, tags of theirs", () =>
      Effect.gen(function* () {
        const strict = {
          type: "object",
          required: ["svc"],
          properties: {
            svc: { type: "object", required: ["timeout"], properties: { timeout: { type: "integer" }, retries: {} } }
          }
        }
        Object.assign(strict.properties.svc, { additionalProperties: false })
        const { create } = yield* withSchema(JSON.stringify(strict))
        for (const [name, content] of Object.entries({
          "merged.yaml": "base: &b {timeout: 3}\nsvc:\n  <<: *b\n",
          "overridden.yaml": "base: &b {timeout: x}\nsvc:\n  <<: *b\n  timeout: 3\n",
          "list.yml": "a: &a {timeout: 3}\nb: &b {retries: 1}\nsvc:\n  <<: [*a, *b]\n",
          "twice.yaml": "a: &a {timeout: 3}\nb: &b {retries: 1}\nsvc:\n  <<: *a\n  <<: *b\n",
          "manifests.yaml": "---\nsvc: {timeout: 1}\n---\n# of another\nsvc: {timeout: 2}\n---\n",
          "tags.yaml": "svc: {timeout: 1, retries: !Ref Retries}\n",
          "go.yaml": "base: &b !!map {timeout: 3}\n!!str svc:\n  !!merge <<: *b\n",
          "mark.yaml": "\ufeffsvc: {timeout: 1}\n"
        })) {
          const answer = yield* create(name, content)
          assert.strictEqual(answer.status, 201, `${name}: ${answer.text}`)
        }
        for (const [name, content, paths] of [
          ["lacking.yaml", "base: &b {retries: 3}\nsvc:\n  <<: *b\n", ["payload.content.svc.timeout"]],
          ["quoted.yaml", 'svc: {timeout: 1, "<<": {retries: 1}}\n', ["payload.content.svc.<<"]],
          ["scalar.yaml", "svc: {timeout: 1, <<: 5}\n", ["payload.content"]],
          ["second.yaml", "svc: {timeout: 1}\n---\nsvc: {timeout: x}\n", ["payload.content.1.svc.timeout"]],
          ["torn.yaml", "svc: {timeout: 1}\n---\nsvc: {\n", ["payload.content"]],
          ["keys.yaml", "svc: {timeout: 1}\n? [a]\n: 1\n", ["payload.content"]],
          ["tagged.yaml", "svc: {timeout: 1}\n!!str svc: {timeout: 1}\n", ["payload.content"]],
          ["empty.yaml", "# nothing yet\n", ["payload.content"]]
        ] as const) {
          assert.deepStrictEqual([...new Set(faultPaths(yield* create(name, content)))], paths, name)
        }
        const tagged = { bytes: "string", day: "string", names: "object", pairs: "array", share: "number" }
        const types = Object.fromEntries(Object.entries(tagged).map(([name, type]) => [name, { type }]))
        const values = "bytes: !!binary aGk=\nday: !!timestamp 2026-01-31\nnames: !!set {a, b}\n"
        const { create: createTagged } = yield* withSchema(JSON.stringify({ properties: types }))
        const answer = yield* createTagged("tagged.yaml", `${values}pairs: !!omap [a: 1]\nshare: !!float 3\n`)
        assert.strictEqual(answer.status, 201, answer.text)
        const several = yield* withSchema("type: object\n---\ntype: array\n", "schema.yaml")
        assert.deepStrictEqual(faultPaths(yield* several.create("a.json", "{}")), ["payload.schemaId"])
      })
    )

    it.effect("JSON may begin with a byte order mark, and has each member once", () =>
      Effect.gen(function* () {
        const { create, schemaId, service } = yield* withSchema(settings)
        const marked = yield* create("marked.JSON", '\ufeff{"port":1}')
        assert.strictEqual(marked.status, 201, marked.text)
        assert.strictEqual(
          (yield* service.call("GET", `/api/configuration/${marked.body.id}`)).body.content,
          '\ufeff{"port":1}'
        )
        yield* save(service, schemaId, `\ufeff${settings}`)
        assert.deepStrictEqual(faultPaths(yield* create("a.json", '\ufeff{"port":0}')), ["payload.content.port"])
        for (const content of [
          '{"port":1,"port":2}',
          '{"port":1,"more":[{"a":1,"\\u0061":2}]}',
          '{"port":1,"":1,"":1}'
        ]) {
          const twice = yield* create("twice.json", content)
          assert.deepStrictEqual(faultPaths(twice), ["payload.content"], content)
          assert.match(twice.body.errors[0].message, /^Expected JSON: an object has the member ".*" twice$/)
        }
        const { create: createAny } = yield* withSchema("true")
        assert.strictEqual((yield* createAny("case.json", '{"port":1,"Port":2}')).status, 201)
      })
    )

    it.effect("one text is read by the name that it has, whatever was read before", () =>
      Effect.gen(function* () {
        const text = "type: object\n"
        const upper = yield* withSchema(text, "schema.JSON")
        assert.deepStrictEqual(faultPaths(yield* upper.create("a.json", "{}")), ["payload.schemaId"])
        const yaml = yield* withSchema(text, "schema.yaml")
        assert.strictEqual((yield* yaml.create("a.json", "{}")).status, 201)
        const again = yield* withSchema(text, "schema.Json")
        assert.deepStrictEqual(faultPaths(yield* again.create("a.json", "{}")), ["payload.schemaId"])
      })
    )

    it.effect("400: a save and a rollback to what the schema no longer takes", () =>
      Effect.gen(function* () {
        const { create, schemaId, service } = yield* withSchema("{}")
        const { id } = (yield* create("a.json", '{"port":"80"}')).body
        yield* save(service, schemaId, settings)
        const refused = yield* service.call("PUT", `/api/configuration/${id}`, { body: { content: '{"port":0}' } })
        assert.deepStrictEqual(faultPaths(refused), ["payload.content.port"])
        assert.strictEqual(yield* save(service, id, '{"port":1}'), 2)
        const rolledBack = yield* service.call("POST", `/api/configuration/${id}/rollback`, { body: { version: 1 } })
        assert.deepStrictEqual(faultPaths(rolledBack), ["payload.content.port"])
        assert.strictEqual((yield* service.call("GET", `/api/configuration/${id}`)).body.version, 2)
      })
    )

    it.effect("a schema is given and taken by PATCH, which checks what is there", () =>
      Effect.gen(function* () {
        const { applicationId, schemaId, service } = yield* withSchema(settings)
        const id = yield* makeFile(service, applicationId, "a.json", '{"port":0}')
        const bind = (schemaId: number | null, more: object = {}) =>
          service.call("PATCH", `/api/configuration/${id}`, { body: { schemaId, ...more } })
        assert.deepStrictEqual(faultPaths(yield* bind(schemaId)), ["payload.content.port"])
        yield* save(service, id, '{"port":1}')
        assert.strictEqual((yield* bind(schemaId)).body.schemaId, schemaId)
        yield* save(service, id, '\n{"port":2}')
        assert.strictEqual((yield* bind(null, { name: "a.txt" })).body.schemaId, null)
        assert.strictEqual(yield* save(service, id, "anything"), 4)
        assert.deepStrictEqual(faultPaths(yield* bind(schemaId)), ["payload.content"])
      })
    )

    it.effect("draft 7 is a dialect too, and a schema may be YAML", () =>
      Effect.gen(function* () {
        const seven = yield* withSchema(draft7)
        assert.deepStrictEqual(faultPaths(yield* seven.create("a.json", '{"port":"x"}')), ["payload.content.port"])
        const yaml = yield* withSchema("type: object\nrequired: [a]\n", "schema.yaml")
        assert.deepStrictEqual(faultPaths(yield* yaml.create("a.json", "{}")), ["payload.content.a"])
      })
    )

    it.effect("decimals are counted as decimals, and a member that every object inherits is none", () =>
      Effect.gen(function* () {
        const priced = yield* withSchema('{"properties":{"price":{"multipleOf":0.01}}}')
        assert.strictEqual((yield* priced.create("a.json", '{"price":19.99}')).status, 201)
        const fine = yield* priced.create("b.json", '{"price":19.995}')
        assert.deepStrictEqual(faultPaths(fine), ["payload.content.price"])
        const inherited = yield* withSchema('{"required":["toString"]}')
        const lacking = yield* inherited.create("a.json", "{}")
        assert.deepStrictEqual(faultPaths(lacking), ["payload.content.toString"])
      })
    )

    it.effect("400: a schema that is none, or refers to what is elsewhere", () =>
      Effect.gen(function* () {
        for (const content of [
          "[",
          "5",
          '{"type":"nothing"}',
          '{"$ref":"https://example.com/schema.json"}',
          '{"pattern":"("}',
          '{"$async":true,"required":["a"]}'
        ]) {
          const { create } = yield* withSchema(content)
          assert.deepStrictEqual(faultPaths(yield* create("a.json", "{}")), ["payload.schemaId"], content)
        }
      })
    )

    it.effect("400: a schema that files name stays a schema", () =>
      Effect.gen(function* () {
        const { create, schemaId, service } = yield* withSchema(settings)
        yield* create("a.json", '{"port":1}')
        const refused = yield* service.call("PUT", `/api/configuration/${schemaId}`, {
          body: { content: '{"type":7}' }
        })
        assert.deepStrictEqual(faultPaths(refused), ["payload.content"])
        assert.strictEqual(yield* save(service, schemaId, "{}"), 2)
      })
    )

    it.effect("409: a schema that is a folder, unknown, another application's or the file itself", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const folder = yield* makeFolder(service, applicationId, "etc")
        const foreign = yield* makeFile(service, yield* makeApplication(service), "schema.json", "{}")
        const file = yield* makeFile(service, applicationId, "a.json", "{}")
        for (const schemaId of [folder, foreign, 2_147_483_647, file]) {
          const refused = yield* service.call("PATCH", `/api/configuration/${file}`, { body: { schemaId } })
          assertProblem(refused, 409, "configuration-schema-unfit")
        }
        const schemaId = yield* makeFile(service, applicationId, "schema.json", "{}")
        const bound = yield* service.call("PATCH", `/api/configuration/${folder}`, { body: { schemaId } })
        assertProblem(bound, 409, "configuration-schema-unfit")
      })
    )

    it.effect("409: a schema in use is not deleted before what uses it, nor restored after", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const folder = yield* makeFolder(service, applicationId, "schemas")
        const schemaId = yield* makeFile(service, applicationId, "schema.json", "{}", { parentId: folder })
        const inside = yield* makeFile(service, applicationId, "b.json", "{}", { parentId: folder, schemaId })
        const outside = yield* makeFile(service, applicationId, "a.json", "{}", { schemaId })
        const call = (method: string, path: string) => service.call(method, `/api/configuration/${path}`)
        for (const id of [schemaId, folder]) {
          assertProblem(yield* call("DELETE", `${id}`), 409, "configuration-schema-in-use")
        }
        assert.strictEqual((yield* call("DELETE", `${outside}`)).status, 204)
        assert.strictEqual((yield* call("DELETE", `${folder}`)).status, 204)
        assertProblem(yield* call("POST", `${outside}/restore`), 409, "configuration-schema-unfit")
        assert.strictEqual((yield* call("POST", `${folder}/restore`)).status, 200)
        assert.strictEqual((yield* call("POST", `${outside}/restore`)).status, 200)
        assert.strictEqual((yield* call("GET", `${inside}`)).body.schemaId, schemaId)
      })
    )

    it.effect(
      "a hostile schema or document ends its check and nothing else",
      () =>
        Effect.gen(function* () {
          const { create, service } = yield* withSchema('{"properties":{"a":{"pattern":"^(a+)+$"}}}')
          const slow = yield* create("slow.json", JSON.stringify({ a: `${"a".repeat(60)}!` }))
          assert.deepStrictEqual(faultPaths(slow), ["payload.content"])
          assert.include(slow.body.errors[0].message, "longer than 3 s")
          const laughs = Array.from({ length: 20 }, (_, index) => {
            const before = index === 0 ? '"ha"' : `*a${index - 1}`
            return `a${index}: &a${index} [${Array.from({ length: 10 }, () => before).join(", ")}]`
          })
          assert.deepStrictEqual(faultPaths(yield* create("laughs.yaml", laughs.join("\n"))), ["payload.content"])
          const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`
          assert.deepStrictEqual(faultPaths(yield* create("deep.yaml", deep)), ["payload.content"])
          // What is found takes hundreds of megabytes, which V8 may ask for at once.
          const words = yield* withSchema('{"items":{"enum":["a"]}}')
          for (const count of [100_000, 500_000]) {
            const wrong = yield* words.create("wrong.json", JSON.stringify(Array.from({ length: count }, () => 1)))
            assert.strictEqual(wrong.status, 400)
          }
          const narrow = yield* withSchema('{"additionalProperties":{"additionalProperties":false}}')
          const members = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`a${index}`, 1]))
          const long = yield* narrow.create("long.json", JSON.stringify({ ["k".repeat(1_000_000)]: members }))
          assert.strictEqual(long.status, 400)
          assert.isBelow(long.text.length, 200_000)
          const recursive = yield* withSchema('{"$ref":"#"}')
          assert.include([201, 400], (yield* recursive.create("a.json", "{}")).status)
          assert.strictEqual((yield* create("fine.json", '{"a":"aaa"}')).status, 201)
          assert.strictEqual((yield* service.call("GET", "/health")).status, 200)
        }),
      patience
    )
  }
)

const fewConnections = serviceLayer({ Database__MaxConnections: "2" })

layer(fewConnections, { excludeTestServices: true, timeout: "60 seconds" })("a check that takes long", (it) => {
  it.effect("holds no connection, and none of its process is left when its caller gives up", () =>
    Effect.gen(function* () {
      const { create, service } = yield* withSchema('{"properties":{"a":{"pattern":"^(a+)+$"}}}')
      const slow = create("slow.json", JSON.stringify({ a: `${"a".repeat(60)}!` }))
      const waiting = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 4 }), () => slow, { concurrency: "unbounded" }),
        { startImmediately: true }
      )
      yield* Effect.forEach(Array.from({ length: 20 }), () => makeApplication(service))
      yield* Fiber.interrupt(waiting)
      assert.strictEqual((yield* create("fine.json", '{"a":"aaa"}')).status, 201)
      assert.deepStrictEqual(faultPaths(yield* create("bad.json", '{"a":"b"}')), ["payload.content.a"])
    })
  )
})
