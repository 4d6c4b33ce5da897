import { replyWith } from "../../../platform/runtime/worker-process-body.ts"
import { unifiedDiff } from "./unified-diff.ts"

replyWith(unifiedDiff)
