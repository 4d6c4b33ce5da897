import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE audit_entries (
      id uuid NOT NULL DEFAULT new_id(),
      occurred_at timestamptz NOT NULL,
      action_type text NOT NULL,
      entity_type text NOT NULL,
      entity_id text,
      user_id text NOT NULL,
      actor_type text NOT NULL,
      tenant_id uuid,
      application_id integer,
      outcome text NOT NULL CHECK (outcome IN ('success', 'denied', 'failed')),
      reason text,
      count integer NOT NULL DEFAULT 1 CHECK (count > 0),
      ip_address text,
      user_agent text,
      trace_id text,
      changes jsonb,
      PRIMARY KEY (id, occurred_at)
    ) PARTITION BY RANGE (occurred_at)`
  yield* sql`CREATE INDEX audit_entries_time ON audit_entries (occurred_at DESC, id DESC)`
  yield* sql`CREATE INDEX audit_entries_action ON audit_entries (action_type, occurred_at DESC, id DESC)`
  yield* sql`CREATE INDEX audit_entries_entity_type ON audit_entries (entity_type, occurred_at DESC, id DESC)`
  yield* sql`CREATE INDEX audit_entries_entity_id ON audit_entries (entity_id, occurred_at DESC, id DESC)`
  yield* sql`CREATE INDEX audit_entries_user ON audit_entries (user_id, occurred_at DESC, id DESC)`
  yield* sql`CREATE INDEX audit_entries_tenant ON audit_entries (tenant_id, occurred_at DESC, id DESC)`
  yield* sql`
    CREATE INDEX audit_entries_refused ON audit_entries (outcome, occurred_at DESC, id DESC) WHERE outcome <> 'success'`
  yield* sql`
    CREATE INDEX audit_entries_refused_action ON audit_entries (action_type, tenant_id, occurred_at DESC, id DESC)
    WHERE outcome <> 'success'`

  yield* sql`
    CREATE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'audit entries are append-only' USING ERRCODE = 'insufficient_privilege';
    END
    $$`
  yield* sql`
    CREATE TRIGGER audit_entries_append_only BEFORE UPDATE OR DELETE ON audit_entries
    FOR EACH ROW EXECUTE FUNCTION audit_refuse_change()`
  yield* sql`
    CREATE TRIGGER audit_entries_no_truncate BEFORE TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()`
  yield* sql`REVOKE UPDATE, DELETE ON audit_entries FROM application_manager`

  yield* sql`ALTER TABLE audit_entries ENABLE ROW LEVEL SECURITY`
  yield* sql`CREATE POLICY audit_entries_of_tenant ON audit_entries USING (sees_tenant(tenant_id)) WITH CHECK (true)`

  // Policies, grants and TRUNCATE triggers of the table do not hold for a statement that names a partition.
  yield* sql`
    CREATE FUNCTION audit_close_partition(partition text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
    BEGIN
      EXECUTE format('REVOKE ALL ON public.%I FROM application_manager', partition);
      EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', partition);
      EXECUTE format(
        'CREATE POLICY audit_entries_of_tenant ON public.%I USING (sees_tenant(tenant_id)) WITH CHECK (true)', partition);
      EXECUTE format(
        'CREATE TRIGGER audit_entries_no_truncate BEFORE TRUNCATE ON public.%I
         FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()', partition);
    END
    $$`

  // A row outside every month still finds a place: an entry is never refused for want of a partition.
  yield* sql`CREATE TABLE audit_entries_default PARTITION OF audit_entries DEFAULT`
  yield* sql`SELECT audit_close_partition('audit_entries_default')`
  yield* sql`
    CREATE FUNCTION audit_make_partitions(first_month timestamptz, months integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    DECLARE
      month timestamp := date_trunc('month', first_month AT TIME ZONE 'UTC');
      partition text;
    BEGIN
      PERFORM pg_advisory_xact_lock(hashtext('audit_make_partitions'));
      FOR i IN 0..months - 1 LOOP
        partition := 'audit_entries_' || to_char(month, 'YYYY_MM');
        IF to_regclass('public.' || partition) IS NULL THEN
          BEGIN
            EXECUTE format(
              'CREATE TABLE public.%I PARTITION OF public.audit_entries FOR VALUES FROM (%L) TO (%L)',
              partition, month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
            PERFORM audit_close_partition(partition);
          EXCEPTION WHEN check_violation THEN
            -- The default partition has entries of this month already: it keeps the whole month.
            NULL;
          END;
        END IF;
        month := month + interval '1 month';
      END LOOP;
    END
    $$`
  yield* sql`SELECT audit_make_partitions(now(), 4)`
})
