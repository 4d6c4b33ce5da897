import { Layer } from "effect"
import { SessionsHandlers } from "./sessions/handlers.ts"
import { TrialSessions } from "./sessions/service.ts"
import { TrialSessionTermination } from "./sessions/termination.ts"
import { TrialUsersHandlers } from "./users/handlers.ts"
import { TrialUsers } from "./users/service.ts"

/** Trial users, whose sessions end with them by a port. */
export const layer = TrialSessions.layer.pipe(
  Layer.provideMerge(TrialUsers.layer),
  Layer.provideMerge(TrialSessionTermination.layer)
)

export const handlers = Layer.merge(TrialUsersHandlers, SessionsHandlers)
