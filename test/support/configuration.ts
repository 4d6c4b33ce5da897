import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { clientOf } from "./client.ts"
import { type TestService } from "./service.ts"

type Service = TestService["Service"]

let made = 0

/** An application of its own; answers its id. */
export const makeApplication = Effect.fnUntraced(function* (service: Service) {
  const { body } = yield* clientOf(service).applications.create({ payload: { name: `Shop ${++made}` } })
  return body.id
})

interface Members {
  readonly parentId?: number | null
  readonly schemaId?: number
}

const make = Effect.fnUntraced(function* (service: Service, body: object) {
  const answer = yield* service.call("POST", "/api/configuration", { body })
  assert.strictEqual(answer.status, 201, answer.text.slice(0, 500))
  return answer.body.id as number
})

/** A folder; answers its id. */
export const makeFolder = (service: Service, applicationId: number, name: string, members: Members = {}) =>
  make(service, { applicationId, name, type: "folder", ...members })

/** A file; answers its id. */
export const makeFile = (
  service: Service,
  applicationId: number,
  name: string,
  content: string,
  members: Members = {}
) => make(service, { applicationId, name, type: "file", content, ...members })

/** Saves a content; answers the new version. */
export const save = Effect.fnUntraced(function* (service: Service, id: number, content: string) {
  const answer = yield* service.call("PUT", `/api/configuration/${id}`, { body: { content } })
  assert.strictEqual(answer.status, 200, answer.text.slice(0, 500))
  return answer.body.version as number
})

interface Shown {
  readonly path: string
  readonly children: ReadonlyArray<Shown>
}

const pathsIn = (nodes: ReadonlyArray<Shown>): ReadonlyArray<string> =>
  nodes.flatMap((node) => [node.path, ...pathsIn(node.children)])

/** The paths of a tree, folders before what stands in them. */
export const treePaths = Effect.fnUntraced(function* (service: Service, applicationId: number) {
  const answer = yield* service.call("GET", `/api/configuration/tree?applicationId=${applicationId}`)
  assert.strictEqual(answer.status, 200, answer.text.slice(0, 500))
  return pathsIn(answer.body)
})
