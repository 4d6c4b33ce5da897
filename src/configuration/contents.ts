import { Context, Data, Effect, Layer, Option } from "effect"
import { Digest } from "effect/crypto"
import { PayloadTooLarge, ValidationFailed } from "../kernel/problems.ts"
import { type ConfigurationId, maximumContentBytes } from "./domain.ts"
import { ConfigurationSchemaUnfit } from "./problems.ts"
import { ConfigurationRepository, type HeldNode, type StoredContent } from "./repository.ts"
import { type CheckReply, type SourceFile } from "./schema-check-messages.ts"
import { SchemaChecks } from "./schema-checks.ts"

/** A check that a content has not passed yet: against a schema, or (null) as a schema that files name. */
export class Unchecked extends Data.TaggedError("Unchecked")<{
  readonly key: string
  readonly file: SourceFile
  readonly against: ConfigurationId | null
}> {}

/** The keys of the checks that were passed. */
export type Passed = ReadonlySet<string>

/** A content on its way into a file. Attempts that find another content tell them apart by `version`. */
export interface Candidate extends SourceFile {
  readonly version?: number | null
}

/** Fails with the first check that a content must still pass to stand in this file. */
export const requireChecked = (
  file: Candidate,
  { isSchema, schemaId, schemaVersion }: Pick<HeldNode, "isSchema" | "schemaId" | "schemaVersion">,
  passed: Passed
): Effect.Effect<void, Unchecked> => {
  const content = `${file.version ?? "new"} ${file.name}`
  const needed = [
    ...(isSchema ? [new Unchecked({ key: `as schema ${content}`, file, against: null })] : []),
    ...(schemaId === null
      ? []
      : [new Unchecked({ key: `${schemaId} ${schemaVersion} ${content}`, file, against: schemaId })])
  ]
  const next = needed.find(({ key }) => !passed.has(key))
  return next === undefined ? Effect.void : Effect.fail(next)
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

      const check = Effect.fn("Contents.check")(function* ({ against, file }: Unchecked) {
        if (against === null) {
          const { faults } = yield* checks.check({ schema: file })
          return yield* failOn({ schemaAtFault: false, faults })
        }
        const schema = yield* Effect.option(repository.getWithContent(against))
        // A schema that is gone by now is found missing by the next attempt.
        if (Option.isNone(schema)) return
        const { content, name } = schema.value
        return yield* failOn(yield* checks.check({ schema: { name, content: content ?? "" }, content: file }))
      })

      const whenChecked = <A, E, R>(attempt: (passed: Passed) => Effect.Effect<A, E | Unchecked, R>) => {
        const passed = new Set<string>()
        const again: Effect.Effect<A, E | ValidationFailed, R> = Effect.suspend(() =>
          Effect.catch(attempt(passed), (error): Effect.Effect<A, E | ValidationFailed, R> => {
            if (!(error instanceof Unchecked)) return Effect.fail(error)
            return Effect.andThen(check(error), () => {
              passed.add(error.key)
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

const failOn = ({ faults, schemaAtFault }: CheckReply): Effect.Effect<void, ValidationFailed> =>
  faults.length === 0
    ? Effect.void
    : Effect.fail(
        new ValidationFailed({
          errors: faults.map(({ message, path }) =>
            schemaAtFault
              ? { path: ["payload", "schemaId"], message: `The schema cannot be used: ${message}` }
              : { path: ["payload", "content", ...path], message }
          ),
          detail: schemaAtFault
            ? "The file that schemaId names is no JSON Schema that can be used."
            : "The content is not what its schema asks for; `errors` names every place."
        })
      )
