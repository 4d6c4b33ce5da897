import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as net from "node:net"
import OpenAI, { toFile } from "openai"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { imageUsage, imageVendor, pixel } from "../../support/media-vendor.ts"
import { type Answerer, type ReceivedFile, sse, startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/v1/images/edits"
const maxUploadBytes = 200_000

const prices = {
  inputUsdPerMTok: 5,
  outputUsdPerMTok: 40,
  imageInputUsdPerMTok: 10,
  imageOutputUsdPerMTok: 40
}
const perImage = imageUsage.text * 5000 + imageUsage.image * 10_000 + imageUsage.output * 40_000
const usdOf = (nanoUsd: number) => nanoUsd / 1e9

const png = Buffer.from(pixel, "base64")

const setting = (caps: ReadonlyArray<object>, answer: Answerer = imageVendor) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const standIn = yield* startProvider(answer)
    const targets = [{ provider: "openai", model: "gpt-image-1" }]
    yield* configure(
      service,
      [provider("openai", standIn)],
      [model("painter", ["openai"], { kind: "image", prices, targets })]
    )
    const { key, tenantId } = yield* spender(service, caps)
    const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
    const rows = (count: number) =>
      Effect.map(
        eventually(
          service.call("GET", `/api/usage?tenantId=${tenantId}`),
          ({ body: { items } }) => items.length === count
        ),
        ({ body: { items } }) => items
      )
    const send = (form: BodyInit, headers: Record<string, string> = {}) =>
      Effect.promise(async () => {
        const response = await fetch(`${service.url}${path}`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, ...headers },
          body: form
        })
        return { status: response.status, body: JSON.parse(await response.text()) }
      })
    return { client, key, rows, send, service, standIn }
  })

const formOf = (fields: Readonly<Record<string, string | Blob>>): FormData => {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  return form
}

const image = new File([png], "a.png", { type: "image/png" })

