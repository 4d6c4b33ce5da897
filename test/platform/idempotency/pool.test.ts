import { answerKeyedRequests } from "./pool.ts"

answerKeyedRequests(3)
