import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { eventTypes } from "../../../src/events/cloud-events/domain.ts"
import { declaredActions } from "../../../src/kernel/authority/audit-action.ts"
import { ServerLayer } from "../../../src/server.ts"

const root = path.resolve(import.meta.dirname, "../../..")
const sources = ["src", "migrations/functions"]
  .flatMap((folder) =>
    fs
      .readdirSync(path.join(root, folder), { recursive: true, encoding: "utf8" })
      .map((file) => path.join(folder, file))
  )
  .filter((file) => /\.(?:ts|sql)$/.test(file) && !file.startsWith("src/console/web"))
  .map((file) => fs.readFileSync(path.join(root, file), "utf8"))

const declaration = /auditActions\("(\w+)", \[([^\]]*)\]/g
const named = /["'](?:\w+)["']/g
const declarations = sources.flatMap((text) =>
  Array.from(text.matchAll(declaration), ([, entityType, names = ""]) =>
    (names.match(named) ?? []).map((name) => ({ actionType: name.slice(1, -1), entityType }))
  ).flat()
)
// They are declared once the whole service is loaded.
const actions = ServerLayer === undefined ? [] : declaredActions()
/** What the code says beside the declarations. */
const uses = sources.map((text) => text.replaceAll(declaration, "")).join("\n")

describe("the actions of audit entries", () => {
  it("are all listed, with the types of their events", () => {
    assert.sameDeepMembers(
      actions.map(({ actionType, entityType }) => ({ actionType, entityType })),
      declarations
    )
    assert.sameMembers(
      eventTypes().map(({ actionType, entityType }) => `${entityType} ${actionType}`),
      actions.map(({ actionType, entityType }) => `${entityType} ${actionType}`)
    )
  })

  it.each(actions.map(({ actionType }) => actionType))("%s is written by something", (actionType) => {
    assert.match(uses, new RegExp(`\\b${actionType}\\b`))
  })

  it("are those that SQL functions write, of the same things", () => {
    const written = [...uses.matchAll(/'action_type', '(\w+)',\s*'entity_type', '(\w+)'/g)]
    const chosen = [...uses.matchAll(/'(\w+)' AS action\b/g), ...uses.matchAll(/u\.id, '(\w+)' FROM unnest/g)]
    const found = [
      ...written.map(([, actionType, entityType]) => ({ actionType, entityType })),
      ...chosen.map(([, actionType]) => ({ actionType, entityType: "Plan" }))
    ]
    assert.lengthOf(found, 5)
    assert.includeDeepMembers([...actions], found)
  })
})
