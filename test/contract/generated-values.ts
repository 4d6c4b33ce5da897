import { Arbitrary, Effect, Result, Schema } from "effect"
import { type Dice } from "./dice.ts"
import { dereferenced, type Json } from "./document.ts"
import { type KnownValues } from "./known-values.ts"

const samples = new Map<string, ReadonlyArray<string>>()

/** Texts that match a pattern and its bounds; none when the pattern is too intricate to generate from. */
const samplesOf = (pattern: string, minLength: number, maxLength: number): ReadonlyArray<string> => {
  const key = `${minLength} ${maxLength} ${pattern}`
  const known = samples.get(key)
  if (known !== undefined) return known
  const schema = Schema.String.pipe(
    Schema.check(
      Schema.isPattern(new RegExp(pattern, "u")),
      Schema.isMinLength(minLength),
      Schema.isMaxLength(Math.max(minLength, Math.min(maxLength, 100)))
    )
  )
  const sampled = Effect.runSync(
    Effect.result(Arbitrary.sampleEffect(Arbitrary.schema(schema), { count: 40, seed: key }))
  )
  const found = Result.getOrElse(sampled, () => [])
  samples.set(key, found)
  return found
}

const letters = [..."abcdefghijklmnopqrstuvwxyz0123456789"]
const anyCharacters = [...letters, ..."AÄÉßØÑ中文字кириλλΩ🎉👩 -_'.,%+&#/\\\"<>"]

const wordOf = (dice: Dice, from: ReadonlyArray<string>, length: number): string =>
  Array.from({ length }, () => dice.pickOr(from, "a")).join("")

/** The example, made another one by a prefix, where the pattern allows it. */
const variant = (dice: Dice, schema: Json): string | undefined => {
  const example = dice.pickOr((schema.examples as ReadonlyArray<unknown> | undefined) ?? [], undefined)
  if (typeof example !== "string") return undefined
  if (dice.chance(0.7)) return example
  const made = wordOf(dice, letters, 6) + example
  const fits = schema.pattern === undefined || new RegExp(String(schema.pattern), "u").test(made)
  return fits && made.length <= Number(schema.maxLength ?? 1000) && schema.format === undefined ? made : example
}

const formatted: Readonly<Record<string, (dice: Dice) => string>> = {
  "date-time": (dice) => new Date(dice.below(2 ** 32) * 1000).toISOString(),
  uuid: (dice) => `01990000-0000-7000-8000-${wordOf(dice, [..."0123456789abcdef"], 12)}`,
  ipv4: (dice) => [0, 0, 0, 0].map(() => dice.below(256)).join("."),
  ipv6: (dice) => `2001:db8::${dice.below(65_536).toString(16)}`
}

const textOf = (dice: Dice, schema: Json): string => {
  const alternatives = (schema.anyOf as ReadonlyArray<Json> | undefined) ?? [schema]
  const format = formatted[String(dice.pickOr(alternatives, schema).format)]
  if (format !== undefined && dice.chance(0.6)) return format(dice)
  const example = dice.chance(0.6) ? variant(dice, schema) : undefined
  if (example !== undefined) return example
  const minLength = Number(schema.minLength ?? 0)
  const maxLength = Number(schema.maxLength ?? 200)
  if (schema.pattern !== undefined && schema.pattern !== "\\S") {
    const matching = samplesOf(String(schema.pattern), minLength, maxLength)
    return dice.pickOr(matching, variant(dice, schema) ?? "")
  }
  const longest = dice.chance(0.1) ? maxLength : Math.min(maxLength, minLength + 20)
  return `${wordOf(dice, letters, 1)}${wordOf(dice, anyCharacters, minLength + dice.below(longest - minLength + 1))}`
    .slice(0, Math.max(longest, minLength))
    .toWellFormed()
}

const integerOf = (dice: Dice, schema: Json): number => {
  const minimum = Number(schema.minimum ?? 0)
  const maximum = Number(schema.maximum ?? 1000)
  return dice.pick([minimum, maximum, minimum + dice.below(Math.min(100, maximum - minimum + 1))])
}

/** A number within its bounds, mostly one of few decimals, as an amount has. */
const numberOf = (dice: Dice, schema: Json): number => {
  const minimum = Number(schema.minimum ?? 0)
  const maximum = Number(schema.maximum ?? 1000)
  const quarters = Math.ceil(minimum * 4) + dice.below(400)
  const example: unknown = dice.pickOr((schema.examples as ReadonlyArray<unknown> | undefined) ?? [], undefined)
  return dice.pick([
    minimum,
    maximum,
    Math.min(maximum, quarters / 4),
    typeof example === "number" ? example : Math.min(maximum, quarters / 4)
  ])
}

