import { useState } from "react"
import { useLocation } from "wouter"
import { useCall, useChange } from "../../../api/hooks.ts"
import { Act } from "../../../kit/actions.tsx"
import { Dialog } from "../../../kit/dialog.tsx"
import { Moment } from "../../../kit/format.tsx"
import { SelectField } from "../../../kit/forms/form.tsx"
import { Confirm, formOf } from "../../../kit/forms/operation.tsx"
import { Table } from "../../../kit/lists/table.tsx"
import { Answered, Empty, Fault } from "../../../kit/states.tsx"
import { announce } from "../../../kit/toast.tsx"
import {
  type Application,
  flat,
  foldersIn,
  lockOf,
  type Node,
  schemasIn,
  type TreeNode,
  withChosen,
  write
} from "./nodes.ts"

const create = formOf("configuration.create")
const move = formOf("configuration.move")

const schemaHint = "A JSON Schema file of the same application; content that does not fit is not saved"

/** Makes a file or folder. */
export const Create = ({
  application,
  nodes,
  within
}: {
  readonly application: Application
  readonly nodes: ReadonlyArray<TreeNode>
  readonly within: number | null
}) => {
  const [, go] = useLocation()
  const [type, setType] = useState<"file" | "folder">("file")
  return (
    <create.Dialog
      title="Make a file or folder"
      action={`Make the ${type}`}
      wide
      body={(body) => ({ applicationId: application.id, type, ...(type === "file" ? { content: "" } : {}), ...body })}
      onDone={({ id }) => go(`/files/${id}`)}
    >
      <div className="row2">
        <SelectField
          label="What"
          value={type}
          onChange={(event) => setType(event.target.value === "folder" ? "folder" : "file")}
          options={[
            ["file", "File"],
            ["folder", "Folder"]
          ]}
        />
        <create.Field label="In" name="parentId" defaultValue={within ?? ""} options={foldersIn(nodes)} />
      </div>
      <create.Field label="Name" name="name" placeholder={type === "file" ? "settings.json" : "service"} />
      {type === "folder" ? null : (
        <>
          <create.Field label="Content" name="content" className="code" rows={8} spellCheck={false} isExact />
          <create.Field label="Checked against" name="schemaId" options={schemasIn(nodes)} hint={schemaHint} />
        </>
      )}
    </create.Dialog>
  )
}

interface Changing {
  readonly node: Node
  readonly nodes: ReadonlyArray<TreeNode>
}

/** Renames a file or folder, moves it, or checks it against another schema. */
export const Move = ({ node, nodes }: Changing) => {
  const below = new Set(flat(flat(nodes).filter(({ id }) => id === node.id)).map(({ id }) => String(id)))
  return (
    <move.Dialog
      title={`Rename or move ${node.name}`}
      action="Save"
      done={`${node.name} is changed`}
      input={{ params: { id: node.id } }}
      of={node}
      body={({ schemaId = node.schemaId, ...body }) => (schemaId === node.schemaId ? body : { ...body, schemaId })}
    >
      <move.Field label="Name" name="name" />
      <move.Field label="In" name="parentId" options={foldersIn(nodes).filter(([id]) => !below.has(id))} />
      {node.type === "folder" ? null : (
        <move.Field
          label="Checked against"
          name="schemaId"
          options={withChosen(schemasIn(nodes, node.id), nodes, node.schemaId)}
          hint={schemaHint}
        />
      )}
    </move.Dialog>
  )
}

/** Deletes a file, or a folder with all that is in it. */
export const Delete = ({ node, nodes }: Changing) => {
  const [, go] = useLocation()
  const below = flat(flat(nodes).find(({ id }) => id === node.id)?.children ?? []).length
  return (
    <Confirm
      name="configuration.delete"
      input={{ params: { id: node.id } }}
      title={`Delete ${node.path}`}
      action={`Delete the ${node.type}`}
      done={`${node.path} is deleted`}
      onDone={() => go(`/files?application=${node.applicationId}`)}
    >
      <p>
        {node.type === "file"
          ? `Programs that read it find nothing any more. Its ${node.version} versions can be restored with it for 30 days.`
          : `The folder goes with the ${below} files and folders below it. They can be restored together for 30 days.`}
      </p>
    </Confirm>
  )
}

/** What was deleted and can be restored. */
export const Deleted = ({ application }: { readonly application: Application }) => {
  const asked = useCall("configuration.deleted", { query: { applicationId: application.id } })
  const restore = useChange("configuration.restore")
  return (
    <Dialog title={`Deleted from ${application.name}`} wide>
      <div className="in">
        <Fault cause={restore.error} />
        <Answered asked={asked}>
          {(nodes) =>
            nodes.length === 0 ? (
              <Empty title="Nothing was deleted in the last 30 days" />
            ) : (
              <Table
                label="Deleted files and folders"
                rows={nodes}
                columns={[
                  { title: "Path", cell: ({ path }) => <code>{path}</code> },
                  {
                    title: "Deleted",
                    cell: ({ deletedAt, deletedBy }) => (
                      <>
                        <Moment at={deletedAt} /> <small>by {deletedBy}</small>
                      </>
                    )
                  }
                ]}
                acts={({ id, path }) => (
                  <Act
                    needs={write}
                    unless={lockOf(application)}
                    onClick={() =>
                      restore.mutate({ params: { id } }, { onSuccess: () => announce(`${path} is restored`) })
                    }
                  >
                    Restore
                  </Act>
                )}
              />
            )
          }
        </Answered>
      </div>
    </Dialog>
  )
}
