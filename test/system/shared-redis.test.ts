import { survivesRedis } from "../support/redis-faults.ts"

survivesRedis()
