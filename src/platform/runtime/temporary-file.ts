import { Data, Effect, type Scope } from "effect"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs/promises"
import * as path from "node:path"

const blockBytes = 65_536

/** Why a temporary file could not be opened, or be written to. */
export class UnwritableFile extends Data.TaggedError("UnwritableFile")<{
  /** That of the operating system, such as `ENOSPC`. */
  readonly code: string
  readonly message: string
  readonly cause: unknown
}> {}

const unwritable = (cause: unknown): UnwritableFile => {
  const { code = "unknown", message } = cause as NodeJS.ErrnoException
  return new UnwritableFile({ code, message, cause })
}

/** A file that only this process reaches, and that ends with it. */
export interface TemporaryFile {
  /** Writes bytes behind those that it has. */
  append(bytes: Uint8Array): Effect.Effect<void, UnwritableFile>
  /** Bytes of it in blocks, each of which is read when it is asked for; they are read from their beginning as often as asked. */
  slice(start: number, length: number): Iterable<Promise<Uint8Array>>
}

/** The code of an error where bytes that were written cannot be read again. */
export const unreadableFile = "ERR_TEMPORARY_FILE"

const unreadable = (cause?: unknown): Error =>
  Object.assign(new Error("A temporary file cannot be read to its end", { cause }), { code: unreadableFile })

/** `buffer.length` bytes from a position on. */
const readInto = async (file: fs.FileHandle, buffer: Uint8Array, position: number): Promise<Uint8Array> => {
  const { bytesRead } = await file.read(buffer, 0, buffer.length, position).catch((error: unknown) => {
    throw unreadable(error)
  })
  if (bytesRead === 0) throw unreadable()
  if (bytesRead < buffer.length) await readInto(file, buffer.subarray(bytesRead), position + bytesRead)
  return buffer
}

function* blocksOf(file: fs.FileHandle, start: number, end: number): Generator<Promise<Uint8Array>> {
  for (let at = start; at < end; at += blockBytes) {
    yield readInto(file, Buffer.allocUnsafeSlow(Math.min(blockBytes, end - at)), at)
  }
}

const opened = async (directory: string): Promise<fs.FileHandle> => {
  const name = path.join(directory, `application-manager-${randomUUID()}`)
  const file = await fs.open(name, "wx+", 0o600)
  try {
    await fs.unlink(name)
  } catch (error) {
    await file.close()
    throw error
  }
  return file
}

/**
 * Opens a file for its owner alone, and takes its name away, so that nothing is left of it however the process ends. Effect's
 * `FileSystem` removes temporary files when a scope ends, and closes them while they may still be read; a handle of Node waits
 * for that, since the number of a closed file may be that of the next one.
 */
export const openTemporaryFile = (directory: string): Effect.Effect<TemporaryFile, UnwritableFile, Scope.Scope> =>
  Effect.acquireRelease(Effect.tryPromise({ try: () => opened(directory), catch: unwritable }), (file) =>
    Effect.ignore(Effect.tryPromise(() => file.close()))
  ).pipe(
    Effect.map((file) => ({
      append: (bytes) => Effect.tryPromise({ try: () => file.appendFile(bytes), catch: unwritable }),
      slice: (start, length) => ({ [Symbol.iterator]: () => blocksOf(file, start, start + length) })
    }))
  )
