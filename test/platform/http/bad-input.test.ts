import { refuseBadInput } from "./bad-input.ts"

refuseBadInput(4)
