import { assert, describe, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeApplication, makeFile, makeFolder, treePaths } from "../../support/configuration.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { auditOf } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a configuration tree", (it) => {
  it.effect("lists every node with those below it, by name", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      assert.deepStrictEqual(yield* treePaths(service, applicationId), [])
      const b = yield* makeFolder(service, applicationId, "b")
      const inner = yield* makeFolder(service, applicationId, "inner", { parentId: b })
      yield* makeFile(service, applicationId, "z.txt", "", { parentId: b })
      yield* makeFile(service, applicationId, "deep.txt", "", { parentId: inner })
      yield* makeFile(service, applicationId, "a.txt", "")
      assert.deepStrictEqual(yield* treePaths(service, applicationId), [
        "/a.txt",
        "/b",
        "/b/inner",
        "/b/inner/deep.txt",
        "/b/z.txt"
      ])
      const { body } = yield* service.call("GET", `/api/configuration/tree?applicationId=${applicationId}`)
      assert.deepStrictEqual(body[0].children, [])
      assert.notProperty(body[0], "content")
      assertProblem(
        yield* service.call("GET", "/api/configuration/tree?applicationId=999999"),
        404,
        "application-not-found"
      )
    })
  )

  it.effect("finds a node by its path, exactly", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      const folder = yield* makeFolder(service, applicationId, "été")
      const id = yield* makeFile(service, applicationId, "a b+c%.json", "{}", { parentId: folder })
      const find = (path: string) =>
        service.call(
          "GET",
          `/api/configuration/by-path?applicationId=${applicationId}&path=${encodeURIComponent(path)}`
        )
      const found = yield* find("/été/a b+c%.json")
      assert.deepInclude(found.body, { id, content: "{}" })
      assert.strictEqual(found.headers.get("etag"), '"1"')
      assert.strictEqual((yield* find("/été")).body.type, "folder")
      for (const path of ["/Été", "/été/a b+c%.jso", "/été/a b+c%.json/x", "/a b+c%.json"]) {
        assertProblem(yield* find(path), 404, "configuration-not-found")
      }
      for (const path of ["", "/", "été", "//", "/été/", "/../etc", "/a\u0000"]) {
        assert.deepStrictEqual(faultPaths(yield* find(path)), ["query.path"], path)
      }
    })
  )

  describe("names", () => {
    it.effect("400: no slash, NUL, blank end, dots, nor more than 255 bytes", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const create = (name: string) =>
          service.call("POST", "/api/configuration", { body: { applicationId, name, type: "folder" } })
        const id = yield* makeFolder(service, applicationId, "fine")
        const bad = ["", ".", "..", "/", "a/b", "a\u0000b", " a", "a ", "a\t", "\u00a0a", "a\ufeff", "x".repeat(256)]
        for (const name of [...bad, "é".repeat(128), "\ud800"]) {
          assert.deepStrictEqual(faultPaths(yield* create(name)), ["payload.name"], JSON.stringify(name))
          const renamed = yield* service.call("PATCH", `/api/configuration/${id}`, { body: { name } })
          assert.deepStrictEqual(faultPaths(renamed), ["payload.name"], JSON.stringify(name))
        }
        for (const name of ["...", "x".repeat(255), `${"é".repeat(127)}x`, "a\\b", "a b", "-", "__proto__"]) {
          assert.strictEqual((yield* create(name)).status, 201, name)
        }
      })
    )

    it.effect("409: one of a name among siblings, whichever kind, and free again after a delete", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const folder = yield* makeFolder(service, applicationId, "etc")
        const id = yield* makeFile(service, applicationId, "a", "", { parentId: folder })
        const body = { applicationId, parentId: folder, name: "a", type: "folder" }
        assertProblem(yield* service.call("POST", "/api/configuration", { body }), 409, "configuration-name-taken")
        yield* makeFolder(service, applicationId, "a")
        const up = yield* service.call("PATCH", `/api/configuration/${id}`, { body: { parentId: null } })
        assertProblem(up, 409, "configuration-name-taken")
        assert.strictEqual((yield* service.call("DELETE", `/api/configuration/${id}`)).status, 204)
        assert.strictEqual((yield* service.call("POST", "/api/configuration", { body })).status, 201)
        assertProblem(yield* service.call("POST", `/api/configuration/${id}/restore`), 409, "configuration-name-taken")
      })
    )
  })

  describe("moves", () => {
    it.effect("a rename and a move take everything below along; the content stays", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const a = yield* makeFolder(service, applicationId, "a")
        const b = yield* makeFolder(service, applicationId, "b")
        const file = yield* makeFile(service, applicationId, "x.txt", "content", { parentId: a })
        const moved = yield* service.call("PATCH", `/api/configuration/${a}`, { body: { name: "c", parentId: b } })
        assert.deepInclude(moved.body, { name: "c", parentId: b, path: "/b/c" })
        const { body } = yield* service.call("GET", `/api/configuration/${file}`)
        assert.deepInclude(body, { path: "/b/c/x.txt", version: 1, content: "content" })
        assert.deepStrictEqual(yield* auditOf("Configuration", a), ["ConfigurationMoved", "ConfigurationCreated"])
        const same = yield* service.call("PATCH", `/api/configuration/${a}`, { body: { ...moved.body } })
        assert.deepStrictEqual(same.body, moved.body)
        assert.lengthOf(yield* auditOf("Configuration", a), 2)
      })
    )

    it.effect("409: into itself or below itself", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const a = yield* makeFolder(service, applicationId, "a")
        const b = yield* makeFolder(service, applicationId, "b", { parentId: a })
        const c = yield* makeFolder(service, applicationId, "c", { parentId: b })
        for (const parentId of [a, b, c]) {
          const refused = yield* service.call("PATCH", `/api/configuration/${a}`, { body: { parentId } })
          assertProblem(refused, 409, "configuration-cycle")
        }
      })
    )

    it.effect("409: of two moves at once that would make a cycle together, one", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        for (let round = 0; round < 10; round++) {
          const a = yield* makeFolder(service, applicationId, `a${round}`)
          const b = yield* makeFolder(service, applicationId, `b${round}`)
          const into = (id: number, parentId: number) =>
            service.call("PATCH", `/api/configuration/${id}`, { body: { parentId } })
          const answers = yield* Effect.all([into(a, b), into(b, a)], { concurrency: "unbounded" })
          assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [200, 409])
          assertProblem(answers.find(({ status }) => status === 409) ?? answers[0], 409, "configuration-cycle")
        }
        assert.lengthOf(yield* treePaths(service, applicationId), 20)
      })
    )

    it.effect("409: a parent that is a file, deleted, unknown or another application's", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const id = yield* makeFolder(service, applicationId, "a")
        const file = yield* makeFile(service, applicationId, "f", "")
        const gone = yield* makeFolder(service, applicationId, "gone")
        yield* service.call("DELETE", `/api/configuration/${gone}`)
        const foreign = yield* makeFolder(service, yield* makeApplication(service), "foreign")
        for (const parentId of [file, gone, foreign, 2_147_483_647]) {
          const body = { applicationId, parentId, name: "x", type: "folder" }
          assertProblem(yield* service.call("POST", "/api/configuration", { body }), 409, "configuration-parent-unfit")
          const moved = yield* service.call("PATCH", `/api/configuration/${id}`, { body: { parentId } })
          assertProblem(moved, 409, "configuration-parent-unfit")
        }
      })
    )

    it.effect("409: deeper than 64 names, made, moved or restored", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const ids: Array<number> = []
        for (let depth = 1; depth <= 64; depth++) {
          ids.push(yield* makeFolder(service, applicationId, "d", { parentId: ids.at(-1) ?? null }))
        }
        const body = { applicationId, parentId: ids.at(-1), name: "d", type: "folder" }
        assertProblem(yield* service.call("POST", "/api/configuration", { body }), 409, "configuration-too-deep")
        const other = yield* makeFolder(service, applicationId, "other")
        const moved = yield* service.call("PATCH", `/api/configuration/${ids[0]}`, { body: { parentId: other } })
        assertProblem(moved, 409, "configuration-too-deep")
        yield* service.call("DELETE", `/api/configuration/${ids[1]}`)
        yield* service.call("PATCH", `/api/configuration/${ids[0]}`, { body: { parentId: other } })
        const restored = yield* service.call("POST", `/api/configuration/${ids[1]}/restore`)
        assertProblem(restored, 409, "configuration-too-deep")
      })
    )
  })

  describe("deletes", () => {
    it.effect("204: a folder with everything below it, which a restore brings back", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const folder = yield* makeFolder(service, applicationId, "etc")
        const file = yield* makeFile(service, applicationId, "a.txt", "kept", { parentId: folder })
        const early = yield* makeFile(service, applicationId, "early.txt", "", { parentId: folder })
        const call = (method: string, path: string, body?: object) =>
          service.call(method, `/api/configuration${path}`, body === undefined ? {} : { body })
        assert.strictEqual((yield* call("DELETE", `/${early}`)).status, 204)
        assert.strictEqual((yield* call("DELETE", `/${folder}`)).status, 204)
        for (const id of [folder, file]) {
          for (const [method, path, body] of [
            ["GET", "", undefined],
            ["PUT", "", { content: "x" }],
            ["PATCH", "", { name: "x" }],
            ["DELETE", "", undefined],
            ["GET", "/versions", undefined],
            ["POST", "/rollback", { version: 1 }],
            ["GET", "/watch", undefined]
          ] as const) {
            assertProblem(yield* call(method, `/${id}${path}`, body), 404, "configuration-not-found")
          }
        }
        const { body: deleted } = yield* call("GET", `/deleted?applicationId=${applicationId}`)
        assert.deepStrictEqual(
          deleted.map(({ deletedBy, id }: { deletedBy: string; id: number }) => [id, deletedBy]),
          [
            [folder, "service-account"],
            [early, "service-account"]
          ]
        )
        assertProblem(yield* call("POST", `/${file}/restore`), 409, "configuration-parent-unfit")
        assertProblem(yield* call("POST", `/${early}/restore`), 409, "configuration-parent-unfit")
        assert.strictEqual((yield* call("POST", `/${folder}/restore`)).status, 200)
        assert.deepStrictEqual(yield* treePaths(service, applicationId), ["/etc", "/etc/a.txt"])
        assert.deepInclude((yield* call("GET", `/${file}`)).body, { version: 1, content: "kept" })
        assert.strictEqual((yield* call("POST", `/${early}/restore`)).status, 200)
        assert.strictEqual((yield* call("POST", `/${early}/restore`)).status, 200)
        assert.deepStrictEqual(yield* auditOf("Configuration", file), [
          "ConfigurationRestored",
          "ConfigurationDeleted",
          "ConfigurationCreated"
        ])
        assert.deepStrictEqual(yield* auditOf("Configuration", early), [
          "ConfigurationRestored",
          "ConfigurationDeleted",
          "ConfigurationCreated"
        ])
      })
    )

    it.effect("409: an application whose configuration is still there; then what was deleted goes with it", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const applicationId = yield* makeApplication(service)
        const folder = yield* makeFolder(service, applicationId, "etc")
        yield* makeFile(service, applicationId, "a.txt", "", { parentId: folder })
        const application = `/api/applications/${applicationId}`
        assertProblem(yield* service.call("DELETE", application), 409, "application-in-use")
        yield* service.call("DELETE", `/api/configuration/${folder}`)
        assert.strictEqual((yield* service.call("DELETE", application)).status, 204)
        assert.deepStrictEqual((yield* auditOf("Configuration", folder))[0], "ConfigurationPurged")
        const [row] = yield* asSuperuser(
          service.database,
          (sql) => sql<{ readonly left: number }>`
            SELECT (SELECT count(*) FROM configuration_nodes WHERE application_id = ${applicationId})::integer
              + (SELECT count(*) FROM configuration_placements WHERE application_id = ${applicationId})::integer AS left`
        )
        assert.strictEqual(row?.left, 0)
      })
    )
  })

  it.effect("403: the configuration of a built-in application", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body } = yield* service.call("GET", "/api/applications?limit=200")
      const builtIn: { readonly id: number } = body.items.find(
        ({ slug }: { slug: string }) => slug === "application-manager"
      )
      const [node] = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly id: number }>`
          WITH made AS (
            INSERT INTO configuration_nodes (application_id, name, type, version, size, sha256, created_at, created_by,
              updated_at, updated_by, placed_at)
            VALUES (${builtIn.id}, 'policy.json', 'file', 1, 2, sha256('{}'), now(), 'system', now(), 'system', now())
            RETURNING id)
          INSERT INTO configuration_versions (node_id, version, content, size, sha256, created_at, created_by)
          SELECT id, 1, '{}', 2, sha256('{}'), now(), 'system' FROM made RETURNING node_id AS id`
      )
      const path = `/api/configuration/${node?.id}`
      assert.strictEqual((yield* service.call("GET", path)).body.content, "{}")
      for (const [method, target, body] of [
        ["PUT", path, { content: "x" }],
        ["PATCH", path, { name: "x" }],
        ["DELETE", path, undefined],
        ["POST", `${path}/rollback`, { version: 1 }],
        ["POST", `${path}/restore`, undefined],
        ["POST", "/api/configuration", { applicationId: builtIn.id, name: "x", type: "folder" }],
        ["POST", `/api/configuration/import?applicationId=${builtIn.id}`, { nodes: [] }],
        ["POST", "/api/configuration/rollback", { applicationId: builtIn.id, at: "2026-01-01T00:00:00Z", dryRun: true }]
      ] as const) {
        const refused = yield* service.call(method, target, body === undefined ? {} : { body })
        assertProblem(refused, 403, "configuration-managed")
      }
    })
  )
})
