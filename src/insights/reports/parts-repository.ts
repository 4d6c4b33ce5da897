import { Context, Effect, Layer, Schema, Stream, String as Text } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { LRUCache } from "lru-cache"
import { dayMillis } from "../usage/domain.ts"
import { type Columns, columnsOf, type Part, type PartColumns, sumColumns } from "./cells-domain.ts"
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
  readonly tenantId: string
  readonly dimension: number
  /** The segment that it was read for. */
  readonly segment: Segment
  /** Counted from 1970 on. */
  readonly day: number
  /** Those that were read. */
  readonly columns: PartColumns
}

const maxBytes = 64 * 2 ** 20
/** Of what is made of rows, most is of the moment when a range begins, and asked for again in the same report alone. */
const maxBytesOfRows = 8 * 2 ** 20
/** About what a part takes beside the elements of its columns, and each of its keys beside its characters. */
const partBytes = 1000
const keyBytes = 16
/** The most that an element takes. */
const elementBytes = 8

const bytesOf = ({ columns }: KeptPart): number => {
  const { keys = [], latencyBuckets: latencies = [], ...others } = columns
  return (
    partBytes +
    [...new Set(keys)].reduce((sum, key) => sum + keyBytes + Buffer.byteLength(key), 0) +
    keys.length * elementBytes * Object.keys(others).length +
    latencies.length * 2 * elementBytes
  )
}

/**
 * The columns of parts that were read before. A part never changes, and the database names those that are there with each
 * report, so what is kept cannot be out of date; it only need not be sent again.
 */
export class KeptParts {
  readonly #parts: LRUCache<string, KeptPart>
  /** The versions of the parts of each tenant at each place. */
  readonly #versions = new Map<string, Map<string, Set<string>>>()

  constructor(most: number) {
    this.#parts = new LRUCache({
      maxSize: most,
      sizeCalculation: bytesOf,
      onInsert: (part, version) => {
        const place = placeOf(part.dimension, part.segment, part.day)
        const tenants = this.#versions.get(place) ?? new Map<string, Set<string>>()
        this.#versions.set(place, tenants)
        tenants.set(part.tenantId, (tenants.get(part.tenantId) ?? new Set()).add(version))
      },
      dispose: (part, version) => {
        const place = placeOf(part.dimension, part.segment, part.day)
        const tenants = this.#versions.get(place)
        const versions = tenants?.get(part.tenantId)
        versions?.delete(version)
        if (versions?.size === 0) tenants?.delete(part.tenantId)
        if (tenants?.size === 0) this.#versions.delete(place)
      }
    })
  }

  /** By their versions those with some columns that a reader of the segments of a tenant, or of all, may come upon. */
  among(
    tenantId: string | undefined,
    dimension: number,
    segments: ReadonlyArray<Segment>,
    names: ReadonlyArray<keyof Columns>
  ): ReadonlyMap<string, PartColumns> {
    const found = new Map<string, PartColumns>()
    for (const segment of segments) {
      const last = Math.ceil(segment.closes / dayMillis)
      for (let day = Math.floor(segment.opens / dayMillis); day < last; day++) {
        const tenants = this.#versions.get(placeOf(dimension, segment, day)) ?? new Map<string, Set<string>>()
        for (const versions of tenantId === undefined ? tenants.values() : [tenants.get(tenantId) ?? []]) {
          for (const version of versions) {
            // Where there is no more room, those that were used longest ago go first.
            const columns = this.#parts.get(version)?.columns
            if (columns !== undefined && names.every((name) => name in columns)) found.set(version, columns)
          }
        }
      }
    }
    return found
  }

  /**
   * Keeps columns beside those of the same part that are there already. Where these have all of them, they stay: rows that no
   * roll-up has yet may have come between two reads, and columns of both would not be of the same cells.
   */
  keep(version: string, part: KeptPart): void {
    const had = this.#parts.get(version)?.columns ?? {}
    if (Object.keys(part.columns).every((name) => name in had)) return
    this.#parts.set(version, { ...part, columns: { ...had, ...part.columns } })
  }
}

