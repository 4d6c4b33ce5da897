import { defineConfig, type OxlintOverride } from "oxlint"

/** The areas from the ground up: each imports from itself and from those before it. */
export const floors = [
  "kernel",
  "platform",
  "audit",
  "access",
  "tenants",
  "applications",
  "trials",
  "people",
  "agents",
  "budgets",
  "gateway",
  "insights",
  "events",
  "operations",
  "sandbox",
  "console",
  "cli"
]

const restricted = (group: ReadonlyArray<string>, message: string) => ({ group: [...group], message })

const kinds = [
  { files: ["*"], patterns: [] },
  {
    files: ["domain.ts", "*-domain.ts", "api.ts", "*-api.ts", "groups.ts"],
    patterns: [
      restricted(
        ["node:*", "@effect/*", "effect/sql", "jose", "**/service.ts", "**/repository.ts", "**/handlers.ts"],
        "domain.ts, api.ts and groups.ts are pure: the console imports them."
      )
    ]
  },
  {
    files: ["handlers.ts", "*-handlers.ts"],
    patterns: [restricted(["**/repository.ts", "effect/sql", "@effect/sql-pg"], "A handler talks to a service.")]
  }
]

export default defineConfig({
  plugins: ["typescript", "import", "oxc", "eslint", "unicorn", "node"],
  categories: { correctness: "error", suspicious: "error", perf: "error" },
  rules: {
    "typescript/consistent-type-imports": ["error", { fixStyle: "inline-type-imports" }],
    "import/no-cycle": "error",
    "import/no-unassigned-import": ["error", { allow: ["**/json-parse.ts"] }],
    "no-console": "error",
    "typescript/no-explicit-any": "error",
    "no-underscore-dangle": "off",
    "no-shadow": "off",
    "require-yield": "off"
  },
  overrides: [
    // Of the overrides that match a file the last one counts, so that each kind of file repeats its floor's.
    ...floors.flatMap((floor, index) => {
      const above = floors.slice(index + 1).map((name) => `../**/${name}/**`)
      const upward = above.length === 0 ? [] : [restricted(above, "Nothing imports from a floor above it.")]
      return kinds.map(({ files, patterns }): OxlintOverride => ({
        files: files.map((file) => `src/${floor}/**/${file}`),
        rules: { "no-restricted-imports": ["error", { patterns: [...upward, ...patterns] }] }
      }))
    }),
    { files: ["test/bench/**", "test/console/shots.ts"], rules: { "no-await-in-loop": "off" } }
  ]
})
