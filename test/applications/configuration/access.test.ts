import { layer } from "@effect/vitest"
import { refusesStrangers } from "../../support/authority.ts"
import { sharedServiceLayer } from "../../support/service.ts"

const read = { capability: "configuration:read", systemOnly: true }
const write = { capability: "configuration:write", systemOnly: true }
const rollback = { capability: "configuration:rollback", systemOnly: true }
const body = { applicationId: 1, name: "a.txt", type: "file" }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("who may configure", (it) =>
  refusesStrangers(it, [
    { name: "the tree", method: "GET", path: "/api/configuration/tree?applicationId=1", ...read },
    { name: "finding by path", method: "GET", path: "/api/configuration/by-path?applicationId=1&path=/a", ...read },
    { name: "what is deleted", method: "GET", path: "/api/configuration/deleted?applicationId=1", ...read },
    { name: "an export", method: "GET", path: "/api/configuration/export?applicationId=1", ...read },
    { name: "a file", method: "GET", path: "/api/configuration/1", ...read },
    { name: "the versions", method: "GET", path: "/api/configuration/1/versions", ...read },
    { name: "a version", method: "GET", path: "/api/configuration/1/versions/1", ...read },
    { name: "a diff", method: "GET", path: "/api/configuration/1/diff", ...read },
    { name: "watching", method: "GET", path: "/api/configuration/1/watch", ...read },
    { name: "creating", method: "POST", path: "/api/configuration", body, ...write },
    { name: "saving", method: "PUT", path: "/api/configuration/1", body: { content: "" }, ...write },
    { name: "moving", method: "PATCH", path: "/api/configuration/1", body: {}, ...write },
    { name: "deleting", method: "DELETE", path: "/api/configuration/1", ...write },
    { name: "restoring", method: "POST", path: "/api/configuration/1/restore", ...write },
    {
      name: "an import",
      method: "POST",
      path: "/api/configuration/import?applicationId=1",
      body: { nodes: [] },
      ...write
    },
    {
      name: "rolling a file back",
      method: "POST",
      path: "/api/configuration/1/rollback",
      body: { version: 1 },
      ...rollback
    },
    {
      name: "rolling a tree back",
      method: "POST",
      path: "/api/configuration/rollback",
      body: { applicationId: 1, at: "2026-01-01T00:00:00Z" },
      ...rollback
    }
  ])
)
