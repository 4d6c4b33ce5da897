import Fastify from "fastify"

const app = Fastify()
app.get("/health", () => ({
  status: "Healthy",
  timestamp: new Date().toISOString(),
  service: "application-manager",
  version: "0.1.0"
}))
const url = await app.listen({ port: 0, host: "127.0.0.1" })
process.stdout.write(`listening on ${url}\n`)
process.once("SIGTERM", () => process.exit(0))
