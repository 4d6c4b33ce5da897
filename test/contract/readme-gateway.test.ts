import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import { serviceLayer, TestService } from "../support/service.ts"

const root = path.resolve(import.meta.dirname, "../..")
const readme = fs.readFileSync(path.join(root, "README.md"), "utf8")
const section = /^## Use it with your SDK\n([\s\S]*?)^## /m.exec(readme)?.[1] ?? ""
const blocks = Array.from(section.matchAll(/^```(\w+)\n([\s\S]*?)^```/gm), ([, language = "", text = ""]) => ({
  language,
  text
}))
const helper = /^call\(\) .*$/m.exec(readme)?.[0] ?? ""
const run = promisify(execFile)

layer(serviceLayer(), { excludeTestServices: true, timeout: "120 seconds" })("Use it with your SDK", (it) => {
  /** Runs what the README says, word for word but for the port. */
  const said = Effect.fnUntraced(function* (language: string, text: string) {
    const { serviceKey, url } = yield* TestService
    const code = text.replaceAll("http://127.0.0.1:11402", url)
    const environment = { ...process.env, API: url, KEY: serviceKey, APPLICATION_MANAGER_API_KEY: serviceKey }
    const [command, words] =
      language === "ts"
        ? [process.execPath, ["--input-type=module-typescript", "--eval", code]]
        : ["bash", ["-euc", `${helper}\n${code}`]]
    const { stdout } = yield* Effect.promise(() => run(command, words, { cwd: root, env: environment }))
    return stdout
  })

  it.effect("has an example for curl, each SDK and the configuration, and each does what it says", () =>
    Effect.gen(function* () {
      const ran = yield* Effect.forEach(
        blocks.filter(({ language }) => language === "sh" || language === "ts"),
        ({ language, text }) => said(language, text)
      )
      assert.lengthOf(ran, 4)
      const [curl = "", openai, anthropic = "", configured = ""] = ran
      const shown = JSON.parse(blocks.find(({ language }) => language === "json")?.text ?? "")
      const answered = JSON.parse(curl)
      assert.match(shown.id, /^chatcmpl-[0-9a-f]{32}$/)
      assert.match(answered.id, /^chatcmpl-[0-9a-f]{32}$/)
      assert.deepStrictEqual({ ...answered, id: shown.id, created: shown.created }, shown)
      assert.strictEqual(openai, "Hello\n")
      assert.match(anthropic, /type: 'text'[^}]*text: 'Hello'/)
      const { models, providers } = JSON.parse(configured)
      assert.deepStrictEqual(
        [...providers, ...models].map(({ id }: { readonly id: string }) => id),
        ["openai", "local", "default"]
      )
    })
  )
})
