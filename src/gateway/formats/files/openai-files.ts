import { type FilesApi } from "./files.ts"

const purpose = /^[a-z][a-z0-9_-]{0,63}$/

/** OpenAI's files (API reference, "Files"). Other vendors of its dialect have purposes of their own, which pass. */
export const openAiFiles: FilesApi = {
  dialect: "openai",
  name: "OpenAI's API",
  path: "/files",
  keepers: new Set(["openai", "azure"]),
  purposes: {
    batch: "batch",
    faultOf: (given) => {
      if (given === undefined) return "Expected what the file is for, such as user_data"
      if (given === "fine-tune") return "The gateway serves no fine-tuning, and takes no files for it"
      return purpose.test(given) ? undefined : "Expected a purpose such as user_data"
    }
  },
  expiresAt: ({ expires_at: seconds }) => (typeof seconds === "number" ? seconds * 1000 : undefined)
}
