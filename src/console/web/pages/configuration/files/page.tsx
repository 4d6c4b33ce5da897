import { type ReactNode } from "react"
import { useLocation, useParams, useSearchParams } from "wouter"
import { useCall } from "../../../api/hooks.ts"
import { Act, Copy, CopyCurl, TabLinks } from "../../../kit/actions.tsx"
import { Moment } from "../../../kit/format.tsx"
import { Table } from "../../../kit/lists/table.tsx"
import { isBuiltIn } from "../../../kit/names/built-in.ts"
import { ApplicationChoice, PrincipalName } from "../../../kit/names/names.tsx"
import { Page } from "../../../kit/page.tsx"
import { Answered, Called, NameLink, Noted, Nothing } from "../../../kit/parts.tsx"
import { Empty, Loading } from "../../../kit/states.tsx"
import { Create, Delete, Deleted, Move } from "./dialogs.tsx"
import { Edit } from "./edit.tsx"
import { type Application, flat, lockOf, type Node, sizeText, type TreeNode, write } from "./nodes.ts"
import { Tree } from "./tree.tsx"
import { OneVersion, Versions } from "./versions.tsx"

const Folder = ({ children }: { readonly children: ReadonlyArray<TreeNode> }) => (
  <section className="card">
    <Table
      label="In the folder"
      rows={children}
      empty={["The folder is empty", "Create a file in it, or move one here."]}
      columns={[
        {
          title: "Name",
          cell: ({ id, name, type }) => <NameLink name={type === "folder" ? `${name}/` : name} to={`/files/${id}`} />
        },
        { title: "Version", isNumber: true, cell: ({ version }) => version ?? "" },
        { title: "Size", isNumber: true, cell: ({ size }) => sizeText(size) },
        {
          title: "Changed",
          cell: ({ updatedAt, updatedBy }) => (
            <Noted
              value={<Moment at={updatedAt} />}
              note={
                <>
                  by <PrincipalName name={updatedBy} />
                </>
              }
            />
          )
        }
      ]}
    />
  </section>
)

interface OfNode {
  readonly application: Application
  readonly node: Node
  readonly nodes: ReadonlyArray<TreeNode>
}

const OneNode = ({ application, node, nodes }: OfNode) => {
  const [search] = useSearchParams()
  const locked = lockOf(application)
  const version = search.get("version")
  const content: ReactNode =
    node.type === "folder" ? (
      <Folder>{flat(nodes).find(({ id }) => id === node.id)?.children ?? []}</Folder>
    ) : version !== null ? (
      <OneVersion locked={locked} node={node} version={Number(version)} />
    ) : search.get("tab") === "versions" ? (
      <Versions locked={locked} node={node} />
    ) : (
      <Edit key={node.id} locked={locked} node={node} />
    )
  return (
    <div className="stack">
      <div className="head">
        <div>
          <h2 className="path">{node.path}</h2>
          <p>
            {node.type === "file" ? `Version ${node.version}, ${sizeText(node.size)}, changed ` : "Changed "}
            <Moment at={node.updatedAt} /> by <PrincipalName name={node.updatedBy} />
          </p>
        </div>
        <div className="acts">
          <Copy text={location.href} what="Address">
            Copy the link
          </Copy>
          {node.type === "folder" ? (
            <Act
              needs={write}
              unless={locked}
              opens={<Create application={application} nodes={nodes} within={node.id} />}
            >
              Create a file here
            </Act>
          ) : null}
          <Move locked={locked} node={node} nodes={nodes} />
          <Delete locked={locked} node={node} nodes={nodes} />
        </div>
      </div>
      {node.type === "folder" ? null : (
        <TabLinks label="About the file" tabs={{ content: "Content", versions: "Versions" }} />
      )}
      {content}
    </div>
  )
}

interface OfFiles {
  readonly application: Application
  readonly applications: ReadonlyArray<Application>
  readonly node: Node | undefined
}

const Chosen = ({ application, applications, node }: OfFiles) => {
  const [, go] = useLocation()
  const tree = useCall("configurationTrees.get", { query: { applicationId: application.id } })
  const locked = lockOf(application)
  const within = node === undefined ? null : node.type === "folder" ? node.id : node.parentId
  return (
    <Page
      title="Files"
      lead="The configuration files of applications. Every save adds a version, and any version can be brought back."
      actions={
        <>
          <CopyCurl name="configurationTrees.get" input={{ query: { applicationId: application.id } }} />
          <Act opens={<Deleted application={application} />}>Deleted files</Act>
          <a className="btn" href={`/api/configuration/export?applicationId=${application.id}&format=zip`} download>
            Export
          </a>
          <Act
            kind="main"
            icon="plus"
            needs={write}
            unless={locked}
            opens={<Create application={application} nodes={tree.data ?? []} within={within} />}
          >
            Create a file
          </Act>
        </>
      }
    >
      <div className="split">
        <aside className="stack">
          <ApplicationChoice
            applications={applications}
            value={application.id}
            onChange={(id) => go(`/files?application=${id}`)}
          />
          <nav className="card tree" aria-label="Files">
            <Answered asked={tree}>
              {(nodes) =>
                nodes.length === 0 ? (
                  <p className="soft">No file yet</p>
                ) : (
                  <Tree key={application.id} current={node?.id} nodes={nodes} />
                )
              }
            </Answered>
          </nav>
        </aside>
        {node === undefined ? (
          <section className="card">
            <Nothing
              said={
                tree.data?.length === 0
                  ? [
                      `${application.name} has no configuration yet`,
                      "Create a file. Programs read it by its path and are notified of every new version."
                    ]
                  : ["Choose a file", "Its content, its versions and its address appear here."]
              }
            />
          </section>
        ) : (
          <OneNode key={node.id} application={application} node={node} nodes={tree.data ?? []} />
        )}
      </div>
    </Page>
  )
}

/** Shows the files of one application, of those that there are. */
const OfApplication = ({ id, node }: { readonly id: number | undefined; readonly node: Node | undefined }) => (
  <Called name="applications.list" input={{ query: { limit: 200 } }}>
    {({ items }) => {
      const application = items.find((each) => each.id === id) ?? items.find((each) => !isBuiltIn(each)) ?? items[0]
      return application === undefined ? (
        <Page title="Files">
          <Empty title="There is no application" />
        </Page>
      ) : (
        <Chosen application={application} applications={items} node={node} />
      )
    }}
  </Called>
)

/** The configuration files of applications. */
export default function Files() {
  const { id } = useParams()
  const [search] = useSearchParams()
  const asked = useCall("configuration.get", { params: { id: id ?? "" } }, { enabled: id !== undefined })
  if (id === undefined) {
    const chosen = search.get("application")
    return <OfApplication id={chosen === null ? undefined : Number(chosen)} node={undefined} />
  }
  if (asked.data === undefined && asked.error === null) return <Loading rows={8} />
  return <Answered asked={asked}>{(node) => <OfApplication id={node.applicationId} node={node} />}</Answered>
}
