import { type Dialect } from "../domain.ts"
import { anthropicFiles } from "../files/anthropic-files.ts"
import { type FilesApi } from "../files/files.ts"
import { openAiFiles } from "../files/openai-files.ts"

/** The files of vendors that have them, as far as the gateway serves them. */
export const filesApis: Readonly<Partial<Record<Dialect, FilesApi>>> = {
  openai: openAiFiles,
  anthropic: anthropicFiles
}
