import { assert, describe, it } from "@effect/vitest"
import { body } from "../../src/console/declarations.ts"
import { contextAt, placeAt, placesIn, syntaxFaultOf } from "../../src/console/web/kit/texts/json-places.ts"
import { descriptionAt, memberProposals, schemaFaults, valueProposals } from "../../src/console/web/kit/texts/schema.ts"

const schema = body("llmAdmin.putConfiguration")

/** The faults of a document, each with its path and what the text has at its place. */
const faultsOf = (text: string) => {
  const root = placesIn(text)
  assert.isDefined(root)
  return schemaFaults(schema, root).map(({ from, message, path, to }) => [
    path.join("."),
    text.slice(from, to),
    message
  ])
}

/** What is written at the place of `|`. */
const at = (marked: string) => {
  const place = marked.indexOf("|")
  const found = contextAt(marked.replace("|", ""), place)
  return found && [found.kind, found.path.join("."), found.token]
}

describe("a JSON text", () => {
  it.each([
    ['{ "a": 1', 8, "The text ends"],
    ['{ "a": x }', 7, "x is no value"],
    ['{ "a": 1 "b": 2 }', 8, "Expected a comma or }"],
    ['{ "a": 1, }', 8, "A comma is followed by another member"],
    ["[1, 2,]", 5, "A comma is followed by another value"],
    ["{ a: 1 }", 2, "Expected the name of a member in double quotes"],
    ['{ "a" 1 }', 6, "Expected a colon"],
    ["{ 'a': 1 }", 2, "Expected the name of a member in double quotes"],
    ["{ \"a\": 'b' }", 7, "Texts are in double quotes"],
    ['{ "a": "b\n}', 7, "The text in quotes does not end"],
    ["{} []", 3, "The document has ended before this"],
    ["// no\n{}", 0, "JSON has no comments"],
    ["", 0, "The text ends"]
  ])("says what is wrong with %j, and where", (text, place, message) => {
    const found = syntaxFaultOf(text)
    assert.strictEqual(found?.at, place)
    assert.include(found?.message, message)
  })

  it.each(['{"a":{"b":[1,{"c":"\\"}"}]}}', "[]", ' "text" ', "\ufeff{}", "-1.5e3", '{"":{}}'])(
    "of %j has a place for each value",
    (text) => {
      assert.isUndefined(syntaxFaultOf(text))
      const root = placesIn(text)
      const value = JSON.parse(text.replace("\ufeff", ""))
      assert.deepStrictEqual(root && JSON.parse(text.slice(root.from, root.to)), value)
    }
  )

  it("finds values and names by their paths, and the nearest for what is missing", () => {
    const text = '{ "a": [{ "b": 7, "c": {} }] }'
    const root = placesIn(text)
    assert.isDefined(root)
    const shown = (...path: ReadonlyArray<string | number>) => text.slice(...placeAt(root, path))
    assert.strictEqual(shown("a", 0, "b"), "7")
    assert.strictEqual(shown("a", 0, "c"), '"c"')
    assert.strictEqual(shown("a", 0, "c", "d"), '"c"')
    assert.strictEqual(shown("a"), '"a"')
  })

  it.each([
    ['{ "providers": [{ "id": "a", | }] }', ["name", "providers.0", ""]],
    ['{ "providers": [{ "dia|" }] }', ["name", "providers.0", '"dia"']],
    ['{ "providers": [{ dia| ', ["name", "providers.0", "dia"]],
    ['{ "providers": [{ "dialect": "|" }] }', ["value", "providers.0.dialect", '""']],
    ['{ "providers": [{ "dialect": "op|', ["value", "providers.0.dialect", '"op']],
    ['{ "providers": [{}, { "apis": ["chat", |', ["value", "providers.1.apis.1", ""]],
    ['{ "routing": { "breaker": { "failures": 5 }, "str|": 1 } }', ["name", "routing", '"str"']],
    ['{ "routing": { "str|} }', ["name", "routing", '"str']],
    ['{ "cache": {}, "mod|', ["name", "", '"mod']]
  ])("knows what is written at the cursor in %s", (marked, expected) => {
    assert.deepStrictEqual(at(marked), expected)
  })
})

describe("the gateway's document", () => {
  it("has no fault where it is as its schema says", () => {
    const provider = { id: "a", dialect: "openai", baseUrl: "https://a.example.com", headers: { "x-team": "a" } }
    const model = { id: "m", kind: "chat", targets: [{ provider: "a", model: "m", weight: 0 }] }
    assert.deepStrictEqual(faultsOf(JSON.stringify({ providers: [provider], models: [model], routing: {} })), [])
  })

  it("has its faults where they are, and all of them", () => {
    const text = `{
  "providers": [{ "id": "A", "dialect": "opnai", "base_url": "x", "apis": [], "headers": { "x": 1 } }],
  "models": [{ "id": "m", "kind": "chat", "targets": {}, "prices": { "inputUsdPerMTok": "1" } }],
  "routing": { "retries": 99, "retries": 1.5, "breaker": [] },
  "caches": {}
}`
    const found = faultsOf(text)
    const paths = found.map(([path, shown]) => `${path} ${shown}`)
    assert.sameMembers(paths, [
      "providers.0.baseUrl {",
      'providers.0.id "A"',
      'providers.0.dialect "opnai"',
      'providers.0.base_url "base_url"',
      'providers.0.apis "apis"',
      "providers.0.headers.x 1",
      'models.0.targets "targets"',
      'models.0.prices.inputUsdPerMTok "1"',
      "routing.retries 99",
      'routing.retries "retries"',
      'routing.breaker "breaker"',
      'caches "caches"'
    ])
    const messages = new Map(found.map(([path, , message]) => [path, message]))
    assert.strictEqual(messages.get("providers.0.base_url"), "Unknown member: did you mean baseUrl?")
    assert.strictEqual(messages.get("caches"), "Unknown member: did you mean cache?")
    assert.strictEqual(
      messages.get("providers.0.dialect"),
      'Expected one of "openai", "anthropic", "gemini", "loopback"'
    )
  })

  it("proposes the members that are missing, those first that it must have, and the values of those that have some", () => {
    const members = memberProposals(schema, ["providers", 0], new Set(["id"]), false)
    assert.notInclude(
      members.map(({ label }) => label),
      "id"
    )
    assert.deepStrictEqual(
      members.filter(({ isRequired }) => isRequired).map(({ text }) => text),
      ['"dialect": "|"', '"baseUrl": "|"']
    )
    assert.isTrue(members.every(({ info }) => info !== undefined))
    const values = valueProposals(schema, ["routing", "strategy"]).map(({ label }) => label)
    assert.include(values, '"least-latency"')
    assert.deepStrictEqual(
      valueProposals(schema, ["models", 3, "cache"]).map(({ label }) => label),
      ["true", "false"]
    )
    assert.match(descriptionAt(schema, ["models", 0, "targets", 1, "weight"]) ?? "", /share of calls/)
  })
})