layer(serviceLayer({ Llm__Gateway__MaxUploadBytes: String(maxUploadBytes) }), {
  excludeTestServices: true,
  timeout: "60 seconds"
})(path, (it) => {
  it.effect("is served unchanged to OpenAI's SDK, with the names and types of its files, at the provider's model", () =>
    Effect.gen(function* () {
      const { client, rows, standIn } = yield* setting([{ limit: 5 }])
      const made = yield* Effect.promise(async () =>
        client.images.edit({
          image: [
            await toFile(png, 'Otter "1" ñ.png', { type: "image/png" }),
            await toFile(Buffer.from("--\r\n--form"), "b.webp", { type: "image/webp" })
          ],
          mask: await toFile(png, "mask.png", { type: "image/png" }),
          prompt: "A hat for the otter — größer",
          model: "painter",
          n: 2,
          size: "1024x1024"
        })
      )
      assert.lengthOf(made.data ?? [], 2)
      const [{ body, headers, path: at }] = standIn.requests as [(typeof standIn.requests)[number]]
      assert.strictEqual(at, path)
      assert.match(String(headers["content-type"]), /^multipart\/form-data; boundary=form-[0-9a-f]{48}$/)
      assert.deepInclude(body, {
        model: "gpt-image-1",
        n: "2",
        prompt: "A hat for the otter — größer",
        size: "1024x1024"
      })
      const files: ReadonlyArray<ReceivedFile> = [...body["image[]"], body.mask]
      assert.deepStrictEqual(
        files.map(({ bytes, filename, type }) => [filename, type, bytes.toString("latin1")]),
        [
          ['Otter "1" ñ.png', "image/png", png.toString("latin1")],
          ["b.webp", "image/webp", "--\r\n--form"],
          ["mask.png", "image/png", png.toString("latin1")]
        ]
      )
      const [row] = yield* rows(1)
      assert.deepInclude(row, {
        costUsd: usdOf(2 * perImage),
        inputTokens: 2 * (imageUsage.text + imageUsage.image),
        operation: "edit-image",
        outputTokens: 2 * imageUsage.output,
        status: 200
      })
    }).pipe(Effect.scoped)
  )

  it.effect("streams its events", () =>
    Effect.gen(function* () {
      const { client, rows } = yield* setting([{ limit: 5 }])
      const types = yield* Effect.promise(async () => {
        const stream = await client.images.edit({
          image: await toFile(png, "a.png", { type: "image/png" }),
          prompt: "A hat",
          model: "painter",
          stream: true,
          partial_images: 1
        })
        const seen: Array<string> = []
        for await (const event of stream) seen.push(event.type)
        return seen
      })
      assert.deepStrictEqual(types, ["image_edit.partial_image", "image_edit.completed"])
      const [row] = yield* rows(1)
      assert.strictEqual(row.costUsd, usdOf(perImage + 100 * 40_000))
    }).pipe(Effect.scoped)
  )

  it.effect("is refused by a hard cap that has no room for the images, which are counted and not believed", () =>
    Effect.gen(function* () {
      // An image of 1024x1024 at low quality costs about a cent; what is read of an image may cost twelve.
      const fields = { model: "painter", prompt: "A hat", size: "1024x1024", quality: "low" }
      const tight = yield* setting([{ limit: 0.1 }])
      const refused = yield* tight.send(formOf({ image, ...fields }))
      assert.deepStrictEqual([refused.status, refused.body.error.type], [402, "insufficient_quota"], refused.body)
      assert.lengthOf(tight.standIn.requests, 0)
      const wide = yield* setting([{ limit: 0.2 }])
      assert.strictEqual((yield* wide.send(formOf({ image, ...fields }))).status, 200)
      const two = yield* wide.send(formOf({ "image[]": image, mask: image, ...fields }))
      assert.strictEqual(two.status, 402)
    }).pipe(Effect.scoped)
  )

  it.effect("is a form with files: anything else is refused, and reaches no provider", () =>
    Effect.gen(function* () {
      const { rows, send, standIn } = yield* setting([])
      const good = { image, model: "painter", prompt: "A hat" }
      const json = yield* send(JSON.stringify({ model: "painter", prompt: "A" }), {
        "content-type": "application/json"
      })
      assert.strictEqual(json.status, 415)
      const cut = yield* send("--b\r\ncontent-disposition: form-data; name=prompt\r\n\r\nA", {
        "content-type": "multipart/form-data; boundary=b"
      })
      assert.deepStrictEqual([cut.status, cut.body.error.code], [400, "invalid_form"])
      assert.strictEqual((yield* send("a", { "content-type": "multipart/form-data" })).status, 400)
      const twice = formOf(good)
      twice.append("model", "other")
      const faults: ReadonlyArray<readonly [FormData, string]> = [
        [twice, "model"],
        [formOf({ ...good, image: "https://example.com/a.png" }), "image"],
        [formOf({ model: "painter", prompt: "A hat" }), "image"],
        [formOf({ ...good, prompt: image }), "prompt"],
        [formOf({ ...good, n: "many" }), "n"],
        [formOf({ ...good, stream: "maybe" }), "stream"]
      ]
      for (const [form, member] of faults) {
        const refused = yield* send(form)
        assert.deepStrictEqual([refused.status, refused.body.error.param], [400, member], JSON.stringify(refused.body))
      }
      const large = yield* send(formOf({ ...good, image: new File([Buffer.alloc(maxUploadBytes)], "a.png") }))
      assert.strictEqual(large.status, 413)
      assert.include(large.body.error.message, "MaxUploadBytes")
      assert.lengthOf(standIn.requests, 0)
      assert.lengthOf(yield* rows(0), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("costs nothing where its caller leaves while it sends the form", () =>
    Effect.gen(function* () {
      const { key, rows, send, service, standIn } = yield* setting([{ limit: 5 }])
      const { hostname, port } = new URL(service.url)
      yield* Effect.promise(
        () =>
          new Promise<void>((resolve) => {
            const socket = net.connect(Number(port), hostname, () => {
              socket.write(
                `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\ncontent-length: 100000\r\n` +
                  "content-type: multipart/form-data; boundary=b\r\n\r\n--b\r\n" +
                  'content-disposition: form-data; name="image"; filename="a.png"\r\n\r\nabc',
                () => socket.destroy()
              )
            })
            socket.on("close", () => resolve())
          })
      )
      const whole = yield* send(formOf({ image, model: "painter", prompt: "A hat" }))
      assert.strictEqual(whole.status, 200)
      assert.lengthOf(yield* rows(1), 1)
      assert.lengthOf(standIn.requests, 1)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "is charged as it was bounded where the provider breaks off, and sent again from its beginning to another",
    () =>
      Effect.gen(function* () {
        const broken = yield* setting([{ limit: 5 }], (_, response) => {
          const event = { type: "image_edit.partial_image", b64_json: pixel, partial_image_index: 0 }
          sse(response, [event])
          setImmediate(() => response.destroy())
        })
        yield* Effect.promise(async () => {
          const form = formOf({
            image,
            model: "painter",
            prompt: "A hat",
            size: "1024x1024",
            quality: "low",
            stream: "true"
          })
          const headers = { authorization: `Bearer ${broken.key}` }
          const response = await fetch(`${broken.service.url}${path}`, { method: "POST", headers, body: form })
          assert.include(await response.text(), '"error"')
        })
        const [row] = yield* broken.rows(1)
        assert.deepInclude(row, { outputTokens: 272, method: "estimated" })
        const service = yield* TestService
        const failing = yield* startProvider((_, response) => response.writeHead(503).end())
        const good = yield* startProvider(imageVendor)
        const targets = ["failing", "good"].map((id) => ({ provider: id, model: "gpt-image-1" }))
        yield* configure(
          service,
          [provider("failing", failing), provider("good", good)],
          [model("painter", [], { kind: "image", prices, targets })],
          { strategy: "priority" }
        )
        const made = yield* broken.send(formOf({ image, model: "painter", prompt: "A hat" }))
        assert.strictEqual(made.status, 200, JSON.stringify(made.body))
        assert.deepStrictEqual(failing.requests[0]?.body, good.requests[0]?.body)
      }).pipe(Effect.scoped)
  )

  it.effect("is answered by the loopback model too", () =>
    Effect.gen(function* () {
      const { send } = yield* setting([])
      const made = yield* send(formOf({ image, model: "loopback-1", prompt: "A hat", n: "2" }))
      assert.strictEqual(made.status, 200, JSON.stringify(made.body))
      assert.lengthOf(made.body.data, 2)
    }).pipe(Effect.scoped)
  )
})
