import { useState } from "react"
import { call } from "../../../api/client.ts"
import { useChange } from "../../../api/hooks.ts"
import { Act } from "../../../kit/actions.tsx"
import { Dialog } from "../../../kit/dialog.tsx"
import { Moment } from "../../../kit/format.tsx"
import { SelectField } from "../../../kit/forms/form.tsx"
import { ConfirmAct, formOf } from "../../../kit/forms/operation.tsx"
import { Table } from "../../../kit/lists/table.tsx"
import { PrincipalName } from "../../../kit/names/names.tsx"
import { Called, Fault, Noted } from "../../../kit/parts.tsx"
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

interface Making {
  readonly application: Application
  readonly nodes: ReadonlyArray<TreeNode>
  readonly within: number | null
}

/** Makes a file or folder. */
export const Create = ({ application, nodes, within }: Making) => {
  const [type, setType] = useState<"file" | "folder">("file")
  return (
    <create.Dialog
      title="Create a file or folder"
      action={`Create the ${type}`}
      wide
      body={(body) => ({ applicationId: application.id, type, ...(type === "file" ? { content: "" } : {}), ...body })}
      leads={({ id }) => `/files/${id}`}
    >
      <div className="row2">
        <SelectField
          label="What"
          value={type}
          onChange={(event) => setType(event.target.value === "folder" ? "folder" : "file")}
          options={{ file: "File", folder: "Folder" }}
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
  readonly locked: string | undefined
  readonly node: Node
  readonly nodes: ReadonlyArray<TreeNode>
}

/** Renames a file or folder, moves it, or checks it against another schema. */
export const Move = ({ locked, node, nodes }: Changing) => {
  const below = new Set(flat(flat(nodes).filter(({ id }) => id === node.id)).map(({ id }) => String(id)))
  return (
    <move.Change
      label="Rename or move"
      title={`Rename or move ${node.name}`}
      of={node}
      needs={write}
      unless={locked}
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
    </move.Change>
  )
}

/** Deletes a file, or a folder with all that is in it. */
export const Delete = ({ locked, node, nodes }: Changing) => {
  const below = flat(flat(nodes).find(({ id }) => id === node.id)?.children ?? []).length
  return (
    <ConfirmAct
      name="configuration.delete"
      input={{ params: { id: node.id } }}
      verb="Delete"
      what={node.type}
      called={node.path}
      needs={write}
      unless={locked}
      leads={() => `/files?application=${node.applicationId}`}
      undo={() => () => call("configuration.restore", { params: { id: node.id } })}
    >
      {node.type === "file"
        ? `Programs that read it no longer find it. Its ${node.version} versions can be restored with it for 30 days.`
        : `The folder is deleted with the ${below} files and folders in it. They can be restored together for 30 days.`}
    </ConfirmAct>
  )
}

/** What was deleted and can be restored. */
export const Deleted = ({ application }: { readonly application: Application }) => {
  const restore = useChange("configuration.restore")
  return (
    <Dialog title={`Deleted from ${application.name}`} wide>
      <div className="in">
        <Fault cause={restore.error} />
        <Called name="configuration.deleted" input={{ query: { applicationId: application.id } }}>
          {(nodes) => (
            <Table
              label="Deleted files and folders"
              rows={nodes}
              empty="Nothing was deleted in the last 30 days"
              columns={[
                { title: "Path", cell: ({ path }) => <code>{path}</code> },
                {
                  title: "Deleted",
                  cell: ({ deletedAt, deletedBy }) => (
                    <Noted
                      value={<Moment at={deletedAt} />}
                      note={
                        <>
                          by <PrincipalName name={deletedBy} />
                        </>
                      }
                    />
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
          )}
        </Called>
      </div>
    </Dialog>
  )
}
