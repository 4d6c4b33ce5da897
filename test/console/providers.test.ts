import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { vendors } from "../../src/console/declarations.ts"
import { freeId, withoutProvider, withProvider } from "../../src/console/web/pages/gateway/document.ts"
import { vendorAt } from "../../src/gateway/configuration/vendors-domain.ts"

const openai = { id: "openai", dialect: "openai", baseUrl: "https://api.openai.com/v1" } as const
const local = { id: "local", dialect: "openai", baseUrl: "http://127.0.0.1:8000/v1" } as const
const target = (provider: string, model: string, members: object = {}) => ({ provider, model, ...members })

describe("a provider in the gateway's document", () => {
  it("comes beside the others, with the models that are offered, and leaves the rest as it is", () => {
    const document = {
      providers: [local],
      models: [{ id: "default", kind: "chat", targets: [target("local", "llama")] }],
      routing: { retries: 1 }
    } as const
    const prices = { inputUsdPerMTok: 2 }
    assert.deepStrictEqual(withProvider(document, openai, [{ id: "m", kind: "chat", prices }], new Set(["m"])), {
      ...document,
      providers: [local, openai],
      models: [...document.models, { id: "m", kind: "chat", prices, targets: [target("openai", "m")] }]
    })
  })

  it("takes the place of the one with its id", () => {
    const document = { providers: [openai, local] }
    const next = { ...openai, baseUrl: "https://proxy.example.com/v1" }
    assert.deepStrictEqual(withProvider(document, next, [], new Set()), { providers: [next, local] })
  })

  it("becomes one more target of a model that others serve under the same name", () => {
    const document = {
      models: [{ id: "llama", kind: "chat", targets: [target("local", "llama", { weight: 2 })] }]
    } as const
    const { models } = withProvider(document, openai, [{ id: "llama", kind: "chat" }], new Set(["llama"]))
    assert.deepStrictEqual(models?.[0]?.targets, [target("local", "llama", { weight: 2 }), target("openai", "llama")])
  })

  it("loses what is no longer chosen, but not what leads to it under other names", () => {
    const document = {
      providers: [openai],
      models: [
        { id: "a", kind: "chat", targets: [target("openai", "a")] },
        { id: "b", kind: "chat", targets: [target("openai", "b"), target("local", "b")] },
        { id: "fast", kind: "chat", targets: [target("openai", "a")] },
        { id: "kept", kind: "chat", targets: [target("openai", "kept")] }
      ]
    } as const
    const { models } = withProvider(document, openai, [{ id: "kept", kind: "chat" }], new Set(["a", "b", "kept"]))
    assert.deepStrictEqual(models, [
      { id: "b", kind: "chat", targets: [target("local", "b")] },
      document.models[2],
      document.models[3]
    ])
  })

  it("goes with what leads to it alone", () => {
    const document = {
      providers: [openai, local],
      models: [
        { id: "a", kind: "chat", targets: [target("openai", "a")] },
        { id: "b", kind: "chat", targets: [target("openai", "b"), target("local", "b")] }
      ]
    } as const
    assert.deepStrictEqual(withoutProvider(document, "openai"), {
      providers: [local],
      models: [{ id: "b", kind: "chat", targets: [target("local", "b")] }]
    })
  })

  it("gets a name that no other has", () => {
    assert.strictEqual(freeId({}, "openai"), "openai")
    assert.strictEqual(freeId({ providers: [openai, { ...openai, id: "openai-2" }] }, "openai"), "openai-3")
  })
})

describe("the vendors", () => {
  it.each(vendors())("$name is known by its address, also behind another path", ({ baseUrl, id }) => {
    assert.strictEqual(vendorAt(baseUrl), id)
    assert.strictEqual(vendorAt(new URL("/elsewhere", baseUrl).href), id)
  })

  it.each(["https://api.openai.com.example.com/v1", "https://constructor/v1", "not a URL"])("%s is of none", (url) => {
    assert.isUndefined(vendorAt(url))
  })
})

describe("the navigation", () => {
  const source = fs.readFileSync(path.resolve(import.meta.dirname, "../../src/console/web/shell/routes.tsx"), "utf8")

  it("has an icon of its own for each page", () => {
    const icons = Array.from(source.matchAll(/page\(\s*"[^"]+",\s*"[^"]+",\s*"([^"]+)"/g), ([, icon]) => icon)
    assert.isAbove(icons.length, 25)
    assert.deepStrictEqual(
      icons.filter((icon, at) => icons.indexOf(icon) !== at),
      []
    )
  })
})
