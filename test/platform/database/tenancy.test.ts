import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Stream } from "effect"
import { TenantId } from "../../../src/kernel/identifier.ts"
import { Database, poolLayer } from "../../../src/platform/database/database.ts"
import { applicationRole } from "../../../src/platform/database/migrations.ts"
import { insertEntries } from "../../support/audit.ts"
import { makeTenant } from "../../support/authority.ts"
import { OwnDatabase, poolOnOwnDatabase, realClock } from "../../support/clock.ts"
import { type TestDatabase } from "../../support/database.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

let made = 0

/** Two tenants, each with a key and an audit entry; a key and an entry of the system stand beside them. */
const twoTenants = Effect.gen(function* () {
  const database = yield* OwnDatabase
  const one = TenantId.make(yield* makeTenant(database))
  const other = TenantId.make(yield* makeTenant(database))
  for (const tenantId of [one, other, null]) {
    yield* asSuperuser(
      database,
      (sql) => sql`
        INSERT INTO api_keys (public_id, secret_sha256, name, scopes, tenant_id, created_at, created_by)
        VALUES (${`public${++made}`}, sha256('x'), 'a key', '{}', ${tenantId}, now(), 'test')`
    )
    yield* asSuperuser(
      database,
      (sql) => sql`
        WITH account AS (
          INSERT INTO accounts (email, email_key, name, password_hash, tenant_id, status, created_at, created_by)
          VALUES (${`account${++made}@example.org`}, ${`account${made}@example.org`}, 'an account', '', ${tenantId}, 'active', now(), 'test') RETURNING id),
        application AS (
          INSERT INTO applications (name, slug, status, created_at, updated_at)
          VALUES ('an application', ${`application-${made}`}, 'active', now(), now()) RETURNING id),
        role AS (
          INSERT INTO roles (name, description, application_id, capabilities, created_at, updated_at)
          SELECT 'a role', '', id, '{}', now(), now() FROM application RETURNING id),
        held AS (
          INSERT INTO account_roles (account_id, role_id, tenant_id)
          SELECT account.id, role.id, ${tenantId} FROM account, role),
        session AS (
          INSERT INTO account_sessions (account_id, tenant_id, rotation_secret, created_at, last_used_at, expires_at)
          SELECT id, ${tenantId}, sha256('x'), now(), now(), now() FROM account RETURNING id)
        INSERT INTO account_session_tokens (sha256, session_id, tenant_id, issued_at)
        SELECT sha256(session.id::text::bytea), session.id, ${tenantId}, now() FROM session`
    )
    yield* insertEntries(database, [{ tenant_id: tenantId }])
    if (tenantId !== null) yield* insertAgent(database, tenantId)
  }
  return { one, other }
})

/** An agent with all that agents have, of one tenant. */
const insertAgent = (database: TestDatabase, tenantId: TenantId) =>
  asSuperuser(
    database,
    (sql) => sql`
      WITH template AS (
        INSERT INTO agent_templates (tenant_id, name, description, scope_ceiling, max_credential_ttl_seconds,
          allowed_task_types, created_at, created_by, updated_at)
        VALUES (${tenantId}, 'a template', '', '{}', 60, '{}', now(), 'test', now())),
      agent AS (
        INSERT INTO agents (tenant_id, name, description, scope_ceiling, max_credential_ttl_seconds, allowed_task_types,
          status, created_at, created_by, updated_at)
        VALUES (${tenantId}, 'an agent', '', '{}', 60, '{}', 'active', now(), 'test', now()) RETURNING id),
      key AS (
        INSERT INTO agent_keys (tenant_id, agent_id, kid, algorithm, public_key_pem, thumbprint, valid_from, valid_until,
          created_at, created_by)
        SELECT ${tenantId}, id, 'k', 'ES256', '', id::text, now(), now() + interval '1 day', now(), 'test' FROM agent),
      granted AS (
        INSERT INTO delegation_grants (tenant_id, agent_id, subject, subject_type, scopes, max_depth, created_at,
          created_by)
        SELECT ${tenantId}, id, 's', 'user', '{}', 1, now(), 'test' FROM agent)
      INSERT INTO agent_credentials (id, tenant_id, agent_id, subject, actors, ancestor_ids, max_depth, scopes, issued_at,
        issued_by, expires_at)
      SELECT new_id(), ${tenantId}, id, 's', '{}', '{}', 1, '{}', now(), 'test', now() + interval '1 hour' FROM agent`
  )

const ofAgents = ["agent_templates", "agents", "agent_keys", "delegation_grants", "agent_credentials"]
const tables = [
  "api_keys",
  "audit_entries",
  "accounts",
  "account_roles",
  "account_sessions",
  "account_session_tokens",
  ...ofAgents
]

