import { keepContracts } from "../contract/properties.ts"

keepContracts({ requests: 24, parts: 1 })
