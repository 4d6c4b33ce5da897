import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import * as http from "node:http"
import { serviceLayer, TestService } from "../support/service.ts"
import { type Caller, makeCallers } from "./callers.ts"
import { type Change, changesByOperation, withoutEntry } from "./changes.ts"
import { answerFaults, bodyConforms } from "./conformance.ts"
import { type Dice, diceOf } from "./dice.ts"
import { type Operation, operations, pathOf } from "./document.ts"
import { KnownValues } from "./known-values.ts"
import { conforming, hostile, allNearlyConforming } from "./requests.ts"
import { stages } from "./stages.ts"
import { sender, type SendError, shortened, shownRequest, type WireAnswer, type WireRequest } from "./wire.ts"

const seed = process.env.CONTRACT_SEED ?? "1"
const atOnce = 6
const mostShown = 8

class Contract extends Context.Service<
  Contract,
  {
    readonly callers: Effect.Success<ReturnType<typeof makeCallers>>
    readonly known: KnownValues
    send(request: WireRequest): Effect.Effect<WireAnswer, SendError>
  }
>()("test/Contract") {
  static readonly layer = Layer.effect(
    Contract,
    Effect.gen(function* () {
      const service = yield* TestService
      const known = new KnownValues()
      const agent = yield* Effect.acquireRelease(
        Effect.sync(() => new http.Agent({ keepAlive: true, maxSockets: atOnce })),
        (agent) => Effect.sync(() => agent.destroy())
      )
      return Contract.of({ callers: yield* makeCallers(service, known), known, send: sender(service.url, agent) })
    })
  ).pipe(Layer.provideMerge(serviceLayer({ IdentityProviders__AllowPrivateAddresses: "true" })))
}

interface Case {
  readonly caller: Caller
  readonly operation: Operation
  readonly request: WireRequest
  /** Whether the request is one that the document provides for. */
  readonly conforms: boolean
}

const caseBy = (caller: Caller, operation: Operation, request: WireRequest, conforms: boolean): Case => ({
  caller,
  operation,
  conforms,
  request: { ...request, headers: { ...caller.headers, ...request.headers } }
})

const caseOf = (dice: Dice, operation: Operation, { callers, known }: Contract["Service"], spoil: boolean): Case =>
  spoil
    ? caseBy(
        dice.chance(0.3) ? dice.pick(callers.others) : callers.service,
        operation,
        hostile(dice, operation, known),
        false
      )
    : caseBy(callers.service, operation, conforming(dice, operation, known), true)

/** What every operation is asked at least: nearly what conforms by who may, and what conforms by everybody else. */
const edgesOf = (dice: Dice, operation: Operation, { callers, known }: Contract["Service"]): ReadonlyArray<Case> => [
  ...allNearlyConforming(dice, operation, known).map((request) => caseBy(callers.service, operation, request, false)),
  ...callers.others.map((other) => caseBy(other, operation, conforming(dice, operation, known), true))
]

/** What is wrong with the answer to a request: by the document, and by who asked and what for. */
const faultsOfCase = ({ caller, operation, request }: Case, answer: WireAnswer): ReadonlyArray<string> => {
  const succeeded = answer.status < 300
  // A replay answers the request before, whose body was the same.
  const taken = succeeded && answer.headers["idempotency-replayed"] === undefined
  return [
    ...answerFaults(operation, answer),
    ...(succeeded && !caller.mayCall(operation) ? [`let ${caller.name} in`] : []),
    ...(taken && !bodyConforms(operation, request) ? ["took a body that the document refuses"] : [])
  ]
}

const shownCase = ({ caller, request }: Case, answer: WireAnswer, faults: ReadonlyArray<string>): string =>
  [
    ...faults.slice(0, 5),
    `  ${caller.name}: ${shownRequest(request)}`,
    `  ${answer.status} ${shortened(answer.text)}`
  ].join("\n")

