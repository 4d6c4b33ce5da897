import { Context, DateTime, Effect, Layer } from "effect"
import { dayMillis } from "../../insights/usage/domain.ts"
import { GenerationRepository } from "./repository.ts"

const daysPerMonth = 28

/** Usage that looks like that of a company, for demonstrations and measurements. */
export class Generation extends Context.Service<Generation>()("app/sandbox/Generation", {
  make: Effect.gen(function* () {
    const repository = yield* GenerationRepository
    return {
      isUsed: repository.isUsed,
      isDemo: repository.isDemo,
      isServed: repository.isServed,
      purge: repository.purge,
      /** Lets the caps that there are count what was written of so many days, as if they had been there. */
      count: Effect.fnUntraced(function* (days: number) {
        const now = (yield* DateTime.now).epochMilliseconds
        yield* repository.count(dayText(new Date(now - days * dayMillis)))
      }),
      /** Writes `rows` calls in the days before today, and answers the anomalies among them. */
      run: Effect.fnUntraced(function* (rows: number, days: number) {
        const today = Math.floor((yield* DateTime.now).epochMilliseconds / dayMillis) * dayMillis
        const dates = Array.from({ length: days }, (_, day) => new Date(today - (days - day) * dayMillis))
        const first = dayText(dates[0]!)
        yield* repository.prepare(first, Math.ceil(days / daysPerMonth) + 2)
        const calls = callsByDay(dates, rows)
        for (const [index, date] of dates.entries()) {
          yield* repository.writeDay(dayText(date), calls[index]!, first, days)
        }
        yield* repository.see
        yield* repository.analyze
        yield* repository.pack
        return yield* repository.labels(first, days)
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(GenerationRepository.layer))
}

const dayText = (date: Date): string => date.toISOString().slice(0, 10)

const weekend = 0.35
const growth = 1.2

/** The calls of each day, of `rows` in all: they grow over the time, and are fewer at weekends. */
const callsByDay = (dates: ReadonlyArray<Date>, rows: number): ReadonlyArray<number> => {
  const weights = dates.map(
    (date, index) => (date.getUTCDay() % 6 === 0 ? weekend : 1) * (1 + (growth * index) / dates.length)
  )
  const all = weights.reduce((sum, weight) => sum + weight, 0)
  let before = 0
  let sum = 0
  return weights.map((weight) => {
    sum += weight
    const upTo = Math.round((rows * sum) / all)
    const calls = upTo - before
    before = upTo
    return calls
  })
}
