import { type ReactNode } from "react"
import { Link } from "wouter"
import { type Row } from "../../api/operations.ts"
import { count, Moment, percent, quantity, usd } from "../format.tsx"
import { ScopeText } from "../names/names.tsx"

type Cap = Row<"budgetCaps.status">

const toneOf = ({ state }: Cap): string => (state === "ok" ? "" : state === "warning" ? "warn" : "bad")

const whenFull = {
  hard: "refuses further calls",
  approval: "holds further calls for approval",
  soft: "only alerts"
} as const

interface Metered {
  readonly children: ReactNode
  readonly label: string
  readonly max: number
  readonly now: number
  /** What it says, in words. */
  readonly text: string
}

/** A bar that is used in parts. */
export const Meter = ({ children, label, max, now, text }: Metered) => (
  <div
    className="bar"
    role="meter"
    aria-label={label}
    aria-valuemin={0}
    aria-valuemax={max}
    aria-valuenow={now}
    aria-valuetext={text}
  >
    {children}
  </div>
)

interface OfCap {
  readonly cap: Cap
  readonly href?: string
  readonly mode?: keyof typeof whenFull
  readonly period?: string
  readonly thresholds?: ReadonlyArray<number>
}

/** A cap in three parts: spent, reserved, free; with its thresholds and where it is going. */
export const CapBar = ({ cap, href, mode = "hard", period, thresholds = [80] }: OfCap) => {
  const total = Math.max(cap.limit + cap.grants, cap.spent + cap.reserved, Number.MIN_VALUE)
  const share = (value: number) => `${(100 * value) / total}%`
  const allowed = cap.limit + cap.grants
  const name = <b title={cap.name}>{cap.name}</b>
  const spent = quantity(cap.spent, cap.unit)
  // The limit beside it says of what.
  const plain = (value: number) => (cap.unit === "usd" ? usd(value) : count(value))
  return (
    <div className={`cap ${toneOf(cap)}`}>
      <div className="row">
        {href === undefined ? name : <Link href={href}>{name}</Link>}
        <span className="chip">
          <ScopeText scope={cap.scope} tenantId={cap.tenantId} />
        </span>
        <span className="num">
          {plain(cap.spent)} of {quantity(allowed, cap.unit)}
          {period === undefined
            ? ""
            : period === "total"
              ? " in all"
              : period === "rolling"
                ? " in its window"
                : ` each ${period}`}
        </span>
      </div>
      <Meter
        label={cap.name}
        max={allowed}
        now={Math.min(cap.spent + cap.reserved, allowed)}
        text={`${spent} spent, ${quantity(cap.reserved, cap.unit)} reserved, ${quantity(cap.headroom, cap.unit)} free`}
      >
        <i style={{ width: share(cap.spent) }} />
        <i className="held" style={{ width: share(cap.reserved) }} />
        {thresholds.map((threshold) => (
          <u key={threshold} style={{ left: share((allowed * threshold) / 100) }} />
        ))}
      </Meter>
      <div className="legend">
        <span>{percent(cap.percentUsed)} used</span>
        <span>{plain(cap.reserved)} reserved</span>
        <span>{plain(cap.headroom)} free</span>
        <span className="end">
          {cap.state === "exhausted" || cap.state === "over" ? (
            whenFull[mode]
          ) : cap.exhaustsAt === null ? (
            cap.projected === null ? null : (
              `${quantity(cap.projected, cap.unit)} by the end of the period`
            )
          ) : (
            <>
              full <Moment at={cap.exhaustsAt} /> at this rate
            </>
          )}
        </span>
      </div>
    </div>
  )
}
