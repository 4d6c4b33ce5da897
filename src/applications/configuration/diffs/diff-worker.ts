import { answerWith } from "../platform/thread-body.ts"
import { unifiedDiff } from "./unified-diff.ts"

answerWith(unifiedDiff)
