import { checkSessions, long } from "../contract/readme-sessions.ts"

checkSessions(({ file }) => long.includes(file))
