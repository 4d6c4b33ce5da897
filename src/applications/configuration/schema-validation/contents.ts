import { Context, Data, Effect, Layer, Option } from "effect"
import { Digest } from "effect/crypto"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { PayloadTooLarge, ValidationFailed } from "../../../kernel/problems/problems.ts"
import { type ConfigurationId, ConfigurationSchemaUnfit, maximumContentBytes } from "../model/domain.ts"
import { ConfigurationRepository } from "../model/repository.ts"
import { type LockedNode, type StoredContent } from "../model/row-domain.ts"
import { type SourceFile } from "./messages.ts"
import { SchemaValidator } from "./schema-validator.ts"

/** A validation of a content: against a schema (a stored file or a text), or (null) as a schema itself. */
export interface Validation {
  /** Identifies the validation: equal keys mean equal contents and schemas. */
  readonly key: string
  readonly file: SourceFile
  readonly against: ConfigurationId | SourceFile | null
  /** Paths in the request: of faults in the content, and of a fault in the schema itself. */
  readonly at: { readonly content: Fault["path"]; readonly schema: Fault["path"] }
}

/** Checks that contents have not passed yet. */
export class Unvalidated extends Data.TaggedError("Unvalidated")<{ readonly validations: ReadonlyArray<Validation> }> {}

/** The keys of the validations that passed. */
export type Passed = ReadonlySet<string>

/** Fails unless all of the validations passed. */
export const requirePassed = (
  validations: ReadonlyArray<Validation>,
  passed: Passed
): Effect.Effect<void, Unvalidated> => {
  const open = validations.filter(({ key }) => !passed.has(key))
  return open.length === 0 ? Effect.void : Effect.fail(new Unvalidated({ validations: open }))
}

/** A content to be saved to a file. `version` distinguishes contents that a retried attempt finds. */
export interface NewContent extends SourceFile {
  readonly version?: number | null
}

/** Fails unless a content has passed the validations that its file requires. */
export const requireValid = (
  file: NewContent,
  { isSchema, schemaId, schemaVersion }: Pick<LockedNode, "isSchema" | "schemaId" | "schemaVersion">,
  passed: Passed
): Effect.Effect<void, Unvalidated> => {
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
    measure(content: string): Effect.Effect<StoredContent, PayloadTooLarge>
    /**
     * Runs an attempt to write. Where that finds a check that its content must pass first, the check is made when the
     * attempt's transaction is over, and it is made again: so no check holds a row or a connection.
     */
    whenValid<A, E, R>(
      attempt: (passed: Passed) => Effect.Effect<A, E | Unvalidated, R>
    ): Effect.Effect<A, E | ValidationFailed, R>
    /** The schema that a file of the application may name. */
    schemaOf(
      applicationId: number,
      fileId: ConfigurationId | null,
      schemaId: ConfigurationId | null
    ): Effect.Effect<LockedNode | null, ConfigurationSchemaUnfit>
  }
>()("app/applications/Contents") {
  static readonly layerNoDeps = Layer.effect(
    Contents,
    Effect.gen(function* () {
      const validator = yield* SchemaValidator
      const digest = yield* Digest.Digest
      const repository = yield* ConfigurationRepository

      const measure = Effect.fn("Contents.measure")(function* (content: string) {
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

      const validate = Effect.fn("Contents.validate")(function* ({ against, at, file }: Validation) {
        if (against === null) {
          const { faults } = yield* validator.validate({ schema: file })
          return faultsAt(at.content, faults)
        }
        const schema = yield* Effect.option(schemaSource(against))
        // A schema that is gone by now is found missing by the next attempt.
        if (Option.isNone(schema)) return []
        const { faults, schemaAtFault } = yield* validator.validate({ schema: schema.value, content: file })
        return schemaAtFault ? faultsAt(at.schema, faults, "The schema cannot be used: ") : faultsAt(at.content, faults)
      })

      const passAll = Effect.fnUntraced(function* (open: ReadonlyArray<Validation>) {
        const errors: Array<Fault> = []
        for (const one of open) {
          errors.push(...(yield* validate(one)))
          if (errors.length >= maxFaults) break
        }
        if (errors.length === 0) return
        const detail = "A content does not match its schema, or is not a valid schema; `errors` lists every place."
        return yield* new ValidationFailed({ errors: errors.slice(0, maxFaults), detail })
      })

      const whenValid = <A, E, R>(attempt: (passed: Passed) => Effect.Effect<A, E | Unvalidated, R>) => {
        const passed = new Set<string>()
        const again: Effect.Effect<A, E | ValidationFailed, R> = Effect.suspend(() =>
          Effect.catch(attempt(passed), (error): Effect.Effect<A, E | ValidationFailed, R> => {
            if (!(error instanceof Unvalidated)) return Effect.fail(error)
            return Effect.andThen(passAll(error.validations), () => {
              for (const { key } of error.validations) passed.add(key)
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

      return Contents.of({ measure, whenValid, schemaOf })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.mergeAll(ConfigurationRepository.layer, SchemaValidator.layer))
  )
}

const maxFaults = 100

const faultsAt = (at: Fault["path"], faults: ReadonlyArray<Fault>, prefix = ""): ReadonlyArray<Fault> =>
  faults.map(({ message, path }) => ({ path: [...at, ...path], message: prefix + message }))
