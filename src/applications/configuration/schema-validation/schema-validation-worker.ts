import { Ajv, type ErrorObject } from "ajv"
import { default as formats } from "ajv-formats"
import { Ajv2019 } from "ajv/dist/2019.js"
import { Ajv2020 } from "ajv/dist/2020.js"
import { type Document, isNode, isScalar, type Scalar, LineCounter, parseAllDocuments, type Tags, visit } from "yaml"
import { repeatedMember } from "../../../kernel/json/json-scanner.ts"
import { replyWith } from "../../../platform/runtime/worker-process-body.ts"
import type { ValidationReply, ValidationRequest, SourceFile } from "./messages.ts"

type Fault = ValidationReply["faults"][number]
type Validate = ReturnType<Ajv["compile"]>

const maxFaults = 100
const maxSegments = 100
const maxText = 500
const maxCompiled = 20
const maxAliases = 100

class Unreadable extends Error {
  readonly faults: ReadonlyArray<Fault>
  constructor(faults: ReadonlyArray<Fault>) {
    super("unreadable")
    this.faults = faults
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const parseJson = (content: string): unknown => {
  // Editors of Windows write a byte order mark, which every reader of files leaves out.
  const text = content.replace(/^\ufeff/, "")
  let value: unknown
  try {
    value = JSON.parse(text) as unknown
  } catch (error) {
    throw new Unreadable([{ path: [], message: `Expected JSON: ${messageOf(error)}` }])
  }
  // Parsers differ in which of the two they use.
  const repeated = repeatedMember(new TextEncoder().encode(text), { isExact: true })
  if (repeated === undefined) return value
  throw new Unreadable([
    { path: [], message: `Expected JSON: an object has the member ${JSON.stringify(repeated)} twice` }
  ])
}

/** `<<`, also as Go writes it: `!!merge <<`. */
const isMergeKey = ({ type, value }: Scalar): boolean =>
  typeof value === "symbol" || (type === "PLAIN" && value === "<<")

// The parser's own search for keys that a map has twice compares each key with every other one.
const faultyKeys = (document: Document): ReadonlyArray<{ readonly message: string; readonly offset: number }> => {
  const faulty: Array<{ readonly message: string; readonly offset: number }> = []
  visit(document, {
    Map: (_, { items }) => {
      const seen = new Set<string>()
      for (const { key } of items) {
        const offset = (isNode(key) ? key.range?.[0] : undefined) ?? 0
        if (!isScalar(key)) {
          faulty.push({ message: "Map keys must be text", offset })
          continue
        }
        if (isMergeKey(key)) continue
        const text = String(key.value)
        if (seen.has(text)) faulty.push({ message: "Map keys must be unique", offset })
        seen.add(text)
      }
    }
  })
  return faulty
}

const floatTag = "tag:yaml.org,2002:float"

/** Tags of what JSON has no values of, such as `!!binary`, leave the text as it is written; `!!float 3` is a number. */
const options = {
  customTags: (tags: Tags): Tags => [...tags, { tag: floatTag, resolve: Number }],
  merge: true,
  prettyErrors: false,
  resolveKnownTags: false,
  stringKeys: true,
  uniqueKeys: false
} as const

/** A document of nothing, as a mark of separation at the end of a file makes one. */
const isEmptyDocument = ({ contents }: Document): boolean =>
  contents === null || (isScalar(contents) && contents.value === null && contents.source === "")

/** The values of the documents of a YAML file, of which most files have one. */
const parseYaml = (content: string): ReadonlyArray<unknown> => {
  const lineCounter = new LineCounter()
  const documents: ReadonlyArray<Document> = parseAllDocuments(content, { ...options, lineCounter })
  const errors = documents.flatMap((document) => [
    // A key with a tag is one of text, too.
    ...document.errors.flatMap(({ code, message, pos }) =>
      code === "NON_STRING_KEY" ? [] : [{ message, offset: pos[0] }]
    ),
    ...faultyKeys(document)
  ])
  if (errors.length > 0) {
    throw new Unreadable(
      errors.slice(0, maxFaults).map(({ message, offset }) => {
        const { col, line } = lineCounter.linePos(offset)
        return { path: [], message: `Expected YAML: ${message} (line ${line} column ${col})` }
      })
    )
  }
  const filled = documents.filter((document) => !isEmptyDocument(document))
  try {
    return filled.length === 0
      ? [null]
      : filled.map((document) => document.toJS({ maxAliasCount: maxAliases }) as unknown)
  } catch (error) {
    throw new Unreadable([{ path: [], message: `Expected YAML: ${messageOf(error)}` }])
  }
}

const isJson = (name: string): boolean => /\.json$/i.test(name)

/** JSON where the name ends so; everything else is read as YAML, of which JSON is a part. */
const parse = ({ content, name }: SourceFile): ReadonlyArray<unknown> =>
  isJson(name) ? [parseJson(content)] : parseYaml(content)

const dialectOf = (schema: unknown): string => {
  const uri: unknown = typeof schema === "object" && schema !== null && "$schema" in schema ? schema.$schema : undefined
  return typeof uri === "string" ? uri : ""
}

const compile = (file: SourceFile): Validate => {
  const [schema, ...others] = parse(file)
  if (others.length > 0) throw new Unreadable([{ path: [], message: "Expected a JSON Schema: one document of YAML" }])
  if (typeof schema !== "boolean" && (typeof schema !== "object" || schema === null || Array.isArray(schema))) {
    throw new Unreadable([{ path: [], message: "Expected a JSON Schema: an object, true or false" }])
  }
  const dialect = dialectOf(schema)
  const options = {
    allErrors: true,
    strict: false,
    strictNumbers: true,
    logger: false,
    validateFormats: true,
    // A member that every object inherits is none of its own.
    ownProperties: true,
    // 19.99 is no whole multiple of 0.01 as doubles.
    multipleOfPrecision: 9
  } as const
  try {
    const ajv = dialect.includes("draft-07")
      ? new Ajv(options)
      : dialect.includes("2019-09")
        ? new Ajv2019(options)
        : new Ajv2020(options)
    formats.default(ajv)
    const validate = ajv.compile(schema)
    // Ajv's own, whose result is a promise.
    if ("$async" in validate) throw new TypeError("$async is no keyword of JSON Schema")
    return validate
  } catch (error) {
    throw new Unreadable([{ path: [], message: `Expected a JSON Schema: ${messageOf(error)}` }])
  }
}

const compiled = new Map<string, Validate>()

const validateOf = (file: SourceFile): Validate => {
  const key = `${isJson(file.name)} ${file.content}`
  const known = compiled.get(key)
  if (known !== undefined) return known
  const validate = compile(file)
  const [oldest] = compiled.keys()
  if (compiled.size >= maxCompiled && oldest !== undefined) compiled.delete(oldest)
  compiled.set(key, validate)
  return validate
}

/** The segments of a JSON pointer, as numbers where they lead into an array. */
const segmentsOf = (pointer: string, root: unknown): ReadonlyArray<string | number> => {
  let at = root
  return pointer
    .split("/")
    .slice(1)
    .map((part) => {
      const key = part.replaceAll("~1", "/").replaceAll("~0", "~")
      const segment = Array.isArray(at) ? Number(key) : key
      at = typeof at === "object" && at !== null ? (Reflect.get(at, segment) as unknown) : undefined
      return segment
    })
}

const faultOf = (error: ErrorObject, root: unknown): Fault => {
  const at = segmentsOf(error.instancePath, root)
  const { additionalProperty, missingProperty, unevaluatedProperty } = error.params as Readonly<Record<string, unknown>>
  if (typeof missingProperty === "string") return { path: [...at, missingProperty], message: "Required" }
  const unknown = additionalProperty ?? unevaluatedProperty
  if (typeof unknown === "string") return { path: [...at, unknown], message: "Unknown member" }
  return { path: at, message: `Expected what the schema requires: ${error.message ?? error.keyword}` }
}

const answer = ({ content, schema }: ValidationRequest): ValidationReply => {
  try {
    const validate = validateOf(schema)
    if (content === undefined) return { schemaAtFault: false, faults: [] }
    try {
      const values = parse(content)
      const faults = values.flatMap((value, index): ReadonlyArray<Fault> => {
        const errors = validate(value) === true ? [] : (validate.errors ?? [])
        const at = values.length === 1 ? [] : [index]
        return errors.slice(0, maxFaults).map((error) => {
          const { message, path } = faultOf(error, value)
          return { path: [...at, ...path], message }
        })
      })
      return { schemaAtFault: false, faults: faults.slice(0, maxFaults) }
    } catch (error) {
      if (error instanceof Unreadable) return { schemaAtFault: false, faults: error.faults }
      throw error
    }
  } catch (error) {
    const faults = error instanceof Unreadable ? error.faults : [{ path: [], message: messageOf(error) }]
    return { schemaAtFault: true, faults }
  }
}

/** A reply of bounded size: a content of a megabyte may have its faults below a name of as much. */
const brief = ({ faults, schemaAtFault }: ValidationReply): ValidationReply => ({
  schemaAtFault,
  faults: faults.slice(0, maxFaults).map(({ message, path }) => ({
    path: path.slice(0, maxSegments).map((segment) => (typeof segment === "string" ? cut(segment) : segment)),
    message: cut(message)
  }))
})

const cut = (text: string): string => (text.length > maxText ? `${text.slice(0, maxText)}…` : text)

replyWith((request: ValidationRequest) => brief(answer(request)))
