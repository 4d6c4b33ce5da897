import { replyWith } from "../../../platform/runtime/thread-body.ts"
import { unifiedDiff } from "./unified-diff.ts"

replyWith(unifiedDiff)
