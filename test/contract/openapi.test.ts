import { assert, describe, it } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import { Schema } from "effect"
import { Api } from "../../src/api.ts"
import { Capability, isOwn } from "../../src/kernel/authority/capability.ts"
import { problemDefinitions, problemType } from "../../src/kernel/problems/problem.ts"
import { inlineDocument } from "../../src/platform/openapi/openapi.ts"
import {
  anonymousOperations,
  componentOf,
  dereferenced,
  document,
  documented,
  type Json,
  type MediaType,
  type Operation,
  operations,
  ownOperations,
  servedDocument,
  silentOperations,
  withoutReferences,
  withParametersOfPaths
} from "./document.ts"
import { exampleOf } from "./examples.ts"
import { faultsOf } from "./validator.ts"

const problemPrefix = problemType("")
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)
const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** A schema with every schema inside it, each with its place. */
const schemasIn = (schema: unknown, place: string): ReadonlyArray<readonly [place: string, schema: Json]> => {
  if (!isObject(schema)) return []
  const named = ["properties", "patternProperties", "$defs"].flatMap((keyword) =>
    Object.entries(isObject(schema[keyword]) ? schema[keyword] : {}).flatMap(([name, inner]) =>
      schemasIn(inner, `${place}/${keyword}/${name}`)
    )
  )
  const listed = ["anyOf", "oneOf", "allOf", "prefixItems"].flatMap((keyword) =>
    listOf(schema[keyword]).flatMap((inner, index) => schemasIn(inner, `${place}/${keyword}/${index}`))
  )
  const single = ["items", "additionalProperties", "not", "propertyNames"].flatMap((keyword) =>
    schemasIn(schema[keyword], `${place}/${keyword}`)
  )
  return [[place, schema], ...named, ...listed, ...single]
}

const schemasOfContent = (content: Operation["responses"][string]["content"], place: string) =>
  Object.entries(content ?? {}).flatMap(([type, { schema }]) => schemasIn(schema, `${place} ${type}`))

const schemasOfHeaders = (headers: Readonly<Record<string, Json>> | undefined, place: string) =>
  Object.entries(headers ?? {}).flatMap(([name, { schema }]) => schemasIn(schema, `${place} ${name}`))

const everySchema = [
  ...Object.entries(document.components.schemas).flatMap(([name, schema]) => schemasIn(schema, name)),
  ...operations.flatMap(({ operationId, parameters }) =>
    parameters.flatMap(({ name, schema }) => schemasIn(schema, `${operationId} ${name}`))
  ),
  ...operations.flatMap(({ operationId, requestBody }) => schemasOfContent(requestBody?.content, operationId)),
  ...operations.flatMap(({ operationId, responses }) =>
    Object.entries(responses).flatMap(([status, { content, headers }]) =>
      schemasOfContent(content, `${operationId} ${status}`).concat(
        schemasOfHeaders(headers, `${operationId} ${status}`)
      )
    )
  )
]

/** Each schema once, with one of its places. */
const schemas = [...new Map(everySchema.map(([place, schema]) => [schema, place]))].map(
  ([schema, place]) => [place, schema] as const
)

const problemTypeOf = (schema: Json): string | undefined => {
  const type = (schema.properties as Record<string, Json> | undefined)?.type?.const
  return typeof type === "string" && type.startsWith(problemPrefix) ? type : undefined
}
const problems = Object.entries(document.components.schemas).filter(([, schema]) => problemTypeOf(schema) !== undefined)

const membersOf = (value: unknown): ReadonlyArray<Json> => Object.values(isObject(value) ? value : {}).filter(isObject)
const served = servedDocument as { readonly components: Json; readonly paths: Json }
const servedOperations = membersOf(served.paths).flatMap(membersOf)
const writtenParameters = [
  ...[...membersOf(served.paths), ...servedOperations].flatMap(
    ({ parameters }) => listOf(parameters) as ReadonlyArray<Json>
  ),
  ...membersOf(served.components.parameters)
]
const writtenResponses = [
  ...servedOperations.flatMap(({ responses }) => membersOf(responses)),
  ...membersOf(served.components.responses)
]
const writtenHeaders = [
  ...writtenResponses.flatMap(({ headers }) => membersOf(headers)),
  ...membersOf(served.components.headers)
]
const writtenExamples = [
  ...[...writtenResponses, ...servedOperations.map(({ requestBody }) => (isObject(requestBody) ? requestBody : {}))]
    .flatMap(({ content }) => membersOf(content))
    .flatMap(({ examples }) => membersOf(examples)),
  ...membersOf(served.components.examples)
]

