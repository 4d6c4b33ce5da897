import { DateTime, Effect, FileSystem, Option, Schema, Stream } from "effect"
import * as jose from "jose"
import { Unusable } from "../../platform/runtime/unusable.ts"
import {
  CheckpointStatement,
  checkpointType,
  ExportStatement,
  exportType,
  RetirementStatement,
  retirementType
} from "../log/domain.ts"
import { PublicKeys } from "../signing-keys/domain.ts"
import { ExportedLog, type LineFault, type Recorded, type Run } from "./exported-log.ts"

const usage = `npm run audit:verify -- FILE [--keys attestation-keys.json] [--checkpoints checkpoints.json] [--filtered]

Verifies an exported audit log (JSON Lines) without a database: every line against its hash, every line against the
one before it, that none is missing, and the seal that the service put over all of them at the end.
--keys: from /.well-known/attestation-keys.json, got by a way that you trust; without them nothing is proven.
--checkpoints: from /api/audit-logs/checkpoints, kept since then; the log must still be what was signed, and reach it.
--filtered: the export had a filter, so sequences may be missing.

Exits with 0 when the export is intact, 1 when something was changed, 2 when it cannot be verified, 3 when entries are missing,
and 4 when it is consistent but unproven: it has no seal, or there is no key to verify the seal with.`

/** How the command ends. */
export const ended = { well: 0, forged: 1, unusable: 2, incomplete: 3, unproven: 4 } as const
const maxShown = 20
const readCheckpoint = Schema.decodeUnknownOption(Schema.fromJsonString(CheckpointStatement))
const readExport = Schema.decodeUnknownOption(Schema.fromJsonString(ExportStatement))
const types = { checkpoint: checkpointType, retirement: retirementType, seal: exportType }
const readRetirement = Schema.decodeUnknownOption(Schema.fromJsonString(RetirementStatement))

interface Arguments {
  readonly file: string
  readonly keys: string | undefined
  readonly checkpoints: string | undefined
  readonly filtered: boolean
}

const argumentsOf = (words: ReadonlyArray<string>): Arguments | undefined => {
  const given = new Map<string, string | undefined>()
  const rest = [...words]
  for (const option of ["--keys", "--checkpoints"]) {
    const at = rest.indexOf(option)
    if (at >= 0) given.set(option, rest.splice(at, 2)[1])
  }
  const [file, ...others] = rest.filter((word) => word !== "--filtered")
  const lacksValue = [...given.values()].some((value) => value === undefined)
  if (file === undefined || file.startsWith("-") || others.length > 0 || lacksValue) return undefined
  return {
    file,
    keys: given.get("--keys"),
    checkpoints: given.get("--checkpoints"),
    filtered: rest.includes("--filtered")
  }
}

const readJson = Effect.fnUntraced(function* <S extends Schema.ConstraintDecoder<unknown>>(file: string, schema: S) {
  const files = yield* FileSystem.FileSystem
  const text = yield* files.readFileString(file)
  return yield* Schema.decodeUnknownEffect(Schema.fromJsonString(schema))(text).pipe(
    Effect.mapError(({ message }) => new Unusable({ message: `${file}: ${message}` }))
  )
})

const readKeys = (file: string) =>
  Effect.map(readJson(file, PublicKeys), ({ keys }) => jose.createLocalJWKSet({ keys: [...keys] }))

type Keys = Effect.Success<ReturnType<typeof readKeys>>

const Kept = Schema.Struct({ items: Schema.Array(CheckpointStatement) })
const readKept = (file: string) =>
  Effect.map(readJson(file, Kept), ({ items }) => new Map(items.map(({ hash, sequence }) => [sequence, hash])))

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

/** What a statement says; none when it is of another kind, or not signed by these keys. */
const statementOf = Effect.fnUntraced(function* (keys: Keys | undefined, { jws, kind }: Recorded) {
  if (keys === undefined) {
    const claimed = Effect.try(() => textOf(jose.base64url.decode(jws.split(".")[1] ?? "")))
    return yield* Effect.option(claimed)
  }
  const signed = yield* Effect.option(Effect.tryPromise(() => jose.compactVerify(jws, keys, { algorithms: ["EdDSA"] })))
  return Option.flatMap(signed, ({ payload, protectedHeader }) =>
    protectedHeader.typ === types[kind] ? Option.some(textOf(payload)) : Option.none()
  )
})

/** What the signatures in a log say. */
interface Signatures {
  /** How many checkpoints the log records. */
  checkpoints: number
  /** The last sequence among those whose signatures hold. */
  signed: number | undefined
  seal: { readonly statement: ExportStatement; readonly fits: boolean } | undefined
}

