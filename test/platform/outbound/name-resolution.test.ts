import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as dgram from "node:dgram"
import { lookup, type LookupAddress } from "node:dns"
import { once } from "node:events"
import { makeResolve } from "../../../src/platform/outbound/name-resolution.ts"

const addressRecord = 1
const address6Record = 28
const noSuchName = 3

const dataOf: Readonly<Record<string, Readonly<Record<number, ReadonlyArray<number>>>>> = {
  "both.example": { [addressRecord]: [1, 2, 3, 4], [address6Record]: [0x26, 0x06, ...Array(13).fill(0), 1] },
  "old.example": { [addressRecord]: [5, 6, 7, 8] }
}

/** The answer of a name server (RFC 1035 §4.1) to a question for one name; none to names of `silent.example`. */
const answerTo = (query: Buffer): Buffer | undefined => {
  const labels: Array<string> = []
  let at = 12
  for (; query[at] !== 0; at += (query[at] ?? 0) + 1) {
    labels.push(query.toString("latin1", at + 1, at + 1 + (query[at] ?? 0)))
  }
  const name = labels.join(".").toLowerCase()
  if (name.endsWith("silent.example")) return undefined
  const type = query.readUInt16BE(at + 1)
  const data = dataOf[name]?.[type]
  const head = Buffer.alloc(12)
  query.copy(head, 0, 0, 2)
  head.writeUInt16BE(0x8180 | (name in dataOf ? 0 : noSuchName), 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(data === undefined ? 0 : 1, 6)
  const question = query.subarray(12, at + 5)
  if (data === undefined) return Buffer.concat([head, question])
  return Buffer.concat([head, question, Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length, ...data])])
}

const nameServer = Effect.acquireRelease(
  Effect.promise(async () => {
    const socket = dgram.createSocket("udp4")
    socket.on("message", (query, { address, port }) => {
      const answer = answerTo(query)
      if (answer !== undefined) socket.send(answer, port, address)
    })
    socket.bind(0, "127.0.0.1")
    await once(socket, "listening")
    return { socket, resolve: makeResolve({ servers: [`127.0.0.1:${socket.address().port}`], timeoutMillis: 300 }) }
  }),
  ({ socket }) => Effect.sync(() => socket.close())
)

const resolved = (resolve: ReturnType<typeof makeResolve>, name: string) =>
  Effect.callback<ReadonlyArray<LookupAddress> | string | undefined>((resume) =>
    resolve(name, { all: true }, (error, addresses) => resume(Effect.succeed(error === null ? addresses : error.code)))
  )

it.effect("names have all their addresses, of both families", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const { resolve } = yield* nameServer
      assert.deepStrictEqual(yield* resolved(resolve, "both.example"), [
        { address: "1.2.3.4", family: 4 },
        { address: "2606::1", family: 6 }
      ])
      assert.deepStrictEqual(yield* resolved(resolve, "old.example"), [{ address: "5.6.7.8", family: 4 }])
      assert.deepStrictEqual(yield* resolved(resolve, "9.9.9.9"), [{ address: "9.9.9.9", family: 4 }])
      assert.strictEqual(yield* resolved(resolve, "none.example"), "ENOTFOUND")
    })
  )
)

it.live("names whose server is silent keep no other name waiting", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const { resolve } = yield* nameServer
      const order: Array<string> = []
      const silent = Effect.forEach(
        Array.from({ length: 8 }, (_, at) => `n${at}.silent.example`),
        (name) => Effect.tap(resolved(resolve, name), (code) => Effect.sync(() => order.push(String(code)))),
        { concurrency: "unbounded" }
      )
      const own = Effect.callback<void>((resume) =>
        lookup("localhost", () => {
          order.push("localhost")
          resume(Effect.void)
        })
      )
      yield* Effect.all([silent, own], { concurrency: "unbounded" })
      assert.deepStrictEqual(order, ["localhost", ...Array<string>(8).fill("ETIMEOUT")])
    })
  )
)
