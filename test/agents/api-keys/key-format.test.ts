import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { createHash } from "node:crypto"
import { crc32 } from "node:zlib"
import { digestOf, generate, parse, start } from "../../../src/agents/api-keys/key-format.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const newKey = Effect.gen(function* () {
  const made = yield* generate(yield* SecureRandom.SecureRandom, yield* Digest.Digest)
  return { ...made, key: Redacted.value(made.key) }
})

const replaced = (text: string, index: number, by: string) => text.slice(0, index) + by + text.slice(index + by.length)

layer(Layer.mergeAll(SecureRandom.layerWebCrypto, Digest.layerWebCrypto))("the form of an API key", (it) => {
  it.effect("a key is amk_ and base62: 12 characters of public id, 43 of secret, 6 of CRC-32 over all before", () =>
    Effect.gen(function* () {
      const { key, publicId } = yield* newKey
      assert.match(key, /^amk_[0-9A-Za-z]{61}$/)
      assert.strictEqual(key.slice(4, 16), publicId)
      const number = Array.from(key.slice(-6)).reduce((sum, digit) => sum * 62 + alphabet.indexOf(digit), 0)
      assert.strictEqual(number, crc32(key.slice(0, -6)))
    })
  )

  it.effect("parsing a new key gives its public id and the secret whose SHA-256 is stored", () =>
    Effect.gen(function* () {
      for (let count = 0; count < 200; count++) {
        const { key, publicId, secretSha256 } = yield* newKey
        const parsed = parse(key)
        assert.deepStrictEqual(parsed, { publicId, secret: key.slice(16, 59) })
        const sha256 = createHash("sha256").update(key.slice(16, 59)).digest("hex")
        assert.strictEqual(Buffer.from(secretSha256).toString("hex"), sha256)
        assert.deepStrictEqual(yield* digestOf(yield* Digest.Digest, key.slice(16, 59)), secretSha256)
        assert.strictEqual(start(publicId), key.slice(0, 16))
      }
    })
  )

  it.effect("every new key is another, and uses the whole alphabet", () =>
    Effect.gen(function* () {
      const keys = yield* Effect.all(Array.from({ length: 200 }, () => newKey))
      assert.strictEqual(new Set(keys.map(({ publicId }) => publicId)).size, 200)
      assert.strictEqual(new Set(keys.map(({ key }) => key.slice(16, 59))).size, 200)
      assert.strictEqual(new Set(keys.map(({ key }) => key.slice(4, 59)).join("")).size, 62)
    })
  )

  it.effect("a new key is not shown by printing it", () =>
    Effect.gen(function* () {
      const { key } = yield* generate(yield* SecureRandom.SecureRandom, yield* Digest.Digest)
      assert.notInclude(String(key), "amk_")
      assert.notInclude(JSON.stringify({ key }), "amk_")
    })
  )

  it.effect("the checksum catches every change of a single character", () =>
    Effect.gen(function* () {
      const { key } = yield* newKey
      for (let index = 0; index < key.length; index++) {
        for (const character of `${alphabet}-_ é`) {
          if (character !== key[index])
            assert.isUndefined(parse(replaced(key, index, character)), `${index} ${character}`)
        }
      }
    })
  )

  it.effect("the checksum catches every swap of neighbours, missing character and doubled character", () =>
    Effect.gen(function* () {
      for (let count = 0; count < 50; count++) {
        const { key } = yield* newKey
        for (let index = 0; index < key.length; index++) {
          const [here = "", next = ""] = [key[index], key[index + 1]]
          if (next !== "" && here !== next) assert.isUndefined(parse(replaced(key, index, next + here)))
          assert.isUndefined(parse(key.slice(0, index) + key.slice(index + 1)))
          assert.isUndefined(parse(key.slice(0, index) + here + key.slice(index)))
        }
      }
    })
  )

  it.effect("wrong forms are none", () =>
    Effect.gen(function* () {
      const { key } = yield* newKey
      const wrong = [
        "",
        "amk_",
        "amk",
        key.slice(4),
        key.slice(0, -6),
        key.toUpperCase(),
        key.replace("amk_", "AMK_"),
        key.replace("amk_", "amk-"),
        key.replace("amk_", "sk_"),
        ` ${key}`,
        `${key} `,
        `${key}\n`,
        `${key}, ${key}`,
        `Bearer ${key}`,
        "amk_".padEnd(65, "0"),
        "amk_".padEnd(65, "é"),
        "a".repeat(100_000)
      ]
      for (const text of wrong) assert.isUndefined(parse(text), text.slice(0, 80))
    })
  )

  it.prop("no other text is taken for a key", [Schema.String], ([text]) => {
    assert.isUndefined(parse(text))
    assert.isUndefined(parse(`amk_${text}`))
  })
})
