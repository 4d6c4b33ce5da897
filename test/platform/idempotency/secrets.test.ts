import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { newEmail, passphrase } from "../../support/accounts.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "what is kept of a repeatable request",
  (it) => {
    it.effect("does not let whoever has the database try passwords out on a plain digest", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const body = JSON.stringify({ email: newEmail(), name: "Ada", password: passphrase, roleIds: [] })
        const call = { body, headers: { "idempotency-key": "made once" } }
        const first = yield* service.call("POST", "/api/accounts", call)
        assert.strictEqual(first.status, 201, first.text)
        const again = yield* service.call("POST", "/api/accounts", call)
        assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
        const [kept] = yield* asSuperuser(
          service.database,
          (sql) => sql<{ readonly hex: string }>`
          SELECT encode(request_sha256, 'hex') AS hex FROM idempotency_keys WHERE key = 'made once'`
        )
        assert.match(kept?.hex ?? "", /^[0-9a-f]{64}$/)
        for (const text of [body, `/api/accounts\n${body}`]) {
          assert.notStrictEqual(kept?.hex, createHash("sha256").update(text).digest("hex"))
        }
      })
    )
  }
)
