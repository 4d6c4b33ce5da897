import { SessionsApi } from "./sessions/api.ts"
import { TrialUsersApi } from "./users/api.ts"

export const groups = [TrialUsersApi, SessionsApi] as const
