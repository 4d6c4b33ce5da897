import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { Reactivity } from "effect/reactivity"
import { createHash } from "node:crypto"
import * as path from "node:path"
import { connection, join } from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import { forgedCursor } from "../support/walk.ts"
import { serviceKey, startService, temporaryDirectory } from "./rates.ts"

// Lists of so many rows: how long a page takes, searched, sorted, and at depth. Wanted: less than 50 ms each.
const rows = Number(process.env.BENCH_ROWS ?? "1000000")
const rounds = Number(process.env.BENCH_REQUESTS ?? "20")
/** Caps are fewer: each has a counter of this month and of the two before. */
const caps = Math.min(rows, 100_000)
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

/** The statements that fill the tables. Reservations have ids of their times. */
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
  `INSERT INTO accounts (email, email_key, name, tenant_id, status, created_at, created_by)
    SELECT 'person-' || i || '@' || md5((i % 500)::text) || '.example', 'person-' || i || '@' || md5((i % 500)::text) || '.example', ${name}, ${tenant}, 'active', ${moment}, 'service-account'
    FROM ${series}, ${tenants} ORDER BY i`,
  `INSERT INTO trial_users (first_name, last_name, email, email_key, is_active, email_verified, trial_start_date, trial_end_date, created_at)
    SELECT 'Ada', ${name}, 'person-' || i || '@example.org', 'person-' || i || '@example.org', i % 4 > 0, true, ${moment}, ${moment} + interval '30 days', ${moment}
    FROM ${series} ORDER BY i`,
  `INSERT INTO sessions (trial_user_id, ip_address, started_at, last_activity_at, is_active)
    SELECT 1 + i % 1000, CASE WHEN i % 100 = 7 THEN '198.51.100.' ELSE '10.' || i % 200 || '.0.' END || i % 250, ${moment}, ${moment}, false
    FROM ${series} ORDER BY i`,
  `INSERT INTO delegation_grants (tenant_id, agent_id, subject, subject_type, scopes, max_depth, reason, created_at, created_by, last_used_at)
    SELECT ${tenant}, (SELECT id FROM agents LIMIT 1), 'https://login.example|' || i, 'external', '{}', 1, ${name}, ${moment}, 'service-account',
      CASE WHEN i % 3 > 0 THEN ${moment} END
    FROM ${series}, ${tenants} ORDER BY i`,
  `INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id, outcome, ip_address, trace_id, transaction_id)
    SELECT ${moment}, CASE WHEN i % 100 = 7 THEN 'AgentRetired' WHEN i < ${rows} / 5 THEN 'RoleCreated' ELSE 'ApiKeyCreated' END,
      CASE WHEN i % 100 = 7 THEN 'Agent' WHEN i < ${rows} / 5 THEN 'Role' ELSE 'ApiKey' END, 'thing-' || i, 'account:' || new_id(),
      'account', ${tenant}, 'success', '10.0.' || i % 200 || '.7', md5(i::text), (1 + i % 700)::text::xid8
    FROM ${series}, ${tenants} ORDER BY i`,
  `INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, model, provider, task_type, user_id, amount, tokens,
      ttl_seconds, expires_at, created_at, created_by, counter_ids, closed_at)
    SELECT ${tenant}, uuidv7(${moment} - now()), 'released', 'api', small_agent.id, 'gpt-' || i % 7, 'openai',
      CASE WHEN i % 100 = 7 THEN 'nightly' WHEN i % (${rows} / 10) = 3 THEN 'quixotic' WHEN i < ${rows} / 5 THEN 'legacy' ELSE 'research' END,
      'user-' || i % 1000, 1000, 10, 60, ${moment}, ${moment}, 'service-account', '{}', ${moment}
    FROM ${series}, ${tenants}, (SELECT id FROM agents LIMIT 1) small_agent ORDER BY i`,
  `INSERT INTO usage_rows (tenant_id, reservation_id, charge_id, agent_id, occurred_at, batch, cost, input_tokens, output_tokens,
      method, created_by, user_id, task_type, operation, model, provider, trace_id)
    SELECT ${tenant}, uuidv7(${moment} - now()), uuidv7(${moment} - now()), small_agent.id, ${moment}, 1, 1000, 10, 10,
      'provider_usage', 'service-account', 'user-' || i % 1000,
      CASE WHEN i % 100 = 7 THEN 'nightly' WHEN i % (${rows} / 10) = 3 THEN 'quixotic' WHEN i < ${rows} / 5 THEN 'legacy' ELSE 'research' END,
      'chat', 'gpt-' || i % 7, 'openai', md5(i::text)
    FROM ${series}, ${tenants}, (SELECT id FROM agents LIMIT 1) small_agent ORDER BY i`,
  `INSERT INTO budget_caps (tenant_id, name, scope, unit, limit_amount, period, time_zone, anchor, mode, alert_thresholds, status,
      version, created_at, created_by, updated_at)
    SELECT ${tenant}, ${name}, jsonb_build_object('taskType', 'task-' || i), 'usd', 1000000000, 'month', 'UTC', 1, 'hard', '[]', 'active',
      1, ${moment}, 'service-account', ${moment}
    FROM generate_series(1, ${caps}) i, ${tenants} ORDER BY i`,
  `INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at, spent, reserved,
      cap_limit, use_level)
    SELECT c.tenant_id, new_id(), c.id, '', p.starts, p.ends, 'usd', now(), abs(hashtext(c.id::text)::bigint), 0,
      c.limit_amount, budget_counter_level(abs(hashtext(c.id::text)::bigint), c.limit_amount)
    FROM budget_caps c, generate_series(0, 2) months,
      budget_period('month', 'UTC', 1, now() - months * interval '1 month') p`,
  `INSERT INTO budget_plans (tenant_id, id, agent_id, name, status, budget, heartbeat_seconds, heartbeat_by, dead_at, created_at,
      created_by, ended_at, counter_ids, held_caps, held_keys)
    SELECT ${tenant}, uuidv7(${moment} - now()), small_agent.id, ${name}, CASE WHEN i % 5000 = 0 THEN 'active' ELSE 'completed' END,
      1000000000, 3600, now() + interval '1 day', now() + interval '2 days', ${moment}, 'service-account',
      CASE WHEN i % 5000 > 0 THEN ${moment} END, '{}', '{}', '{}'
    FROM ${series}, ${tenants}, (SELECT id FROM agents LIMIT 1) small_agent ORDER BY i`,
  // Each plan has a counter under its own id, without which it cannot be read.
  `INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at)
    SELECT tenant_id, id, id, '', '-infinity', 'infinity', 'usd', created_at FROM budget_plans`
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
    for (const { definition } of indexes) yield* sql.unsafe(definition.replace(" ON ONLY ", " ON "))
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

