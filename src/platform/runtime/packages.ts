import { Data, Effect, Schedule } from "effect"

/** `npm ci` beside a running service takes its packages away for some seconds: what is loaded then waits for them. */
export const whilePackagesAreReplaced = {
  while: ({ reason }: { readonly reason: string }) => /Cannot find (?:module|package)|ENOENT/.test(reason),
  schedule: Schedule.spaced("500 millis"),
  times: 60
}

class NotLoaded extends Data.TaggedError("NotLoaded")<{ readonly reason: string }> {}

/** A large module that is loaded at its first use. */
export const loadLate = <Module>(load: () => Promise<Module>): Effect.Effect<Module> =>
  Effect.tryPromise({ try: load, catch: (cause) => new NotLoaded({ reason: String(cause) }) }).pipe(
    Effect.retry(whilePackagesAreReplaced),
    Effect.orDie
  )
