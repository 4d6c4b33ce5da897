import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Option, Redacted } from "effect"
import { addressIn, hostsIn } from "../../../src/platform/database/hosts.ts"
import { settingsFrom } from "../../../src/platform/settings/settings.ts"

const hasHosts = (url: string) => addressIn("Database:Url", Redacted.make(url), true).hosts !== undefined
const read = (name: string, value: string) => Effect.exit(settingsFrom({ environment: { [name]: value } }))

describe("the hosts of a URL", () => {
  it("are those of libpq, each with its port, and the rest of the URL", () => {
    const user = "postgres://user:p%40ss,word@"
    assert.deepStrictEqual(hostsIn(`${user}one:5432,two:5433/name?connect_timeout=2`), [
      `${user}one:5432/name?connect_timeout=2`,
      `${user}two:5433/name?connect_timeout=2`
    ])
    assert.deepStrictEqual(hostsIn("postgresql://one,[::1]:5433,%2Frun%2Fpg/name"), [
      "postgresql://one/name",
      "postgresql://[::1]:5433/name",
      "postgresql://%2Frun%2Fpg/name"
    ])
    for (const single of [`${user}one/name`, "postgres://one/name?options=-c%20a=b,c", "postgres:///name?host=one"]) {
      assert.deepStrictEqual(hostsIn(single), [single])
    }
  })

  it("are looked for where there are several, or where the server has to accept writes", () => {
    assert.isFalse(hasHosts("postgres://one/name"))
    assert.isTrue(hasHosts("postgres://one/name?target_session_attrs=read-write"))
    assert.isTrue(hasHosts("postgres://one,two/name"))
  })

  it.effect("none of which can be reached are an unreachable database, in the time of one", () =>
    Effect.gen(function* () {
      const url = Redacted.make("postgres://user@127.0.0.1:1,127.0.0.1:2/name")
      const { hosts } = addressIn("Database:Url", url, true)
      const first = hosts?.current() ?? assert.fail()
      const exits = yield* Effect.forEach([1, 2, 3], () => Effect.exit(hosts?.leave(first) ?? Effect.void), {
        concurrency: "unbounded"
      })
      for (const exit of exits) assert.isTrue(Exit.isFailure(exit) && String(exit).includes("ConnectionError"))
      assert.strictEqual(hosts?.current(), first)
    })
  )
})

describe("settings of databases", () => {
  for (const [name, accepted, refused] of [
    [
      "Database__Url",
      ["", "?target_session_attrs=read-write", "?sslmode=require&target_session_attrs=primary"],
      ["standby", "any", "prefer-standby", ""]
    ],
    ["Database__PoolUrl", ["?target_session_attrs=read-write&connect_timeout=1"], ["read-only"]],
    ["Database__ReadUrl", ["", "?target_session_attrs=any"], ["read-write", "standby"]]
  ] as const) {
    it.effect(`${name} takes several hosts, and no other server than the service needs`, () =>
      Effect.gen(function* () {
        for (const query of accepted) {
          const exit = yield* read(name, `postgres://user@one:5432,two/name${query}`)
          assert.isTrue(Exit.isSuccess(exit), String(exit))
        }
        for (const attribute of refused) {
          const exit = yield* read(name, `postgres://user@one,two/name?target_session_attrs=${attribute}`)
          assert.isTrue(Exit.isFailure(exit), attribute)
          assert.include(String(exit), "target_session_attrs:")
        }
      })
    )
  }

  it.effect("are none by default", () =>
    Effect.map(settingsFrom(), ({ database }) => {
      assert.isTrue([database.url, database.poolUrl, database.readUrl].every(Option.isNone))
    })
  )
})
