import { type FilesApi } from "./files.ts"

/** Anthropic's files (API reference, "Files"). */
export const anthropicFiles: FilesApi = {
  dialect: "anthropic",
  name: "Anthropic's API",
  path: "/v1/files",
  keepers: new Set(["anthropic"]),
  expiresAt: ({ expires_at: moment }) => (typeof moment === "string" ? Date.parse(moment) : undefined)
}
