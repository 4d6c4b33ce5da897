import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const get = (address: string, accept: string) =>
  Effect.gen(function* () {
    const { url } = yield* TestService
    return yield* Effect.promise(async () => {
      const answer = await fetch(new URL(address, url), { headers: { accept } })
      return { status: answer.status, headers: answer.headers, text: await answer.text() }
    })
  })

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "the page of the OpenAPI document",
  (it) => {
    it.effect("runs its own script and loads nothing from elsewhere", () =>
      Effect.gen(function* () {
        const page = yield* get("/swagger", browser)
        assert.strictEqual(page.status, 200)
        const scripts = [...page.text.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, script = ""]) => script)
        const hashes = scripts.map((script) => `'sha256-${createHash("sha256").update(script).digest("base64")}'`)
        const policy = page.headers.get("content-security-policy")
        assert.include(policy, "default-src 'none'")
        assert.include(policy, `script-src ${hashes.join(" ")};`)
        const head = page.text.slice(0, page.text.indexOf("<style>"))
        assert.notMatch(head, /(?:src|href)="(?!data:)/)
        assert.notMatch(page.text, /<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?\/\//)
      })
    )

    it.effect("holds the document that programs get, collapsed, with a filter and with links to operations", () =>
      Effect.gen(function* () {
        const page = yield* get("/swagger", browser)
        const document = yield* get("/swagger", "application/json")
        const held = /<script id="swagger-spec"[^>]*>([\s\S]*?)<\/script>/.exec(page.text)?.[1] ?? ""
        assert.deepStrictEqual(JSON.parse(held), JSON.parse(document.text))
        assert.match(page.text, /SwaggerUIBundle\(\{\s*\.\.\.options,/)
        for (const option of ['docExpansion: "none"', "filter: true", "deepLinking: true"]) {
          assert.include(page.text, option)
        }
        assert.include(page.text, "<title>API · Application Manager</title>")
      })
    )
  }
)
