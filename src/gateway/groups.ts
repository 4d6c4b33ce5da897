import { BrokenBoundsApi } from "./broken-bounds/api.ts"
import { LlmAdminApi } from "./configuration/api.ts"
import { WorkloadApi } from "./credentials/issuer/api.ts"
import { TranscriptsApi } from "./transcripts/api.ts"
import { LlmApi, LlmCallsApi } from "./wire/native/api.ts"

export { withCompatibility } from "./wire/document-api.ts"

export const groups = [LlmApi, LlmCallsApi, LlmAdminApi, TranscriptsApi, BrokenBoundsApi, WorkloadApi] as const
