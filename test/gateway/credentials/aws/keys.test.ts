import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Effect, Fiber, FileSystem, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as jose from "jose"
import { awsServiceOf } from "../../../../src/gateway/credentials/aws/hosts.ts"
import { awsKeys } from "../../../../src/gateway/credentials/aws/keys.ts"
import { awsSigner, makeAwsClock } from "../../../../src/gateway/credentials/aws/signer.ts"
import { type AwsCredential } from "../../../../src/gateway/credentials/domain.ts"
import { credentialSources } from "../../../../src/gateway/credentials/sources.ts"
import { makeTokenSource } from "../../../../src/gateway/credentials/token-source.ts"
import { CredentialAddresses, makeCredentialHttp } from "../../../../src/gateway/credentials/vendor-exchange.ts"
import { OutboundHttp } from "../../../../src/platform/outbound/outbound-http.ts"
import { type AwsTrust, environmentKeys, externalId, region, role, startAws } from "../../../support/aws-vendor.ts"
import { realClock } from "../../../support/clock.ts"
import { withCredentialVendors } from "../../../support/credential-vendors.ts"
import { type ProviderStandIn } from "../../../support/provider.ts"
import { eventually } from "../../../support/waiting.ts"

let current: ProviderStandIn | undefined

const layers = Layer.merge(OutboundHttp.layer, NodeFileSystem.layer).pipe(
  Layer.provideMerge(
    Layer.succeed(
      CredentialAddresses,
      withCredentialVendors(() => current)
    )
  )
)

const makeIssuer = Effect.promise(async () => {
  const { privateKey, publicKey } = await jose.generateKeyPair("RS256", { extractable: true })
  const issuer = "https://gateway.example.com/workload"
  const keys = jose.createLocalJWKSet({ keys: [{ ...(await jose.exportJWK(publicKey)), alg: "RS256" }] })
  const trust: AwsTrust = { keys, issuer, subject: "provider:aws" }
  const issue = (audience: string) =>
    Effect.promise(async () => {
      const made = new jose.SignJWT({ sub: trust.subject, iss: issuer, aud: audience })
      return Redacted.make(await made.setProtectedHeader({ alg: "RS256" }).setExpirationTime("5 min").sign(privateKey))
    })
  return { issue, trust }
})

/** A stand-in for AWS, and the chain of keys against it, with an environment of the test. */
const setting = Effect.fnUntraced(function* () {
  const { issue, trust } = yield* makeIssuer
  const vendor = yield* startAws(trust)
  current = vendor.standIn
  yield* TestClock.setTime(Date.now())
  const files = yield* FileSystem.FileSystem
  const http = yield* makeCredentialHttp
  const environment: Record<string, string> = {}
  const sources = {
    ...credentialSources(files, () => Effect.succeed({ key: undefined }), issue),
    environment: (name: string) => environment[name]
  }
  const clock = makeAwsClock(yield* Clock.Clock)
  const keys = (given: Omit<AwsCredential, "type"> = {}) =>
    awsKeys(http, sources, { type: "aws", ...given }, { region, clock })
  const directory = yield* files.makeTempDirectoryScoped()
  const write = (name: string, text: string) =>
    Effect.as(files.writeFileString(`${directory}/${name}`, text), `${directory}/${name}`)
  return { ...vendor, clock, environment, issue, keys, write }
})

const inEnvironment = {
  AWS_ACCESS_KEY_ID: environmentKeys.accessKeyId,
  AWS_SECRET_ACCESS_KEY: environmentKeys.secretAccessKey
}

const detailOf = (keys: ReturnType<typeof awsKeys>) => Effect.map(Effect.flip(keys), ({ detail }) => detail)

const oneHour = 3_600_000

