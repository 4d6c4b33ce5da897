import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as os from "node:os"
import * as path from "node:path"
import { linkHash } from "../../../src/audit/chain/link.ts"
import { canonicalJson } from "../../../src/kernel/json/canonical-json.ts"
import { auditVerify, verifyExport, verifyExportByCommand, verifyWords } from "../../support/audit-verify.ts"
import { untilAllLinked, writeEntries } from "../../support/chain.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

/** An export with a signed checkpoint in it, as text and as lines, and the keys. */
const exported = Effect.gen(function* () {
  const { call, database } = yield* TestService
  yield* asSuperuser(database, (sql) => writeEntries(sql, 10))
  yield* eventually(call("GET", "/api/audit-logs/checkpoints"), (answer) => answer.body.items.length > 0)
  yield* untilAllLinked(database)
  const { text } = yield* call("GET", "/api/audit-logs/export")
  const keys = (yield* call("GET", "/.well-known/attestation-keys.json", { key: null })).text
  return { text, lines: text.split("\n").slice(0, -1), keys }
})

/** The lines with another action each, and hashes that fit: what anybody can make without a key. */
const relinked = (lines: ReadonlyArray<string>) => {
  let previousHash: string = JSON.parse(lines[0] ?? "{}").previousHash
  return lines.map((line) => {
    const { hash: _hash, previousHash: _previous, ...entry } = JSON.parse(line)
    const text = canonicalJson(JSON.stringify({ ...entry, actionType: "UserCreated" }))
    const hash = linkHash(text, previousHash)
    const written = `${text.slice(0, -1)},"previousHash":"${previousHash}","hash":"${hash}"}`
    previousHash = hash
    return written
  })
}

