import { Array, Config, Data, Effect, FileSystem, Option, Result } from "effect"
import { type Given, mergeLayers, placeOf, providerOf } from "./configuration-provider.ts"
import { type Fault, fromArguments, fromEnvironment, fromJson, type Readings } from "./configuration-sources.ts"
import { type Kind } from "./setting-kinds.ts"

export type EnvironmentName = "Development" | "Production"

/** The text of a default, in which `<Key>` stands for the value of another key; it may differ by environment. */
export type Default = string | ReadonlyArray<string> | { readonly [Name in EnvironmentName]: string }

/** A declared key: the kind of its value, what it is when nobody sets it, and what it means in one line. */
export interface Setting<out A> extends Kind<A> {
  /** `undefined` when the value may be absent: then it is an `Option`. */
  readonly default: Default | undefined
  readonly description: string
}

/** A setting that always has a value. */
export const setting = <A>(kind: Kind<A>, fallback: Default, description: string): Setting<A> => ({
  ...kind,
  default: fallback,
  description
})

/** A setting that may be absent. */
export const optional = <A>(kind: Kind<A>, description: string): Setting<Option.Option<A>> => ({
  ...kind,
  config: Config.option(kind.config),
  default: undefined,
  description
})

/** Everything that is wrong with the settings, each with its key and where it was set; holds no secret. */
export class SettingsError extends Data.TaggedError("SettingsError")<{ readonly faults: ReadonlyArray<Fault> }> {
  override get message() {
    const lines = this.faults.map(({ name, source, reason }) =>
      name === undefined ? `${source}: ${reason}` : `${name} (${source}): ${reason}`
    )
    return ["The settings cannot be used:", ...lines].join("\n  ")
  }
}

type Variables = Readonly<Record<string, string | undefined>>

const environmentNamed = (name: string | undefined) =>
  (["Development", "Production"] as const).find((known) => known.toLowerCase() === name?.toLowerCase())

/** `APP_ENVIRONMENT`, else `NODE_ENV` when it is one of ours, else Development; in any case. */
export const environmentName = (variables: Variables): Result.Result<EnvironmentName, Fault> => {
  const own = variables.APP_ENVIRONMENT ?? ""
  return own === ""
    ? Result.succeed(environmentNamed(variables.NODE_ENV) ?? "Development")
    : Result.fromNullishOr(environmentNamed(own), () => ({
        source: "environment APP_ENVIRONMENT",
        reason: `${JSON.stringify(own)} is neither Development nor Production`
      }))
}

/** What is read besides files: the words after the program's name, and the environment variables. */
export interface ProcessSources {
  readonly arguments: ReadonlyArray<string>
  readonly environment: Variables
}

/** What was read: the decoded value of every declared key, and where it was set (`default` when nowhere). */
export interface ReadSettings {
  readonly environment: EnvironmentName
  readonly values: ReadonlyMap<string, unknown>
  readonly sources: ReadonlyMap<string, string>
}

/** Reads every key of `table` from defaults, `appsettings*.json`, environment and command line; fails with all faults. */
export const readSettings = Effect.fnUntraced(function* (
  table: Readonly<Record<string, Setting<unknown>>>,
  aliases: Readonly<Record<string, string>>,
  sources: ProcessSources
): Effect.fn.Return<ReadSettings, SettingsError, FileSystem.FileSystem> {
  const named = environmentName(sources.environment)
  const environment = Result.getOrElse(named, () => "Development" as const)
  const sections = new Set(Object.keys(table).map((key) => key.replace(/:.*/, "").toLowerCase()))
  const place = placeOf(table)
  const needsValue = (name: string) => {
    const key = place(name)?.key
    return key !== undefined && table[key]?.form !== "flag"
  }
  const { given, faults } = yield* mergeLayers(table, [
    yield* readFile("appsettings.json"),
    Result.isSuccess(named) ? yield* readFile(`appsettings.${environment}.json`) : [],
    fromEnvironment(sources.environment, sections, aliases),
    fromArguments(sources.arguments, needsValue)
  ])
  const defaultOf = (key: string) => defaultIn(environment, table[key]?.default)
  const defaults = Object.keys(table).flatMap((key): ReadonlyArray<readonly [string, Given]> => {
    const fallback = defaultOf(key)
    const textOf = (other: string) => String(given.get(other)?.value ?? defaultOf(other))
    return fallback === undefined ? [] : [[key, { value: filled(fallback, textOf), source: "default" }]]
  })
  const effective = new Map([...defaults, ...given])
  const sourceOf = (key: string) => effective.get(key)?.source ?? "default"
  const provider = providerOf(effective)
  const decoded = yield* Effect.forEach(Object.entries(table), ([key, declared]) =>
    at(key, declared.config)
      .parse(provider)
      .pipe(
        Effect.map((value) => [key, value] as const),
        Effect.mapError(() => ({
          name: key,
          source: sourceOf(key),
          reason: wrongValue(declared, effective.get(key)?.value)
        })),
        Effect.result
      )
  )
  const all = [...Option.toArray(Result.getFailure(named)), ...faults, ...Array.getFailures(decoded)]
  if (all.length > 0) {
    // A default is at fault only when it is made of a key that is at fault itself.
    const own = all.filter(({ source }) => source !== "default")
    return yield* new SettingsError({ faults: own.length > 0 ? own : all })
  }
  return {
    environment,
    values: new Map(Array.getSuccesses(decoded)),
    sources: new Map(Object.keys(table).map((key) => [key, sourceOf(key)]))
  }
})

const readFile = (fileName: string): Effect.Effect<Readings, never, FileSystem.FileSystem> =>
  FileSystem.FileSystem.pipe(
    Effect.flatMap((files) => files.readFileString(fileName)),
    Effect.map((text) => fromJson(fileName, text)),
    Effect.catch(({ reason }) =>
      Effect.succeed(
        reason._tag === "NotFound" ? [] : [Result.fail({ source: fileName, reason: `cannot be read (${reason._tag})` })]
      )
    )
  )

const defaultIn = (environment: EnvironmentName, fallback: Default | undefined) =>
  typeof fallback === "object" && "Development" in fallback ? fallback[environment] : fallback

const filled = (fallback: string | ReadonlyArray<string>, textOf: (key: string) => string) =>
  typeof fallback === "string" ? fallback.replace(/<(.+?)>/g, (_, key: string) => textOf(key)) : fallback

const at = <A>(key: string, config: Config.Config<A>) =>
  key.split(":").reduceRight((inner, part) => Config.nested(inner, part), config)

const wrongValue = ({ secret, expected }: Setting<unknown>, value: Given["value"] | undefined): string => {
  // Somebody may write credentials where none belong.
  const text = String(value).replace(/.*@/s, "***@")
  return `${secret ? "the value" : JSON.stringify(text.slice(0, 100))} is not ${expected}`
}