/** Parts of roll-ups are of their day whatever segment they are read for, those that are made of rows of one segment alone. */
const placeOf = (dimension: number, { closes, grain, opens }: Segment, day: number): string =>
  grain === "r" ? `${dimension}/${opens}/${closes}` : `${dimension}/${grain}/${day}`

const dayOf = (moment: number): number => Math.floor(moment / dayMillis) * dayMillis

/** Reads the parts of roll-ups, and what is made of rows in their stead where a range ends or a day begins within an hour. */
export class PartsRepository extends Context.Service<PartsRepository>()("app/insights/PartsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const ofRollups = new KeptParts(maxBytes)
    const ofRows = new KeptParts(maxBytesOfRows)

    const at = (moment: (segment: Segment) => number, segments: ReadonlyArray<Segment>): Statement.Fragment =>
      sql`${moments(segments.map(moment))}::timestamptz[]`

    return {
      /** Reads columns of the parts in segments, each while the next are on their way; those that are kept are not sent. */
      read: (
        tenantId: string | undefined,
        tenants: Statement.Fragment,
        dimension: number,
        segments: ReadonlyArray<Segment>,
        names: ReadonlyArray<keyof Columns>,
        add: (part: Part) => void
      ): Effect.Effect<void> => {
        /** Reads those that a statement finds in the segments with some places. */
        const found = (
          kept: KeptParts,
          columns: ReadonlyArray<keyof Columns>,
          places: ReadonlyArray<number>,
          statement: (own: ReadonlyArray<Segment>, known: ReadonlyArray<string>) => Statement.Fragment
        ): Effect.Effect<void> => {
          if (places.length === 0) return Effect.void
          const own = places.map((place) => segments[place]!)
          const known = kept.among(tenantId, dimension, own, columns)
          const sent = sql.csv(columns.map((column) => sql`array_send(p.${sql(Text.camelToSnake(column))})`))
          return sql`
            SELECT p.segment, p.version, p.tenant_id, p.day - '1970-01-01'::date AS day,
              CASE WHEN k.version IS NULL THEN ARRAY[${sent}] ELSE '{}' END AS arrays
            FROM ${statement(own, [...known.keys()])} p
            LEFT JOIN unnest(${[...known.keys()]}::text[]) AS k(version) USING (version)`.stream.pipe(
            Stream.runForEach((row) =>
              Effect.map(decodePart(row), ({ arrays, day, segment, tenantId, version }) => {
                const had = version === null ? undefined : known.get(version)
                const read = had ?? columnsOf(columns, arrays)
                if (version !== null && had === undefined) {
                  kept.keep(version, { tenantId, dimension, segment: own[segment]!, day, columns: read })
                }
                add({ segment: places[segment]!, tenantId, day, columns: read })
              })
            ),
            Effect.orDie
          )
        }
        const places = [...segments.keys()]
        return Effect.andThen(
          found(
            ofRollups,
            ["keys", "places", ...names],
            places.filter((place) => segments[place]!.grain !== "r"),
            (
              own
            ) => sql`usage_parts_between(${tenants}, ${dimension}::integer, ${own.map(({ grain }) => grain)}::text[],
              ${at(({ opens }) => dayOf(opens), own)}::date[], ${at(({ closes }) => dayOf(closes - 1), own)}::date[])`
          ),
          found(
            ofRows,
            // A report asks for some of these sums next, which take as long as all of them.
            [...new Set(["keys", "places", ...sumColumns, ...names] as const)],
            places.filter((place) => segments[place]!.grain === "r"),
            (own, known) => sql`usage_row_parts(${tenants}, ${dimension}::integer, ${at(({ opens }) => opens, own)},
              ${at(({ closes }) => closes, own)}, ${known}::text[], ${names.includes("latencyEnds")})`
          )
        )
      }
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