interface List {
  readonly target: string
  readonly sorts: ReadonlyArray<string>
  /** The id in the middle; absent where a cursor has something else. */
  readonly between?: string | number
  /** Whether its rows are of no tenant. */
  readonly isShared?: boolean
  /** What is searched for, where that is not in names. */
  readonly searches?: ReadonlyArray<readonly [what: string, query: string]>
}

const auditSearches = [
  ["common action", "search=created"],
  ["a hundredth", "search=retired"],
  ["rare thing", `search=thing-${rows / 2}`],
  ["only the oldest", "search=rolecreated"],
  [
    "trace",
    `search=${createHash("md5")
      .update(String(rows / 2))
      .digest("hex")}`
  ],
  ["no match", "search=zebra-crossing"]
] as const

const searches = [
  ["common word", "search=service"],
  ["a hundredth", "search=nightly"],
  ["rare word", "search=quixotic"],
  ["only the oldest", "search=legacy"],
  ["no match", "search=zebra-crossing"],
  ["one character", "search=e"],
  ["one that none has", "search=%C3%A9"]
] as const

// A directory that is kept is filled once.
const kept = process.env.BENCH_DIRECTORY
const directory = kept ?? (await temporaryDirectory())
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
  const filled = await onDatabase(directory, (sql) => sql`SELECT FROM tenants WHERE slug = 'small'`)
  if (filled.length === 0) {
    for (const statement of fills) await onDatabase(directory, (sql) => fill(sql, statement))
    await onDatabase(directory, (sql) => sql.unsafe("VACUUM ANALYZE"))
  }
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
  const [agent] = await onDatabase(
    directory,
    (sql) => sql<{ readonly id: string }>`SELECT agent_id AS id FROM delegation_grants LIMIT 1`
  )
  const uuidBetween = "7fffffff-0000-7000-8000-000000000000"
  const lists: ReadonlyArray<List> = [
    { target: "/api/api-keys", sorts: ["-createdAt", "name", "-lastUsedAt"], between: uuidBetween },
    { target: "/api/agents", sorts: ["-createdAt", "name", "-lastSeenAt"], between: uuidBetween },
    {
      target: `/api/agents/${agent?.id}/delegations`,
      sorts: ["-createdAt", "-lastUsedAt"],
      between: uuidBetween,
      isShared: true
    },
    { target: "/api/accounts", sorts: ["-createdAt", "name", "-lastSignInAt"], between: uuidBetween },
    { target: "/api/trial-users", sorts: ["-createdAt", "lastName", "email"], between: rows / 2, isShared: true },
    { target: "/api/sessions", sorts: ["-startedAt"], between: rows / 2, isShared: true },
    { target: "/api/plans", sorts: ["-createdAt"], between: uuidBetween },
    { target: "/api/spend/reservations", sorts: ["-createdAt"], between: uuidBetween },
    { target: "/api/usage", sorts: [""] },
    { target: "/api/audit-logs", sorts: [""], searches: auditSearches },
    { target: "/api/budgets/caps-status", sorts: ["-percentUsed"], searches: [] },
    { target: "/api/budgets/caps", sorts: ["-createdAt"], between: uuidBetween }
  ]
  // Their times are in the order of their ids.
  const byId = new Set(["/api/sessions", "/api/budgets/caps", "/api/spend/reservations", "/api/plans"])
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
  const wanted = process.env.BENCH_LISTS?.split(",")
  for (const { between, isShared = false, searches: wantedSearches = searches, sorts, target } of lists) {
    if (wanted?.includes(target) === false) continue
    const url = `${service.url}${target}`
    for (const [whose, key] of isShared ? callers.slice(0, 1) : callers) {
      for (const sort of sorts) {
        const sorted = sort === "" ? "" : `sort=${sort}`
        const what = `${target}, ${whose}: ${sorted}`
        await report(what, url, sorted, key)
        if (between !== undefined) {
          const isById = byId.has(target) || (sort === "-createdAt" && target.endsWith("/delegations"))
          const place = [sort, isById ? "" : placeOf(sort), between]
          const cursor = forgedCursor(target, place)
          await report(`${what}, in the middle`, url, `${sorted}&cursor=${cursor}`, key)
        }
        for (const [word, search] of wantedSearches) await report(`${what}, ${word}`, url, `${sorted}&${search}`, key)
      }
    }
  }
  print(missed === 0 ? `All below ${wantedMillis} ms.` : `${missed} took ${wantedMillis} ms or longer.`)
  process.exitCode = missed === 0 ? 0 : 1
} finally {
  await service.stop()
}
