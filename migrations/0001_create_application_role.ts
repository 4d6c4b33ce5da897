import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Roles belong to the whole server, so another database's service may make it at the same moment.
  yield* sql`
    DO $$
    BEGIN
      IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'application_manager') THEN
        CREATE ROLE application_manager NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOREPLICATION;
      END IF;
    EXCEPTION
      WHEN duplicate_object OR unique_violation THEN NULL;
      WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'The database user % may not create the role application_manager. Let an administrator run: CREATE ROLE application_manager NOLOGIN; GRANT application_manager TO %;', current_user, current_user
          USING ERRCODE = 'insufficient_privilege';
    END
    $$`
  yield* sql`
    DO $$
    BEGIN
      IF NOT pg_has_role(current_user, 'application_manager', 'MEMBER')
        OR NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT application_manager TO %I', current_user);
      END IF;
    EXCEPTION
      WHEN insufficient_privilege THEN NULL;
      WHEN unique_violation THEN NULL;
    END
    $$`
  yield* sql`GRANT USAGE ON SCHEMA public TO application_manager`
  yield* sql`ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO application_manager`
  yield* sql`GRANT SELECT ON effect_sql_migrations TO application_manager`

  // PostgreSQL 18 has uuidv7(); before it the same layout is put together here (RFC 9562 §5.7).
  yield* sql`
    DO $$
    BEGIN
      IF to_regprocedure('pg_catalog.uuidv7()') IS NOT NULL THEN
        CREATE FUNCTION new_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS 'SELECT pg_catalog.uuidv7()';
      ELSE
        CREATE FUNCTION new_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $f$
          SELECT encode(
            set_bit(set_bit(
              overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
              52, 1), 53, 1), 'hex')::uuid
        $f$;
      END IF;
    END
    $$`

  // The tenant that a transaction speaks for: a tenant's id, '*' for all of them, or nothing, which sees no tenant's row.
  yield* sql`
    CREATE FUNCTION sees_tenant(tenant uuid) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
      SELECT current_setting('app.tenant_id', true) = '*' OR tenant::text = current_setting('app.tenant_id', true)
    $$`
})