const joined = (lines: ReadonlyArray<string>) => lines.map((line) => `${line}\n`).join("")

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("npm run audit:verify", (it) => {
  it.effect("0: an export as it was made with the keys; 4 without them", () =>
    Effect.gen(function* () {
      const { keys, lines, text } = yield* exported
      const whole = yield* verifyExportByCommand(text, keys)
      assert.strictEqual(whole.code, 0, whole.output)
      const entries = lines.length - 1
      assert.include(whole.output, `${entries} entries, sequences 1 to ${entries}`)
      assert.match(whole.output, new RegExp(`seal: signed \\S+ over ${entries} entries\n`))
      assert.match(whole.output, /checkpoints: [1-9]\d* in the file, the last signed at \d+/)
      assert.include(whole.output, "Nothing was changed, and nothing is missing")
      const without = yield* verifyExport(text)
      assert.strictEqual(without.code, 4, without.output)
      assert.include(without.output, "without --keys")
    })
  )

  it.effect("0: what a tool has written anew without changing anything", () =>
    Effect.gen(function* () {
      const { keys, lines } = yield* exported
      const anew = lines.map((line) => {
        const members = Object.entries(JSON.parse(line)).toReversed()
        return JSON.stringify(Object.fromEntries(members), null, " ").replaceAll("\n", "")
      })
      const { code, output } = yield* verifyExport(anew.join("\r\n"), keys)
      assert.strictEqual(code, 0, output)
    })
  )

  const changes: ReadonlyArray<readonly [string, (line: string) => string]> = [
    ["a member", (line) => line.replace('"outcome":"success"', '"outcome":"denied"')],
    ["a number among the changes", (line) => line.replace(/"number":\d+/, '"number":4711')],
    ["the time", (line) => line.replace(/(\d{3})Z"/, '001Z"')],
    ["the sequence", (line) => line.replace(/"sequence":\d+/, '"sequence":90000')],
    ["the hash", (line) => line.replace(/"hash":"./, '"hash":"g')],
    ["the previous hash", (line) => line.replace(/"previousHash":".{4}/, '"previousHash":"0000')],
    ["a member that stands there twice", (line) => line.replace("{", '{"outcome":"denied",')],
    ["one member more", (line) => line.replace("{", '{"aMember":1,')],
    ["what is no JSON", (line) => line.slice(0, -2)],
    ["what is no entry", () => '"a text"']
  ]
  for (const [what, change] of changes) {
    it.effect(`1: ${what} in a line: the line is named`, () =>
      Effect.gen(function* () {
        const { keys, lines } = yield* exported
        const at = lines.findLastIndex((line) => line.includes('"number":'))
        const changed = lines.with(at, change(lines[at] ?? ""))
        assert.notDeepEqual(changed, lines)
        const { code, output } = yield* verifyExport(joined(changed), keys)
        assert.strictEqual(code, 1, output)
        assert.include(output, `line ${at + 1}`)
        assert.include(output, "NOT what the service wrote")
      })
    )
  }

  it.effect(
    "3: a line that is gone is a gap; 1 when the export is said to be filtered, since its seal is over that line",
    () =>
      Effect.gen(function* () {
        const { keys, lines } = yield* exported
        const { code, output } = yield* verifyExport(joined(lines.toSpliced(4, 2)), keys)
        assert.strictEqual(code, 3, output)
        assert.include(output, "not in the file: 2 (5 to 6)")
        const filtered = yield* verifyExport(joined(lines.toSpliced(4, 2)), keys, ["--filtered"])
        assert.strictEqual(filtered.code, 1, filtered.output)
        assert.include(filtered.output, "the seal is that of other lines")
      })
  )

  it.effect("3: lines in another order are well, and a filter's gaps are told", () =>
    Effect.gen(function* () {
      const lines = (yield* exported).lines.slice(0, -1)
      const some = lines.filter((_, index) => index % 3 === 0).toReversed()
      const { code, output } = yield* verifyExport(joined(some))
      assert.strictEqual(code, 3, output)
      assert.notInclude(output, "NOT")
      const all = yield* verifyExport(joined(lines.toReversed()))
      assert.strictEqual(all.code, 4, all.output)
    })
  )

  it.effect("0: an export with a filter; 1 when a line of it is gone or another's, whatever its hashes", () =>
    Effect.gen(function* () {
      const { keys } = yield* exported
      const { call } = yield* TestService
      const { text } = yield* call("GET", "/api/audit-logs/export?outcome=success&entityType=TrialUser")
      const lines = text.split("\n").slice(0, -1)
      assert.isAbove(lines.length, 2)
      const whole = yield* verifyExport(text, keys, ["--filtered"])
      assert.strictEqual(whole.code, 0, whole.output)
      const gone = yield* verifyExport(joined(lines.toSpliced(1, 1)), keys, ["--filtered"])
      assert.strictEqual(gone.code, 1, gone.output)
      const another = yield* verifyExport(joined([...relinked(lines.slice(0, -1)), lines.at(-1) ?? ""]), keys, [
        "--filtered"
      ])
      assert.strictEqual(another.code, 1, another.output)
      const unsealed = yield* verifyExport(joined(lines.slice(0, -1)), keys, ["--filtered"])
      assert.strictEqual(unsealed.code, 4, unsealed.output)
    })
  )

  it.effect("1: an end that was written anew, hashes and all; 4 when its seal is taken away too", () =>
    Effect.gen(function* () {
      const { keys, lines } = yield* exported
      const entries = lines.slice(0, -1)
      const at = entries.findLastIndex((line) => line.includes('"number":'))
      const anew = [...entries.slice(0, at), ...relinked(entries.slice(at))]
      const sealed = yield* verifyExport(joined([...anew, lines.at(-1) ?? ""]), keys)
      assert.strictEqual(sealed.code, 1, sealed.output)
      assert.include(sealed.output, "the seal is that of other lines")
      const unsealed = yield* verifyExport(joined(anew), keys)
      assert.strictEqual(unsealed.code, 4, unsealed.output)
      assert.match(unsealed.output, /no seal ends the file: what follows \d+ is not proven/)
    })
  )

  it.effect("1: a line behind the seal", () =>
    Effect.gen(function* () {
      const { keys, lines } = yield* exported
      const { code, output } = yield* verifyExport(joined([...lines, lines[0] ?? ""]), keys)
      assert.strictEqual(code, 1, output)
      assert.include(output, "behind the seal")
    })
  )

  it.effect("3: lines that are gone from the beginning", () =>
    Effect.gen(function* () {
      const { keys, lines } = yield* exported
      const { code, output } = yield* verifyExport(joined(lines.slice(3)), keys)
      assert.strictEqual(code, 3, output)
      assert.include(output, "not in the file: 3 (1 to 3)")
    })
  )

  it.effect("3: lines that are gone from the end, when a checkpoint was kept; 0 when it is reached", () =>
    Effect.gen(function* () {
      const { keys, lines } = yield* exported
      const { call } = yield* TestService
      const kept = yield* call("GET", "/api/audit-logs/checkpoints")
      const last: number = kept.body.items[0].sequence
      const whole = yield* verifyExport(joined(lines), keys, [], kept.text)
      assert.strictEqual(whole.code, 0, whole.output)
      assert.include(whole.output, `kept checkpoints: ${kept.body.items.length} confirmed`)
      const cut = yield* verifyExport(joined(lines.slice(0, last - 1)), keys, [], kept.text)
      assert.strictEqual(cut.code, 3, cut.output)
      assert.include(cut.output, `the log is cut off: ${last} was signed`)
    })
  )

  it.effect("1: a chain that was written anew as a whole, when a checkpoint was kept", () =>
    Effect.gen(function* () {
      const { lines } = yield* exported
      const { call } = yield* TestService
      const kept = yield* call("GET", "/api/audit-logs/checkpoints")
      const anew = relinked(lines.slice(0, -1))
      const believed = yield* verifyExport(joined(anew))
      assert.strictEqual(believed.code, 4, believed.output)
      const { code, output } = yield* verifyExport(joined(anew), undefined, [], kept.text)
      assert.strictEqual(code, 1, output)
      assert.include(output, "Its hash is another than the one that was kept of it")
    })
  )

  it.effect("1: a line that is there twice", () =>
    Effect.gen(function* () {
      const { lines } = yield* exported
      const { code, output } = yield* verifyExport(joined(lines.toSpliced(4, 0, lines[2] ?? "")))
      assert.strictEqual(code, 1, output)
      assert.include(output, "one was inserted")
    })
  )

  it.effect("1: a checkpoint that other keys signed", () =>
    Effect.gen(function* () {
      const { text } = yield* exported
      const others = JSON.stringify({
        keys: [
          {
            kty: "OKP",
            crv: "Ed25519",
            x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
            kid: "k",
            alg: "EdDSA",
            use: "sig"
          }
        ]
      })
      const { code, output } = yield* verifyExport(text, others)
      assert.strictEqual(code, 1, output)
      assert.include(output, "no signature of these keys")
    })
  )

  it.effect("2: nothing to verify: no file, no line, no keys, no word that is known", () =>
    Effect.gen(function* () {
      const { text } = yield* exported
      assert.strictEqual((yield* auditVerify([])).code, 2)
      assert.strictEqual((yield* verifyWords(["--keys"])).code, 2)
      assert.strictEqual((yield* verifyWords([path.join(os.tmpdir(), "no such file")])).code, 2)
      assert.strictEqual((yield* verifyExport("\n\n")).code, 2)
      assert.strictEqual((yield* verifyExport(text, "no keys")).code, 2)
      assert.include((yield* verifyWords(["--help"])).output, "npm run audit:verify")
    })
  )
})
