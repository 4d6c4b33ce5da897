import { Context, Effect, Layer, Schema, Stream, String as Text } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { LRUCache } from "lru-cache"
import { dayMillis } from "../usage/domain.ts"
import { type Columns, columnsOf, type Part, type PartColumns } from "./cells-domain.ts"
import { moments, type Segment } from "./domain.ts"

const FoundPart = Schema.Struct({
  segment: Schema.Int,
  version: Schema.NullOr(Schema.String),
  tenantId: Schema.String,
  day: Schema.Int,
  arrays: Schema.Array(Schema.NullOr(Schema.Uint8Array))
})
const decodePart = Schema.decodeUnknownEffect(FoundPart)

interface KeptPart {
  readonly dimension: number
  readonly grain: Segment["grain"]
  /** Counted from 1970 on. */
  readonly day: number
  /** Those that were read. */
  readonly columns: PartColumns
}

const maxBytes = 64 * 2 ** 20
/** About what a part and each of its keys take beside the elements of its columns. */
const partBytes = 1000
const keyBytes = 48
/** The most that an element takes. */
const elementBytes = 8

const bytesOf = ({ columns }: KeptPart): number => {
  const { keys = [], latencyBuckets: latencies = [], ...others } = columns
  return (
    partBytes +
    new Set(keys).size * keyBytes +
    keys.length * elementBytes * Object.keys(others).length +
    latencies.length * 2 * elementBytes
  )
}

/**
 * The columns of parts that were read before. A part never changes, and the database names those that are there with each
 * report, so what is kept cannot be out of date; it only need not be sent again.
 */
export class KeptParts {
  readonly #parts = new LRUCache<string, KeptPart>({ maxSize: maxBytes, sizeCalculation: bytesOf })

  /** By their versions those with some columns that a reader of segments may come upon. */
  among(
    dimension: number,
    segments: ReadonlyArray<Segment>,
    names: ReadonlyArray<keyof Columns>
  ): ReadonlyMap<string, PartColumns> {
    const found = new Map<string, PartColumns>()
    for (const [version, part] of this.#parts.entries()) {
      if (part.dimension !== dimension || !segments.some((segment) => isIn(part, segment))) continue
      if (names.every((name) => name in part.columns)) found.set(version, part.columns)
    }
    // Those that were used longest ago go first.
    for (const version of found.keys()) this.#parts.get(version)
    return found
  }

  /** Keeps columns beside those of the same part that are there already. */
  keep(version: string, part: KeptPart): void {
    const columns = { ...part.columns, ...this.#parts.get(version)?.columns }
    this.#parts.set(version, { ...part, columns })
  }
}

const isIn = ({ day, grain }: KeptPart, segment: Segment): boolean =>
  grain === segment.grain && (day + 1) * dayMillis > segment.opens && day * dayMillis < segment.closes

/** Reads the parts of roll-ups. */
export class PartsRepository extends Context.Service<PartsRepository>()("app/insights/PartsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const kept = new KeptParts()
    return {
      /** Reads columns of the parts in segments, each while the next are on their way; those that are kept are not sent. */
      read: (
        tenants: Statement.Fragment,
        dimension: number,
        segments: ReadonlyArray<Segment>,
        names: ReadonlyArray<keyof Columns>,
        add: (part: Part) => void
      ): Effect.Effect<void> => {
        const columns = ["keys", "places", ...names] as const
        const known = kept.among(dimension, segments, columns)
        const days = (at: (segment: Segment) => number) =>
          moments(segments.map((segment) => Math.floor(at(segment) / dayMillis) * dayMillis))
        return sql`
          SELECT p.segment, p.version, p.tenant_id, p.day - '1970-01-01'::date AS day,
            CASE WHEN k.version IS NULL
              THEN ARRAY[${sql.csv(columns.map((column) => sql`array_send(p.${sql(Text.camelToSnake(column))})`))}]
              ELSE '{}' END AS arrays
          FROM usage_parts_between(${tenants}, ${dimension}::integer,
            ${segments.map(({ grain }) => grain)}::text[], ${days(({ opens }) => opens)}::timestamptz[]::date[],
            ${days(({ closes }) => closes - 1)}::timestamptz[]::date[]) p
          LEFT JOIN unnest(${[...known.keys()]}::text[]) AS k(version) USING (version)`.stream.pipe(
          Stream.runForEach((row) =>
            Effect.map(decodePart(row), ({ arrays, day, segment, tenantId, version }) => {
              const had = version === null ? undefined : known.get(version)
              const found = had ?? columnsOf(columns, arrays)
              if (version !== null && had === undefined) {
                kept.keep(version, { dimension, grain: segments[segment]!.grain, day, columns: found })
              }
              add({ segment, tenantId, day, columns: found })
            })
          ),
          Effect.orDie
        )
      }
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
