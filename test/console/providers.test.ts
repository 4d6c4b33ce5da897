import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { credentials, vendors } from "../../src/console/declarations.ts"
import { freeId, withoutProvider, withProvider } from "../../src/console/web/pages/gateway/document.ts"
import { GatewayDocument } from "../../src/gateway/configuration/configuration-domain.ts"
import { faultsIn } from "../../src/gateway/configuration/validate.ts"
import { hasOwnHost, vendorAt } from "../../src/gateway/configuration/vendors-domain.ts"
import { otherThanHosts } from "../../src/gateway/credentials/registry/vendor-hosts.ts"

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
  it.each(vendors().filter(hasOwnHost))(
    "$name is known by its address, also behind another path",
    ({ baseUrl, id }) => {
      assert.strictEqual(vendorAt(baseUrl), id)
      assert.strictEqual(vendorAt(new URL("/elsewhere", baseUrl).href), id)
    }
  )

  it("of one's own machines and of clouds have the addresses that they are asked for", () => {
    for (const vendor of vendors().filter((one) => !hasOwnHost(one))) {
      assert.isTrue(vendor.isOwn === true || /\{(?:region|resource)\}/.test(vendor.baseUrl), vendor.id)
      for (const one of [vendor.baseUrl, ...Object.values(vendor.regions ?? {})]) {
        assert.isUndefined(vendorAt(one.replace(/\{\w+\}/, "eu-west-1")), vendor.id)
      }
    }
  })

  it("have configurations that are taken: with every kind of authorization, and what they speak", () => {
    const known = credentials()
    const kinds = new Set(vendors().flatMap(({ authorizations = ["key"] }) => authorizations))
    assert.deepStrictEqual([...kinds].filter((kind) => kind !== "none").toSorted(), Object.keys(known).toSorted())
    const examples: Readonly<Record<string, object>> = {
      key: { apiKey: "env:OPENAI_API_KEY" },
      none: {},
      aws: { credential: { type: "aws" } },
      entra: { credential: { type: "entra" } },
      google: { credential: { type: "google" } },
      "federation:openai": {
        credential: { type: "federation", vendor: "openai", identityProviderId: "idp_1", serviceAccountId: "svc_1" }
      },
      "federation:anthropic": {
        credential: {
          type: "federation",
          vendor: "anthropic",
          ruleId: "fdrl_1",
          organizationId: "org_1",
          serviceAccountId: "svac_1"
        }
      }
    }
    const decode = Schema.decodeUnknownSync(GatewayDocument)
    for (const { apis, authorizations = ["key"], baseUrl, dialect, id, platform, regions, reportsCost } of vendors()) {
      const region = platform === "vertex" ? "europe-west4" : "eu-central-1"
      const addresses = [baseUrl.replace(/\{\w+\}/, region), ...Object.values(regions ?? {})]
      for (const [address, kind] of addresses.flatMap((one) => authorizations.map((kind) => [one, kind] as const))) {
        const provider = {
          id,
          dialect,
          baseUrl: address,
          ...(platform === undefined ? {} : { platform }),
          ...(platform === "vertex" ? { project: "my-project" } : {}),
          ...(apis === undefined ? {} : { apis }),
          ...(reportsCost === undefined ? {} : { reportsCost }),
          ...examples[kind]
        }
        const document = decode({ providers: [provider] })
        assert.deepStrictEqual(faultsIn(document), [], `${id}, ${kind}`)
        const [{ credential } = {}] = document.providers ?? []
        if (credential !== undefined) assert.isUndefined(otherThanHosts(credential, new URL(address)), `${id}, ${kind}`)
      }
    }
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
