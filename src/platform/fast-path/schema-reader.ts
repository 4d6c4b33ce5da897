import { Effect, Exit, Predicate, Schema, SchemaAST, SchemaParser } from "effect"
import { SchemaCompiler } from "effect/schema"

type Options = SchemaAST.ParseOptions

/** Decodes a value; `invalid` when it does not match the schema, or only the interpreter can tell. */
export type Read = (input: unknown, options: Options) => unknown

/** The result for a value that does not match; the interpreter then finds what is wrong with it. */
export const { invalid } = SchemaCompiler

/**
 * The reader of a schema: the steps of Effect's interpreter for a valid value, without an `Effect`, an `Exit` and a
 * generator for each of them, which took a tenth of the instructions of a small POST. Parts that it does not support
 * (records, tuples, recursion) are left to the interpreter.
 */
export const readerOf = (ast: SchemaAST.AST): Read => {
  const known = readers.get(ast)
  if (known !== undefined) return known
  const base = baseOf(ast)
  const made = base === undefined ? interpreted(ast) : withEncoding(ast, withChecks(ast, base))
  readers.set(ast, made)
  return made
}
const readers = new WeakMap<SchemaAST.AST, Read>()

/**
 * Makes every decoding of a schema use its reader; an invalid value is decoded again by the interpreter, which reports
 * every fault. The reader is made at its first use, so that the start is not delayed.
 */
export const installReader = (schema: Schema.Top): void => {
  const { ast } = schema
  if (installed.has(ast) || takesAbsence(ast)) return
  installed.add(ast)
  let detailed: SchemaCompiler.DecodeEffect | undefined
  SchemaCompiler.set(ast, {
    get decode() {
      return baseOf(ast) === undefined ? undefined : readerOf(ast)
    },
    decodeEffect: (input, options) => {
      if (input === SchemaCompiler.missing) return Effect.succeed(input)
      // A copy of the schema has no reader installed.
      detailed ??= SchemaParser.decodeUnknownEffect(codecOf(ast).annotate({}))
      return detailed(input, options)
    }
  })
}
const installed = new WeakSet<SchemaAST.AST>()

const codecOf = (ast: SchemaAST.AST) => Schema.make<Schema.Codec<unknown>>(ast)

const interpreted = (ast: SchemaAST.AST): Read => {
  const decode = SchemaParser.decodeUnknownEffect(codecOf(ast))
  return (input, options) => outcomeOf(decode(input, options))
}

/** The value of an effect that has completed; one that has to run is left to the interpreter. */
const outcomeOf = (effect: Effect.Effect<unknown, unknown, unknown>): unknown =>
  Exit.isExit(effect) && effect._tag === "Success" ? effect.value : invalid

const baseOf = (ast: SchemaAST.AST): Read | undefined => {
  switch (ast._tag) {
    case "Any":
    case "Unknown":
      return (input) => input
    case "String":
      return where(Predicate.isString)
    case "Number":
      return where(Predicate.isNumber)
    case "Boolean":
      return where(Predicate.isBoolean)
    case "BigInt":
      return where(Predicate.isBigInt)
    case "Null":
      return where(Predicate.isNull)
    case "Undefined":
      return where(Predicate.isUndefined)
    case "Literal":
      return where((input) => input === ast.literal)
    case "Declaration":
      return declarationOf(ast)
    case "Objects":
      return objectOf(ast)
    case "Arrays":
      return arrayOf(ast)
    case "Union":
      return unionOf(ast)
    default:
      return undefined
  }
}

const where =
  (holds: (input: unknown) => boolean): Read =>
  (input) =>
    holds(input) ? input : invalid

const declarationOf = (ast: SchemaAST.Declaration): Read | undefined => {
  if (ast.typeParameters.length > 0) return undefined
  const run = ast.run([])
  return (input, options) => {
    const value = outcomeOf(run(input, ast, options))
    // Effect's own declarations return this for an input that they accept unchanged.
    return value === SchemaCompiler.missing ? input : value
  }
}

/** The schema of every item of an array; undefined for tuples. */
export const itemOf = ({ elements, rest: [every, ...others] }: SchemaAST.Arrays): SchemaAST.AST | undefined =>
  elements.length > 0 || others.length > 0 ? undefined : every

const arrayOf = (ast: SchemaAST.Arrays): Read | undefined => {
  const item = itemOf(ast)
  if (item === undefined) return undefined
  const read = readerOf(item)
  return (input, options) => {
    if (!Array.isArray(input)) return invalid
    const output: Array<unknown> = []
    for (const one of input) {
      const value = read(one, options)
      if (value === invalid) return invalid
      output.push(value)
    }
    return output
  }
}

