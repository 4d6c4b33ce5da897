import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { spawn } from "node:child_process"
import { cached } from "../support/command.ts"
import { makeDirectory, project } from "../support/embedded-postgres.ts"
import { startProcess } from "../support/service-process.ts"

/** Runs the command as npm does; answers its exit code and what it wrote. */
const operator = (directory: string, words: ReadonlyArray<string>, input = "") =>
  Effect.callback<{ readonly code: number | null; readonly output: string }>((resume) => {
    const child = spawn(process.execPath, [...cached, "src/cli/operator.ts", ...words], {
      cwd: project,
      env: { PATH: process.env.PATH, Database__Directory: directory }
    })
    const output: Array<string> = []
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => output.push(String(chunk)))
    child.once("close", (code) => resume(Effect.succeed({ code, output: output.join("") })))
    child.stdin.end(input)
    return Effect.sync(() => void child.kill("SIGKILL"))
  })

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })("the command operator", (it) => {
  it.effect(
    "makes Administrators and new passwords beside the service that has the embedded database",
    () =>
      Effect.gen(function* () {
        const directory = yield* makeDirectory()
        const service = yield* startProcess(directory)
        const login = (email: string, password: string) =>
          service.call("POST", "/api/auth/login", { key: null, body: { email, password } })

        const made = yield* operator(directory, ["create", "ada@example.com", "--name", "Ada Lovelace"])
        assert.strictEqual(made.code, 0, made.output)
        const password = /^Password: (\S+)$/m.exec(made.output)?.[1] ?? assert.fail(made.output)
        const signedIn = yield* login("ada@example.com", password)
        assert.strictEqual(signedIn.status, 200, signedIn.text)
        assert.strictEqual(signedIn.body.account.name, "Ada Lovelace")
        const headers = { authorization: `Bearer ${signedIn.body.token}` }
        const me = service.call("GET", "/api/auth/me", { key: null, headers })
        assert.deepStrictEqual((yield* me).body.capabilities, ["*:*"])

        const given = ["password", "ada@example.com", "--password-stdin"]
        const changed = yield* operator(directory, given, "nine brown otters at dusk\n")
        assert.strictEqual(changed.code, 0, changed.output)
        assert.notInclude(changed.output, "otters")
        assert.strictEqual((yield* login("ada@example.com", "nine brown otters at dusk")).status, 200)
        assert.strictEqual((yield* me).status, 401)

        const hindi = yield* operator(
          directory,
          ["create", "संपर्क@डाटामेल.भारत", "--password-stdin"],
          "four green newts at noon\n"
        )
        assert.strictEqual(hindi.code, 0, hindi.output)
        assert.strictEqual((yield* login("संपर्क@xn--c2bd4bq1db8d.xn--h2brj9c", "four green newts at noon")).status, 200)

        for (const [words, input, said] of [
          [["create", "संपर्क@डाटामेल.भारत".normalize("NFD")], "", "There is an account"],
          [["create", "ada@example.com"], "", "There is an account ada@example.com"],
          [["create", "eve@example.com", "--password-stdin"], "Password1234", "common or easily guessed"],
          [["create", "nobody"], "", "npm run operator -- create EMAIL"]
        ] as const) {
          const refused = yield* operator(directory, words, input)
          assert.strictEqual(refused.code, 1, words.join(" "))
          assert.include(refused.output, said)
        }
        assert.strictEqual((yield* service.call("GET", "/health/ready")).status, 200, "the service goes on")
      }),
    120_000
  )
})