const runCase = Effect.fnUntraced(function* (one: Case) {
  const { known, send } = yield* Contract
  const answer = yield* send(one.request).pipe(
    Effect.catch(({ message }) => Effect.die(new Error(`${message}: ${shownRequest(one.request)}`)))
  )
  const faults = faultsOfCase(one, answer)
  const isJson = /^application\/json(?:;|$)/.test(answer.headers["content-type"] ?? "")
  const { body, target } = one.request
  if (answer.status < 300 && isJson) {
    const answered: unknown = JSON.parse(answer.text)
    known.learn(one.operation, answered)
    known.learnPlaces(target, answered)
  }
  if (answer.status < 300 && one.conforms) {
    known.learnRequest(one.operation, {
      target,
      body: body === undefined ? undefined : JSON.parse(body.toString("utf8"))
    })
  }
  return { status: answer.status, shown: faults.length === 0 ? [] : [shownCase(one, answer, faults)] }
})

const succeeded = new Set<string>()

/** What takes a session or a key of one's own, the link of a start, or an address from which nobody failed to sign in. */
const needsMoreThanValues = ({ operationId, ...operation }: Operation): boolean =>
  operation["x-accounts-only"] === true ||
  [
    "auth.login",
    "auth.refresh",
    "auth.claim",
    "auth.acceptInvitation",
    "agentTokens.token",
    "agentTokens.exchange",
    // Its id is in a header of a signed report alone.
    "billing.statement",
    // Nothing of calls is kept unless the settings say so.
    "gatewayContents.get",
    // It reads CloudEvents, and bodies here are plain JSON.
    "cloudEvents.publish",
    // They need an identity provider that answers, and what it sent back.
    "oidcSignIn.start",
    "oidcSignIn.callback"
  ].includes(operationId)

const isSilent = (operation: Operation) => !succeeded.has(operation.operationId) && !needsMoreThanValues(operation)

const runAll = Effect.fnUntraced(function* (operation: Operation, cases: ReadonlyArray<Case>) {
  const results = yield* Effect.forEach(cases, runCase, { concurrency: atOnce })
  if (results.some(({ status }) => status < 300)) succeeded.add(operation.operationId)
  const shown = results.flatMap((result) => result.shown)
  if (shown.length > 0) assert.fail(`CONTRACT_SEED=${seed}\n${shown.slice(0, mostShown).join("\n")}\n`)
})

const drive = Effect.fnUntraced(function* (
  operation: Operation,
  name: string,
  total: number,
  spoils: (at: number) => boolean
) {
  const contract = yield* Contract
  const dice = diceOf(`${seed} ${operation.operationId} ${name}`)
  for (let done = 0; done < total; done += atOnce) {
    const cases = Array.from({ length: Math.min(atOnce, total - done) }, (_, index) =>
      caseOf(dice, operation, contract, spoils(done + index))
    )
    yield* runAll(operation, cases)
  }
})

const readsLog = ({ path }: Operation) => path.startsWith("/api/audit-logs")
/** Those first that read the whole log of what the others do. */
const ordered = operations.toSorted((a, b) => Number(readsLog(b)) - Number(readsLog(a)))

/** The whole, or the part of it that is an operation's turn: from one operation to the next, the next part. */
const turnOf = <A>(all: ReadonlyArray<A>, operation: Operation, parts: number): ReadonlyArray<A> => {
  const size = Math.ceil(all.length / parts)
  const from = (ordered.indexOf(operation) % parts) * size
  return all.slice(from, from + size)
}

const driveEdges = Effect.fnUntraced(function* (operation: Operation, parts: number) {
  const edges = edgesOf(diceOf(`${seed} ${operation.operationId} edges`), operation, yield* Contract)
  yield* runAll(operation, turnOf(edges, operation, parts))
})

const inCollections = (method: string) =>
  operations.filter((operation) => operation.method === method && !operation.path.includes("{"))
// What was just made comes last, so that it is among the newest known and not yet ended.
const fillers = [...inCollections("GET"), ...inCollections("POST")]

