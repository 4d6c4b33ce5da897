import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Data, Effect, FileSystem, Option, Schema, Stream } from "effect"
import * as jose from "jose"
import { CheckpointStatement, checkpointType } from "./audit/domain.ts"
import { ExportedLog, type LineFault, type Run } from "./audit/exported-log.ts"
import { PublicKeys } from "./attestation/domain.ts"

const usage = `npm run audit:verify -- FILE [--keys attestation-keys.json] [--filtered]

Verifies an exported audit log (JSON Lines) without a database: every line against its hash, every line against the
one before it, and with --keys (from /.well-known/attestation-keys.json) every signed checkpoint in it.
--filtered: the export had a filter, so sequences may be missing.

Ends with 0 when all is well, 1 when something was changed, 2 when it cannot be told, 3 when entries are missing.`

const ended = { well: 0, forged: 1, unusable: 2, incomplete: 3 } as const
const mostShown = 20
const readStatement = Schema.decodeUnknownOption(Schema.fromJsonString(CheckpointStatement))

class Unusable extends Data.TaggedError("Unusable")<{ readonly message: string }> {}

interface Arguments {
  readonly file: string
  readonly keys: string | undefined
  readonly filtered: boolean
}

const argumentsOf = (words: ReadonlyArray<string>): Arguments | undefined => {
  const rest = [...words]
  const filtered = rest.includes("--filtered")
  const at = rest.indexOf("--keys")
  const keys = at < 0 ? undefined : rest.splice(at, 2)[1]
  const [file, ...others] = rest.filter((word) => word !== "--filtered")
  const isWrong = file === undefined || file.startsWith("-") || others.length > 0 || (at >= 0 && keys === undefined)
  return isWrong ? undefined : { file, keys, filtered }
}

const readKeys = Effect.fnUntraced(function* (file: string) {
  const files = yield* FileSystem.FileSystem
  const text = yield* files.readFileString(file)
  const { keys } = yield* Schema.decodeUnknownEffect(Schema.fromJsonString(PublicKeys))(text)
  return jose.createLocalJWKSet({ keys: [...keys] })
})

type Keys = Effect.Success<ReturnType<typeof readKeys>>

/** What is wrong with a signed checkpoint that stands in a log; its statement when nothing is. */
const checkedAgainst = (keys: Keys, log: ExportedLog) =>
  Effect.fnUntraced(function* (jws: string) {
    const payload = yield* Effect.option(
      Effect.tryPromise(() => jose.compactVerify(jws, keys, { algorithms: ["EdDSA"] }))
    )
    const statement = Option.flatMap(payload, ({ payload, protectedHeader }) =>
      protectedHeader.typ === checkpointType ? readStatement(new TextDecoder().decode(payload)) : Option.none()
    )
    if (Option.isNone(statement)) return "The checkpoint that it records has no signature of these keys"
    const hash = log.hashAt(statement.value.sequence)
    return hash === undefined || hash === statement.value.hash
      ? statement.value
      : `The signed checkpoint says another hash for ${statement.value.sequence}`
  })

/** Whole lines of a stream of text, by the piece. */
const linesOf = <E>(bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<ReadonlyArray<string>, E> =>
  Stream.decodeText(bytes).pipe(
    Stream.concat(Stream.make("\n")),
    Stream.mapAccum(
      () => "",
      (rest, piece) => {
        const lines = `${rest}${piece}`.split("\n")
        return [lines.pop() ?? "", [lines.filter((line) => line.trim() !== "")]] as const
      }
    )
  )

const verify = Effect.fnUntraced(function* ({ file, filtered, keys: keysFile }: Arguments) {
  const files = yield* FileSystem.FileSystem
  const keys = keysFile === undefined ? undefined : yield* readKeys(keysFile)
  const log = new ExportedLog()
  const check = keys === undefined ? undefined : checkedAgainst(keys, log)
  let recorded = 0
  let signed: CheckpointStatement | undefined
  yield* linesOf(files.stream(file, { chunkSize: 1 << 20 })).pipe(
    Stream.runForEach((lines) =>
      Effect.gen(function* () {
        for (const line of lines) {
          const jws = log.take(line)
          if (jws === undefined) continue
          recorded += 1
          if (check === undefined) continue
          const found = yield* check(jws)
          if (typeof found === "string") log.fault(undefined, found)
          else signed = found
        }
      })
    )
  )
  if (log.lines === 0) return yield* new Unusable({ message: `${file} holds no line` })
  yield* Effect.sync(() =>
    process.stdout.write(`${report(file, log, filtered, recorded, keys !== undefined, signed)}\n`)
  )
  if (log.faultCount > 0) return ended.forged
  return log.gaps.length > 0 && !filtered ? ended.incomplete : ended.well
})

const count = (value: number): string => value.toLocaleString("en")
const shownFault = ({ detail, line, sequence }: LineFault): string =>
  `  line ${line}${sequence === undefined ? "" : `, sequence ${sequence}`}: ${detail}`
const shownRun = ({ first, last }: Run): string => (first === last ? `${first}` : `${first} to ${last}`)

const report = (
  file: string,
  log: ExportedLog,
  filtered: boolean,
  recorded: number,
  hasKeys: boolean,
  signed: CheckpointStatement | undefined
): string => {
  const missing = log.gaps.reduce((sum, { first, last }) => sum + last - first + 1, 0)
  const gaps = log.gaps.slice(0, mostShown).map(shownRun).join(", ")
  const checkpoints = !hasKeys
    ? `${count(recorded)} not looked at, without --keys`
    : signed === undefined
      ? "none that is signed"
      : `${count(recorded)}, the last signed at ${signed.sequence}; ${count((log.last ?? 0) - signed.sequence)} entries follow it`
  const verdict =
    log.faultCount > 0
      ? `NOT what the service wrote: ${count(log.faultCount)} faults`
      : missing === 0
        ? "Nothing was changed, and nothing is missing"
        : filtered
          ? "Nothing was changed"
          : "Nothing was changed, but entries are missing; if the export had a filter, say --filtered"
  return [
    `${file}: ${count(log.lines)} entries, sequences ${log.first ?? "-"} to ${log.last ?? "-"}`,
    `  not in the file: ${missing === 0 ? "none between these" : `${count(missing)} (${gaps}${log.gaps.length > mostShown ? ", …" : ""})`}`,
    `  checkpoints: ${checkpoints}`,
    ...log.faults.map(shownFault),
    ...(log.faultCount > log.faults.length ? [`  and ${count(log.faultCount - log.faults.length)} more`] : []),
    verdict
  ].join("\n")
}

/** `npm run audit:verify`: whether an exported log is what the service wrote. */
const main = Effect.suspend(() => {
  const given = argumentsOf(process.argv.slice(2))
  return given === undefined ? Effect.fail(new Unusable({ message: usage })) : verify(given)
}).pipe(
  Effect.catch((error) =>
    Effect.sync(() => {
      process.stderr.write(`${error.message}\n`)
      return ended.unusable
    })
  ),
  Effect.andThen((code) =>
    Effect.sync(() => {
      process.exitCode = code
    })
  ),
  Effect.provide(NodeServices.layer)
)

NodeRuntime.runMain(main)
