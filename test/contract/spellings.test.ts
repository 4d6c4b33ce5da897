import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { signedInService } from "../platform/http/bad-input.ts"
import { bodyWith, type DocumentedCall, operations } from "../support/operations.ts"
import { TestService } from "../support/service.ts"

type Member = DocumentedCall["textMembers"][number]

const blank = /not blank/
/** What nobody sees, which a check of blanks alone takes. */
const unseen = ["\u200b", "\u2800\u3164", "\u00ad\ufeff", "\u200e"]

const readers = operations.filter(({ readsJson, textMembers }) => readsJson && textMembers.length > 0)

layer(signedInService, { excludeTestServices: true, timeout: "60 seconds" })("what people call a thing", (it) => {
  const seen: Array<string> = []
  const asWritten: Array<string> = []

  for (const operation of readers) {
    it.effect(`is seen, and is composed, wherever ${operation.name} takes it`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const faultsWith = (member: Member, value: string) =>
          service
            .call(operation.method, operation.address(), { body: bodyWith(member, value) })
            .pipe(
              Effect.map(({ body }): ReadonlyArray<string> =>
                (body?.errors ?? []).flatMap(({ message, path }: { message: string; path: ReadonlyArray<string> }) =>
                  path.join(".") === `payload.${member.join(".")}` ? [message] : []
                )
              )
            )
        for (const member of operation.textMembers) {
          const refusals = yield* faultsWith(member, " ")
          if (!refusals.some((message) => blank.test(message))) continue
          const at = `${operation.name} ${member.join(".")}`
          seen.push(at)
          for (const text of unseen) assert.isNotEmpty(yield* faultsWith(member, text), `${at} ${JSON.stringify(text)}`)
          assert.isEmpty(yield* faultsWith(member, "می‌خواهم"), at)
          const [tooLong = ""] = yield* faultsWith(member, "x".repeat(6000))
          const most = Number(/and ([\d,]+)/.exec(tooLong)?.[1])
          assert.isAbove(most, 0, `${at} ${tooLong}`)
          const composed = yield* faultsWith(member, "ễ".normalize("NFD").repeat(most))
          if (composed.length > 0) asWritten.push(at)
        }
      })
    )
  }

  it("is asked for in many places; what others define stays as they write it", () => {
    assert.isAbove(seen.length, 40)
    const ofOthers = [
      "kid",
      "subject",
      "claimMapping.email",
      "claimMapping.emailVerified",
      "claimMapping.name",
      "clientId"
    ]
    assert.sameMembers([...new Set(asWritten.map((at) => at.split(" ")[1]))], ofOthers)
  })
})
