import { refuseBadInput } from "../platform/http/bad-input.ts"

refuseBadInput(Infinity)