/** Whose rows a statement that forgot its WHERE finds in a table. */
const ownersIn = Effect.fnUntraced(function* (table: string) {
  const sql = yield* PgClient.PgClient
  const rows = yield* sql<{ readonly tenantId: string | null }>`SELECT tenant_id FROM ${sql(table)}`
  return rows.map((row) => row.tenantId)
})

layer(poolOnOwnDatabase, { timeout: "60 seconds" })("tenancy in the database", (it) => {
  for (const table of tables) {
    it.effect(`outside a transaction a statement that forgets its WHERE finds nothing in ${table}`, () =>
      Effect.gen(function* () {
        yield* twoTenants
        assert.deepStrictEqual(yield* ownersIn(table), [])
      })
    )

    it.effect(`in a tenant's transaction it finds only that tenant's rows of ${table}`, () =>
      Effect.gen(function* () {
        const database = yield* Database
        const { one, other } = yield* twoTenants
        assert.deepStrictEqual(yield* database.transaction(one, ownersIn(table)), [one])
        assert.deepStrictEqual(yield* database.transaction(other, ownersIn(table)), [other])
      })
    )

    it.effect(
      `in a tenant's read it finds only that tenant's rows of ${table}, in a read of all tenants every row`,
      () =>
        Effect.gen(function* () {
          const database = yield* Database
          const { one, other } = yield* twoTenants
          // The first statement of a text prepares it; the next ones have its plan, whoever it was made for.
          for (const tenant of [one, other, one, other, one, other, one]) {
            assert.deepStrictEqual(yield* database.read(tenant, ownersIn(table)), [tenant])
          }
          const owners = ofAgents.includes(table) ? [one, other] : [one, other, null]
          assert.includeMembers([...(yield* database.read("all", ownersIn(table)))], owners)
          const nobody = TenantId.make("0198a5b0-7c00-7000-8000-00000000002a")
          assert.deepStrictEqual(yield* database.read(nobody, ownersIn(table)), [])
          assert.deepStrictEqual(yield* ownersIn(table), [])
        })
    )

    it.effect(`after reads their connections see no row of ${table}`, () =>
      Effect.gen(function* () {
        const database = yield* Database
        const { one, other } = yield* twoTenants
        const tenants = Array.from({ length: 24 }, (_, index) => (index % 2 === 0 ? one : other))
        const both = (tenant: TenantId) =>
          Effect.all(
            [database.read(tenant, ownersIn(table)), ownersIn(table), database.transaction(tenant, ownersIn(table))],
            {
              concurrency: "unbounded"
            }
          )
        const seen = yield* Effect.forEach(tenants, both, { concurrency: "unbounded" })
        assert.deepStrictEqual(
          seen,
          tenants.map((tenant) => [[tenant], [], [tenant]])
        )
      })
    )

    it.effect(`in a transaction of all tenants it finds every row of ${table}`, () =>
      Effect.gen(function* () {
        const database = yield* Database
        const { one, other } = yield* twoTenants
        const owners = ofAgents.includes(table) ? [one, other] : [one, other, null]
        assert.includeMembers([...(yield* database.transaction("all", ownersIn(table)))], owners)
      })
    )

    it.effect(`in the transaction of an unknown tenant it finds nothing in ${table}`, () =>
      Effect.gen(function* () {
        const database = yield* Database
        yield* twoTenants
        const nobody = TenantId.make("0198a5b0-7c00-7000-8000-00000000002a")
        assert.deepStrictEqual(yield* database.transaction(nobody, ownersIn(table)), [])
      })
    )

    it.effect(`after a transaction its connection sees no row of ${table}`, () =>
      Effect.gen(function* () {
        const database = yield* Database
        const { one } = yield* twoTenants
        yield* Effect.all(
          Array.from({ length: 12 }, () => database.transaction(one, ownersIn(table))),
          { concurrency: "unbounded" }
        )
        yield* Effect.flip(database.transaction("all", Effect.andThen(ownersIn(table), Effect.fail("no"))))
        const seen = yield* Effect.all(
          Array.from({ length: 24 }, () => ownersIn(table)),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(seen.flat(), [])
      })
    )

    it.effect(`concurrent transactions of several tenants each see their own rows of ${table}`, () =>
      Effect.gen(function* () {
        const database = yield* Database
        const { one, other } = yield* twoTenants
        const tenants = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? one : other))
        const seen = yield* Effect.forEach(tenants, (tenant) => database.transaction(tenant, ownersIn(table)), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(
          seen,
          tenants.map((tenant) => [tenant])
        )
      })
    )

    it.effect(`a transaction in another sees its own rows of ${table}, and the outer one then its own again`, () =>
      Effect.gen(function* () {
        const database = yield* Database
        const { one, other } = yield* twoTenants
        const seen = yield* database.transaction(
          one,
          Effect.gen(function* () {
            const inner = yield* database.transaction(other, ownersIn(table))
            const afterInner = yield* ownersIn(table)
            yield* database.transaction("all", ownersIn(table))
            const afterAll = yield* ownersIn(table)
            yield* Effect.flip(database.transaction("all", Effect.fail("no")))
            return [inner, afterInner, afterAll, yield* ownersIn(table)]
          })
        )
        assert.deepStrictEqual(seen, [[other], [one], [one], [one]])
      })
    )
  }

  it.effect("a tenant's UPDATE and DELETE that forget their WHERE touch that tenant's keys only", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* PgClient.PgClient
      const { one, other } = yield* twoTenants
      yield* sql`UPDATE api_keys SET name = 'nobody'`
      yield* sql`DELETE FROM api_keys`
      yield* database.transaction(one, sql`UPDATE api_keys SET name = 'renamed'`)
      const named = yield* asSuperuser(
        yield* OwnDatabase,
        (all) => all`SELECT tenant_id FROM api_keys WHERE name IN ('renamed', 'nobody')`
      )
      assert.deepStrictEqual(named, [{ tenant_id: one }])
      yield* database.transaction(one, sql`DELETE FROM api_keys`)
      assert.deepStrictEqual(yield* database.transaction(one, ownersIn("api_keys")), [])
      assert.deepStrictEqual(yield* database.transaction(other, ownersIn("api_keys")), [other])
    })
  )

  it.effect("a tenant's transaction can neither give a key to another tenant nor to the system", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* PgClient.PgClient
      const { one, other } = yield* twoTenants
      for (const owner of [other, null]) {
        const insert = sql`
          INSERT INTO api_keys (public_id, secret_sha256, name, scopes, tenant_id, created_at, created_by)
          VALUES (${`public${++made}`}, sha256('x'), 'a key', '{}', ${owner}, now(), 'test')`
        const move = sql`UPDATE api_keys SET tenant_id = ${owner}`
        for (const statement of [insert, move]) {
          const error = yield* database.transaction(one, Effect.flip(sql.withTransaction(statement)))
          assert.strictEqual(error.reason._tag, "AuthorizationError")
        }
      }
    })
  )

  /** The tenants whose keys a statement finds that is planned, or executed, in some other way. */
  const ways = {
    "with a plan for any parameters": "SET plan_cache_mode = force_generic_plan",
    "with a plan for its parameters": "SET plan_cache_mode = force_custom_plan",
    "by workers": "SET debug_parallel_query = on"
  }
  for (const [way, setting] of Object.entries(ways)) {
    it.effect(`a read that is executed ${way} sees its own tenant's rows`, () =>
      Effect.gen(function* () {
        const { one, other } = yield* twoTenants
        yield* Effect.gen(function* () {
          const database = yield* Database
          const sql = yield* PgClient.PgClient
          yield* sql.unsafe(setting)
          // What is evaluated before the rows are read, as a constant or in a subquery, is so after the tenant is entered.
          const owners = (most: number) => sql`
            SELECT k.tenant_id, (SELECT current_setting('app.tenant_id')) AS entered,
              (SELECT count(DISTINCT tenant_id)::integer FROM api_keys) AS owners
            FROM api_keys k WHERE k.tenant_id::text = (SELECT current_setting('app.tenant_id', true)) LIMIT ${most}`
          for (const tenant of [one, other, one, other, one, other, one, other]) {
            assert.deepStrictEqual(yield* database.read(tenant, owners(9)), [
              { tenantId: tenant, entered: tenant, owners: 1 }
            ])
            assert.deepStrictEqual(yield* owners(9), [])
          }
        }).pipe(
          Effect.provide(poolLayer({ connection: yield* OwnDatabase, maxConnections: 2, statementTimeoutSeconds: 30 }))
        )
      }).pipe(Effect.scoped)
    )
  }

  it.effect("a read writes nothing, and locks nothing", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* PgClient.PgClient
      const { one } = yield* twoTenants
      for (const statement of [
        sql`UPDATE api_keys SET name = 'written'`,
        sql`DELETE FROM api_keys`,
        sql`WITH w AS (UPDATE api_keys SET name = 'written' RETURNING 1) SELECT * FROM w`,
        sql`SELECT * FROM api_keys FOR UPDATE`,
        sql`SELECT set_config('transaction_read_only', 'off', true)`
      ]) {
        assert.match(String(yield* Effect.exit(database.read(one, statement))), /read-only transaction|read-write mode/)
      }
      // What a statement does with its own tenant is its own; the next one enters its tenant again.
      yield* database.read(one, sql`SELECT set_config('app.tenant_id', '*', true)`)
      assert.deepStrictEqual(yield* database.read(one, ownersIn("api_keys")), [one])
      assert.deepStrictEqual(yield* database.transaction(one, sql`SELECT name FROM api_keys`), [{ name: "a key" }])
    })
  )

  it.effect("a read in a transaction is a part of it, and one of another tenant leaves the transaction its own", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* PgClient.PgClient
      const { one, other } = yield* twoTenants
      const names = sql`SELECT tenant_id, name FROM api_keys`
      yield* database.transaction(
        one,
        Effect.gen(function* () {
          yield* sql`UPDATE api_keys SET name = 'changed'`
          assert.deepStrictEqual(yield* database.read(one, names), [{ tenantId: one, name: "changed" }])
          assert.deepStrictEqual(yield* database.read(other, names), [{ tenantId: other, name: "a key" }])
          assert.deepStrictEqual(yield* ownersIn("api_keys"), [one])
          assert.deepStrictEqual(yield* database.outside(ownersIn("api_keys")), [])
          yield* sql`DELETE FROM api_keys`
        })
      )
      assert.deepStrictEqual(yield* database.read(one, names), [])
    })
  )

  it.effect("what runs outside of a read, or of a transaction in it, sees no rows", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* PgClient.PgClient
      const { one, other } = yield* twoTenants
      const later: Array<ReadonlyArray<string | null>> = []
      const seen = yield* database.read(
        one,
        Effect.gen(function* () {
          const outside = yield* database.outside(ownersIn("api_keys"))
          const inner = yield* database.transaction(
            other,
            Effect.gen(function* () {
              yield* sql.afterCommit(
                ownersIn("api_keys").pipe(
                  Effect.map((owners) => void later.push(owners)),
                  Effect.orDie
                )
              )
              return [yield* database.outside(ownersIn("api_keys")), yield* ownersIn("api_keys")]
            })
          )
          return [outside, ...inner, yield* database.read(other, ownersIn("api_keys")), yield* ownersIn("api_keys")]
        })
      )
      assert.deepStrictEqual(seen, [[], [], [other], [other], [one]])
      assert.deepStrictEqual(later, [[]])
    })
  )

  it.effect("a stream of a read sees its tenant's rows", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* PgClient.PgClient
      const { one } = yield* twoTenants
      const keys = Stream.runCollect(sql`SELECT tenant_id FROM api_keys`.stream)
      assert.deepStrictEqual(Array.from(yield* database.read(one, keys)), [{ tenantId: one }])
      assert.deepStrictEqual(Array.from(yield* keys), [])
    })
  )

  it.effect("after a read that failed, took too long or was interrupted, its connection sees no rows", () =>
    Effect.gen(function* () {
      const connection = yield* OwnDatabase
      const { one } = yield* twoTenants
      yield* Effect.gen(function* () {
        const database = yield* Database
        const sql = yield* PgClient.PgClient
        const backend = Effect.map(sql`SELECT pg_backend_pid() AS pid`, ([row]) => row?.pid)
        const assertClosed = Effect.gen(function* () {
          assert.deepStrictEqual(yield* ownersIn("api_keys"), [])
          assert.deepStrictEqual(yield* sql`SELECT nullif(current_setting('app.tenant_id', true), '') AS tenant`, [
            { tenant: null }
          ])
          assert.deepStrictEqual(yield* sql`SELECT current_setting('transaction_read_only') AS read`, [{ read: "off" }])
        })
        const before = yield* backend
        const failing = [
          sql`SELECT 1 / (SELECT count(*) - 1 FROM api_keys)`,
          sql`SELECT nothing FROM api_keys`,
          sql`SELECT ${"no number"}::integer FROM api_keys`,
          sql`SELECT pg_sleep(60) FROM api_keys`
        ]
        for (const statement of failing) {
          assert.isTrue(Exit.isFailure(yield* Effect.exit(database.read(one, statement))))
          yield* assertClosed
        }
        assert.strictEqual(yield* backend, before)

        const running = asSuperuser(
          connection,
          (all) => all`SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(61)%' AND state = 'active'`
        )
        const long = yield* Effect.forkChild(database.read(one, sql`SELECT pg_sleep(61) FROM api_keys`))
        yield* eventually(running, (found) => found.length === 1)
        yield* Fiber.interrupt(long)
        // The server does not go on with it.
        yield* eventually(running, (found) => found.length === 0)
        yield* assertClosed
      }).pipe(Effect.provide(poolLayer({ connection, maxConnections: 1, statementTimeoutSeconds: 1 })))
    }).pipe(Effect.scoped, Effect.provide(realClock))
  )

  it.effect("a transaction after the commit of another sees its own rows", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* PgClient.PgClient
      const { one } = yield* twoTenants
      const seen: Array<string | null> = []
      const look = database.transaction(one, ownersIn("api_keys")).pipe(
        Effect.map((owners) => void seen.push(...owners)),
        Effect.orDie
      )
      yield* database.transaction(one, sql.afterCommit(look))
      assert.deepStrictEqual(seen, [one])
    })
  )

  it.effect("the pool's role is no superuser, bypasses no policy and cannot log in, whatever user is given", () =>
    Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      const [role] = yield* sql`
        SELECT current_user::text AS name, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication, rolcanlogin,
          (SELECT rolsuper FROM pg_roles WHERE rolname = session_user) AS given_is_superuser
        FROM pg_roles WHERE rolname = current_user`
      assert.deepStrictEqual(role, {
        name: applicationRole,
        rolsuper: false,
        rolbypassrls: false,
        rolcreaterole: false,
        rolcreatedb: false,
        rolreplication: false,
        rolcanlogin: false,
        givenIsSuperuser: true
      })
    })
  )

  it.effect("every connection of the pool runs as that role, in transactions and outside", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* PgClient.PgClient
      const who = sql<{ readonly name: string }>`SELECT current_user::text AS name FROM pg_sleep(0.01)`
      const answers = yield* Effect.all(
        [
          ...Array.from({ length: 20 }, () => who),
          ...Array.from({ length: 20 }, () => database.transaction("all", who))
        ],
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual([...new Set(answers.flat().map((row) => row.name))], [applicationRole])
    })
  )

  it.effect("the pool's role owns nothing, is a member of nothing and may create nothing", () =>
    Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      const owned = yield* asSuperuser(
        yield* OwnDatabase,
        (all) => all`
          SELECT classid::regclass::text AS kind, objid FROM pg_shdepend
          WHERE refclassid = 'pg_authid'::regclass AND refobjid = ${applicationRole}::regrole AND deptype = 'o'
          UNION ALL SELECT 'member of', roleid FROM pg_auth_members WHERE member = ${applicationRole}::regrole`
      )
      assert.deepStrictEqual(owned, [])
      for (const statement of [
        "CREATE TABLE mine (id integer)",
        "CREATE SCHEMA mine",
        "ALTER TABLE api_keys DISABLE ROW LEVEL SECURITY"
      ]) {
        const error = yield* Effect.flip(sql`${sql.literal(statement)}`)
        assert.strictEqual(error.reason._tag, "AuthorizationError", statement)
      }
    })
  )

  it.effect("every table with a tenant_id has row-level security, and no policy that does not ask for the tenant", () =>
    Effect.gen(function* () {
      const found = yield* asSuperuser(
        yield* OwnDatabase,
        (sql) => sql<{ readonly name: string; readonly secured: boolean }>`
          SELECT c.relname AS name,
            c.relrowsecurity AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid) AND NOT EXISTS (
              SELECT FROM pg_policy p CROSS JOIN LATERAL (VALUES (pg_get_expr(p.polqual, c.oid)),
                (pg_get_expr(p.polwithcheck, c.oid))) v(condition)
              -- An entry of the audit log may be of another tenant than its writer.
              WHERE p.polrelid = c.oid AND NOT (c.relname ~ '^audit_entries' AND v.condition = 'true')
                AND v.condition !~ 'sees_tenant\\(|app\\.tenant_id'
            ) AS secured
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
          WHERE a.attname = 'tenant_id' AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'f', 'm')
          ORDER BY c.relname`
      )
      assert.includeMembers(
        found.map((table) => table.name),
        [...tables, "audit_entries_default"]
      )
      assert.deepStrictEqual(
        found.filter((table) => !table.secured),
        [],
        "ENABLE ROW LEVEL SECURITY, and make a policy by sees_tenant(tenant_id), in the migration that makes the table"
      )
    })
  )

  it.effect("no view shows a tenant's rows with the rights of its owner", () =>
    Effect.gen(function* () {
      const views = yield* asSuperuser(
        yield* OwnDatabase,
        (sql) => sql`
          SELECT relname FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace
            AND NOT coalesce('security_invoker=true' = ANY (reloptions), false)`
      )
      assert.deepStrictEqual(views, [])
    })
  )
})
