import { type SchemaAST } from "effect"
import { alternativesOf, invalid, isRecord, itemOf, membersOf, readerOf } from "./schema-reader.ts"

/** The JSON of a value; undefined where JSON omits it, null where the value does not match the schema. */
export type Write = (value: unknown, options: SchemaAST.ParseOptions) => string | undefined | null

/** Encodes a value and writes it as `JSON.stringify` would, in one pass. */
export const writerOf = (ast: SchemaAST.AST): Write => {
  const known = writers.get(ast)
  if (known !== undefined) return known
  const made = (isPlain(ast) ? structureOf(ast) : undefined) ?? leafOf(ast)
  writers.set(ast, made)
  return made
}
const writers = new WeakMap<SchemaAST.AST, Write>()

const isPlain = (ast: SchemaAST.AST): boolean => ast.encoding === undefined && ast.checks === undefined

const structureOf = (ast: SchemaAST.AST): Write | undefined => {
  switch (ast._tag) {
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

const leafOf = (ast: SchemaAST.AST): Write => {
  const read = readerOf(ast)
  return (value, options) => {
    const encoded = read(value, options)
    return encoded === invalid ? null : textOf(encoded)
  }
}

/** Text that needs no escapes in JSON. */
const verbatim = /^[ !#-[\]-\ud7ff\ue000-\uffff]*$/

const textOf = (value: unknown): string | undefined => {
  if (value === null) return "null"
  switch (typeof value) {
    case "string":
      return verbatim.test(value) ? `"${value}"` : JSON.stringify(value)
    case "number":
      return Number.isFinite(value) ? String(value) : "null"
    case "boolean":
      return value ? "true" : "false"
    default:
      return JSON.stringify(value)
  }
}

/** `JSON.stringify` writes such names first, in numeric order. */
const isIndex = /^\d+$/

const objectOf = (ast: SchemaAST.Objects): Write | undefined => {
  const members = ast.encodingChecks === undefined ? membersOf(ast) : undefined
  if (members === undefined || members.some(({ name }) => isIndex.test(name))) return undefined
  const written = members.map(({ isOptional, name, type }) => ({
    name,
    isOptional,
    first: `{${JSON.stringify(name)}:`,
    next: `,${JSON.stringify(name)}:`,
    write: writerOf(type)
  }))
  return (value, options) => {
    if (!isRecord(value) || options.onExcessProperty === "error") return null
    let text = ""
    for (const { first, isOptional, name, next, write } of written) {
      const given = value[name]
      if (given === undefined && !(name in value)) {
        if (isOptional) continue
        return null
      }
      const json = write(given, options)
      if (json === null) return null
      if (json !== undefined) text += (text === "" ? first : next) + json
    }
    return text === "" ? "{}" : `${text}}`
  }
}

const arrayOf = (ast: SchemaAST.Arrays): Write | undefined => {
  const item = ast.encodingChecks === undefined ? itemOf(ast) : undefined
  if (item === undefined) return undefined
  const write = writerOf(item)
  return (value, options) => {
    if (!Array.isArray(value)) return null
    let text = ""
    for (const one of value) {
      const json = write(one, options)
      if (json === null) return null
      text += (text === "" ? "[" : ",") + (json ?? "null")
    }
    return text === "" ? "[]" : `${text}]`
  }
}

const unionOf = (ast: SchemaAST.Union): Write | undefined => {
  const writes = ast.encodingChecks === undefined ? alternativesOf(ast)?.map(writerOf) : undefined
  if (writes === undefined) return undefined
  return (value, options) => {
    for (const write of writes) {
      const json = write(value, options)
      if (json !== null) return json
    }
    return null
  }
}
