import routes from "virtual:routes"
import { noteAnswer } from "./connection.ts"
import { type Answer, type Input, type Operation, type Row } from "./operations.ts"
import { scoped } from "./tenant-scope.ts"

/** What was wrong with one member of a request. */
export interface Fault {
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}

/** A problem (RFC 9457) that the service answered with, or that it could not be reached (status 0). */
export class Failure extends Error {
  override readonly name = "Failure"
  readonly status: number
  readonly type: string
  readonly title: string
  readonly faults: ReadonlyArray<Fault>
  readonly traceId: string | undefined
  constructor(status: number, problem: Readonly<Record<string, unknown>>) {
    const faults = Array.isArray(problem.errors) ? (problem.errors as ReadonlyArray<Fault>).map(inBody) : []
    const detail = String(problem.detail ?? problem.title ?? "The service answered with an error.")
    // The service names the first faults in its text; here all of them are shown.
    const isCut = /; and \d+ more$/.test(detail) && faults.length > 0
    super(
      isCut
        ? faults.map(({ message, path }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`)).join("; ")
        : detail.replaceAll(/(^|; )payload\./g, "$1")
    )
    this.status = status
    this.type = String(problem.type ?? "")
    this.title = String(problem.title ?? "Error")
    this.faults = faults
    this.traceId = typeof problem.traceId === "string" ? problem.traceId : undefined
  }
}

/** A fault with its place in the body, which the service calls the payload. */
const inBody = ({ path, ...fault }: Fault): Fault => ({ ...fault, path: path[0] === "payload" ? path.slice(1) : path })

interface AnyInput {
  readonly params?: object | undefined
  readonly query?: object | undefined
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** The method and the path with its query of a call. */
export const addressOf = (name: Operation, { params, query }: AnyInput): readonly [method: string, path: string] => {
  const [method, template] = routes[name]!
  const given = new Map<string, unknown>(Object.entries(params ?? {}))
  const path = template.replace(/:(\w+)/g, (_, key: string) => encodeURIComponent(String(given.get(key))))
  const search = new URLSearchParams()
  for (const [key, value] of Object.entries(scoped(name, query))) {
    if (value !== undefined && value !== null && value !== "") search.set(key, String(value))
  }
  return [method, search.size === 0 ? path : `${path}?${search}`]
}

const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`

/** A call as a command for a terminal; the key is left to the shell. */
export const curlOf = (name: Operation, input: AnyInput): string => {
  const [method, path] = addressOf(name, input)
  const body =
    input.body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(input.body))}`]
  return [
    "curl",
    ...(method === "GET" ? [] : ["-X", method]),
    quoted(`${location.origin}${path}`),
    '-H "X-Api-Key: $API_KEY"',
    ...body
  ].join(" ")
}

/** Called when a call finds that the session has ended. */
export const signedOut = new EventTarget()

const problemOf = (text: string): Readonly<Record<string, unknown>> => {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

/** Sends a request with the session's cookie, or with the key in its headers alone; fails with a `Failure` for every answer that is no success. */
export const send = async (path: string, init: RequestInit = {}): Promise<Response> => {
  const hasKey = new Headers(init.headers).has("x-api-key")
  const answer = await fetch(path, { ...init, credentials: hasKey ? "omit" : "same-origin" }).catch(
    (cause: unknown) => {
      if (cause instanceof DOMException && cause.name === "AbortError") throw cause
      noteAnswer(false)
      throw new Failure(0, {
        title: "Not reachable",
        detail: "The service cannot be reached. Check the connection and try again."
      })
    }
  )
  noteAnswer(true)
  if (answer.ok) return answer
  if (answer.status === 401 && !hasKey) signedOut.dispatchEvent(new Event("signed-out"))
  throw new Failure(answer.status, problemOf(await answer.text()))
}

const exchange = (name: Operation, input: AnyInput, signal?: AbortSignal): Promise<Response> => {
  const { body, headers } = input
  const [method, path] = addressOf(name, input)
  return send(path, {
    method,
    ...(signal === undefined ? {} : { signal }),
    headers: {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
}

const read = async (answer: Response) => {
  const text = await answer.text()
  return text === "" ? undefined : JSON.parse(text)
}

/** Calls an operation of the API. */
export const call = async <Name extends Operation>(
  name: Name,
  input: Input<Name>,
  signal?: AbortSignal
): Promise<Answer<Name>> => read(await exchange(name, input, signal))

/** A page of a list, whether its operation answers with an envelope or with an array and a Link header (RFC 8288). */
export interface Page<Row> {
  readonly items: ReadonlyArray<Row>
  readonly nextCursor: string | null
}

/** Calls an operation that lists something. */
export const callPage = async <Name extends Operation>(
  name: Name,
  input: Input<Name>,
  signal?: AbortSignal
): Promise<Page<Row<Name>>> => {
  const answer = await exchange(name, input, signal)
  const body = await read(answer)
  if (!Array.isArray(body)) return body
  const next = /<([^>]*)>;\s*rel="?next/.exec(answer.headers.get("link") ?? "")?.[1]
  return {
    items: body,
    nextCursor: next === undefined ? null : new URL(next, location.href).searchParams.get("cursor")
  }
}
