import { keepContracts } from "../contract/properties.ts"

keepContracts(24)
