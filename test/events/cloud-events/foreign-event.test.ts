import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { isOwnSource, requireForeign } from "../../../src/events/cloud-events/foreign-event.ts"

const publicUrl = "https://am.example"
const tenant = "0198a5b0-7c00-7000-8000-00000000002a"

describe("the source of an event of others", () => {
  it.each([
    "/system",
    "/system/",
    "/system?x",
    "/system#x",
    "/system;v=1",
    "/SYSTEM",
    "/./system",
    "/x/../system",
    "/x//../system",
    "//system",
    "///system",
    "system",
    "./system",
    "../system",
    "/%73ystem/%ff",
    "/%73ystem",
    "/%2573ystem",
    "/system%3Fx",
    "/x%3F/../system",
    "/%2e%2e/system",
    "/x/%2E%2E/system",
    "/x/..%2Fsystem",
    "\\system",
    "/x\\..\\system",
    "/x%5C..%5Csystem",
    "/ｓystem",
    "/tenants",
    `/tenants/${tenant}`,
    `/tenants?${tenant}`,
    `/Tenants/${tenant}`,
    `//tenants/${tenant}`,
    `https://am.example/tenants/${tenant}`,
    "https://am.example/system",
    "http://am.example/system",
    "HTTPS://AM.Example:443/system",
    "https://am.example./system",
    "https://user@am.example/system",
    "https://am.example//x/../system",
    "//am.example/system",
    "https:/system",
    "https:system",
    "URN:Application-Manager:event"
  ])("%s is this service's", (source) => {
    assert.isTrue(isOwnSource(source, publicUrl))
    assert.isTrue(isOwnSource(source, `${publicUrl}/`))
  })

  it.each([
    "https://shop.example.com/orders",
    "https://shop.example/system",
    "https://am.example.com/system",
    "https://am.example/shop",
    "//shop.example/system",
    "/shop",
    "/shop/system",
    "/shop/tenants/7",
    "/systems",
    "/tenants-of-shop",
    "/shop?next=/system",
    "/shop#/system",
    "shop",
    "app:1234",
    "urn:example:system",
    "tag:shop.example,2026:system",
    "/a%zz"
  ])("%s is not", (source) => {
    assert.isFalse(isOwnSource(source, publicUrl))
  })

  it.each(["/am/system", `https://am.example/am/tenants/${tenant}`, "https://am.example/AM/system", "/system"])(
    "%s is where the service has a path of its own",
    (source) => {
      assert.isTrue(isOwnSource(source, "https://am.example/am"))
    }
  )
})

const refusalOf = (type: string, source = "/shop") =>
  Effect.runSync(Effect.flip(requireForeign({ specversion: "1.0", id: "1", source, type }, publicUrl)))

describe("the type of an event of others", () => {
  it.each([
    "com.application-manager.trial-user.created",
    "Com.Application-Manager.trial-user.created",
    "COM.APPLICATION-MANAGER.USAGE.RECORDED",
    "com.application-manager",
    "com.application-manager.",
    "com.application-manager.usage.recorded.x",
    "ｃom.application-manager.x"
  ])("%s is refused", (type) => {
    assert.include(refusalOf(type).detail, type)
  })

  it.each(["com.application-manager.usage.recorded", "com.application-managers.x", "org.application-manager.x"])(
    "%s is taken",
    (type) => {
      Effect.runSync(requireForeign({ specversion: "1.0", id: "1", source: "/shop", type }, publicUrl))
    }
  )

  it("a refusal names what is wrong, and what to send", () => {
    assert.match(refusalOf("com.example.x", "/./system").detail, /\/\.\/system .*Send a URI of your own/)
    assert.match(refusalOf("Com.application-manager.x").detail, /Send a type of your own/)
  })
})
