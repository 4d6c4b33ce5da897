import { assert, type Vitest } from "@effect/vitest"
import { Effect } from "effect"
import { assertProblem, faultPaths } from "./problem.ts"
import { type Answer, type Call, TestService } from "./service.ts"

type Service = TestService["Service"]

/** What is sent: method, path, and what goes with them. */
export type Sent = readonly [method: string, path: string, call?: Call]

/** Checks an answer; its status begins the name of the test. */
export interface Refusal {
  readonly status: number
  check(answer: Answer): void
}

/** A problem of that status and slug; `members` are what it says beside what each problem has. */
export const problem = (status: number, slug: string, members: object = {}): Refusal => ({
  status,
  check: (answer) => {
    assertProblem(answer, status, slug)
    assert.deepInclude(answer.body, members)
  }
})

/** A request with faults in these places, in whatever number, and in no others. */
export const faults = (...paths: ReadonlyArray<string>): Refusal => ({
  status: 400,
  check: (answer) => assert.sameMembers([...faultPaths(answer)], [...paths])
})

/** What is asked, what is sent for it, and how it is refused. */
export type Scenario<Given> = readonly [what: string, send: Sent | ((given: Given) => Sent), refused: Refusal]

/** A scenario for each of some values. */
export const each = <const Value, Given = unknown>(
  values: ReadonlyArray<Value>,
  scenario: (value: Value) => Scenario<Given>
): ReadonlyArray<Scenario<Given>> => values.map(scenario)

/** Lists, each with a parameter that is refused. */
export const badQueries = (path: string, ...queries: ReadonlyArray<string>): ReadonlyArray<Scenario<unknown>> =>
  queries.map((query) => [`list with ${query}`, ["GET", `${path}?${query}`], faults(`query.${query.split("=", 1)[0]}`)])

/** Bodies posted there, each with a member that is refused. */
export const badBodies = (
  what: string,
  path: string,
  ...bodies: ReadonlyArray<readonly [body: unknown, member: string]>
): ReadonlyArray<Scenario<unknown>> =>
  each(bodies, ([body, member]) => [
    `${what} ${JSON.stringify(body).slice(0, 80)}`,
    ["POST", path, { body }],
    faults(`payload.${member}`)
  ])

/** Changes the thing that is given, of those with this path. */
export const patching =
  (path: string) =>
  (body: object) =>
  ({ id }: { readonly id: string | number }): Sent => ["PATCH", `${path}/${id}`, { body }]

/** What the scenarios of a table start from, and what is to be the same after each. */
export interface Setting<Given, E> {
  readonly given: Effect.Effect<Given, E, TestService>
  /** Reads what a refusal leaves as it was. */
  readonly unchanged?: (given: Given) => Effect.Effect<unknown, E, TestService>
}

/** Makes something over HTTP and answers its body. */
export const make = Effect.fnUntraced(function* (service: Service, path: string, body: unknown, key?: string) {
  const answer = yield* service.call("POST", path, { body, ...(key === undefined ? {} : { key }) })
  assert.strictEqual(answer.status, 201, answer.text)
  return answer.body
})

/** What the service answers to a GET, as what a refusal leaves as it was. */
export const read = (path: string) =>
  Effect.gen(function* () {
    const answer = yield* (yield* TestService).call("GET", path)
    assert.strictEqual(answer.status, 200, answer.text)
    return answer.body as unknown
  })

/** The actions of the audit entries of a thing, the latest first. */
export const auditOf = (entityType: string, entityId: string | number) =>
  Effect.gen(function* () {
    const path = `/api/audit-logs?entityType=${entityType}&entityId=${entityId}`
    const listed = yield* (yield* TestService).call("GET", path)
    const items: ReadonlyArray<{ readonly actionType: string }> = listed.body.items
    return items.map(({ actionType }) => actionType)
  })

/** Registers a test for each scenario: the service refuses the request, and leaves things as they were. */
export const refuses = <Given = void, E = never>(
  it: Vitest.MethodsNonLive<TestService>,
  scenarios: ReadonlyArray<Scenario<Given>>,
  setting?: Setting<Given, E>
): void => {
  for (const [what, send, refusal] of scenarios) {
    it.effect(`${refusal.status}: ${what}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const given = (yield* setting?.given ?? Effect.void) as Given
        const unchanged = setting?.unchanged?.(given) ?? Effect.void
        const before = yield* unchanged
        const [method, path, call] = typeof send === "function" ? send(given) : send
        refusal.check(yield* service.call(method, path, call))
        assert.deepStrictEqual(yield* unchanged, before)
      })
    )
  }
}
