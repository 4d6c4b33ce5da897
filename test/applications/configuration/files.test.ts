import { assert, describe, layer } from "@effect/vitest"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { makeApplication, makeFile, makeFolder, save } from "../../support/configuration.ts"
import { auditOf, each, faults, problem, read, refuses, type Sent } from "../../support/scenarios.ts"
import { type Call, sharedServiceLayer, TestService } from "../../support/service.ts"
import { nextLink } from "../../support/walk.ts"

const mebibyte = 1_048_576
const tooLong = `${"é".repeat(mebibyte / 2)}x`

/** A file that is in its second version, and a folder. */
const given = Effect.gen(function* () {
  const service = yield* TestService
  const applicationId = yield* makeApplication(service)
  const file = yield* makeFile(service, applicationId, "a.txt", "one")
  yield* save(service, file, "two")
  return { applicationId, file, folder: yield* makeFolder(service, applicationId, "etc") }
})
type Given = Effect.Success<typeof given>

const at = (id: number, rest = "") => `/api/configuration/${id}${rest}`
const creating =
  (members: object) =>
  ({ applicationId }: Given): Sent => ["POST", "/api/configuration", { body: { applicationId, name: "b", ...members } }]
/** Asks for something about the file. */
const ask =
  (method: string, rest: string, call: Call = {}) =>
  ({ file }: Given): Sent => [method, at(file, rest), call]
const saving = (body: object, headers: Record<string, string> = {}) => ask("PUT", "", { body, headers })

const first = { "if-match": '"1"' }
const mismatch = problem(412, "version-mismatch", { version: 2 })
const noFile = problem(400, "configuration-no-file")
const noVersion = problem(404, "configuration-version-not-found")
const tooLarge = problem(413, "payload-too-large")

