import { type Clock } from "effect"

/** A bound of a part of a request, in milliseconds since 1970; infinite where a part has none. */
interface Bound {
  outer: Bound | undefined
  until: number
  readonly since: number
  /** What the request is answered with when it is stopped at this bound. */
  readonly late: string
}

/** The time limit of a request: its own, and those of the parts that are running, the innermost first. */
export class Deadline {
  /** What did not end in time, of a request that was stopped. */
  missed: string | undefined = undefined
  private innermost: Bound | undefined = undefined
  private readonly clock: Clock.Clock

  constructor(clock: Clock.Clock) {
    this.clock = clock
  }

  begin(millis: number, late: string): Bound {
    const since = this.clock.currentTimeMillisUnsafe()
    return (this.innermost = { outer: this.innermost, until: since + millis, since, late })
  }

  end(bound: Bound): void {
    if (this.innermost === bound) this.innermost = bound.outer
    else {
      // Parts that run at the same time end in any order.
      let inner = this.innermost
      while (inner !== undefined && inner.outer !== bound) inner = inner.outer
      if (inner !== undefined) inner.outer = bound.outer
    }
    if (bound.until !== Infinity) return
    const lifted = this.clock.currentTimeMillisUnsafe() - bound.since
    for (let { outer } = bound; outer !== undefined && outer.until !== Infinity; { outer } = outer) {
      outer.until += lifted
    }
  }

  /** Whether a bound is reached that is not lifted. */
  isMissedAt(now: number): boolean {
    for (let bound = this.innermost; bound !== undefined && bound.until !== Infinity; bound = bound.outer) {
      if (bound.until > now) continue
      this.missed = bound.late
      return true
    }
    return false
  }
}
