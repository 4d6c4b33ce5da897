import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { configure, model, provider, readAll, spender } from "../../support/gateway.ts"
import { json, type ProviderStandIn, startProvider } from "../../support/provider.ts"
import { makeResponsesVendor } from "../../support/responses-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor } from "../../support/vendors.ts"
import {
  type DestinationName,
  destinations,
  documented,
  type FormatName,
  formats,
  ownDestination,
  withMember
} from "./compatibility/members.ts"

const tableFile = path.resolve(import.meta.dirname, "members.md")

const geminiAnswer = {
  candidates: [{ content: { role: "model", parts: [{ text: "Noon." }] }, finishReason: "STOP" }],
  usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 }
}

class Bench extends Context.Service<
  Bench,
  {
    readonly key: string
    readonly standIns: Readonly<Record<DestinationName, ProviderStandIn>>
  }
>()("test/MembersBench") {}

const bench = Layer.effect(
  Bench,
  Effect.gen(function* () {
    const service = yield* TestService
    const openai = yield* startProvider(openAiVendor)
    const anthropic = yield* startProvider(anthropicVendor)
    const gemini = yield* startProvider((_, response) => json(response, 200, geminiAnswer))
    const responses = yield* startProvider(makeResponsesVendor())
    yield* configure(
      service,
      [
        provider("openai", openai),
        provider("anthropic", anthropic, { dialect: "anthropic", baseUrl: anthropic.url }),
        provider("gemini", gemini, { dialect: "gemini", baseUrl: `${gemini.url}/v1beta` }),
        provider("responses", responses, { apis: ["responses"] })
      ],
      [
        model("to-openai", ["openai"]),
        { ...model("to-anthropic", []), targets: [{ provider: "anthropic", model: "claude-sonnet-4-5" }] },
        { ...model("to-gemini", []), targets: [{ provider: "gemini", model: "gemini-2.5-pro" }] },
        model("to-responses", ["responses"])
      ]
    )
    const { key } = yield* spender(service, [])
    const standIns = { OpenAI: openai, Anthropic: anthropic, Gemini: gemini, "Responses API": responses }
    return { key, standIns }
  })
)

const models: Readonly<Record<DestinationName, string>> = {
  OpenAI: "to-openai",
  Anthropic: "to-anthropic",
  Gemini: "to-gemini",
  "Responses API": "to-responses"
}
const paths: Readonly<Record<Exclude<FormatName, "gemini">, string>> = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses"
}

/** Members that the gateway reads itself, and what it does with them. */
const readHere: Readonly<Record<string, string>> = {
  "responses max_tool_calls": "limits tools of the provider",
  "responses metadata": "in the usage row",
  "responses reasoning.summary": "thoughts come anyway",
  "responses truncation": "by the gateway"
}

const asked = Effect.fnUntraced(function* (format: FormatName, to: DestinationName, body: object) {
  const service = yield* TestService
  const { key, standIns } = yield* Bench
  const { [to]: standIn } = standIns
  const before = standIn.requests.length
  const name = models[to]
  const url = format === "gemini" ? `/v1beta/models/${name}:generateContent` : paths[format]
  const answer = yield* readAll(service, key, url, format === "gemini" ? body : { ...body, model: name })
  const sent = standIn.requests.length > before ? standIn.requests.at(-1)?.body : undefined
  return { ...answer, sent: sent === undefined ? undefined : JSON.stringify(sent) }
})

/** What becomes of a member on its way to a provider, and what is wrong with that. */
const fate = Effect.fnUntraced(function* (format: FormatName, member: string, to: DestinationName) {
  const [given, without] = withMember(format, member)
  const name = member.split(".").at(-1) ?? ""
  const least = yield* asked(format, to, without)
  const answer = yield* asked(format, to, given)
  const { beside, value } = documented[format][member]!
  // What it needs beside it may be refused first; an id that the gateway did not give out is named itself.
  const names = [name, ...Object.values(beside ?? {}).flatMap(Object.keys), ...Object.keys(beside ?? {}), value]
  const isNamed = (text: string) => names.some((one) => typeof one === "string" && text.includes(one))
  if (answer.sent === undefined) {
    const isClear = answer.status >= 400 && answer.status < 500 && isNamed(answer.text)
    return { found: "refused", fault: isClear ? undefined : `${answer.status} ${answer.text}` }
  }
  const omitted = ["members", "items", "tools"].flatMap((kind) => answer.headers.get(`x-omitted-${kind}`) ?? [])
  if (omitted.length > 0) return { found: "left out", fault: isNamed(omitted.join()) ? undefined : omitted.join() }
  if (answer.sent !== least.sent) return { found: "carried", fault: undefined }
  const here = readHere[`${format} ${member}`]
  return { found: here ?? "lost", fault: here === undefined ? "lost without a word" : undefined }
})

const cells = new Map<string, string>()

const markdown = (): string =>
  [
    "# What becomes of each member of a request",
    "",
    "Written by `test/gateway/translation/members.test.ts` (`npm run compatibility`), which sends each member that a vendor documents",
    "to a provider of each kind. A member that is not in the table is carried to all of them. _Left out_: the answer names it in",
    "`x-omitted-members`. _Refused_: 400, with the path of the member.",
    "",
    ...formats.flatMap((format) => {
      const columns = destinations.filter((to) => to !== ownDestination[format])
      const rows = Object.keys(documented[format])
        .map((member) => [`\`${member}\``].concat(columns.map((to) => cells.get(`${format} ${member} ${to}`) ?? "–")))
        .filter(([, ...fates]) => fates.some((one) => one !== "carried"))
      const titles = { chat: "Chat completions", messages: "Messages", responses: "Responses", gemini: "Gemini" }
      return [
        `## ${titles[format]}`,
        "",
        ...[["Member", ...columns], ["---", ...columns.map(() => "---")], ...rows].map(
          (row) => `| ${row.join(" | ")} |`
        ),
        ""
      ]
    })
  ].join("\n")

const cellsOf = (text: string) =>
  text
    .trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim().replace(/^-+$/, "-")))

layer(bench.pipe(Layer.provideMerge(sharedServiceLayer)), { excludeTestServices: true, timeout: "60 seconds" })(
  "each member of a request",
  (it) => {
    for (const format of formats) {
      for (const to of destinations) {
        if (to === ownDestination[format]) continue
        it.effect(`of ${format} is carried to ${to}, or named, or refused`, () =>
          Effect.gen(function* () {
            const faults: Array<string> = []
            for (const member of Object.keys(documented[format])) {
              const { fault, found } = yield* fate(format, member, to)
              cells.set(`${format} ${member} ${to}`, found)
              if (fault !== undefined) faults.push(`${member}: ${fault}`)
            }
            assert.deepStrictEqual(faults, [])
          })
        )
      }
    }

    it.effect("is in the table where it is not carried everywhere", () =>
      Effect.sync(() => {
        const found = markdown()
        if (process.env.COMPATIBILITY === "write") fs.writeFileSync(tableFile, found)
        assert.deepStrictEqual(cellsOf(fs.readFileSync(tableFile, "utf8")), cellsOf(found))
      })
    )
  }
)
