import { keepContracts } from "./properties.ts"

keepContracts(6)
