import { answerWith } from "../../../platform/runtime/thread-body.ts"
import { unifiedDiff } from "./unified-diff.ts"

answerWith(unifiedDiff)