/** Makes some of everything, so that the requests after it are about things that are there. */
const fill = Effect.fnUntraced(function* (name: string, collections: ReadonlyArray<Operation> = fillers, each = 3) {
  for (const operation of collections) yield* drive(operation, `filling ${name}`, each, () => false)
})

/** The collections that an operation's path begins with, the outer ones first. */
const around = ({ path }: Operation) => [
  ...fillers.filter((filler) => path.startsWith(filler.path)),
  ...operations.filter(
    (inner) => ["GET", "POST"].includes(inner.method) && inner.path.includes("{") && path.startsWith(`${inner.path}/`)
  )
]

/** What an operation is about, where no chance brings it about, and a request that succeeds. */
const stageOf = Effect.fnUntraced(function* (operation: Operation) {
  const service = yield* TestService
  const { known } = yield* Contract
  yield* stages[operation.operationId.split(".")[0] ?? ""]?.(service) ?? Effect.void
  // The collection of a thing as it is: what chance asks of one with many filters together rarely finds anything.
  const collection = operation.path.replace(/\/\{\w+\}$/, "")
  const list = operations.find(({ method, path }) => method === "GET" && path === collection)
  if (list !== undefined && list !== operation && !collection.includes("{")) {
    const { body } = yield* service.call("GET", collection as "/api/usage")
    known.learn(list, body)
    known.learnPlaces(collection, body)
  }
  // Sign-ins are slowed for an address from which many failed, as the requests here do.
  if (operation.operationId.startsWith("auth.")) return
  const request = changesByOperation[operation.operationId] ?? withoutEntry[operation.operationId]?.request
  const change: Pick<Change, "parameters" | "body" | "token"> | undefined = yield* (
    request?.(service) ?? Effect.undefined
  )
  if (change === undefined || change.token !== undefined) return
  known.learnRequest(operation, { target: pathOf(operation, change.parameters), body: change.body })
})

/** Requests that conform, about what the operation is about. */
const driveStaged = Effect.fnUntraced(function* (operation: Operation, name: string) {
  yield* stageOf(operation)
  yield* fill(`before ${name}`, around(operation))
  yield* drive(operation, name, 24, () => false)
})

interface Extent {
  /** So many requests at random for each operation. */
  readonly requests: number
  /** The parts that what each operation is asked at least is dealt out in, one an operation. */
  readonly parts: number
}

/** Asks every operation for what conforms and what does not. */
export const keepContracts = ({ parts, requests }: Extent) => {
  const count = Number(process.env.CONTRACT_REQUESTS ?? requests)
  layer(Contract.layer, { excludeTestServices: true, timeout: "60 seconds" })(
    "every operation keeps its contract",
    (it) => {
      it.effect(
        "while the collections are filled",
        () => Effect.andThen(fill("things that name nothing"), fill("things that name those")),
        120_000
      )

      for (const operation of ordered) {
        it.effect(
          `${operation.operationId}: conforming and hostile requests`,
          () =>
            stageOf(operation).pipe(
              Effect.andThen(fill(`before ${operation.operationId}`, around(operation), 1)),
              Effect.andThen(drive(operation, "driving", count, (at) => at % 4 !== 0)),
              Effect.andThen(driveEdges(operation, parts))
            ),
          60_000
        )
      }

      it.effect(
        "and succeeds at least once",
        () =>
          Effect.gen(function* () {
            // What one operation makes may be what another one is about.
            for (const name of ["driving again", "driving once more"]) {
              for (const operation of operations.filter(isSilent)) yield* driveStaged(operation, name)
            }
            for (const operation of operations.filter(isSilent)) {
              yield* fill(`first again before ${operation.operationId}`)
              yield* fill(`then again before ${operation.operationId}`)
              yield* driveStaged(operation, "driving at last")
            }
            const silent = operations.filter(isSilent)
            assert.deepStrictEqual(
              silent.map(({ operationId }) => operationId),
              [],
              "never seen to succeed: give their schemas examples that work, and read rows of tenants within database.asCaller"
            )
          }),
        120_000
      )
    }
  )
}
