import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type ApiKeyId } from "../../src/agents/api-keys/domain.ts"
import { ApiKeysRepository } from "../../src/agents/api-keys/repository.ts"
import { type ListRequest, type Place } from "../../src/kernel/http/listing.ts"
import { applicationRole } from "../../src/platform/database/migrations.ts"
import { makeDatabase } from "../support/database.ts"
import { makeExplaining } from "../support/explaining.ts"
import { asSuperuser } from "../support/statements.ts"

const rows = 100_000

/** A place in the middle of an order, as a cursor has it. */
const middle = (sort: string) =>
  [
    sort,
    sort.endsWith("name") ? "service 5" : String((Date.now() - rows * 500) * 1000),
    "7fffffff-0000-7000-8000-000000000000"
  ] as never

it.live(
  "a page of a long list reads few pages of the database, whatever is searched for and however it is sorted",
  () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* asSuperuser(
        database,
        (sql) => sql`
        INSERT INTO api_keys (public_id, secret_sha256, name, scopes, created_at, created_by, last_used_at)
        SELECT md5(i::text), sha256(i::text::bytea),
          'service ' || i || CASE WHEN i % 25000 = 9 THEN ' quixotic' ELSE '' END || CASE WHEN i <= 5000 THEN ' legacy' ELSE '' END,
          '{}', now() - (${rows}::integer - i) * interval '1 second', 'test',
          CASE WHEN i % 3 = 0 THEN now() - hashint4(i)::bigint % 1000000 * interval '1 second' END
        FROM generate_series(1, ${rows}::integer) i`
      )
      yield* asSuperuser(database, (sql) => sql`VACUUM ANALYZE api_keys`)
      // Row-level security holds for it as for the service.
      const asService = { ...database, startupParameters: { role: applicationRole, "app.tenant_id": "*" } }
      const { explained, layer } = yield* makeExplaining(asService, { isReading: true })
      const keys = yield* ApiKeysRepository.pipe(Effect.provide(ApiKeysRepository.layer.pipe(Layer.provide(layer))))
      const names = Effect.fnUntraced(function* (request: ListRequest<ApiKeyId>) {
        explained.length = 0
        const { items, nextCursor } = yield* keys.list({}, request)
        const pages = explained.reduce((sum, one) => sum + one.pages, 0)
        return { found: items.map(({ name }) => name), nextCursor, pages, statements: [...explained] }
      })
      const few = Effect.fnUntraced(function* (request: ListRequest<ApiKeyId>, most: number) {
        const page = yield* names(request)
        assert.isBelow(page.pages, most, JSON.stringify({ request, statements: page.statements }, null, 1))
        for (const { scanned } of page.statements) assert.notInclude(scanned, "api_keys")
        return page
      })

      for (const sort of ["createdAt", "-createdAt", "name", "-name", "lastUsedAt", "-lastUsedAt"]) {
        const first = yield* few({ sort }, 300)
        assert.strictEqual(first.found.length, 50)
        if (first.nextCursor === null) return assert.fail("there are more")
        const second = yield* few({ sort, cursor: first.nextCursor }, 300)
        assert.strictEqual(new Set([...first.found, ...second.found]).size, 100)
      }
      for (const sort of ["-createdAt", "name", "-lastUsedAt"]) yield* few({ sort, cursor: middle(sort) }, 300)

      const common = yield* few({ sort: "-createdAt", search: "service" }, 1000)
      assert.strictEqual(common.found.length, 50)
      const rare = yield* few({ sort: "-createdAt", search: "Quixotic" }, 5000)
      assert.deepStrictEqual(
        rare.found,
        [75009, 50009, 25009, 9].map((i) => `service ${i} quixotic${i <= 5000 ? " legacy" : ""}`)
      )
      assert.isNull(rare.nextCursor)
      assert.deepStrictEqual((yield* few({ sort: "name", search: "zebra crossing" }, 5000)).found, [])

      // What is neither near nor rare is found page by page, each of which reads no more than its bound.
      const found: Array<string> = []
      let cursor: Place<ApiKeyId> | undefined
      for (let pages = 0; ; pages++) {
        const page = yield* names({
          sort: "-createdAt",
          search: "legacy",
          limit: 200,
          ...(cursor === undefined ? {} : { cursor })
        })
        assert.isBelow(page.pages, 50_000)
        found.push(...page.found)
        if (page.nextCursor === null) break
        cursor = page.nextCursor
        // A page reads 4,500 rows, or ends with the 200 that it finds.
        assert.isAtMost(pages, rows / 4_500 + 5_000 / 200)
      }
      assert.strictEqual(found.length, 5000)
      assert.strictEqual(new Set(found).size, 5000)
      const nothing = yield* names({ sort: "-createdAt", search: "é" })
      assert.deepStrictEqual(nothing.found, [])
      assert.isNotNull(nothing.nextCursor)
    })
)
