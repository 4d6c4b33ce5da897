import { answerKeyedRequests } from "../platform/idempotency/pool.ts"

answerKeyedRequests(1)
