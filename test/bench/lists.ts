import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { Reactivity } from "effect/reactivity"
import * as path from "node:path"
import { connection, join } from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import { serviceKey, startService, temporaryDirectory } from "./rates.ts"

// Lists of so many rows: how long a page takes, searched, sorted, and at depth. Wanted: less than 50 ms each.
const rows = Number(process.env.BENCH_ROWS ?? "1000000")
const rounds = Number(process.env.BENCH_REQUESTS ?? "20")
const wantedMillis = 50

const onDatabase = <A>(directory: string, statements: (sql: PgClient.PgClient) => Effect.Effect<A, unknown>) =>
  join({ directory: path.join(directory, ".data") }).pipe(
    Effect.flatMap((server) => PgClient.makeClient(connection(server))),
    Effect.flatMap(statements),
    Effect.scoped,
    Effect.provide(Reactivity.layer),
    Effect.orDie,
    Effect.runPromise
  )

/** A name of row `i`: a word that all have, one of each hundredth row, of ten rows, and one that only the oldest have. */
const name = `'Service ' || (ARRAY['import', 'export', 'report', 'crawler', 'chat', 'mailer', 'billing'])[1 + abs(hashint4(i)::bigint) % 7]
  || CASE WHEN i % 100 = 7 THEN ' nightly' ELSE '' END || CASE WHEN i % (${rows} / 10) = 3 THEN ' quixotic' ELSE '' END
  || CASE WHEN i < ${rows} / 5 THEN ' legacy' ELSE '' END || ' ' || i`
const moment = `now() - (${rows} - i) * interval '1 second'`
/** Two tenants share the rows, but for a hundred of a small one. */
const tenant = `CASE WHEN i % (${rows} / 100) = 5 THEN small.id WHEN i % 2 = 0 THEN one.id ELSE two.id END`
const tenants = `(SELECT id FROM tenants WHERE slug = 'one') one, (SELECT id FROM tenants WHERE slug = 'two') two,
  (SELECT id FROM tenants WHERE slug = 'small') small`
const series = `generate_series(1, ${rows}) i`

const fills = [
  `INSERT INTO tenants (name, slug, status, created_at, updated_at)
    SELECT s, s, 'active', now(), now() FROM unnest(ARRAY['one', 'two', 'small']) s`,
  `INSERT INTO api_keys (public_id, secret_sha256, name, scopes, tenant_id, created_at, created_by, last_used_at)
    SELECT substr(md5(i::text), 1, 12), sha256(i::text::bytea), ${name}, '{}', ${tenant}, ${moment}, 'service-account',
      CASE WHEN i % 3 > 0 THEN ${moment} + i % 1000 * interval '1 minute' END
    FROM ${series}, ${tenants} ORDER BY i`,
  `INSERT INTO agents (tenant_id, name, description, owner_user_id, scope_ceiling, max_credential_ttl_seconds,
      allowed_task_types, status, created_at, created_by, updated_at, last_seen_at)
    SELECT ${tenant}, ${name}, '', 'user-' || i % 1000, '{}', 3600, '{}',
      CASE WHEN i % 5000 = 0 THEN 'suspended' ELSE 'active' END, ${moment}, 'service-account', ${moment},
      CASE WHEN i % 3 > 0 THEN ${moment} END
    FROM ${series}, ${tenants} ORDER BY i`,
  `INSERT INTO accounts (email, name, tenant_id, status, created_at, created_by)
    SELECT 'person-' || i || '@' || md5((i % 500)::text) || '.example', ${name}, ${tenant}, 'active', ${moment}, 'service-account'
    FROM ${series}, ${tenants} ORDER BY i`,
  `INSERT INTO trial_users (first_name, last_name, email, is_active, email_verified, trial_start_date, trial_end_date, created_at)
    SELECT 'Ada', ${name}, 'person-' || i || '@example.org', i % 4 > 0, true, ${moment}, ${moment} + interval '30 days', ${moment}
    FROM ${series} ORDER BY i`
]

const print = (text: string) => process.stdout.write(`${text}\n`)

interface Page {
  readonly rows: number
  readonly next: string | null
}

/** Fills a table without its indexes, which are made afterwards. */
const fill = (sql: PgClient.PgClient, statement: string) =>
  Effect.gen(function* () {
    const table = /INSERT INTO (\w+)/.exec(statement)?.[1] ?? ""
    const indexes = yield* sql<{ readonly name: string; readonly definition: string }>`
      SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index i
      WHERE indrelid = ${table}::regclass AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid)`
    for (const { name: index } of indexes) yield* sql.unsafe(`DROP INDEX ${index}`)
    yield* sql.unsafe(statement)
    for (const { definition } of indexes) yield* sql.unsafe(definition)
  })