const digest = (content: string) => createHash("sha256").update(content).digest("hex")

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("configuration files", (it) => {
  it.effect("201: a file with its content, its address and its tag", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      const body = { applicationId, parentId: null, name: "settings.json", type: "file", content: "{}\n" }
      const answer = yield* service.call("POST", "/api/configuration", { body })
      assert.strictEqual(answer.status, 201, answer.text)
      assert.strictEqual(answer.headers.get("location"), `/api/configuration/${answer.body.id}`)
      assert.strictEqual(answer.headers.get("etag"), '"1"')
      assert.deepInclude(answer.body, {
        ...body,
        path: "/settings.json",
        version: 1,
        contentType: "application/json",
        size: 3,
        schemaId: null,
        createdBy: "service-account",
        updatedBy: "service-account"
      })
      const fetched = yield* service.call("GET", `/api/configuration/${answer.body.id}`)
      assert.deepStrictEqual(fetched.body, answer.body)
      assert.strictEqual(fetched.headers.get("etag"), '"1"')
    })
  )

  it.effect("a folder has neither content nor version, and a tag of its placement", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFolder(service, yield* makeApplication(service), "etc")
      const answer = yield* service.call("GET", `/api/configuration/${id}`)
      assert.deepInclude(answer.body, { type: "folder", version: null, size: null, contentType: null })
      assert.notProperty(answer.body, "content")
      assert.match(answer.headers.get("etag") ?? "", /^"0-\w+"$/)
    })
  )

  it.effect("the ending of the name says what a file holds", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      for (const [name, contentType] of [
        ["a.json", "application/json"],
        ["a.YML", "application/yaml"],
        ["a.yaml", "application/yaml"],
        ["a.md", "text/markdown"],
        ["Makefile", "text/plain"],
        ["a.constructor", "text/plain"],
        [".json", "application/json"]
      ] as const) {
        const id = yield* makeFile(service, applicationId, name, "")
        assert.strictEqual((yield* service.call("GET", `/api/configuration/${id}`)).body.contentType, contentType, name)
      }
    })
  )

  it.effect("every save is a version, of the same content too; the newest is listed first", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "one")
      assert.strictEqual(yield* save(service, id, "two"), 2)
      assert.strictEqual(yield* save(service, id, "two"), 3)
      const { body } = yield* service.call("GET", `/api/configuration/${id}/versions`)
      assert.deepStrictEqual(
        body.map(({ content, version }: { content: string; version: number }) => [version, content]),
        [
          [3, "two"],
          [2, "two"],
          [1, "one"]
        ]
      )
      assert.hasAllKeys(body[0], ["version", "content", "createdAt", "createdBy"])
      assert.deepStrictEqual(yield* auditOf("Configuration", id), [
        "ConfigurationUpdated",
        "ConfigurationUpdated",
        "ConfigurationCreated"
      ])
    })
  )

  it.effect("members that the server sets may stand in a save, and are ignored", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "one")
      const { body } = yield* service.call("GET", `/api/configuration/${id}`)
      const saved = yield* service.call("PUT", `/api/configuration/${id}`, {
        body: { ...body, version: 9, content: "2" }
      })
      assert.strictEqual(saved.body.version, 2, saved.text)
    })
  )

  refuses(
    it,
    [
      ["saving the content of a folder", ({ folder }) => ["PUT", at(folder), { body: { content: "x" } }], noFile],
      ["the versions of a folder", ({ folder }) => ["GET", at(folder, "/versions")], noFile],
      ["a version of a folder", ({ folder }) => ["GET", at(folder, "/versions/1")], noFile],
      ["a diff of a folder", ({ folder }) => ["GET", at(folder, "/diff")], noFile],
      ["watching a folder", ({ folder }) => ["GET", at(folder, "/watch")], noFile],
      ["rolling a folder back", ({ folder }) => ["POST", at(folder, "/rollback"), { body: { version: 1 } }], noFile],
      ["saving an unknown member", saving({ content: "2", nobody: 1 }), faults("payload.nobody")],
      ["saving one byte more than 1 MiB, counted in UTF-8", saving({ content: tooLong }), tooLarge],
      ["saving a body of more than 8 MiB", saving({ content: "\u0001".repeat(mebibyte + mebibyte / 2) }), tooLarge],
      ["creating a file of one byte more than 1 MiB", creating({ type: "file", content: tooLong }), tooLarge],
      ["creating a folder with a content", creating({ type: "folder", content: "" }), faults("payload.content")],
      ["creating a file with NUL", creating({ type: "file", content: "a\u0000b" }), faults("payload.content")],
      ["creating a file with half a letter", creating({ type: "file", content: "\ud800" }), faults("payload.content")],
      ...each(['"1"', 'W/"2"', '"1", "3"', '"02"'], (tags) => [
        `saving under the tags ${tags}, not the file's`,
        saving({ content: "three" }, { "if-match": tags }),
        mismatch
      ]),
      ...each(["5", "'5'", '"5', '"5""6"', '"5" "6"', '"5 "', ",", '*, "5"'], (tags) => [
        `saving under ${tags}, which are no tags`,
        saving({ content: "three" }, { "if-match": tags }),
        faults("headers.if-match")
      ]),
      ["moving under another tag", ask("PATCH", "", { headers: first, body: { name: "b.txt" } }), mismatch],
      ["deleting under another tag", ask("DELETE", "", { headers: first }), mismatch],
      ["rolling back under another tag", ask("POST", "/rollback", { headers: first, body: { version: 1 } }), mismatch],
      ["rolling back to a version to come", ask("POST", "/rollback", { body: { version: 3 } }), noVersion],
      [
        "rolling back to no version of any file",
        ask("POST", "/rollback", { body: { version: 2_147_483_647 } }),
        noVersion
      ],
      ["a diff to a version to come", ask("GET", "/diff?from=1&to=3"), noVersion],
      ...each(["text/html", "text/x-diff;q=0, application/json;q=0.0"], (accept) => [
        `a diff as ${accept}`,
        ask("GET", "/diff", { headers: { accept } }),
        problem(406, "not-acceptable")
      ])
    ],
    {
      given,
      unchanged: ({ applicationId, file }) =>
        Effect.all([read(at(file)), read(`/api/configuration/tree?applicationId=${applicationId}`)])
    }
  )

  it.effect("compare-and-set, by strong tags, lists and the star", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "one")
      const put = (ifMatch: string) =>
        service.call("PUT", at(id), { body: { content: ifMatch }, headers: { "if-match": ifMatch } })
      assert.strictEqual((yield* put('"1"')).body.version, 2)
      assert.strictEqual((yield* put('"1" , W/"9","2"')).body.version, 3)
      assert.strictEqual((yield* put("*")).body.version, 4)
      assert.strictEqual((yield* put(',, "4" ,')).body.version, 5)
    })
  )

  it.effect("a rollback is a new version that says where it came from", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "one")
      yield* save(service, id, "two")
      const rolledBack = yield* service.call("POST", `/api/configuration/${id}/rollback`, { body: { version: 1 } })
      assert.strictEqual(rolledBack.status, 200, rolledBack.text)
      assert.strictEqual(rolledBack.headers.get("etag"), '"3"')
      assert.deepInclude(rolledBack.body, { id, version: 3, content: "one" })
      const { body } = yield* service.call("GET", `/api/configuration/${id}/versions/3`)
      assert.deepInclude(body, { version: 3, content: "one", restoredFrom: 1 })
      assert.deepStrictEqual((yield* auditOf("Configuration", id))[0], "ConfigurationRolledBack")
    })
  )

  it.effect("an audit entry holds versions and digests, never the content", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "first content")
      yield* save(service, id, "second content")
      const list = yield* service.call("GET", `/api/audit-logs?entityType=Configuration&entityId=${id}`)
      const { body } = yield* service.call("GET", `/api/audit-logs/${list.body.items[0].id}`)
      assert.deepInclude(body.changes.before, { version: 1, sha256: digest("first content") })
      assert.deepInclude(body.changes.after, { version: 2, sha256: digest("second content") })
      assert.notInclude(JSON.stringify(body), "second content")
    })
  )

  it.effect("a page of versions is as long as asked, and the next one follows", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "1")
      for (let version = 2; version <= 7; version++) yield* save(service, id, String(version))
      const seen: Array<number> = []
      for (let next: string | undefined = `/api/configuration/${id}/versions?limit=3`; next !== undefined;) {
        const answer = yield* service.call("GET", next)
        seen.push(...answer.body.map(({ version }: { version: number }) => version))
        next = nextLink(answer)
      }
      assert.deepStrictEqual(seen, [7, 6, 5, 4, 3, 2, 1])
    })
  )

  it.effect("a page of large versions ends at 1 MiB, or has one version", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const half = "x".repeat(mebibyte / 2)
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", half)
      for (const content of [half, "x", half, "x".repeat(mebibyte), half, half]) yield* save(service, id, content)
      const pages: Array<ReadonlyArray<number>> = []
      for (let next: string | undefined = `/api/configuration/${id}/versions`; next !== undefined;) {
        const answer = yield* service.call("GET", next)
        pages.push(answer.body.map(({ version }: { version: number }) => version))
        next = nextLink(answer)
      }
      assert.deepStrictEqual(pages, [[7, 6], [5], [4, 3], [2, 1]])
    })
  )

  describe("contents", () => {
    it.effect("1 MiB, counted in UTF-8", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "é".repeat(mebibyte / 2))
        assert.strictEqual((yield* service.call("GET", at(id))).body.size, mebibyte)
      })
    )

    it.effect("1 MiB whose every byte is escaped in JSON, under an Idempotency-Key", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const body = { applicationId, name: "a.txt", type: "file", content: "\u0001".repeat(mebibyte) }
        const headers = { "idempotency-key": "large" }
        const first = yield* service.call("POST", "/api/configuration", { body, headers })
        assert.strictEqual(first.status, 201, first.text.slice(0, 300))
        const again = yield* service.call("POST", "/api/configuration", { body, headers })
        assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
        assert.strictEqual(again.body.id, first.body.id)
      })
    )

    it.effect("what was saved comes back as it was, whatever lines and characters it has", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "")
        for (const content of ["", "\ufeffa\r\nb\rc\u2028\u0085", "\u0001\u007f\ud83c\udff4", "  \n"]) {
          yield* save(service, id, content)
          assert.strictEqual((yield* service.call("GET", `/api/configuration/${id}`)).body.content, content)
        }
      })
    )
  })

  describe("diff", () => {
    it.effect("the newest against the one before, as text or as JSON", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "one\ntwo\n")
        yield* save(service, id, "one\nzwei\n")
        yield* save(service, id, "one\nzwei")
        const diff = (query: string, accept = "*/*") =>
          service.call("GET", `/api/configuration/${id}/diff${query}`, { headers: { accept } })
        const text = yield* diff("?from=1&to=2")
        assert.strictEqual(text.headers.get("content-type"), "text/x-diff; charset=utf-8")
        assert.strictEqual(
          text.text,
          "--- /a.txt\tversion 1\n+++ /a.txt\tversion 2\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"
        )
        assert.include((yield* diff("")).text, "\\ No newline at end of file")
        assert.deepInclude((yield* diff("", "application/json")).body, { from: 2, to: 3 })
        assert.strictEqual((yield* diff("?from=2&to=2")).text, "")
        assert.deepInclude((yield* diff("", "application/*")).body, { from: 2, to: 3 })
        for (const accept of ["text/*", "text/html, text/x-diff;q=0.1"]) {
          assert.strictEqual((yield* diff("", accept)).headers.get("content-type"), "text/x-diff; charset=utf-8")
        }
      })
    )

    it.effect("a name with a line break stays within its header line", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const id = yield* makeFile(service, yield* makeApplication(service), "a\n+++ b", "one")
        yield* save(service, id, "two")
        const { text } = yield* service.call("GET", `/api/configuration/${id}/diff`)
        assert.isTrue(text.startsWith('--- "/a\\n+++ b"\tversion 1\n'), text)
      })
    )
  })
})
