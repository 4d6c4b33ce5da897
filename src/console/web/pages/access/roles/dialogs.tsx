import { call } from "../../../api/client.ts"
import { AskDialog } from "../../../kit/forms/ask.tsx"
import { ConfirmAct, formOf } from "../../../kit/forms/operation.tsx"
import { type Application, type differenceOf, type Role } from "./capabilities.ts"

export const write = "roles:write"
const create = formOf("roles.create")
const update = formOf("roles.update")

interface Reviewed {
  readonly differences: ReadonlyArray<ReturnType<typeof differenceOf>>
  readonly edits: ReadonlyMap<number, ReadonlySet<string>>
  readonly onSaved: (role: Role) => void
}

/** Shows what changes before it is saved. */
export const Review = ({ differences, edits, onSaved }: Reviewed) => (
  <AskDialog
    title="Save what changed"
    action="Save"
    done={differences.length === 1 ? "The role is saved" : `${differences.length} roles are saved`}
    wide
    submit={() =>
      Promise.all(
        differences.map(async ({ role }) => {
          await call("roles.update", {
            params: { id: role.id },
            body: { capabilities: [...(edits.get(role.id) ?? [])] }
          })
          onSaved(role)
        })
      )
    }
  >
    <p>It takes effect at once, for everyone who has the role.</p>
    {differences.map(({ added, removed, role }) => (
      <section key={role.id} aria-label={role.name}>
        <strong>{role.name}</strong>
        <pre className="diff" tabIndex={0}>
          {added.map((capability) => (
            <span key={capability} className="added">
              + {capability}
            </span>
          ))}
          {removed.map((capability) => (
            <span key={capability} className="removed">
              - {capability}
            </span>
          ))}
        </pre>
      </section>
    ))}
  </AskDialog>
)

export const Create = ({ application }: { readonly application: Application }) => (
  <create.Make
    button=""
    label="Create a role"
    title={`Create a role of ${application.name}`}
    action="Create the role"
    done="The role is created; choose its capabilities in the matrix"
    needs={write}
    body={{ applicationId: application.id, capabilities: [] }}
  >
    <create.Field label="Name" name="name" placeholder="Support" />
    <create.Field label="Description" name="description" />
  </create.Make>
)

export const Edit = ({ isFixed, role }: { readonly isFixed: boolean; readonly role: Role }) => {
  const unless = isFixed ? "A built-in role cannot be changed or deleted" : undefined
  return (
    <update.Dialog
      title={role.name}
      action="Save"
      done={`${role.name} is changed`}
      isDisabled={isFixed}
      input={{ params: { id: role.id } }}
      of={role}
      acts={
        <ConfirmAct
          name="roles.delete"
          input={{ params: { id: role.id } }}
          verb="Delete"
          what="role"
          called={role.name}
          label="Delete the role"
          needs={write}
          unless={unless}
        >
          The role and its {role.capabilities.length} capabilities are deleted for good. While an account has it, it
          cannot be deleted.
        </ConfirmAct>
      }
    >
      {unless === undefined ? null : <p className="soft">{unless}.</p>}
      <update.Field label="Name" name="name" readOnly={isFixed} />
      <update.Field label="Description" name="description" readOnly={isFixed} />
    </update.Dialog>
  )
}