layer(layers)("the keys of AWS", (it) => {
  it.effect("are those of the environment, without a request", () =>
    Effect.gen(function* () {
      const { environment, keys, standIn } = yield* setting()
      Object.assign(environment, inEnvironment, { AWS_WEB_IDENTITY_TOKEN_FILE: "/nowhere", AWS_ROLE_ARN: role })
      const { value } = yield* keys()
      assert.strictEqual(Redacted.value(value.secretAccessKey), environmentKeys.secretAccessKey)
      assert.isUndefined(value.sessionToken)
      environment.AWS_SESSION_TOKEN = "a-session"
      const { sessionToken } = (yield* keys()).value
      assert.strictEqual(sessionToken && Redacted.value(sessionToken), "a-session")
      assert.lengthOf(standIn.requests, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("are those of a role for the web identity in a file, which is read each time", () =>
    Effect.gen(function* () {
      const { environment, issue, keys, standIn, state, write } = yield* setting()
      const file = yield* write("token", Redacted.value(yield* issue("another")))
      Object.assign(environment, { AWS_WEB_IDENTITY_TOKEN_FILE: file, AWS_ROLE_ARN: role })
      assert.strictEqual(yield* detailOf(keys()), "sts.us-east-1.amazonaws.com answered 400 InvalidIdentityToken")
      yield* write("token", `${Redacted.value(yield* issue("sts.amazonaws.com"))}\n`)
      const { lifetimeMillis, value } = yield* keys()
      assert.strictEqual(
        state.keys.get(Redacted.value(value.accessKeyId))?.sessionToken,
        value.sessionToken && Redacted.value(value.sessionToken)
      )
      assert.isAtMost(Math.abs(lifetimeMillis - oneHour), 1000)
      assert.notProperty(standIn.requests.at(-1)?.headers, "authorization")
      environment.AWS_ROLE_ARN = `${role}-of-others`
      assert.strictEqual(yield* detailOf(keys()), "sts.us-east-1.amazonaws.com answered 403 AccessDenied")
      environment.AWS_WEB_IDENTITY_TOKEN_FILE = "/nowhere/at-all"
      assert.strictEqual(yield* detailOf(keys()), "/nowhere/at-all cannot be read (NotFound)")
    }).pipe(Effect.scoped)
  )

  it.effect("are those of a role for an assertion of the gateway's issuer", () =>
    Effect.gen(function* () {
      const { keys } = yield* setting()
      const { value } = yield* keys({ roleArn: role, assertion: "issuer" })
      assert.match(Redacted.value(value.accessKeyId), /^ASIAISSUED/)
      assert.strictEqual(yield* detailOf(keys({ assertion: "issuer" })), "An assertion needs `roleArn`")
    }).pipe(Effect.scoped)
  )

  it.effect("assume a role with the keys that are found, and what it asks for, in a signed request", () =>
    Effect.gen(function* () {
      const { environment, keys, standIn, state } = yield* setting()
      Object.assign(environment, inEnvironment)
      const { value } = yield* keys({ roleArn: role, externalId })
      assert.match(Redacted.value(value.accessKeyId), /^ASIAISSUED/)
      assert.strictEqual(
        yield* detailOf(keys({ roleArn: role })),
        "sts.us-east-1.amazonaws.com answered 403 AccessDenied"
      )
      // A wrong clock is set once, by the answer.
      state.ahead = -900_000
      yield* keys({ roleArn: role, externalId })
      yield* keys({ roleArn: role, externalId })
      assert.lengthOf(standIn.requests, 5)
      environment.AWS_SECRET_ACCESS_KEY = "another"
      const wrong = yield* detailOf(keys({ roleArn: role, externalId }))
      assert.strictEqual(wrong, "sts.us-east-1.amazonaws.com answered 403 InvalidSignature")
      assert.lengthOf(standIn.requests, 6)
    }).pipe(Effect.scoped)
  )

  it.effect("are those of the container, at its own addresses alone, with a token that is read each time", () =>
    Effect.gen(function* () {
      const { environment, keys, standIn, state, write } = yield* setting()
      environment.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI = "/v2/credentials/1"
      environment.AWS_CONTAINER_AUTHORIZATION_TOKEN = state.containerToken
      assert.strictEqual((yield* keys()).value.sessionToken === undefined, false)
      delete environment.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
      environment.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE = yield* write("token", "an-old-one")
      const own = [
        "http://169.254.170.2",
        "http://169.254.170.23",
        "http://[fd00:ec2::23]",
        "http://localhost:8080"
      ].concat(["http://127.0.0.1", "http://[::1]", "https://credentials.example.com"])
      for (const origin of own) {
        environment.AWS_CONTAINER_CREDENTIALS_FULL_URI = `${origin}/v2/credentials/1`
        yield* write("token", "an-old-one")
        assert.match(yield* detailOf(keys()), /answered 401/)
        yield* write("token", `${state.containerToken}\n`)
        yield* keys()
      }
      const { length } = standIn.requests
      const others = [
        "http://credentials.example.com/",
        "http://169.254.169.254/",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "x"
      ]
      for (const address of others) {
        environment.AWS_CONTAINER_CREDENTIALS_FULL_URI = address
        assert.include(yield* detailOf(keys()), "no address of a container's credentials", address)
      }
      environment.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI = "//credentials.example.com/v2/credentials/1"
      assert.include(yield* detailOf(keys()), "no address of a container's credentials")
      assert.lengthOf(standIn.requests, length)
    }).pipe(Effect.scoped)
  )

  it.effect("are those of the machine's role, by a session with its metadata service", () =>
    Effect.gen(function* () {
      const { environment, keys, standIn } = yield* setting()
      yield* keys()
      assert.deepStrictEqual(
        standIn.requests.map(({ method, path }) => `${method} ${path}`),
        ["PUT /latest/api/token", "GET /latest/meta-data/iam/security-credentials/"].concat([
          "GET /latest/meta-data/iam/security-credentials/gateway-role"
        ])
      )
      environment.AWS_EC2_METADATA_DISABLED = "true"
      assert.strictEqual(yield* detailOf(keys()), "The environment names no credentials of AWS")
    }).pipe(Effect.scoped)
  )

  it.effect("are given up where a metadata service hangs, after two seconds, twice", () =>
    Effect.gen(function* () {
      const { keys, standIn, state } = yield* setting()
      state.hangs = true
      const asking = yield* Effect.forkChild(detailOf(keys()))
      const untilAsked = (count: number) =>
        eventually(
          Effect.sync(() => standIn.requests.length),
          (length) => length === count
        ).pipe(Effect.provide(realClock))
      yield* untilAsked(1)
      yield* TestClock.adjust("2 seconds")
      yield* untilAsked(2)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* Fiber.join(asking), "169.254.169.254: The server did not answer within 2 seconds")
      assert.lengthOf(standIn.requests, 2)
    }).pipe(Effect.scoped)
  )

  it.effect("are not read from an answer that says anything twice, in entities or not at all", () =>
    Effect.gen(function* () {
      const { environment, keys, standIn, state } = yield* setting()
      Object.assign(environment, inEnvironment)
      const given = standIn.answer
      const good = `<AccessKeyId>ASIA0123456789012345</AccessKeyId><SecretAccessKey>secret/0123456789+abcdef</SecretAccessKey><SessionToken>token/0123==</SessionToken><Expiration>${new Date(Date.now() + oneHour).toISOString()}</Expiration>`
      const answers = [
        `${good}<SessionToken>another</SessionToken>`,
        good.replace("token/0123==", "<b>token</b>"),
        good.replace("token/0123==", "&x;"),
        good.replace("token/0123==", ""),
        good.replace("token/0123==", "two words"),
        good.replace("<SecretAccessKey>", "<SecretAccessKey >"),
        good.replace(/<Expiration>.*/, "<Expiration>tomorrow</Expiration>"),
        good.replace(/<Expiration>.*/, "<Expiration>2020-01-01T00:00:00Z</Expiration>"),
        "",
        `<!DOCTYPE x [<!ENTITY a "b">]>`,
        good + " ".repeat(1_100_000)
      ]
      const asked = keys({ roleArn: role, externalId })
      standIn.answer = (_, response) => response.writeHead(200, { "content-type": "text/xml" }).end(good)
      yield* asked
      for (const answer of answers) {
        standIn.answer = (_, response) => response.writeHead(200, { "content-type": "text/xml" }).end(answer)
        assert.match(yield* detailOf(asked), /^sts\.us-east-1\.amazonaws\.com answered /)
      }
      standIn.answer = (_, response) => response.writeHead(302, { location: "http://example.com/" }).end()
      assert.strictEqual(yield* detailOf(asked), "sts.us-east-1.amazonaws.com answered 302")
      standIn.answer = given
      state.hangs = false
      yield* asked
    }).pipe(Effect.scoped)
  )
})

describe("a host of AWS", () => {
  it.each([
    ["bedrock-runtime.eu-central-1.amazonaws.com", "bedrock", "eu-central-1"],
    ["bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "bedrock", "us-gov-west-1"],
    ["bedrock-runtime.us-east-1.api.aws", "bedrock", "us-east-1"],
    ["bedrock-agent-runtime.us-west-2.amazonaws.com", "bedrock", "us-west-2"],
    ["bedrock-runtime.cn-northwest-1.amazonaws.com.cn", "bedrock", "cn-northwest-1"],
    ["vpce-0a1b-2c3d-eu-central-1a.bedrock-runtime.eu-central-1.vpce.amazonaws.com", "bedrock", "eu-central-1"],
    ["bedrock-mantle.ap-southeast-2.api.aws", "bedrock-mantle", "ap-southeast-2"],
    ["aws-external-anthropic.us-west-2.api.aws", "aws-external-anthropic", "us-west-2"]
  ])("is signed for as what it is: %s", (host, service, region) => {
    assert.deepStrictEqual(awsServiceOf(`https://${host}/openai/v1`, { type: "aws" }), { service, region })
  })

  it("of another kind is signed for in the region that is given alone", () => {
    const others = [
      "https://abc.execute-api.us-east-1.amazonaws.com",
      "https://example.com",
      "http://127.0.0.1:1"
    ].concat([
      "https://bedrock-runtime.us-east-1.amazonaws.com.example.com",
      "https://x-bedrock-runtime.us-east-1.amazonaws.com",
      "https://constructor.us-east-1.amazonaws.com"
    ])
    for (const other of others) {
      assert.isUndefined(awsServiceOf(other, { type: "aws" }), other)
      assert.strictEqual(awsServiceOf(other, { type: "aws", region: "us-east-1" })?.region, "us-east-1")
    }
  })
})

const refusal = (code: string, status = 403) => ({
  status,
  headers: { "x-amzn-errortype": `${code}:http://internal.amazon.com/coral/com.amazon.coral.service/` },
  body: new TextEncoder().encode(JSON.stringify({ message: "No" }))
})

layer(layers)("the signer of AWS", (it) => {
  it.effect("gives up keys that are refused, once they are not new, and only those that were sent", () =>
    Effect.gen(function* () {
      const { clock, environment, keys, state } = yield* setting()
      environment.AWS_CONTAINER_CREDENTIALS_FULL_URI = "http://127.0.0.1/v2/credentials/1"
      environment.AWS_CONTAINER_AUTHORIZATION_TOKEN = state.containerToken
      const signer = awsSigner(yield* makeTokenSource(keys()), { service: "bedrock", region }, clock)
      const request = {
        method: "POST",
        url: new URL("https://bedrock-runtime.us-east-1.amazonaws.com/model/a%3A0/invoke"),
        headers: { "content-type": "application/json", "user-agent": "x", traceparent: "y", accept: "z" },
        body: "{}"
      }
      const sent = yield* signer.authorize(request)
      assert.match(sent.authorization ?? "", /SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,/)
      assert.isFalse(yield* signer.refused(refusal("ExpiredTokenException"), sent))
      yield* TestClock.adjust("6 seconds")
      assert.isFalse(yield* signer.refused(refusal("AccessDeniedException"), sent))
      assert.isFalse(yield* signer.refused(refusal("ThrottlingException", 429), sent))
      assert.isTrue(yield* signer.refused(refusal("ExpiredTokenException"), sent))
      const next = yield* signer.authorize(request)
      assert.notStrictEqual(next["x-amz-security-token"], sent["x-amz-security-token"])
      assert.strictEqual(state.issued, 2)
      // One that was sent with the first keys is sent again with those that are held meanwhile.
      assert.isTrue(yield* signer.refused(refusal("UnrecognizedClientException"), sent))
      assert.deepStrictEqual(yield* signer.authorize(request), next)
      assert.strictEqual(state.issued, 2)
      const bodies = [{ __type: "com.amazon.coral#ExpiredTokenException" }, { error: { code: "ExpiredToken" } }]
      for (const body of bodies) {
        const signed = yield* signer.authorize(request)
        yield* TestClock.adjust("6 seconds")
        const refused = { status: 403, headers: {}, body: new TextEncoder().encode(JSON.stringify(body)) }
        assert.isTrue(yield* signer.refused(refused, signed))
      }
      for (const secret of signer.secrets()) assert.notInclude(JSON.stringify(signer.state()), secret)
    }).pipe(Effect.scoped)
  )
})
