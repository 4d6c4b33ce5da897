import { keepContracts } from "./properties.ts"

keepContracts({ requests: 6, parts: 4 })
