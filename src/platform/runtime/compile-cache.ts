import { enableCompileCache } from "node:module"

// Loaded by `--import` before the service: later starts skip type stripping and compilation, which halves their time.
enableCompileCache()