/** A value that conforms to a schema of the document, as far as the schema tells. */
export const valueOf = (dice: Dice, given: Json, known: KnownValues, name = "", depth = 0): unknown => {
  const schema = dereferenced(given)
  const existing = known.forMember(name)
  const typed = existing.filter((value) => fitsType(schema, value))
  if (typed.length > 0 && dice.chance(known.isReference(name) ? 0.7 : 0.15)) return dice.pickOr(typed, null)
  if (Array.isArray(schema.enum)) return dice.pickOr(schema.enum as ReadonlyArray<unknown>, null)
  if (schema.const !== undefined) return schema.const
  if (schema.type === undefined && Array.isArray(schema.anyOf)) {
    return valueOf(dice, dice.pickOr(schema.anyOf as ReadonlyArray<Json>, {}), known, name, depth + 1)
  }
  switch (schema.type) {
    case "string":
      return textOf(dice, schema)
    case "integer":
      return integerOf(dice, schema)
    case "number":
      return numberOf(dice, schema)
    case "boolean":
      return dice.chance(0.5)
    case "null":
      return null
    case "array":
      return Array.from({ length: Math.max(Number(schema.minItems ?? 0), dice.below(4)) }, () =>
        valueOf(dice, (schema.items as Json | undefined) ?? {}, known, name, depth + 1)
      )
    case "object":
      return objectOf(dice, schema, known, depth)
    default:
      return dice.pick<unknown>(["anything", 7, null, true, { any: "thing" }])
  }
}

const fitsType = (schema: Json, value: string | number): boolean => {
  if (Array.isArray(schema.anyOf) && schema.type === undefined) {
    return (schema.anyOf as ReadonlyArray<Json>).some((one) => fitsType(dereferenced(one), value))
  }
  return typeof value === "string" ? schema.type === "string" : schema.type === "integer"
}

/** The example, with some of its members made anew, and those that name things about things that are there. */
const exampleAbout = (
  dice: Dice,
  example: Json,
  properties: ReadonlyArray<readonly [string, Json]>,
  known: KnownValues,
  depth: number
): Json =>
  Object.fromEntries(
    properties.flatMap(([name, property]) =>
      name in example
        ? [
            [
              name,
              known.isReference(name) || dice.chance(0.3)
                ? valueOf(dice, property, known, name, depth + 1)
                : example[name]
            ]
          ]
        : []
    )
  )

/** A body that was taken, with up to two of its members made anew. */
export const changed = (dice: Dice, given: Json, body: unknown, known: KnownValues): unknown => {
  const properties = Object.entries((dereferenced(given).properties as Record<string, Json> | undefined) ?? {})
  if (typeof body !== "object" || body === null || Array.isArray(body) || properties.length === 0) return body
  const anew = Array.from({ length: dice.below(3) }, () => dice.pickOr(properties, undefined))
  return {
    ...body,
    ...Object.fromEntries(
      anew.flatMap((property) =>
        property === undefined ? [] : [[property[0], valueOf(dice, property[1], known, property[0], 1)]]
      )
    )
  }
}

const objectOf = (dice: Dice, schema: Json, known: KnownValues, depth: number): Json => {
  const required = new Set((schema.required as ReadonlyArray<string> | undefined) ?? [])
  const properties = Object.entries((schema.properties as Record<string, Json> | undefined) ?? {})
  // A free object may hold anything; a few plain members stand for all.
  if (properties.length === 0 && schema.additionalProperties !== false && depth < 5) {
    const member = typeof schema.additionalProperties === "object" ? (schema.additionalProperties as Json) : {}
    return Object.fromEntries(
      Array.from({ length: dice.below(4) }, () => [
        wordOf(dice, letters, 4),
        valueOf(dice, member, known, "", depth + 1)
      ])
    )
  }
  const example = dice.pickOr((schema.examples as ReadonlyArray<Json> | undefined) ?? [], {})
  if (Object.keys(example).length > 0 && dice.chance(0.3)) return exampleAbout(dice, example, properties, known, depth)
  return Object.fromEntries(
    properties.flatMap(([name, property]) =>
      required.has(name) || dice.chance(property.readOnly === true ? 0.2 : 0.5)
        ? [[name, valueOf(dice, property, known, name, depth + 1)]]
        : []
    )
  )
}
