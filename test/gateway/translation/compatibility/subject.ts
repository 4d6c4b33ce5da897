import type Anthropic from "@anthropic-ai/sdk"
import { assert } from "@effect/vitest"
import type OpenAI from "openai"
import { type Answerer, type ProviderStandIn } from "../../../support/provider.ts"
import { calledWith, said } from "../../../support/vendors.ts"

export const providers = ["OpenAI", "Anthropic", "Responses API", "loopback"] as const
export type ProviderName = (typeof providers)[number]

/** The clients of both vendors before the gateway, and the provider behind it. */
export interface Subject {
  readonly provider: ProviderName
  readonly model: string
  /** The same model with a provider that answers within a second, or not at all. */
  readonly hurriedModel: string
  readonly openai: OpenAI
  readonly anthropic: Anthropic
  /** Of a provider that is reached over the network. */
  readonly standIn: ProviderStandIn | undefined
}

/** What a client of one vendor can do through the gateway; a text says how, where that is not as usual. */
export type Check = (subject: Subject) => Promise<string | undefined>

/** Names the tools, since the loopback model calls one when it hears of it; so does every stand-in. */
export const question = "What do weather and tide say?"
export const toolResult = "12:00"
export const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false
} as const

/** What is said in answer to words: the loopback model echoes them. */
export const answerTo = ({ standIn }: Subject, words: string): string => (standIn === undefined ? words : said)
export const argumentsFor = ({ standIn }: Subject): object => (standIn === undefined ? { city: question } : calledWith)

/** The body that the provider received last, in the dialect of its vendor. */
export const received = ({ standIn }: Subject) => standIn?.requests.at(-1)?.body ?? assert.fail("nothing came")

/** The parts of the first message that the provider received, after its first one. */
export const receivedParts = (subject: Subject): ReadonlyArray<object> => {
  const { input, messages } = received(subject)
  return (messages ?? input)[0].content.slice(1)
}

/** Lets the provider answer in another way for as long as `work` takes. */
export const answering = async <A>({ standIn }: Subject, answer: Answerer, work: () => Promise<A>): Promise<A> => {
  if (standIn === undefined) return assert.fail("no stand-in")
  const usual = standIn.answer
  standIn.answer = answer
  try {
    return await work()
  } finally {
    standIn.answer = usual
  }
}

export const all = async <A>(items: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const gathered: Array<A> = []
  for await (const item of items) gathered.push(item)
  return gathered
}

/** Does one piece of work after the other. */
export const inTurn = <A>(items: ReadonlyArray<A>, work: (item: A) => Promise<void>): Promise<void> =>
  items.reduce((before, item) => before.then(() => work(item)), Promise.resolve())

/** The error that a call of an SDK ends with. */
// oxlint-disable-next-line typescript/no-explicit-any -- errors of two SDKs
export const failing = (work: Promise<unknown>): Promise<any> =>
  work.then(
    () => assert.fail("it succeeded"),
    (error: unknown) => error
  )

/** A pixel. */
export const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
export const imageUrl = "https://pictures.example.com/noon.png"
export const pdf = Buffer.from("%PDF-1.4\n").toString("base64")
