import { assert, describe, layer } from "@effect/vitest"
import { Clock, Effect, Exit } from "effect"
import { maxDownloads } from "../../../src/platform/http/downloads.ts"
import { makeKey } from "../../support/authority.ts"
import { makeApplication, makeFile, makeFolder, save, treePaths } from "../../support/configuration.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { auditOf } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

interface Change {
  readonly id: number | null
  readonly path: string
  readonly previousPath: string | null
  readonly changes: ReadonlyArray<string>
}

const file = (path: string, more: object = {}) => ({ path, type: "file", content: "{}", ...more })

const shownChanges = (changes: ReadonlyArray<Change>) =>
  Object.fromEntries(
    changes.map(({ changes, path, previousPath }) => [
      path,
      previousPath === null ? changes.join(" ") : `${changes.join(" ")} from ${previousPath}`
    ])
  )

/** The contents of a tree by path. */
const contentsOf = Effect.fnUntraced(function* (service: TestService["Service"], applicationId: number) {
  const { body } = yield* service.call("GET", `/api/configuration/export?applicationId=${applicationId}`)
  const nodes: ReadonlyArray<{ content?: string; path: string }> = body.nodes
  return Object.fromEntries(nodes.map(({ content, path }) => [path, content ?? null]))
})

/** A moment that everything so far is not after, and everything from now on is. */
const momentNow = Effect.gen(function* () {
  const at = yield* Clock.currentTimeMillis
  yield* eventually(Clock.currentTimeMillis, (now) => now > at)
  return new Date(at).toISOString()
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a whole tree", (it) => {
  describe("rolled back", () => {
    it.effect("is what it was: contents, names, places, deletions; a dry run says so first", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const call = (method: string, path: string, body?: object) =>
          service.call(method, `/api/configuration${path}`, body === undefined ? {} : { body })
        const etc = yield* makeFolder(service, applicationId, "etc")
        const changed = yield* makeFile(service, applicationId, "changed.txt", "then")
        const moved = yield* makeFile(service, applicationId, "moved.txt", "moved", { parentId: etc })
        const deleted = yield* makeFile(service, applicationId, "deleted.txt", "deleted", { parentId: etc })
        const swapped = yield* makeFile(service, applicationId, "swapped.txt", "s")
        const back = yield* makeFile(service, applicationId, "back.txt", "same")
        yield* makeFile(service, applicationId, "untouched.txt", "u")
        const then = yield* contentsOf(service, applicationId)
        const at = yield* momentNow

        yield* save(service, changed, "between")
        yield* save(service, changed, "now")
        yield* save(service, back, "other")
        yield* save(service, back, "same")
        yield* call("PATCH", `/${moved}`, { parentId: null, name: "elsewhere.txt" })
        yield* call("PATCH", `/${swapped}`, { name: "x" })
        yield* call("PATCH", `/${changed}`, { name: "swapped.txt" })
        yield* call("PATCH", `/${swapped}`, { name: "changed.txt" })
        yield* call("DELETE", `/${etc}`)
        const later = yield* makeFolder(service, applicationId, "later")
        yield* makeFile(service, applicationId, "later.txt", "", { parentId: later })

        const rollback = (dryRun: boolean) => call("POST", "/rollback", { applicationId, at, dryRun })
        const before = yield* contentsOf(service, applicationId)
        const dry = yield* rollback(true)
        assert.strictEqual(dry.status, 200, dry.text)
        assert.deepStrictEqual(shownChanges(dry.body.changes), {
          "/etc": "restored",
          "/etc/moved.txt": "moved from /elsewhere.txt",
          "/etc/deleted.txt": "restored",
          "/changed.txt": "moved updated from /swapped.txt",
          "/swapped.txt": "moved from /changed.txt",
          "/later": "deleted",
          "/later/later.txt": "deleted"
        })
        assert.deepStrictEqual(yield* contentsOf(service, applicationId), before)

        const done = yield* rollback(false)
        assert.deepStrictEqual(done.body, { ...dry.body, dryRun: false })
        assert.deepStrictEqual(yield* contentsOf(service, applicationId), then)
        const { body: versions } = yield* call("GET", `/${changed}/versions`)
        assert.deepInclude(versions[0], { version: 4, content: "then", restoredFrom: 1 })
        assert.strictEqual((yield* call("GET", `/${back}`)).body.version, 3)
        assert.deepStrictEqual((yield* rollback(false)).body.changes, [])
        assert.deepStrictEqual((yield* auditOf("Configuration", deleted))[0], "ConfigurationRestored")
        assert.deepStrictEqual((yield* auditOf("Configuration", later))[0], "ConfigurationDeleted")
        assert.deepStrictEqual(yield* auditOf("ConfigurationTree", applicationId), ["ConfigurationTreeRolledBack"])
        assert.strictEqual((yield* call("POST", `/${later}/restore`)).status, 200)
        assert.include(yield* treePaths(service, applicationId), "/later/later.txt")
      })
    )

    it.effect("to a moment between any two changes is what it was then", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const folder = yield* makeFolder(service, applicationId, "f")
        const id = yield* makeFile(service, applicationId, "a.txt", "1", { parentId: folder })
        const states: Array<{ at: string; contents: unknown }> = []
        const remember = Effect.gen(function* () {
          states.push({ at: yield* momentNow, contents: yield* contentsOf(service, applicationId) })
        })
        const steps = [
          save(service, id, "2"),
          service.call("PATCH", `/api/configuration/${id}`, { body: { name: "b.txt", parentId: null } }),
          service.call("DELETE", `/api/configuration/${folder}`),
          makeFolder(service, applicationId, "f"),
          save(service, id, "3"),
          service.call("DELETE", `/api/configuration/${id}`),
          makeFile(service, applicationId, "b.txt", "other")
        ]
        yield* remember
        for (const step of steps) {
          yield* step
          yield* remember
        }
        for (const { at, contents } of [...states.toReversed(), ...states]) {
          const answer = yield* service.call("POST", "/api/configuration/rollback", { body: { applicationId, at } })
          assert.strictEqual(answer.status, 200, answer.text)
          assert.deepStrictEqual(yield* contentsOf(service, applicationId), contents, at)
        }
      })
    )

    it.effect("leaves what stays deleted to be restored, though the folder it was deleted with came back", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const call = (method: string, path: string, body?: object) =>
          service.call(method, `/api/configuration${path}`, body === undefined ? {} : { body })
        const folder = yield* makeFolder(service, applicationId, "d")
        yield* makeFile(service, applicationId, "a", "", { parentId: folder })
        const at = yield* momentNow
        const later = yield* makeFolder(service, applicationId, "later", { parentId: folder })
        yield* makeFile(service, applicationId, "b", "precious", { parentId: later })
        yield* call("DELETE", `/${folder}`)
        yield* call("POST", "/rollback", { applicationId, at })
        assert.deepStrictEqual(yield* treePaths(service, applicationId), ["/d", "/d/a"])
        const { body: deleted } = yield* call("GET", `/deleted?applicationId=${applicationId}`)
        assert.deepStrictEqual(
          deleted.map(({ id }: { id: number }) => id),
          [later]
        )
        assert.strictEqual((yield* call("POST", `/${later}/restore`)).status, 200)
        assert.deepStrictEqual(yield* treePaths(service, applicationId), ["/d", "/d/a", "/d/later", "/d/later/b"])
      })
    )

    it.effect("400, 404, 409: the future, an unknown application, what is gone for good", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const rollback = (body: object) => service.call("POST", "/api/configuration/rollback", { body })
        assert.deepStrictEqual(faultPaths(yield* rollback({ applicationId, at: "2999-01-01T00:00:00Z" })), [
          "payload.at"
        ])
        const id = yield* makeFile(service, applicationId, "a.txt", "")
        const at = yield* momentNow
        assertProblem(yield* rollback({ applicationId: 999_999, at }), 404, "application-not-found")
        yield* service.call("DELETE", `/api/configuration/${id}`)
        yield* asSuperuser(service.database, (sql) => sql`DELETE FROM configuration_nodes WHERE id = ${id}`)
        const refused = yield* rollback({ applicationId, at, dryRun: true })
        assertProblem(refused, 409, "configuration-history-gone")
        assert.deepStrictEqual(refused.body.names, ["a.txt"])
      })
    )
  })

  describe("exported and imported", () => {
    const makeTree = Effect.fnUntraced(function* (service: TestService["Service"]) {
      const applicationId = yield* makeApplication(service)
      const etc = yield* makeFolder(service, applicationId, "etc")
      yield* makeFolder(service, applicationId, "empty", { parentId: etc })
      const schemaId = yield* makeFile(service, applicationId, "schema.json", '{"type":"object"}')
      yield* makeFile(service, applicationId, "a.json", '{"é":"\\n"}', { parentId: etc, schemaId })
      yield* makeFile(service, applicationId, "ünï \u0001.txt", "a\r\nb", { parentId: etc })
      return applicationId
    })

    for (const format of ["json", "zip"] as const) {
      it.effect(`200: as ${format}, into another application, with schemas`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const from = yield* makeTree(service)
          const into = yield* makeApplication(service)
          const { bytes, headers } = yield* download(service, `?applicationId=${from}&format=${format}`)
          assert.strictEqual(headers.get("content-type"), `application/${format}`)
          assert.match(headers.get("content-disposition") ?? "", new RegExp(`^attachment; filename=".+\\.${format}"$`))
          const imported = yield* upload(service, `?applicationId=${into}`, `application/${format}`, bytes)
          assert.strictEqual(imported.status, 200, imported.text)
          assert.lengthOf(imported.body.changes, 5)
          assert.deepStrictEqual(yield* contentsOf(service, into), yield* contentsOf(service, from))
          const { body } = yield* service.call(
            "GET",
            `/api/configuration/by-path?applicationId=${into}&path=/etc/a.json`
          )
          assert.isNumber(body.schemaId)
          const again = yield* upload(service, `?applicationId=${into}&mode=replace`, `application/${format}`, bytes)
          assert.deepStrictEqual(again.body.changes, [])
        })
      )
    }

    it.effect("by Accept where no format is named", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeTree(service)
        const accepted = (accept: string) =>
          Effect.map(download(service, `?applicationId=${applicationId}`, accept), ({ headers }) =>
            headers.get("content-type")
          )
        assert.strictEqual(yield* accepted("application/zip"), "application/zip")
        assert.strictEqual(yield* accepted("*/*"), "application/json")
        assert.strictEqual(yield* accepted("application/zip;q=0.5, application/json"), "application/json")
        assert.strictEqual(yield* accepted("text/html"), "application/problem+json")
      })
    )

    it.effect("429: more exports at once than a caller may have downloads", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        // More than the buffers of a connection hold, so that an export stays under way while its client reads nothing.
        const nodes = Array.from({ length: 16 }, (_, index) => file(`/${index}`, { content: "x".repeat(1_048_576) }))
        const path = `/api/configuration/export?applicationId=${applicationId}`
        const imported = yield* service.call("POST", `/api/configuration/import?applicationId=${applicationId}`, {
          body: { nodes }
        })
        assert.strictEqual(imported.status, 200, imported.text)
        const { key } = yield* makeKey(service, ["configuration:read"])
        const closing = yield* Effect.acquireRelease(
          Effect.sync(() => new AbortController()),
          (closing) => Effect.sync(() => closing.abort())
        )
        // An answer that is collected as garbage ends its download.
        const answers: Array<Response> = []
        const statusFor = (key: string) =>
          Effect.promise(async () => {
            const answer = await fetch(`${service.url}${path}`, {
              headers: { "x-api-key": key, "accept-encoding": "identity" },
              signal: closing.signal
            })
            answers.push(answer)
            return answer.status
          })
        for (let open = 0; open < maxDownloads.principal; open++) assert.strictEqual(yield* statusFor(key), 200)
        assert.strictEqual(yield* statusFor(key), 429)
        assert.strictEqual(yield* statusFor(service.serviceKey), 200)
      }).pipe(Effect.scoped)
    )

    it.effect("merge adds and changes, replace also deletes; what is the same gets no version", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const folder = yield* makeFolder(service, applicationId, "old")
        yield* makeFile(service, applicationId, "gone.txt", "", { parentId: folder })
        const kept = yield* makeFile(service, applicationId, "kept.txt", "kept")
        yield* makeFile(service, applicationId, "changed.txt", "before")
        const nodes = [
          { path: "/kept.txt", type: "file", content: "kept" },
          { path: "/changed.txt", type: "file", content: "after" },
          { path: "/new/deep/a.txt", type: "file", content: "new" }
        ]
        const run = (query: string) =>
          service.call("POST", `/api/configuration/import?applicationId=${applicationId}${query}`, { body: { nodes } })
        const added = {
          "/changed.txt": "updated",
          "/new": "created",
          "/new/deep": "created",
          "/new/deep/a.txt": "created"
        }
        assert.deepStrictEqual(shownChanges((yield* run("&dryRun=true")).body.changes), added)
        const merged = yield* run("")
        assert.deepStrictEqual(shownChanges(merged.body.changes), added)
        assert.isTrue(merged.body.changes.every(({ id }: Change) => id !== null))
        assert.strictEqual((yield* service.call("GET", `/api/configuration/${kept}`)).body.version, 1)
        assert.deepStrictEqual(shownChanges((yield* run("&mode=replace")).body.changes), {
          "/old": "deleted",
          "/old/gone.txt": "deleted"
        })
        assert.deepStrictEqual(yield* treePaths(service, applicationId), [
          "/changed.txt",
          "/kept.txt",
          "/new",
          "/new/deep",
          "/new/deep/a.txt"
        ])
        assert.strictEqual((yield* service.call("POST", `/api/configuration/${folder}/restore`)).status, 200)
        assert.include(yield* treePaths(service, applicationId), "/old/gone.txt")
        assert.deepStrictEqual(yield* auditOf("ConfigurationTree", applicationId), [
          "ConfigurationImported",
          "ConfigurationImported"
        ])
      })
    )

    it.effect("replace makes a folder of a file and a file of a folder; merge refuses", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        yield* makeFile(service, applicationId, "a", "")
        const b = yield* makeFolder(service, applicationId, "b")
        yield* makeFile(service, applicationId, "x", "", { parentId: b })
        const nodes = [
          { path: "/a/x", type: "file", content: "" },
          { path: "/b", type: "file", content: "" }
        ]
        const run = (mode: string) =>
          service.call("POST", `/api/configuration/import?applicationId=${applicationId}&mode=${mode}`, {
            body: { nodes }
          })
        assert.deepStrictEqual(faultPaths(yield* run("merge")), ["payload.nodes.1.path", "payload.nodes"])
        assert.strictEqual((yield* run("replace")).status, 200)
        assert.deepStrictEqual(yield* treePaths(service, applicationId), ["/a", "/a/x", "/b"])
      })
    )

    it.effect("400: every fault of an archive at once, and nothing is changed", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeTree(service)
        const before = yield* contentsOf(service, applicationId)
        const run = (nodes: ReadonlyArray<object>) =>
          service.call("POST", `/api/configuration/import?applicationId=${applicationId}`, { body: { nodes } })
        const malformed = [file("/../x"), file("x"), file("/a\u0000"), file(`/${"x".repeat(256)}`)]
        assert.deepStrictEqual(
          faultPaths(yield* run(malformed)),
          [0, 1, 2, 3].map((index) => `payload.nodes.${index}.path`)
        )
        const unfit = [
          file("/twice"),
          file("/twice"),
          file("/file"),
          file("/file/below"),
          file("/bound", { schema: "/nowhere" }),
          { path: "/etc", type: "folder", schema: "/schema.json" }
        ]
        assert.deepStrictEqual(faultPaths(yield* run(unfit)).toSorted(), [
          "payload.nodes.1.path",
          "payload.nodes.3.path",
          "payload.nodes.4.schema",
          "payload.nodes.5.schema"
        ])
        const folder = { path: "/folder", type: "folder", content: "" }
        assert.deepStrictEqual(faultPaths(yield* run([folder])), ["payload.nodes.0.content"])
        const checked = [file("/first.txt"), file("/etc/a.json", { content: "[1]" })]
        assert.deepStrictEqual(faultPaths(yield* run(checked)), ["payload.nodes.1.content"])
        const large = [file("/first.txt"), file("/large.txt", { content: "x".repeat(1_048_577) })]
        assertProblem(yield* run(large), 413, "payload-too-large")
        assert.deepStrictEqual(yield* contentsOf(service, applicationId), before)
      })
    )

    it.effect("413: more nodes than an archive may carry, the folders that its paths imply among them", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const run = (count: number) =>
          service.call("POST", `/api/configuration/import?applicationId=${applicationId}&dryRun=true`, {
            body: { nodes: Array.from({ length: count }, (_, index) => file(`/${index}${"/x".repeat(49)}`)) }
          })
        const refused = yield* run(401)
        assertProblem(refused, 413, "payload-too-large")
        assert.include(refused.body.detail, "20000")
        assert.lengthOf((yield* run(400)).body.changes, 20_000)
      })
    )

    it.effect("an import that fails half-way changes nothing", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeTree(service)
        const before = yield* contentsOf(service, applicationId)
        yield* asSuperuser(service.database, (sql) =>
          Effect.gen(function* () {
            yield* sql`
              CREATE FUNCTION fail_on_poison() RETURNS trigger LANGUAGE plpgsql AS $$
              BEGIN
                IF NEW.content = 'poison' THEN RAISE EXCEPTION 'half-way'; END IF;
                RETURN NEW;
              END $$`
            yield* sql`
              CREATE TRIGGER fail_on_poison BEFORE INSERT ON configuration_versions
              FOR EACH ROW EXECUTE FUNCTION fail_on_poison()`
          })
        )
        const nodes = [
          { path: "/new.txt", type: "file", content: "new" },
          { path: "/etc/a.json", type: "file", content: '{"changed":true}' },
          { path: "/schema.json", type: "file", content: '{"type":["object"]}' },
          { path: "/new/poison.txt", type: "file", content: "poison" }
        ]
        const path = `/api/configuration/import?applicationId=${applicationId}&mode=replace`
        assertProblem(yield* service.call("POST", path, { body: { nodes } }), 500, "internal-error")
        assert.deepStrictEqual(yield* contentsOf(service, applicationId), before)
        assert.deepStrictEqual(yield* auditOf("ConfigurationTree", applicationId), [])
      })
    )

    it.effect("400: a body that is no zip archive, or holds what cannot stand in a tree", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeTree(service)
        const run = (bytes: Uint8Array) => upload(service, `?applicationId=${applicationId}`, "application/zip", bytes)
        for (const bytes of ["", "no zip", "PK\u0003\u0004 torn"]) {
          assertProblem(yield* run(Buffer.from(bytes)), 400, "configuration-archive-unreadable")
        }
        const { bytes } = yield* download(service, `?applicationId=${applicationId}&format=zip`)
        for (const cut of [200, bytes.length - 100, bytes.length - 1]) {
          assertProblem(yield* run(bytes.subarray(0, cut)), 400, "configuration-archive-unreadable")
        }
        const text = Buffer.from(bytes).toString("latin1").replaceAll("etc/", "../x".slice(0, 4))
        const refused = yield* run(Buffer.from(text, "latin1"))
        assert.isTrue(
          faultPaths(refused).every((path) => path.startsWith("payload.../x")),
          refused.text
        )
      })
    )

    it.effect("an export of what is removed meanwhile breaks off", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeTree(service)
        yield* asSuperuser(
          service.database,
          (sql) => sql`
            DELETE FROM configuration_versions WHERE node_id = (
              SELECT id FROM configuration_nodes WHERE application_id = ${applicationId} AND name = 'a.json')`
        )
        for (const format of ["json", "zip"]) {
          const ended = yield* Effect.exit(
            Effect.tryPromise(async () => {
              const query = `applicationId=${applicationId}&format=${format}`
              const headers = { "x-api-key": service.serviceKey }
              const response = await fetch(`${service.url}/api/configuration/export?${query}`, { headers })
              assert.strictEqual(response.status, 200)
              return response.bytes()
            })
          )
          assert.isTrue(Exit.isFailure(ended), format)
        }
      })
    )

    it.effect("400: a zip archive with a symbolic link", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        yield* makeFile(service, applicationId, "a.txt", "/etc/passwd")
        const { bytes } = yield* download(service, `?applicationId=${applicationId}&format=zip`)
        const linked = Buffer.from(bytes)
        const entry = linked.indexOf("PK\u0001\u0002", "latin1")
        assert.strictEqual(linked.readUInt8(entry + 5), 3, "made on Unix")
        linked.writeUInt32LE(0o120777 * 65_536, entry + 38)
        const refused = yield* upload(service, `?applicationId=${applicationId}`, "application/zip", linked)
        assert.deepStrictEqual(faultPaths(refused), ["payload./a.txt"])
      })
    )

    it.effect("400: a file without its content, which would empty the one that stands", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const id = yield* makeFile(service, applicationId, "a.json", "{}")
        const refused = yield* service.call("POST", `/api/configuration/import?applicationId=${applicationId}`, {
          body: { nodes: [{ path: "/a.json", type: "file" }] }
        })
        assert.deepStrictEqual(faultPaths(refused), ["payload.nodes.0.content"])
        assert.strictEqual((yield* service.call("GET", `/api/configuration/${id}`)).body.version, 1)
      })
    )

    it.effect("409: a tree with a name that no zip archive carries, which JSON does", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const names = ["._resource", ".DS_Store", "THUMBS.DB", "a\\b"]
        for (const name of names) yield* makeFile(service, applicationId, name, "")
        const query = `/api/configuration/export?applicationId=${applicationId}`
        const refused = yield* service.call("GET", `${query}&format=zip`)
        assertProblem(refused, 409, "configuration-not-portable")
        assert.sameMembers(
          refused.body.paths,
          names.map((name) => `/${name}`)
        )
        assert.strictEqual((yield* service.call("GET", query)).status, 200)
      })
    )
  })
})

const download = (service: TestService["Service"], query: string, accept = "*/*") =>
  Effect.promise(async (signal) => {
    const headers = { "x-api-key": service.serviceKey, accept }
    const response = await fetch(`${service.url}/api/configuration/export${query}`, { headers, signal })
    return { headers: response.headers, bytes: new Uint8Array(await response.arrayBuffer()) }
  })

const upload = (service: TestService["Service"], query: string, type: string, bytes: Uint8Array) =>
  Effect.promise(async (signal) => {
    const response = await fetch(`${service.url}/api/configuration/import${query}`, {
      method: "POST",
      headers: { "x-api-key": service.serviceKey, "content-type": type },
      body: new Blob([new Uint8Array(bytes)]),
      signal
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, body: JSON.parse(text) }
  })