/** Notes what a line records. */
const heed = Effect.fnUntraced(function* (
  keys: Keys | undefined,
  log: ExportedLog,
  signatures: Signatures,
  recorded: Recorded
) {
  const statement = yield* statementOf(keys, recorded)
  const fault = (detail: string) => log.fault(undefined, detail)
  if (recorded.kind === "seal") {
    const seal = Option.flatMap(statement, readExport)
    if (Option.isNone(seal)) fault("The seal behind it has no signature of these keys")
    else signatures.seal = { statement: seal.value, fits: log.fits(seal.value) }
    return
  }
  if (recorded.kind === "retirement") {
    const retirement = Option.flatMap(statement, readRetirement)
    if (Option.isNone(retirement)) fault("The retirement that it records has no signature of these keys")
    else log.retire(retirement.value.runs)
    return
  }
  signatures.checkpoints += 1
  const checkpoint = Option.flatMap(statement, readCheckpoint)
  if (Option.isNone(checkpoint)) return fault("The checkpoint that it records has no signature of these keys")
  const { hash, sequence } = checkpoint.value
  const found = log.hashAt(sequence)
  if (found === undefined || found === hash) signatures.signed = sequence
  else fault(`The signed checkpoint says another hash for ${sequence}`)
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

interface Findings extends Arguments {
  readonly log: ExportedLog
  readonly signatures: Signatures
}

const verify = Effect.fnUntraced(function* (given: Arguments) {
  const files = yield* FileSystem.FileSystem
  const keys = given.keys === undefined ? undefined : yield* readKeys(given.keys)
  const log = new ExportedLog(given.checkpoints === undefined ? undefined : yield* readKept(given.checkpoints))
  const signatures: Signatures = { checkpoints: 0, signed: undefined, seal: undefined }
  yield* linesOf(files.stream(given.file, { chunkSize: 1 << 20 })).pipe(
    Stream.runForEach(
      Effect.fnUntraced(function* (lines) {
        for (const line of lines) {
          const recorded = log.take(line)
          if (recorded !== undefined) yield* heed(keys, log, signatures, recorded)
        }
      })
    )
  )
  if (log.lines === 0) return yield* new Unusable({ message: `${given.file} holds no line` })
  return report({ ...given, log, signatures })
})

const count = (value: number): string => value.toLocaleString("en")
const shownFault = ({ detail, line, sequence }: LineFault): string =>
  `  line ${line}${sequence === undefined ? "" : `, sequence ${sequence}`}: ${detail}`
const shownRun = ({ first, last }: Run): string => (first === last ? `${first}` : `${first} to ${last}`)

const shownCheckpoints = ({ keys, log, signatures }: Findings): string => {
  const { checkpoints, signed } = signatures
  if (keys === undefined) return `${count(checkpoints)} in the file, their signatures not looked at without --keys`
  if (signed === undefined) return "none that is signed"
  const after = (log.last ?? 0) - signed
  return `${count(checkpoints)} in the file, the last signed at ${signed}; ${count(after)} entries follow it`
}

const shownSeal = ({ keys, signatures: { seal } }: Findings): string => {
  if (seal === undefined) return "none"
  if (keys === undefined) return "its signature not looked at without --keys"
  const { exportedAt, lines } = seal.statement
  return `signed ${DateTime.formatIso(exportedAt)} over ${count(lines)} entries${seal.fits ? "" : ", which are not these"}`
}

/** What is to be said of an export, and how the command ends with it. */
interface Verdict {
  readonly code: number
  readonly text: string
}

const verdictOf = ({ filtered, keys, log, signatures }: Findings): Verdict => {
  const { seal, signed } = signatures
  if (log.faultCount > 0) {
    const faults = `${count(log.faultCount)} ${log.faultCount === 1 ? "fault" : "faults"}`
    return { code: ended.forged, text: `NOT what the service wrote: ${faults}` }
  }
  const cut = log.cutBefore()
  if (cut !== undefined) {
    const text = `Nothing was changed, but the log is cut off: ${cut} was signed, and is not in the file`
    return { code: ended.incomplete, text }
  }
  const isComplete = log.missing().length === 0
  if (!isComplete && !filtered) {
    const text = "Nothing was changed, but entries are missing; if the export had a filter, say --filtered"
    return { code: ended.incomplete, text }
  }
  if (keys === undefined) {
    const text = "Every line matches its hash, which proves nothing without --keys: hashes can be recomputed"
    return { code: ended.unproven, text }
  }
  if (seal === undefined) {
    const proven = isComplete && signed !== undefined ? `what follows ${signed}` : "all of it"
    return {
      code: ended.unproven,
      text: `Every line fits its hash, but no seal ends the file: ${proven} is not proven`
    }
  }
  if (!seal.fits) return { code: ended.forged, text: "NOT what the service wrote: the seal is that of other lines" }
  return { code: ended.well, text: isComplete ? "Nothing was changed, and nothing is missing" : "Nothing was changed" }
}

const report = (found: Findings): Verdict => {
  const { checkpoints, file, log } = found
  const missing = log.missing()
  const total = missing.reduce((sum, { first, last }) => sum + last - first + 1, 0)
  const shown = `${missing.slice(0, maxShown).map(shownRun).join(", ")}${missing.length > maxShown ? ", …" : ""}`
  const verdict = verdictOf(found)
  const lines = [
    `${file}: ${count(log.lines)} entries, sequences ${log.first ?? "-"} to ${log.last ?? "-"}`,
    `  not in the file: ${total === 0 ? "none before the last" : `${count(total)} (${shown})`}`,
    `  checkpoints: ${shownCheckpoints(found)}`,
    ...(checkpoints === undefined ? [] : [`  kept checkpoints: ${count(log.confirmed)} confirmed`]),
    `  seal: ${shownSeal(found)}`,
    ...log.faults.map(shownFault),
    ...(log.faultCount > log.faults.length ? [`  and ${count(log.faultCount - log.faults.length)} more`] : []),
    verdict.text
  ]
  return { code: verdict.code, text: lines.join("\n") }
}

/** Verifies an export as the words of the command name it. */
export const verifyExport = (words: ReadonlyArray<string>) => {
  const given = argumentsOf(words)
  return given === undefined ? Effect.fail(new Unusable({ message: usage })) : verify(given)
}
