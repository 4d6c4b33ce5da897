import { statusPhrase } from "../../src/kernel/problems/problem.ts"
import { bodySchemaOf, document, type Json, type Operation } from "./document.ts"
import { faultsOf } from "./validator.ts"
import { type WireAnswer, type WireRequest } from "./wire.ts"

const mediaTypeOf = (contentType: string | undefined): string | undefined =>
  contentType?.split(";")[0]?.trim().toLowerCase()

const parsed = (text: string): { readonly value: unknown } | undefined => {
  try {
    return { value: JSON.parse(text) as unknown }
  } catch {
    return undefined
  }
}

const headerOf = (name: string, declared: Json): Json => {
  const component = typeof declared.$ref === "string" ? document.components.headers[name] : undefined
  return component ?? declared
}

const headerFaults = (declared: Readonly<Record<string, Json>>, answer: WireAnswer): ReadonlyArray<string> =>
  Object.entries(declared).flatMap(([name, reference]) => {
    const { required, schema } = headerOf(name, reference)
    const given = answer.headers[name.toLowerCase()]
    if (given === undefined) return required === true ? [`the header ${name} is missing`] : []
    // Node keeps Set-Cookie apart, since its values cannot be joined.
    const text = Array.isArray(given) ? given.join() : given
    const value = (schema as Json).type === "integer" ? Number(text) : text
    return faultsOf(schema as Json, value).map((fault) => `the header ${name}: ${fault}`)
  })

const problemFaults = (body: unknown, { headers, status }: WireAnswer): ReadonlyArray<string> => {
  const problem = body as Readonly<Record<string, unknown>>
  return [
    ...(problem.status === status ? [] : [`the problem says status ${String(problem.status)}`]),
    ...(problem.title === statusPhrase(status) ? [] : [`the problem's title is ${String(problem.title)}`]),
    ...(status === 401 && headers["www-authenticate"] === undefined ? ["WWW-Authenticate is missing"] : [])
  ]
}

/** What is wrong with an answer by the document alone; empty when it conforms. */
export const answerFaults = (operation: Operation, answer: WireAnswer): ReadonlyArray<string> => {
  if (answer.status >= 500) return [`answered ${answer.status}`]
  const response = operation.responses[String(answer.status)]
  if (response === undefined) return [`answered the undeclared ${answer.status}`]
  const headers = headerFaults(response.headers ?? {}, answer)
  if (response.content === undefined) {
    return answer.text === "" ? headers : [...headers, `a ${answer.status} with a body`]
  }
  const type = mediaTypeOf(answer.headers["content-type"])
  const media = type === undefined ? undefined : response.content[type]
  if (type === undefined || media === undefined) return [...headers, `answered ${answer.status} as ${type}`]
  // Bytes that are streamed have no schema, whatever their type.
  if (!/[/+]json$/.test(type) || media.schema.format === "binary") return headers
  const body = parsed(answer.text)
  if (body === undefined) return [...headers, "the answer is no JSON"]
  const faults = faultsOf(media.schema, body.value).map((fault) => `${answer.status} body: ${fault}`)
  return [...headers, ...faults, ...(answer.status >= 400 ? problemFaults(body.value, answer) : [])]
}

/** Whether the document lets the request's body through, as far as it is JSON at all. */
export const bodyConforms = (operation: Operation, request: WireRequest): boolean => {
  const schema = bodySchemaOf(operation)
  if (schema === undefined) return true
  // Without a body its type does not matter.
  if ((request.body?.length ?? 0) === 0 && operation.requestBody?.required === false) return true
  // Without a Content-Type the body is taken for what the operation reads (RFC 9110 §8.3).
  if (mediaTypeOf(request.headers["content-type"] ?? "application/json") !== "application/json") return false
  // A byte order mark may be ignored (RFC 8259 §8.1).
  const body = parsed((request.body?.toString("utf8") ?? "").replace(/^\ufeff/u, ""))
  return body !== undefined && faultsOf(schema, body.value).length === 0
}