/** The members of a union whose first match counts; undefined for any other union. */
export const alternativesOf = ({ options, types }: SchemaAST.Union): ReadonlyArray<SchemaAST.AST> | undefined =>
  options?.mode === "oneOf" || types.some(takesAbsence) ? undefined : types

const unionOf = (ast: SchemaAST.Union): Read | undefined => {
  const reads = alternativesOf(ast)?.map(readerOf)
  if (reads === undefined) return undefined
  return (input, options) => {
    for (const read of reads) {
      const value = read(input, options)
      if (value !== invalid) return value
    }
    return invalid
  }
}

/** The members of an object with a fixed set of them; undefined for any other. */
export const membersOf = ({
  indexSignatures,
  propertySignatures
}: SchemaAST.Objects): ReadonlyArray<Member> | undefined => {
  if (indexSignatures.length > 0 || propertySignatures.length === 0) return undefined
  const members: Array<Member> = []
  for (const { name, type } of propertySignatures) {
    if (typeof name !== "string" || name === "__proto__" || takesAbsence(type)) return undefined
    members.push({ name, isOptional: SchemaAST.isOptional(type), type })
  }
  return members
}

interface Member {
  readonly name: string
  readonly isOptional: boolean
  readonly type: SchemaAST.AST
}

const objectOf = (ast: SchemaAST.Objects): Read | undefined => {
  const members = membersOf(ast)?.map(({ isOptional, name, type }) => ({ isOptional, name, read: readerOf(type) }))
  if (members === undefined) return undefined
  const names = new Set<PropertyKey>(members.map(({ name }) => name))
  return (input, options) => {
    if (!isRecord(input)) return invalid
    if (options.onExcessProperty === "error" && !Reflect.ownKeys(input).every((key) => names.has(key))) return invalid
    const output: Record<string, unknown> = {}
    for (const { isOptional, name, read } of members) {
      const given = input[name]
      if (given === undefined && !(name in input)) {
        if (isOptional) continue
        return invalid
      }
      const value = read(given, options)
      if (value === invalid) return invalid
      output[name] = value
    }
    return output
  }
}

export const isRecord = (input: unknown): input is Record<string, unknown> =>
  typeof input === "object" && input !== null && !Array.isArray(input)

const withChecks = (ast: SchemaAST.AST, read: Read): Read => {
  const before = filtersOf("encodingChecks" in ast ? ast.encodingChecks : undefined)
  const after = filtersOf(ast.checks)
  if (before.length === 0 && after.length === 0) return read
  const passes = (filters: typeof after, value: unknown, options: Options) =>
    filters.every((filter) => filter.run(value, ast, options) === undefined)
  return (input, options) => {
    const value = read(input, options)
    if (value === invalid || options.disableChecks) return value
    return passes(before, input, options) && passes(after, value, options) ? value : invalid
  }
}

const filtersOf = (checks: ReadonlyArray<SchemaAST.Check<unknown>> = []): ReadonlyArray<SchemaAST.Filter<unknown>> =>
  checks.flatMap((check) => (check._tag === "Filter" ? [check] : filtersOf(check.checks)))

const withEncoding = ({ encoding }: SchemaAST.AST, read: Read): Read =>
  (encoding ?? []).reduce<Read>((next, { to, transformation }) => {
    const before = readerOf(to)
    const step = stepOf(transformation)
    return (input, options) => {
      const encoded = before(input, options)
      if (encoded === invalid) return invalid
      const value = step(encoded, options)
      return value === invalid ? invalid : next(value, options)
    }
  }, read)

const stepOf = (transformation: SchemaAST.Link["transformation"]): Read => {
  if (transformation._tag === "Middleware") return () => invalid
  const { decode } = transformation
  switch (decode._tag) {
    case "Passthrough":
      return (value) => value
    case "Transform":
      return (value) => decode.transform(value)
    case "TransformEffect":
      return (value, options) => outcomeOf(decode.transform(value, options))
    default:
      return () => invalid
  }
}

/** Whether a schema decodes an absent member, as one with a default does. */
const takesAbsence = ({ encoding }: SchemaAST.AST): boolean =>
  encoding?.some(
    ({ to, transformation }) =>
      transformation._tag === "Middleware" ||
      transformation.decode._tag.startsWith("TransformOptional") ||
      takesAbsence(to)
  ) === true
