import { type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { CheckField, TextArea, textOf } from "../../kit/forms/form.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { Tag } from "../../kit/parts.tsx"

type Key = Row<"attestationKeys.list">

const write = "attestation:write"
const tones = { active: "ok", pending: "warn", retired: "", compromised: "bad" } as const
const create = formOf("attestationKeys.create")
const rotate = formOf("attestationKeys.rotate")
const end = formOf("attestationKeys.end")

const Create = () => (
  <create.Make
    label="Create a key"
    title="Create an attestation key"
    action="Create the key"
    done="The key is published"
    needs={write}
    body={(body, data) => {
      const publicKey = textOf(data, "publicKey")
      if (publicKey === undefined) return body
      return { ...body, publicKey: publicKey.startsWith("{") ? JSON.parse(publicKey) : publicKey }
    }}
  >
    <create.Field label="Name" name="name" />
    <create.Field
      label="Purpose"
      name="purpose"
      options={{
        "sign-tokens": "sign tokens",
        "sign-statements": "sign statements",
        "sign-assertions": "sign assertions to vendors",
        verify: "verify: trust the key of another party"
      }}
      defaultValue="sign-statements"
      hint="A signing key is generated here, and its private half never leaves the service."
    />
    <TextArea
      label="Public key"
      name="publicKey"
      className="code"
      hint="Only to verify: PEM, a JWK, or a chain of certificates"
    />
  </create.Make>
)

const endedOf = ({ status }: Key) => (status === "active" || status === "pending" ? undefined : `The key is ${status}`)

const Rotate = ({ of }: Of<Key>) => (
  <rotate.Act
    needs={write}
    unless={of.purpose === "verify" ? "Keys of other parties are not rotated here" : endedOf(of)}
    title={`Rotate ${of.name}`}
    action="Rotate"
    done="The new key is published, and signs in ten minutes"
    input={{ params: { id: of.id } }}
  >
    <p>
      A new key signs in ten minutes, when every cached key set has it. The old one stays published for the overlap.
    </p>
    <rotate.Field
      label="Overlap in hours"
      name="overlapSeconds"
      unit={3600}
      hint="Empty: long enough that no token outlives its key"
    />
  </rotate.Act>
)

const End = ({ of }: Of<Key>) => (
  <end.Act
    button="bad"
    label="End"
    needs={write}
    unless={endedOf(of)}
    title={`End ${of.name}`}
    action="End the key"
    done={`${of.name} is ended`}
    input={{ params: { id: of.id } }}
    body={(_, data) => ({ reason: data.has("compromised") ? "compromised" : "superseded" })}
  >
    <p>
      This takes effect at once and cannot be undone: tokens signed with <code>{of.keyId}</code> are refused within a
      second, and another key signs in its place.
    </p>
    <CheckField
      label="It may be compromised"
      name="compromised"
      hint="Then nothing that it ever signed is trusted, and verification of the audit log reports its checkpoints."
    />
  </end.Act>
)

/** Keys that the service signs with, and those that it trusts. */
export default () => (
  <ListPage
    title="Attestation"
    lead="The keys that sign tokens, audit checkpoints and statements; their public halves are at /.well-known/attestation-keys.json."
    actions={<Create />}
    name="attestationKeys.list"
    label="Attestation keys"
    rowClass={({ status }) => (status === "retired" ? "gone" : undefined)}
    empty="There is no key yet"
    columns={[
      {
        title: "Name",
        cell: ({ keyId, name }) => (
          <>
            <strong>{name}</strong> <code title={keyId}>{keyId.slice(0, 12)}…</code>
          </>
        )
      },
      { title: "Purpose", cell: ({ purpose }) => purpose },
      { title: "Algorithm", cell: ({ algorithm }) => algorithm },
      { title: "Status", cell: ({ status }) => <Tag tone={tones[status]}>{status}</Tag> },
      { title: "From", cell: ({ validFrom }) => <Moment at={validFrom} style="full" /> },
      {
        title: "Until",
        cell: ({ validUntil }) => (validUntil === null ? "in use" : <Moment at={validUntil} style="full" />)
      }
    ]}
    acts={[Rotate, End]}
  />
)
