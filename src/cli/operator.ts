import "../platform/runtime/json-parse.ts"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, Layer, Option, Redacted, Schema } from "effect"
import { Prompt } from "effect/cli"
import { SecureRandom } from "effect/crypto"
import { AuthCacheInvalidation } from "../access/auth-cache-invalidation.ts"
import { Applications } from "../applications/applications/service.ts"
import { ConfigurationSoftDelete } from "../applications/configuration/soft-delete/service.ts"
import { Roles } from "../applications/roles/service.ts"
import { asSystem, Audit } from "../audit/log/service.ts"
import { Email } from "../kernel/email.ts"
import { AccountName, NewPassword } from "../people/accounts/domain.ts"
import { Passwords } from "../people/accounts/passwords.ts"
import { Accounts } from "../people/accounts/service.ts"
import { SignInAccounts } from "../people/accounts/sign-in-accounts.ts"
import { ClaimLinks } from "../people/sign-in/initial-admin-setup.ts"
import { AccountSessionTermination } from "../people/sign-in/termination.ts"
import { DigestLayer } from "../platform/crypto/node-crypto.ts"
import { DatabaseConnection, JoiningDatabaseLayer } from "../platform/database/connection.ts"
import { Notifications } from "../platform/database/notifications.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Unusable } from "../platform/runtime/unusable.ts"
import { Settings } from "../platform/settings/settings.ts"
import { TrialSessions } from "../trials/sessions/service.ts"
import { TrialSessionTermination } from "../trials/sessions/termination.ts"
import { TrialUsers } from "../trials/users/service.ts"
import { explained } from "./start-failure.ts"

const usage = `npm run operator -- claim
npm run operator -- create EMAIL [--name NAME] [--password-stdin]
npm run operator -- password EMAIL [--password-stdin]

claim prints a link that creates the first account in a browser; it works once, for 30 minutes. create makes an account
that may do everything (Administrator); password gives an account another password and ends its sessions. On a terminal
the password is asked for, and an empty one is made; elsewhere it is made and printed, or read from the standard input
with --password-stdin. Settings as for the service, such as --Database:Directory=DIRECTORY; the service may be running.`

type Words = Claim | OfAccount

interface Claim {
  readonly command: "claim"
  readonly settings: ReadonlyArray<string>
}

interface OfAccount {
  readonly command: "create" | "password"
  readonly email: typeof Email.Type
  readonly name: string | undefined
  readonly fromInput: boolean
  readonly settings: ReadonlyArray<string>
}

const readWords = (given: ReadonlyArray<string>): Words | undefined => {
  if (given[0] === "claim") return { command: "claim", settings: given.slice(1) }
  const words = [...given]
  const take = (flag: string, count: number): ReadonlyArray<string> => {
    const at = words.indexOf(flag)
    return at < 0 ? [] : words.splice(at, count)
  }
  const fromInput = take("--password-stdin", 1).length > 0
  const [hasName, name] = take("--name", 2)
  const [command, email, ...settings] = words
  const read = Schema.decodeUnknownOption(Schema.Struct({ email: Email, name: Schema.optionalKey(AccountName) }))
  const named = read({ email, ...(hasName === undefined ? {} : { name }) })
  return (command === "create" || command === "password") && Option.isSome(named)
    ? { command, name: undefined, ...named.value, fromInput, settings }
    : undefined
}

const say = (text: string) => Effect.sync(() => process.stdout.write(`${text}\n`))

const firstLineOfInput = Effect.promise(async () => {
  const chunks: Array<Buffer> = []
  for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk as Uint8Array))
  return Buffer.concat(chunks).toString("utf8").split(/\r?\n/)[0] ?? ""
})

/** The password to give, and whether it was made here and so has to be shown. */
const choosePassword = Effect.fnUntraced(function* (fromInput: boolean) {
  const ask = Prompt.run(Prompt.Password({ message: "Password (12 to 128 characters; empty makes one)" }))
  const given = fromInput ? yield* firstLineOfInput : process.stdin.isTTY ? Redacted.value(yield* ask) : ""
  if (given === "" && fromInput) return yield* new Unusable({ message: "The standard input holds no password." })
  if (given !== "") {
    const password = Effect.mapError(
      Schema.decodeEffect(NewPassword)(given),
      ({ message }) => new Unusable({ message: `The password cannot be used: ${message}` })
    )
    return { isMade: false, password: yield* password }
  }
  const random = yield* SecureRandom.SecureRandom
  const made = Buffer.from(yield* random.randomBytes(18)).toString("base64url")
  return { isMade: true, password: Redacted.make(made, { label: "password" }) }
})