const examplesOf = ({ example, examples, schema }: MediaType): ReadonlyArray<unknown> => {
  if (example !== undefined) return [example]
  if (examples !== undefined) return Object.values(examples).map(({ value }) => value)
  return ((schema.anyOf as ReadonlyArray<Json> | undefined) ?? [schema]).map((one) => exampleOf(one))
}

/** What browsers visit, whose problems are pages for them. */
const browserOperations: ReadonlySet<string> = new Set(["oidcSignIn.start", "oidcSignIn.callback"])

const asJson = (value: unknown) => JSON.parse(JSON.stringify(value)) as Json

describe("the OpenAPI document", () => {
  it("passes Redocly's recommended rules without an error or a warning", async () => {
    // A literal segment takes precedence over a parameter, so such paths are not ambiguous here. What succeeds with a
    // redirection has no 2xx: the next test looks at that.
    const rules = { "no-ambiguous-paths": "off", "operation-2xx-response": "off" } as const
    const config = await createConfig({ extends: ["recommended"], rules })
    const found = await lintFromString({ source: JSON.stringify(servedDocument), config })
    assert.deepStrictEqual(
      found.map(({ location, message, ruleId }) => `${ruleId} ${location.map(({ pointer }) => pointer)}: ${message}`),
      []
    )
  })

  it("says what a list has in it, and of each alternative what it is, as strict generators ask", () => {
    const faults: Array<string> = []
    const look = (value: unknown, place: string): void => {
      if (Array.isArray(value)) return value.forEach((item, index) => look(item, `${place}/${index}`))
      if (!isObject(value)) return
      if (value.type === "array" && value.items === undefined) faults.push(`${place} has no items`)
      for (const [index, one] of [...listOf(value.anyOf), ...listOf(value.oneOf)].entries()) {
        const says = ["$ref", "type", "const", "enum", "anyOf", "oneOf", "allOf"]
        if (!isObject(one) || !says.some((name) => name in one)) faults.push(`${place}/anyOf/${index} has no type`)
      }
      for (const [name, member] of Object.entries(value)) {
        if (name !== "example" && name !== "examples" && name !== "value") look(member, `${place}/${name}`)
      }
    }
    look(servedDocument, "")
    assert.deepStrictEqual(faults, [])
  })

  it("declares a success of each operation: a 2xx, or a redirection that says where to", () => {
    for (const operation of membersOf(document.paths).flatMap(membersOf)) {
      const responses = operation.responses as Operation["responses"]
      const succeeds = Object.keys(responses).some((status) => status.startsWith("2"))
      assert.isTrue(succeeds || responses["303"]?.headers?.location !== undefined, String(operation.operationId))
    }
  })

  it("writes each response, parameter, header and example out once", () => {
    for (const places of [writtenResponses, writtenParameters, writtenHeaders, writtenExamples]) {
      const texts = places.filter((place) => place.$ref === undefined).map((place) => JSON.stringify(place))
      assert.deepStrictEqual(texts, [...new Set(texts)])
    }
  })

  it("is equal to the document without shared components once its references are followed", () => {
    const { components, ...inline } = withParametersOfPaths(asJson(inlineDocument(Api, "http://127.0.0.1:11402")))
    const { components: sharedComponents, ...shared } = withParametersOfPaths(withoutReferences(servedDocument))
    assert.deepStrictEqual(shared, inline)
    assert.deepStrictEqual((sharedComponents as Json).schemas, (components as Json).schemas)
  })

  it("takes at most 2.95 kB for each operation", () => {
    assert.isAtMost(JSON.stringify(servedDocument).length, 2950 * servedOperations.length)
  })

  it("gives components names that begin with a letter, as types do, and constants that are no text a type", () => {
    for (const [kind, components] of Object.entries(document.components)) {
      if (kind === "securitySchemes") continue
      for (const name of Object.keys(components)) assert.match(name, /^[A-Za-z]/, kind)
    }
    for (const [place, schema] of schemas) {
      if (schema.const !== undefined && typeof schema.const !== "string") assert.isString(schema.type, place)
    }
  })

  it("has no media type that clients which look at its beginning take for JSON", () => {
    const types = documented.flatMap(({ requestBody, responses }) =>
      [requestBody, ...Object.values(responses)].flatMap((body) => Object.keys(body?.content ?? {}))
    )
    assert.include(types, "application/x-ndjson")
    for (const type of new Set(types))
      assert.isTrue(type === "application/json" || !type.startsWith("application/json"))
  })

  it("has patterns that mean one thing to every engine of regular expressions, with and without the flag u", () => {
    const patterns = new Set<string>()
    const look = (value: unknown): void => {
      if (Array.isArray(value)) return value.forEach(look)
      if (!isObject(value)) return
      if (typeof value.pattern === "string") patterns.add(value.pattern)
      for (const [name, member] of Object.entries(value)) if (name !== "examples" && name !== "example") look(member)
    }
    look(servedDocument)
    assert.isAbove(patterns.size, 20)
    for (const pattern of patterns) {
      // RE2 and Rust know no look-around and no references; classes of Unicode are letters without the flag.
      assert.notMatch(pattern, /\(\?(?!:)|\\(?:[1-9bBkpPu]|c)/, pattern)
      for (const flags of ["", "u"]) assert.doesNotThrow(() => new RegExp(pattern, flags), pattern)
    }
  })

  it("describes every tag", () => {
    for (const tag of document.tags) assert.isAbove(tag.description?.length ?? 0, 0, tag.name)
  })

  it("names every component in PascalCase, and none Encoded", () => {
    for (const name of Object.keys(document.components.schemas)) {
      assert.match(name, /^[A-Z][A-Za-z0-9]*$/)
      assert.notMatch(name, /Encoded/)
    }
  })

  it("has no empty schema, and no untyped one without a word on what it is", () => {
    const typed = ["$ref", "type", "enum", "const", "anyOf", "oneOf", "allOf", "not", "format"]
    for (const [place, schema] of schemas) {
      assert.isAbove(Object.keys(schema).length, 0, `${place} is empty`)
      if (!typed.some((keyword) => keyword in schema)) assert.isString(schema.description, `${place} has no type`)
    }
  })

  it("bounds every integer, and spells none as text", () => {
    for (const [place, schema] of schemas) {
      if (schema.type === "number" && schema.const === undefined)
        assert.isNumber(schema.maximum, `${place} has no maximum`)
      assert.notInclude(String(schema.pattern), "[1-9]\\d", `${place} is an integer spelled as text`)
      if (schema.type !== "integer" || schema.enum !== undefined || schema.const !== undefined) continue
      assert.isTrue(Number.isInteger(schema.minimum), `${place} has no minimum`)
      assert.isTrue(Number.isInteger(schema.maximum), `${place} has no maximum`)
    }
  })

  it("has no allOf of mere checks", () => {
    for (const [place, schema] of schemas) {
      if (schema.allOf === undefined) continue
      assert.isTrue(
        listOf(schema.allOf).some((part) => isObject(part) && part.$ref !== undefined),
        `${place}/allOf can be merged`
      )
    }
  })

  it("has one complete component for each problem", () => {
    const known = new Set<string>(problemDefinitions().map(({ slug }) => problemType(slug)))
    // One type in two components: a budget denial is 400 where a plan is extended and 402 elsewhere, and the rate limit of a cap
    // has its figures besides.
    const others = new Set(["PlanExtensionDenied", "BudgetRateLimited"])
    const types = problems.filter(([name]) => !others.has(name)).map(([, schema]) => problemTypeOf(schema))
    assert.deepStrictEqual(types, [...new Set(types)], "two components have one type")
    for (const [name, schema] of problems) {
      assert.isTrue(known.has(problemTypeOf(schema) ?? ""), `${name} is not among GET /problems`)
      const required = [schema, ...(listOf(schema.allOf) as ReadonlyArray<Json>).map(dereferenced)].flatMap((part) =>
        listOf(part.required)
      )
      assert.includeMembers(required, ["type", "title", "status", "detail", "traceId"], name)
      assert.isString(schema.description, name)
      assert.isTrue(Number.isInteger((schema.properties as Record<string, Json>).status?.const), name)
    }
  })

  it("names every operation once", () => {
    const ids = operations.map(({ operationId }) => operationId)
    assert.deepStrictEqual(ids, [...new Set(ids)])
  })
})

describe.each(operations.map((operation) => [operation.operationId, operation] as const))("%s", (_, operation) => {
  const { operationId, parameters, requestBody, responses } = operation
  const anonymous = anonymousOperations.includes(operationId)

  it("is described", () => {
    assert.match(operationId, /^[a-z][A-Za-z0-9]*\.[a-z][A-Za-z0-9]*$/)
    assert.isAbove(operation.summary.length, 0)
    assert.isAbove(operation.description.length, 0)
    assert.isAbove(operation.tags.length, 0)
    for (const tag of operation.tags)
      assert.isTrue(
        document.tags.some(({ name }) => name === tag),
        `tag ${tag}`
      )
  })

  it("says who may call it", () => {
    const capability = operation["x-required-capability"]
    if (anonymous) {
      assert.deepStrictEqual(operation.security, [])
      return assert.isUndefined(capability)
    }
    assert.isNotEmpty(operation.security, "say in its api.ts who may call it: `access`")
    if (ownOperations.includes(operationId)) return assert.isUndefined(capability)
    assert.isTrue(Schema.is(Capability)(capability), `x-required-capability is ${capability}`)
    assert.isTrue(
      isOwn(capability ?? ""),
      `${capability} is no capability: add its resource in src/kernel/authority/capability.ts`
    )
  })

  it("declares its success and its errors", () => {
    const statuses = Object.keys(responses)
    assert.isTrue(statuses.some((status) => /^[23]/.test(status)))
    const inPath = parameters.some((parameter) => parameter.in === "path")
    const given = parameters.some((parameter) => parameter.in !== "header") || requestBody !== undefined
    const repeatable = parameters.some(({ name }) => name === "Idempotency-Key")
    assert.includeMembers(statuses, [
      "406",
      "500",
      "503",
      ...(anonymous ? [] : ["401", "403", "429"]),
      ...(given ? ["400"] : []),
      ...(inPath && !silentOperations.includes(operationId) ? ["404"] : []),
      ...(requestBody === undefined ? [] : ["413", "415"]),
      ...(repeatable ? ["400", "409", "422"] : [])
    ])
    assert.strictEqual(statuses.includes("422"), repeatable, "422 and Idempotency-Key go together")
    for (const [status, { content, description }] of Object.entries(responses)) {
      assert.isAbove(description.length, 0, status)
      if (Number(status) < 400) continue
      const page = browserOperations.has(operationId) ? ["text/html"] : []
      assert.deepStrictEqual(Object.keys(content ?? {}), ["application/problem+json", ...page], status)
      const schema = content?.["application/problem+json"]?.schema ?? {}
      for (const one of (schema.anyOf as ReadonlyArray<Json> | undefined) ?? [schema]) {
        const { properties } = dereferenced(one)
        const problem = properties as Record<string, Json> | undefined
        assert.strictEqual(problem?.status?.const, Number(status), `${status} ${componentOf(one)}`)
      }
    }
  })

  it("has an example of each body, written or composed of those of its parts, and each is valid", () => {
    const bodies = [
      ...Object.entries(requestBody?.content ?? {}).map(([type, media]) => ["request", type, media] as const),
      ...Object.entries(responses).flatMap(([status, { content }]) =>
        Object.entries(content ?? {}).map(([type, media]) => [status, type, media] as const)
      )
    ]
    for (const [place, type, media] of bodies) {
      if (!type.includes("json")) continue
      for (const example of examplesOf(media)) {
        assert.isDefined(example, `${place} has no example`)
        assert.deepStrictEqual(faultsOf(media.schema, example), [], place)
      }
    }
  })
})
