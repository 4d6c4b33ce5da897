import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { registerHooks } from "node:module"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll } from "vitest"
import { servedDocument } from "../contract/document.ts"

// Both generators need the compiler's JavaScript API, which TypeScript 7 does not have; ts-morph ships that of TypeScript 6.
registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier === "typescript" ? "@ts-morph/common/dist/typescript.js" : specifier, context)
})

interface TypeGenerator {
  readonly default: (document: unknown) => Promise<unknown>
  readonly astToString: (ast: unknown) => string
}
interface ClientGenerator {
  readonly createClient: (options: Readonly<Record<string, unknown>>) => Promise<unknown>
}

/** Loads a generator without its types, which refer to that API. */
const load = async <Generator>(name: string): Promise<Generator> => (await import(name)) as Generator

const directory = fs.mkdtempSync(path.join(os.tmpdir(), "generated-clients-"))
afterAll(() => fs.rmSync(directory, { recursive: true }))

const compiler = path.resolve(import.meta.dirname, "../../node_modules/typescript/bin/tsc")
const compilerOptions = {
  strict: true,
  noEmit: true,
  target: "ES2024",
  module: "NodeNext",
  allowImportingTsExtensions: true,
  types: []
}

/** What the compiler says about `usage` of the generated files in a folder; empty when they fit. */
const faultsOf = (folder: string, usage: string): string => {
  const project = path.join(directory, folder)
  fs.writeFileSync(path.join(project, "usage.ts"), usage)
  fs.writeFileSync(path.join(project, "package.json"), '{ "type": "module" }')
  fs.writeFileSync(path.join(project, "tsconfig.json"), JSON.stringify({ compilerOptions }))
  try {
    return execFileSync(process.execPath, [compiler, "-p", project], { encoding: "utf8" })
  } catch (error) {
    return String((error as { readonly stdout: unknown }).stdout)
  }
}

/** A copy, since the generators write into what they are given. */
const copy = () => structuredClone(servedDocument)

describe("a client generated from the OpenAPI document", () => {
  it("has the types of openapi-typescript", async () => {
    const { astToString, default: generate } = await load<TypeGenerator>("openapi-typescript")
    const types = astToString(await generate(copy()))
    fs.mkdirSync(path.join(directory, "types"))
    fs.writeFileSync(path.join(directory, "types", "service.ts"), types)
    const usage = `
      import type { operations, paths } from "./service.ts"
      type NewTrialUser = paths["/api/trial-users"]["post"]["requestBody"]["content"]["application/json"]
      export const user: NewTrialUser = { email: "ada@example.com", firstName: "Ada", lastName: "Lovelace" }
      // @ts-expect-error An address is text.
      export const wrongUser: NewTrialUser = { ...user, email: 1 }
      type Query = NonNullable<operations["trialUsers.list"]["parameters"]["query"]>
      export const query: Query = { limit: 10, active: true }
      // @ts-expect-error A limit is a number.
      export const wrongQuery: Query = { limit: "10" }
      export const header: operations["trialUsers.create"]["parameters"]["header"] = { "Idempotency-Key": "1" }
      type Missing = operations["trialUsers.get"]["responses"][404]["content"]["application/problem+json"]
      export const type: Missing["type"] = "urn:application-manager:problem:trial-user-not-found"
      // @ts-expect-error Another problem.
      export const wrongType: Missing["type"] = "urn:application-manager:problem:role-not-found"
    `
    assert.strictEqual(faultsOf("types", usage), "")
  })

  it("has the functions of @hey-api/openapi-ts", async () => {
    const { createClient } = await load<ClientGenerator>("@hey-api/openapi-ts")
    await createClient({
      input: copy(),
      output: { path: path.join(directory, "client"), importFileExtension: ".ts" },
      plugins: ["@hey-api/typescript", "@hey-api/sdk", "@hey-api/client-fetch"],
      logs: { level: "silent" }
    })
    const usage = `
      import { apiKeysRotate, budgetCapsList, trialUsersCreate, trialUsersGet } from "./sdk.gen.ts"
      const { data, error } = await trialUsersGet({ path: { id: 42 } })
      export const email: string | undefined = data?.email
      export const type: string | undefined = error?.type
      // @ts-expect-error The id is an integer.
      await trialUsersGet({ path: { id: "42" } })
      export const caps = await budgetCapsList({ query: { limit: 10 }, throwOnError: true })
      export const next: string | null = caps.data.nextCursor
      // @ts-expect-error A trial user needs a body.
      await trialUsersCreate({})
      await apiKeysRotate({ path: { id: "0198a5b0-7c00-7000-8000-00000000002a" } })
    `
    assert.strictEqual(faultsOf("client", usage), "")
  })

  it("has the schemas of @hey-api/openapi-ts for zod, which compile and say what the service does", async () => {
    const { createClient } = await load<ClientGenerator>("@hey-api/openapi-ts")
    const output = path.join(directory, "zod")
    await createClient({
      input: copy(),
      output: { path: output, importFileExtension: ".ts" },
      plugins: ["@hey-api/typescript", "@hey-api/sdk", "@hey-api/client-fetch", "zod"],
      logs: { level: "silent" }
    })
    fs.symlinkSync(path.resolve(import.meta.dirname, "../../node_modules"), path.join(output, "node_modules"))
    assert.strictEqual(faultsOf("zod", "export {}"), "")
    const schemas = (await import(path.join(output, "zod.gen.ts"))) as Readonly<
      Record<string, { safeParse(value: unknown): { readonly success: boolean } }>
    >
    const accepts = (name: string, value: unknown) => schemas[name]?.safeParse(value).success
    for (const [ipAddress, expected] of [
      ["203.0.113.7", true],
      ["2001:db8::1", true],
      ["nowhere", false],
      [7, false]
    ] as const) {
      assert.strictEqual(accepts("zNewSession", { trialUserId: 1, ipAddress }), expected, String(ipAddress))
    }
    for (const [prompt, expected] of [
      ["text", true],
      [["one", "two"], true],
      [[1, 2], true],
      [[[1], [2]], true],
      [[], false],
      [{}, false]
    ] as const) {
      assert.strictEqual(accepts("zCompatibilityCompletionsBody", { model: "m", prompt }), expected)
    }
  })
})
