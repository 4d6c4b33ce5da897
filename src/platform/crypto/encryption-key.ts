import { Context, Data, Effect, Layer, Option, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { DatabaseConnection } from "../database/connection.ts"
import { makeDirectory } from "../runtime/directory.ts"
import { SettingsError } from "../settings/settings-reader.ts"
import { noEncryptionKey, Settings } from "../settings/settings.ts"

const fileName = "encryption.key"
const keyBytes = 32

export class EncryptionKeyUnusable extends Data.TaggedError("EncryptionKeyUnusable")<{
  readonly file: string
  readonly cause: unknown
}> {
  override get message() {
    return `The encryption key in ${this.file} cannot be read or created; set Security:EncryptionKey instead`
  }
}

/** The 32 bytes that encrypt secrets at rest, and their source: `environment Security__EncryptionKey`, a file. */
export class EncryptionKey extends Context.Service<
  EncryptionKey,
  { readonly bytes: Redacted.Redacted<Uint8Array>; readonly source: string }
>()("app/platform/EncryptionKey") {
  /** `Security:EncryptionKey`, or a generated key in a file beside the embedded database. */
  static readonly layer = Layer.effect(
    EncryptionKey,
    Effect.gen(function* () {
      const { database, environment, security, sources } = yield* Settings
      const { embeddedIn } = yield* DatabaseConnection
      if (Option.isSome(security.encryptionKey)) {
        const source = sources.get("Security:EncryptionKey") ?? "default"
        return EncryptionKey.of({ bytes: security.encryptionKey.value, source })
      }
      if (Option.isNone(embeddedIn) && environment === "Production") {
        return yield* new SettingsError({ faults: [noEncryptionKey] })
      }
      const directory = Option.getOrElse(embeddedIn, () => path.resolve(database.directory))
      const source = path.join(directory, fileName)
      return EncryptionKey.of({ bytes: yield* keyIn(source), source })
    })
  )
}

const keyIn = Effect.fnUntraced(function* (file: string) {
  const failed = (cause: unknown) => new EncryptionKeyUnusable({ file, cause })
  const read = Effect.tryPromise({ try: () => readKey(file), catch: failed })
  const known = yield* read
  if (known !== undefined) return known
  const random = yield* SecureRandom.SecureRandom
  const text = Buffer.from(yield* random.randomBytes(keyBytes)).toString("base64")
  const draft = `${file}.${Buffer.from(yield* random.randomBytes(8)).toString("hex")}`
  yield* Effect.tryPromise({ try: () => writeOnce(file, draft, text), catch: failed })
  yield* Effect.logWarning(
    "An encryption key was generated; back it up, stored secrets cannot be decrypted without it"
  ).pipe(Effect.annotateLogs({ file, setting: "Security:EncryptionKey" }))
  // Another process may have been first; then its key is used.
  return (yield* read) ?? (yield* failed("The file is gone again"))
})

const readKey = async (file: string): Promise<Redacted.Redacted<Uint8Array> | undefined> => {
  const text = await fs.readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined
    throw error
  })
  if (text === undefined) return undefined
  const bytes = new Uint8Array(Buffer.from(text.trim(), "base64"))
  if (bytes.length !== keyBytes) throw new Error(`The file does not hold ${keyBytes} bytes in base64`)
  return Redacted.make(bytes, { label: "encryption-key" })
}

/** Writes a file that only this account may read, atomically, unless it exists. */
const writeOnce = async (file: string, draft: string, text: string): Promise<void> => {
  await makeDirectory(path.dirname(file), 0o700)
  const handle = await fs.open(draft, "wx", 0o600)
  try {
    await handle.writeFile(`${text}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await fs.link(draft, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error
  })
  await fs.rm(draft)
}
