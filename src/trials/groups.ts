import { TrialUsersApi } from "./users/api.ts"
import { SessionsApi } from "./sessions/api.ts"

export const groups = [TrialUsersApi, SessionsApi] as const