const printClaimLink = Effect.gen(function* () {
  const link = yield* (yield* ClaimLinks).make
  if (Option.isNone(link)) return yield* new Unusable({ message: 'There is an account; "create" makes another one.' })
  yield* say(Redacted.value(link.value))
})

const runOnAccount = Effect.fnUntraced(function* ({ command, email, fromInput, name }: OfAccount) {
  const accounts = yield* Accounts
  const { embeddedIn } = yield* DatabaseConnection
  const where = Option.getOrElse(embeddedIn, () => "Database:Url")
  const credentials = yield* SignInAccounts
  const found = yield* credentials.candidates(email, null)
  const ofInstallation = found.find(({ tenantId }) => tenantId === null)
  const known = ofInstallation ?? (command === "password" && found.length === 1 ? found[0] : undefined)
  if (command === "password" && known === undefined && found.length > 1) {
    return yield* new Unusable({ message: `Accounts of several tenants have the address ${email}; use /api/accounts.` })
  }
  if (command === "create" && known !== undefined) {
    return yield* new Unusable({ message: `There is an account ${email}; "password" gives it another password.` })
  }
  if (command === "password" && known === undefined) {
    return yield* new Unusable({ message: `There is no account ${email}; "create" makes it.` })
  }
  const { isMade, password } = yield* choosePassword(fromInput)
  if (known === undefined) {
    const { id: role } = yield* (yield* Roles).getServiceRole("Administrator")
    yield* accounts.create({
      email,
      name: name ?? email.slice(0, email.indexOf("@")),
      password,
      roleIds: [role],
      tenantId: null
    })
    yield* say(`${email} is an Administrator now (database: ${where}).`)
  } else {
    yield* accounts.update(known.id, { password })
    yield* say(`${email} has another password now (database: ${where}); its sessions have ended.`)
  }
  if (isMade) yield* say(`Password: ${Redacted.value(password)}`)
})

const Services = ClaimLinks.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(Accounts.layer, SignInAccounts.layer)),
  Layer.provideMerge(Layer.mergeAll(AccountSessionTermination.layer, Passwords.layer)),
  Layer.provideMerge(Layer.mergeAll(TrialSessions.layer, Roles.layer)),
  Layer.provideMerge(Layer.mergeAll(TrialUsers.layer, Applications.layer)),
  Layer.provideMerge(Layer.mergeAll(TrialSessionTermination.layer, ConfigurationSoftDelete.layer)),
  Layer.provideMerge(Layer.mergeAll(Audit.layer, AuthCacheInvalidation.layer)),
  Layer.provideMerge(Notifications.layer),
  Layer.provideMerge(Layer.mergeAll(NodeCrypto.layerSecureRandom, DigestLayer))
)

const Log = Layer.unwrap(
  Effect.map(Settings, ({ logging }) => Logging.layer({ level: "Warn", format: logging.format }))
)

const run = Effect.fnUntraced(function* (words: Words) {
  yield* words.command === "claim" ? printClaimLink : runOnAccount(words)
})

const environmentOf = (words: Words) =>
  Services.pipe(
    Layer.provideMerge(JoiningDatabaseLayer),
    Layer.provide(Log),
    Layer.provide(Settings.layerWith(words.settings))
  )

/** `npm run operator`: accounts for people who cannot sign in yet, or any more. */
const main = Effect.suspend((): Effect.Effect<void, unknown, NodeServices.NodeServices> => {
  const given = process.argv.slice(2)
  if (given.includes("--help")) return Effect.asVoid(say(usage))
  const words = readWords(given)
  return words === undefined
    ? explained([])(Effect.fail(new Unusable({ message: usage })))
    : run(words).pipe(asSystem, Effect.provide(environmentOf(words)), explained(words.settings))
})

NodeRuntime.runMain(Effect.provide(main, NodeServices.layer))