const get = async (url: string, query: string, key: string): Promise<Page> => {
  const response = await fetch(`${url}?limit=50&${query}`, { headers: { "x-api-key": key } })
  const body = (await response.json()) as ReadonlyArray<unknown> & {
    readonly items?: ReadonlyArray<unknown>
    readonly nextCursor?: string
  }
  if (!response.ok) throw new Error(`${url} ${query}: ${JSON.stringify(body)}`)
  const link = /cursor=([^&>]*)/.exec(response.headers.get("link") ?? "")?.[1]
  return { rows: (body.items ?? body).length, next: body.nextCursor ?? link ?? null }
}

/** The median and the longest of the times that a page takes, in milliseconds. */
const measure = async (url: string, query: string, key: string) => {
  const taken: Array<number> = []
  let page = await get(url, query, key)
  for (let round = 0; round < rounds; round++) {
    const started = performance.now()
    page = await get(url, query, key)
    taken.push(performance.now() - started)
  }
  const sorted = taken.toSorted((one, other) => one - other)
  return { page, median: sorted[Math.floor(rounds / 2)] ?? 0, longest: sorted.at(-1) ?? 0 }
}

/** A place in the middle of an order, as a cursor has it. */
const placeOf = (sort: string) =>
  sort.endsWith("At") ? String((Date.now() - rows * 500) * 1000) : sort === "email" ? "person-5" : "service crawler"

const searches = [
  ["common word", "search=service"],
  ["a hundredth", "search=nightly"],
  ["rare word", "search=quixotic"],
  ["only the oldest", "search=legacy"],
  ["no match", "search=zebra-crossing"],
  ["one character", "search=e"],
  ["one that none has", "search=%C3%A9"]
] as const

const directory = await temporaryDirectory()
const service = await startService(directory)
const call = async (method: string, target: string, body: object) => {
  const response = await fetch(`${service.url}${target}`, {
    method,
    headers: { "x-api-key": serviceKey, "content-type": "application/json" },
    body: JSON.stringify(body)
  })
  return (await response.json()) as { readonly id: string; readonly key: string }
}
try {
  for (const statement of fills) await onDatabase(directory, (sql) => fill(sql, statement))
  await onDatabase(directory, (sql) => sql.unsafe("VACUUM ANALYZE"))
  const ids = await onDatabase(
    directory,
    (sql) => sql<{ readonly id: string; readonly slug: string }>`SELECT id, slug FROM tenants`
  )
  const keyOf = async (slug: string) =>
    (
      await call("POST", "/api/api-keys", {
        name: "bench",
        scopes: ["*:*"],
        tenantId: ids.find((one) => one.slug === slug)?.id
      })
    ).key
  const callers = [
    ["all tenants", serviceKey],
    ["half of them", await keyOf("one")],
    ["a small tenant", await keyOf("small")]
  ] as const
  const lists = [
    ["/api/api-keys", ["-createdAt", "name", "-lastUsedAt"]],
    ["/api/agents", ["-createdAt", "name", "-lastSeenAt"]],
    ["/api/accounts", ["-createdAt", "name", "-lastSignInAt"]],
    ["/api/trial-users", ["-createdAt", "lastName", "email"]]
  ] as const
  let missed = 0
  const report = async (what: string, url: string, query: string, key: string) => {
    const { longest, median, page } = await measure(url, query, key)
    const isSlow = median >= wantedMillis
    if (isSlow) missed++
    print(
      `${isSlow ? "SLOW" : "    "} ${what.padEnd(70)} ${median.toFixed(1).padStart(8)} ms, at most ${longest.toFixed(1).padStart(8)} ms, ${page.rows} rows${page.next === null ? "" : ", more"}`
    )
    return page
  }
  for (const [target, sorts] of lists) {
    const url = `${service.url}${target}`
    for (const [whose, key] of target === "/api/trial-users" ? callers.slice(0, 1) : callers) {
      for (const sort of sorts) {
        await report(`${target}, ${whose}: sort=${sort}`, url, `sort=${sort}`, key)
        const place = [
          sort,
          placeOf(sort),
          target === "/api/trial-users" ? rows / 2 : "7fffffff-0000-7000-8000-000000000000"
        ]
        const cursor = Buffer.from(JSON.stringify(place)).toString("base64url")
        await report(`${target}, ${whose}: sort=${sort}, in the middle`, url, `sort=${sort}&cursor=${cursor}`, key)
        for (const [word, search] of searches)
          await report(`${target}, ${whose}: sort=${sort}, ${word}`, url, `sort=${sort}&${search}`, key)
      }
    }
  }
  print(missed === 0 ? `All below ${wantedMillis} ms.` : `${missed} took ${wantedMillis} ms or longer.`)
  process.exitCode = missed === 0 ? 0 : 1
} finally {
  await service.stop()
}
