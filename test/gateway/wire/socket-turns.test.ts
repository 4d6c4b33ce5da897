import { assert, it } from "@effect/vitest"
import { GatewayError } from "../../../src/gateway/errors/gateway-error.ts"
import {
  LocalTurns,
  localTurnOf,
  readTurn,
  type SocketTurn
} from "../../../src/gateway/wire/openai-responses/socket-turns.ts"

const turnOf = (message: string, local?: Parameters<typeof readTurn>[1]): SocketTurn => {
  const turn = readTurn(message, local)
  if (turn === undefined || turn instanceof GatewayError) throw new Error(`It was refused: ${message}`)
  return turn
}
const sent = ({ body }: SocketTurn) => JSON.parse(Buffer.from(body).toString())
const completed = (response: object) => JSON.stringify({ type: "response.completed", response })

/** A turn of so many bytes. */
const turn = (size: number) => ({ id: "resp", previous: undefined, items: Buffer.alloc(size) })

it("a message is the body of its request, with all other members as they were", () => {
  const text = `{"type" : "response.create","model":"m", "n":1.50,"generate":true,"stream":false,"input":"é"}`
  const { body, isStored, warmsUp } = turnOf(text)
  assert.strictEqual(Buffer.from(body).toString(), `{"model":"m", "n":1.50,"stream":true,"input":"é"}`)
  assert.deepStrictEqual([isStored, warmsUp], [true, false])
  assert.deepStrictEqual(sent(turnOf(`{"type":"response.create"}`)), { stream: true })
  assert.isTrue(turnOf(`{"type":"response.create","generate":false}`).warmsUp)
})

it("a turn goes on from the items of the one before it, however they were written", () => {
  const first = turnOf(`{"type":"response.create","store":false,"input":"Hello"}`)
  const local = localTurnOf(first, completed({ id: "resp_1", output: [{ type: "message", content: "Hi" }] }))
  assert.isDefined(local)
  const begun = [
    { type: "message", role: "user", content: "Hello" },
    { type: "message", content: "Hi" }
  ]
  for (const [input, more] of [
    [`,"input":[ {"a":[1, 2]} , {"b":"]"} ]`, [{ a: [1, 2] }, { b: "]" }]],
    [`,"input":[]`, []],
    [`,"input":[ \n ]`, []],
    [`,"input":"More"`, [{ type: "message", role: "user", content: "More" }]],
    ["", []],
    [`,"input":null`, []]
  ] as const) {
    const turn = turnOf(`{"type":"response.create","previous_response_id":"resp_1"${input}}`, local)
    assert.deepStrictEqual(sent(turn), { stream: true, input: [...begun, ...more] })
    const other = turnOf(`{"type":"response.create","previous_response_id":"resp_2"${input}}`, local)
    assert.strictEqual(sent(other).previous_response_id, "resp_2")
  }
})

it("a conversation that began with a stored response goes on from that, too", () => {
  const first = turnOf(`{"type":"response.create","store":false,"previous_response_id":"resp_0","input":[{"a":1}]}`)
  const local = localTurnOf(first, completed({ id: "resp_1", output: [] }))
  const second = turnOf(`{"type":"response.create","previous_response_id":"resp_1","input":[{"a":2}]}`, local)
  assert.deepStrictEqual(sent(second), { stream: true, previous_response_id: "resp_0", input: [{ a: 1 }, { a: 2 }] })
})

it("what is stored is not kept, and of thoughts what can be sent again", () => {
  const turn = turnOf(`{"type":"response.create","store":false}`)
  assert.isUndefined(localTurnOf(turn, completed({ id: "resp_1", store: true, output: [] })))
  assert.isUndefined(localTurnOf(turn, JSON.stringify({ type: "error", error: {} })))
  const kept = (output: ReadonlyArray<object>) =>
    JSON.parse(`[${localTurnOf(turn, completed({ id: "resp_1", output }))?.items.toString()}]`)
  const call = { type: "function_call", id: "fc_1", call_id: "c" }
  const thoughts = { type: "reasoning", id: "rs_1", summary: [] }
  assert.deepStrictEqual(kept([thoughts, call]), [{ type: "function_call", call_id: "c" }])
  const sealed = { ...thoughts, encrypted_content: "x" }
  assert.deepStrictEqual(kept([sealed, call]), [sealed, call])
})

it("what is kept is bounded, and none but who has most of it loses its turns", () => {
  const turns = new LocalTurns({ maxBytes: 100, maxTurnBytes: 60 })
  const [one, two, three, small] = [{}, {}, {}, {}]
  turns.keep("b", small, turn(20))
  turns.keep("a", one, turn(40))
  turns.keep("a", two, turn(40))
  turns.keep("a", three, turn(30))
  assert.deepStrictEqual(
    [one, two, three].map((socket) => turns.of("a", socket)?.items.length),
    [undefined, 40, 30]
  )
  assert.isDefined(turns.of("b", small))
  turns.keep("b", small, turn(61))
  assert.isUndefined(turns.of("b", small))
  turns.keep("a", two, turn(60))
  turns.drop("a", three)
  turns.keep("a", one, turn(40))
  assert.isDefined(turns.of("a", two))
})
