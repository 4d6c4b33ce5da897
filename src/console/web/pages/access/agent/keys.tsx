import { useState } from "react"
import { call } from "../../../api/client.ts"
import { queries } from "../../../api/hooks.ts"
import { type Row } from "../../../api/operations.ts"
import { Act, type Of } from "../../../kit/actions.tsx"
import { Moment } from "../../../kit/format.tsx"
import { CheckField, SelectField } from "../../../kit/forms/form.tsx"
import { ConfirmAct, formOf } from "../../../kit/forms/operation.tsx"
import { SecretDialog } from "../../../kit/forms/secret.tsx"
import { List } from "../../../kit/lists/list.tsx"
import { inactive, type Agent, rowClass, Status, write } from "./status.tsx"

type Key = Row<"agentKeys.list">

const { Dialog, Field } = formOf("agentKeys.register")

const pem = (label: string, der: ArrayBuffer): string => {
  const base64 = btoa(String.fromCharCode(...new Uint8Array(der)))
  return `-----BEGIN ${label}-----\n${base64.replace(/(.{64})(?=.)/g, "$1\n")}\n-----END ${label}-----\n`
}

/** Makes a key pair here, so that the private half never leaves the browser. */
const makeKeyPair = async () => {
  const pair = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"])
  return {
    publicKeyPem: pem("PUBLIC KEY", await crypto.subtle.exportKey("spki", pair.publicKey)),
    privateKeyPem: pem("PRIVATE KEY", await crypto.subtle.exportKey("pkcs8", pair.privateKey))
  }
}

/** The dialog that registers a public key, made here or pasted; instead of another one when that is rotated. */
const RegisterKey = ({ instead, of: agent }: Of<Agent> & { readonly instead?: Key }) => {
  const [source, setSource] = useState("made")
  const [made, setMade] = useState<Awaited<ReturnType<typeof makeKeyPair>>>()
  const begin = async () => {
    const pair = made ?? (await makeKeyPair())
    setMade(pair)
    return { algorithm: "ES256", publicKeyPem: pair.publicKeyPem } as const
  }
  return (
    <Dialog
      title={instead === undefined ? "Register a key" : `Rotate the key ${instead.kid}`}
      action="Register the key"
      done="The key is registered"
      wide
      input={{ params: { id: agent.id } }}
      body={async (body) => (source === "made" ? { ...body, ...(await begin()) } : body)}
      shows={() =>
        source === "made" && made !== undefined ? <PrivateKey of={agent} pem={made.privateKeyPem} /> : null
      }
      onDone={async (_, data) => {
        if (instead === undefined || !data.has("revoke")) return
        await call("agentKeys.revoke", { params: { id: agent.id, keyId: instead.id } })
        await queries.invalidateQueries()
      }}
    >
      <p>The agent signs its assertions with the private half; only the public half is stored here.</p>
      <div className="row2">
        <Field label="Key id (kid)" name="kid" placeholder={new Date().toISOString().slice(0, 7)} />
        <Field label="Valid until" name="validUntil" hint="Local time; a year from now when empty" />
      </div>
      <SelectField
        label="Key pair"
        value={source}
        onChange={(event) => setSource(event.target.value)}
        options={{
          made: "Create a P-256 pair in this browser and show the private half once",
          pasted: "Paste the public half of a pair that the agent has"
        }}
      />
      {source === "made" ? null : (
        <>
          <Field label="Algorithm" name="algorithm" options={["ES256", "EdDSA", "PS256", "RS256"]} />
          <Field
            label="Public key"
            name="publicKeyPem"
            className="code"
            rows={5}
            placeholder={"-----BEGIN PUBLIC KEY-----\n…"}
            hint="One SPKI block in PEM"
          />
        </>
      )}
      {instead === undefined ? null : (
        <CheckField
          label={`Revoke ${instead.kid} at once`}
          name="revoke"
          hint="Else both work until you revoke it, so that the agent can change over"
        />
      )}
    </Dialog>
  )
}

/** Registers a key. */
export const AddKey = ({ of: agent }: Of<Agent>) => (
  <Act icon="plus" needs={write} unless={inactive(agent)} opens={<RegisterKey of={agent} />}>
    Register a key
  </Act>
)

const PrivateKey = ({ of: agent, pem }: Of<Agent> & { readonly pem: string }) => (
  <SecretDialog
    title={`Private key of ${agent.name}`}
    what="Private key"
    secret={pem}
    note="Copy it now: it was created in this browser, is shown only once, and is not stored anywhere."
  />
)

const Revoke = ({ agent, of }: Of<Key> & { readonly agent: Agent }) => (
  <ConfirmAct
    name="agentKeys.revoke"
    input={{ params: { id: agent.id, keyId: of.id } }}
    verb="Revoke"
    what="key"
    title={`Revoke the key ${of.kid}`}
    done={`The key ${of.kid} is revoked`}
    needs={write}
    unless={ended(of)}
  >
    The agent gets no new token with it. Tokens that it already has stay valid until they expire.
  </ConfirmAct>
)

const ended = ({ status }: Key) => (status === "active" || status === "pending" ? undefined : `The key is ${status}`)

/** The keys that an agent gets tokens with. */
export const Keys = ({ of: agent }: Of<Agent>) => (
  <List
    name="agentKeys.list"
    input={{ params: { id: agent.id } }}
    label="Keys"
    order="-createdAt"
    rowClass={rowClass}
    empty={[
      "The agent has no key",
      "With a key of its own it requests its own tokens, and no secret has to be shared."
    ]}
    columns={[
      { title: "Key id", cell: ({ kid }) => <strong>{kid}</strong> },
      { title: "Status", cell: ({ status }) => <Status of={status} /> },
      { title: "Algorithm", cell: ({ algorithm }) => algorithm },
      { title: "Thumbprint", cell: ({ thumbprint }) => <code title={thumbprint}>{thumbprint.slice(0, 12)}…</code> },
      { title: "Valid from", cell: ({ validFrom }) => <Moment at={validFrom} style="date" /> },
      { title: "Valid until", cell: ({ validUntil }) => <Moment at={validUntil} style="date" /> }
    ]}
    acts={(key) => (
      <>
        <Act needs={write} unless={ended(key) ?? inactive(agent)} opens={<RegisterKey of={agent} instead={key} />}>
          Rotate
        </Act>
        <Revoke agent={agent} of={key} />
      </>
    )}
  />
)
