import { Context, Data, Effect, Layer, Option } from "effect"
import { Digest } from "effect/crypto"
import { type Fault } from "../../../kernel/problem.ts"
import { PayloadTooLarge, ValidationFailed } from "../../../kernel/problems.ts"
import { type ConfigurationId, maximumContentBytes } from "../model/domain.ts"
import { ConfigurationSchemaUnfit } from "../model/problem-domain.ts"
import { ConfigurationRepository } from "../model/repository.ts"
import { type HeldNode, type StoredContent } from "../model/row-domain.ts"
import { type SourceFile } from "./messages.ts"
import { SchemaChecks } from "./schema-validator.ts"

/** A check of a content: against a schema (a stored file or a text), or (null) as a schema that files name. */
export interface Check {
  /** Tells the check apart from every other: equal keys mean equal contents and schemas. */
  readonly key: string
  readonly file: SourceFile
  readonly against: ConfigurationId | SourceFile | null
  /** Where faults are told, and where a fault of the schema itself is. */
  readonly at: { readonly content: Fault["path"]; readonly schema: Fault["path"] }
}

/** Checks that contents have not passed yet. */
export class Unchecked extends Data.TaggedError("Unchecked")<{ readonly checks: ReadonlyArray<Check> }> {}

/** The keys of the checks that were passed. */
export type Passed = ReadonlySet<string>

/** Fails unless all of the checks were passed. */
export const requirePassed = (checks: ReadonlyArray<Check>, passed: Passed): Effect.Effect<void, Unchecked> => {
  const open = checks.filter(({ key }) => !passed.has(key))
  return open.length === 0 ? Effect.void : Effect.fail(new Unchecked({ checks: open }))
}

/** A content on its way into a file. Attempts that find another content tell them apart by `version`. */
export interface Candidate extends SourceFile {
  readonly version?: number | null
}

/** Fails unless a content has passed the checks that it must pass to stand in a file. */
export const requireChecked = (
  file: Candidate,
  { isSchema, schemaId, schemaVersion }: Pick<HeldNode, "isSchema" | "schemaId" | "schemaVersion">,
  passed: Passed
): Effect.Effect<void, Unchecked> => {
  const content = `${file.version ?? "new"} ${file.name}`
  const at = { content: ["payload", "content"], schema: ["payload", "schemaId"] }
  return requirePassed(
    [
      ...(isSchema ? [{ key: `as schema ${content}`, file, against: null, at }] : []),
      ...(schemaId === null ? [] : [{ key: `${schemaId} ${schemaVersion} ${content}`, file, against: schemaId, at }])
    ],
    passed
  )
}

/** What a content must be before it is stored: small enough, and as its file's schema asks. */
export class Contents extends Context.Service<
  Contents,
  {
    /** The content with its size and digest; more than 1 MiB fails. */
    measured(content: string): Effect.Effect<StoredContent, PayloadTooLarge>
    /**
     * Runs an attempt to write. Where that finds a check that its content must pass first, the check is made when the
     * attempt's transaction is over, and it is made again: so no check holds a row or a connection.
     */
    whenChecked<A, E, R>(
      attempt: (passed: Passed) => Effect.Effect<A, E | Unchecked, R>
    ): Effect.Effect<A, E | ValidationFailed, R>
    /** The schema that a file of the application may name. */
    schemaOf(
      applicationId: number,
      fileId: ConfigurationId | null,
      schemaId: ConfigurationId | null
    ): Effect.Effect<HeldNode | null, ConfigurationSchemaUnfit>
  }
>()("app/configuration/Contents") {
  static readonly layerNoDeps = Layer.effect(
    Contents,
    Effect.gen(function* () {
      const checks = yield* SchemaChecks
      const digest = yield* Digest.Digest
      const repository = yield* ConfigurationRepository

      const measured = Effect.fn("Contents.measured")(function* (content: string) {
        const bytes = new TextEncoder().encode(content)
        if (bytes.length > maximumContentBytes) {
          return yield* new PayloadTooLarge({ detail: "A file holds at most 1 MiB of UTF-8." })
        }
        return { content, size: bytes.length, sha256: yield* digest.digest(Digest.sha256, bytes) }
      })

      const schemaSource = Effect.fnUntraced(function* (against: ConfigurationId | SourceFile) {
        if (typeof against === "object") return against
        const { content, name } = yield* repository.getWithContent(against)
        return { name, content: content ?? "" }
      })

      const check = Effect.fn("Contents.check")(function* ({ against, at, file }: Check) {
        if (against === null) {
          const { faults } = yield* checks.check({ schema: file })
          return faultsAt(at.content, faults)
        }
        const schema = yield* Effect.option(schemaSource(against))
        // A schema that is gone by now is found missing by the next attempt.
        if (Option.isNone(schema)) return []
        const { faults, schemaAtFault } = yield* checks.check({ schema: schema.value, content: file })
        return schemaAtFault ? faultsAt(at.schema, faults, "The schema cannot be used: ") : faultsAt(at.content, faults)
      })

      const passAll = Effect.fnUntraced(function* (open: ReadonlyArray<Check>) {
        const errors: Array<Fault> = []
        for (const one of open) {
          errors.push(...(yield* check(one)))
          if (errors.length >= mostFaults) break
        }
        if (errors.length === 0) return
        const detail = "A content is not what its schema asks for, or is no schema; `errors` names every place."
        return yield* new ValidationFailed({ errors: errors.slice(0, mostFaults), detail })
      })

      const whenChecked = <A, E, R>(attempt: (passed: Passed) => Effect.Effect<A, E | Unchecked, R>) => {
        const passed = new Set<string>()
        const again: Effect.Effect<A, E | ValidationFailed, R> = Effect.suspend(() =>
          Effect.catch(attempt(passed), (error): Effect.Effect<A, E | ValidationFailed, R> => {
            if (!(error instanceof Unchecked)) return Effect.fail(error)
            return Effect.andThen(passAll(error.checks), () => {
              for (const { key } of error.checks) passed.add(key)
              return again
            })
          })
        )
        return again
      }

      const schemaOf = Effect.fn("Contents.schemaOf")(function* (
        applicationId: number,
        fileId: ConfigurationId | null,
        schemaId: ConfigurationId | null
      ) {
        if (schemaId === null) return null
        const unfit = new ConfigurationSchemaUnfit({})
        const schema = yield* Effect.mapError(repository.get(schemaId), () => unfit)
        if (schema.applicationId !== applicationId || schema.type === "folder" || schemaId === fileId) {
          return yield* unfit
        }
        return schema
      })

      return Contents.of({ measured, whenChecked, schemaOf })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.mergeAll(ConfigurationRepository.layer, SchemaChecks.layer))
  )
}

const mostFaults = 100

const faultsAt = (at: Fault["path"], faults: ReadonlyArray<Fault>, prefix = ""): ReadonlyArray<Fault> =>
  faults.map(({ message, path }) => ({ path: [...at, ...path], message: prefix + message }))
