import { useState } from "react"
import { useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { CheckField, Form, numberOf, SelectField, TextArea, textOf, TextField } from "../../kit/forms/form.tsx"
import { Moment } from "../../kit/format.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { Empty } from "../../kit/states.tsx"

type Key = Row<"attestationKeys.list">

const tones = { active: "ok", pending: "warn", retired: "", compromised: "bad" } as const
const purposes = [
  ["sign-tokens", "sign tokens"],
  ["sign-statements", "sign statements"],
  ["verify", "verify: trust a key of others"]
] as const

const Create = ({ onClose }: { readonly onClose: () => void }) => {
  const create = useChange("attestationKeys.create", "The key is published")
  return (
    <Dialog title="Make an attestation key" onClose={onClose}>
      <Form
        cause={create.error}
        actions={<FormActions action="Make the key" isPending={create.isPending} onClose={onClose} />}
        onSubmit={(data) => {
          const publicKey = textOf(data, "publicKey")
          create.mutate(
            {
              body: {
                name: textOf(data, "name") ?? "",
                purpose: purposes.find(([purpose]) => purpose === data.get("purpose"))?.[0] ?? "sign-statements",
                ...(publicKey === undefined
                  ? {}
                  : { publicKey: publicKey.startsWith("{") ? JSON.parse(publicKey) : publicKey })
              }
            },
            { onSuccess: onClose }
          )
        }}
      >
        <TextField label="Name" name="name" required maxLength={200} />
        <SelectField
          label="Purpose"
          name="purpose"
          options={purposes}
          defaultValue="sign-statements"
          hint="A key to sign with is generated here, and its private half never leaves."
        />
        <TextArea
          label="Public key"
          name="publicKey"
          className="code"
          hint="Only to verify: PEM, a JWK, or a chain of certificates"
        />
      </Form>
    </Dialog>
  )
}

const Rotate = ({ of, onClose }: { readonly of: Key; readonly onClose: () => void }) => {
  const rotate = useChange("attestationKeys.rotate", "The new key is published, and signs in ten minutes")
  return (
    <Dialog title={`Rotate ${of.name}`} onClose={onClose}>
      <Form
        cause={rotate.error}
        actions={<FormActions action="Rotate" isPending={rotate.isPending} onClose={onClose} />}
        onSubmit={(data) => {
          const hours = numberOf(data, "hours")
          rotate.mutate(
            { params: { id: of.id }, body: hours === undefined ? {} : { overlapSeconds: hours * 3600 } },
            { onSuccess: onClose }
          )
        }}
      >
        <p>
          A new key signs in ten minutes, when every cached key set has it. The old one stays published for the overlap.
        </p>
        <TextField
          label="Overlap in hours"
          member="overlapSeconds"
          name="hours"
          type="number"
          min={0}
          max={168}
          hint="Empty: so long that no token outlives its key"
        />
      </Form>
    </Dialog>
  )
}

const End = ({ of, onClose }: { readonly of: Key; readonly onClose: () => void }) => {
  const end = useChange("attestationKeys.end", `${of.name} is ended`)
  return (
    <Dialog title={`End ${of.name}`} onClose={onClose}>
      <Form
        cause={end.error}
        actions={<FormActions action="End the key" isPending={end.isPending} onClose={onClose} />}
        onSubmit={(data) =>
          end.mutate(
            {
              params: { id: of.id },
              body: { reason: data.get("compromised") === null ? "superseded" : "compromised" }
            },
            { onSuccess: onClose }
          )
        }
      >
        <p>
          At once and for good: tokens signed with <code>{of.keyId}</code> are refused within a second, and another key
          signs in its place.
        </p>
        <CheckField
          label="It may be in other hands"
          name="compromised"
          hint="Then nothing that it ever signed counts any more, and verification of the audit log reports its checkpoints."
        />
      </Form>
    </Dialog>
  )
}

/** Keys that the service signs with, and those that it trusts. */
export default function Attestation() {
  const [shown, setShown] = useState<{ readonly what: "rotate" | "end"; readonly key: Key } | "create">()
  const close = () => setShown(undefined)
  return (
    <ListPage
      title="Attestation"
      lead="The keys that sign tokens, audit checkpoints and statements; their public halves are at /.well-known/attestation-keys.json."
      actions={
        <Act kind="main" icon="plus" needs="attestation:write" onClick={() => setShown("create")}>
          Make a key
        </Act>
      }
      name="attestationKeys.list"
      input={{}}
      label="Attestation keys"
      keyOf={({ id }) => id}
      rowClass={({ status }) => (status === "retired" ? "gone" : undefined)}
      empty={<Empty title="There is no key yet" />}
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
        { title: "Status", cell: ({ status }) => <span className={`tag ${tones[status]}`}>{status}</span> },
        { title: "From", cell: ({ validFrom }) => <Moment at={validFrom} style="full" /> },
        {
          title: "Until",
          cell: ({ validUntil }) => (validUntil === null ? "in use" : <Moment at={validUntil} style="full" />)
        },
        {
          title: "",
          isNumber: true,
          cell: (key) => {
            const unless = key.status === "active" || key.status === "pending" ? undefined : `The key is ${key.status}`
            return (
              <span className="acts">
                <Act
                  needs="attestation:write"
                  unless={key.purpose === "verify" ? "Keys of others are not rotated here" : unless}
                  onClick={() => setShown({ what: "rotate", key })}
                >
                  Rotate
                </Act>
                <Act
                  kind="bad"
                  needs="attestation:write"
                  unless={unless}
                  onClick={() => setShown({ what: "end", key })}
                >
                  End
                </Act>
              </span>
            )
          }
        }
      ]}
    >
      {shown === "create" ? <Create onClose={close} /> : null}
      {typeof shown === "object" && shown.what === "rotate" ? <Rotate of={shown.key} onClose={close} /> : null}
      {typeof shown === "object" && shown.what === "end" ? <End of={shown.key} onClose={close} /> : null}
    </ListPage>
  )
}
