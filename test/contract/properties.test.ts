import { keepContracts } from "./properties.ts"

keepContracts({ requests: 4, parts: 12 })
