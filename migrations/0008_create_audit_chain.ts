import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Entries become visible in another order than they are written in, so the chainer tells the new ones by the transaction
  // that wrote them. There is no default: an entry that did not come from the service is never linked, and so stands out.
  yield* sql`ALTER TABLE audit_entries ADD COLUMN transaction_id xid8 DEFAULT pg_current_xact_id()`
  yield* sql`ALTER TABLE audit_entries ALTER COLUMN transaction_id DROP DEFAULT`
  yield* sql`CREATE INDEX audit_entries_transaction ON audit_entries (transaction_id, id)`

  yield* sql`
    CREATE TABLE audit_links (
      sequence bigint NOT NULL CHECK (sequence > 0),
      entry_id uuid NOT NULL,
      occurred_at timestamptz NOT NULL,
      previous_hash bytea NOT NULL CHECK (octet_length(previous_hash) = 32),
      hash bytea NOT NULL CHECK (octet_length(hash) = 32),
      PRIMARY KEY (entry_id, occurred_at),
      UNIQUE (sequence, occurred_at)
    ) PARTITION BY RANGE (occurred_at)`
  yield* sql`CREATE TABLE audit_links_default PARTITION OF audit_links DEFAULT`
  yield* sql`REVOKE ALL ON audit_links_default FROM application_manager`
  yield* sql`
    CREATE FUNCTION audit_make_link_partitions(first_month timestamptz, months integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    DECLARE
      month timestamp := date_trunc('month', first_month AT TIME ZONE 'UTC');
      partition text;
    BEGIN
      PERFORM pg_advisory_xact_lock(hashtext('audit_make_link_partitions'));
      FOR i IN 0..months - 1 LOOP
        partition := 'audit_links_' || to_char(month, 'YYYY_MM');
        IF to_regclass('public.' || partition) IS NULL THEN
          BEGIN
            EXECUTE format(
              'CREATE TABLE public.%I PARTITION OF public.audit_links FOR VALUES FROM (%L) TO (%L)',
              partition, month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
            EXECUTE format('REVOKE ALL ON public.%I FROM application_manager', partition);
            EXECUTE format(
              'CREATE TRIGGER audit_links_no_truncate BEFORE TRUNCATE ON public.%I
               FOR EACH STATEMENT EXECUTE FUNCTION public.audit_refuse_change()', partition);
          EXCEPTION WHEN check_violation THEN
            -- The default partition has links of this month already: it keeps the whole month.
            NULL;
          END;
        END IF;
        month := month + interval '1 month';
      END LOOP;
    END
    $$`
  yield* sql`REVOKE ALL ON FUNCTION audit_make_link_partitions(timestamptz, integer) FROM PUBLIC`
  yield* sql`GRANT EXECUTE ON FUNCTION audit_make_link_partitions(timestamptz, integer) TO application_manager`
  yield* sql`
    SELECT audit_make_link_partitions(min(month), greatest(count(*)::integer, 4)) FROM generate_series(
      (SELECT least(date_trunc('month', min(occurred_at)), date_trunc('month', now())) FROM audit_entries
        WHERE occurred_at > now() - interval '10 years'),
      now() + interval '3 months', '1 month') month`

  // Past the policy, so that the index alone answers; it tells a number and nothing else.
  yield* sql`
    CREATE FUNCTION audit_count_entries(linked pg_snapshot) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT count(*) FROM public.audit_entries
      WHERE transaction_id IS NULL OR transaction_id < pg_snapshot_xmin(linked)
        OR (transaction_id < pg_snapshot_xmax(linked) AND pg_visible_in_snapshot(transaction_id, linked))
    $$`
  yield* sql`REVOKE ALL ON FUNCTION audit_count_entries(pg_snapshot) FROM PUBLIC`
  yield* sql`GRANT EXECUTE ON FUNCTION audit_count_entries(pg_snapshot) TO application_manager`

  // What is linked: the head, and the snapshot whose visible transactions all are. A pass that takes several batches has
  // its own snapshot and the place that it has come to.
  yield* sql`
    CREATE TABLE audit_chain (
      only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
      sequence bigint NOT NULL,
      hash bytea NOT NULL CHECK (octet_length(hash) = 32),
      linked pg_snapshot NOT NULL,
      pass pg_snapshot,
      passed_transaction xid8,
      passed_entry uuid
    ) WITH (fillfactor = 50)`
  yield* sql`INSERT INTO audit_chain (sequence, hash, linked) VALUES (0, decode(repeat('00', 32), 'hex'), '3:3:')`
  yield* sql`REVOKE INSERT, DELETE, TRUNCATE ON audit_chain FROM application_manager`

  yield* sql`
    CREATE TABLE attestation_keys (
      id uuid PRIMARY KEY DEFAULT new_id(),
      key_id text NOT NULL CONSTRAINT attestation_keys_key_id UNIQUE,
      name text NOT NULL,
      purpose text NOT NULL CHECK (purpose IN ('sign-tokens', 'sign-statements', 'verify')),
      algorithm text NOT NULL,
      public_key jsonb NOT NULL,
      sealed_private_key bytea,
      status text NOT NULL CHECK (status IN ('pending', 'active', 'retired', 'compromised')),
      valid_from timestamptz NOT NULL,
      valid_until timestamptz,
      created_at timestamptz NOT NULL,
      CHECK (purpose = 'verify' OR sealed_private_key IS NOT NULL)
    )`
  yield* sql`CREATE INDEX attestation_keys_purpose ON attestation_keys (purpose, status, valid_from)`

  yield* sql`
    CREATE TABLE audit_checkpoints (
      sequence bigint PRIMARY KEY,
      hash bytea NOT NULL CHECK (octet_length(hash) = 32),
      signed_at timestamptz NOT NULL,
      key_id text NOT NULL,
      jws text NOT NULL
    )`

  // The months that retention dropped. The JWS names the runs of sequences that went with one and the hashes around each, so
  // that their absence is no gap: months end in another order than the chain.
  yield* sql`
    CREATE TABLE audit_retirements (
      month text PRIMARY KEY,
      last_sequence bigint NOT NULL,
      retired_at timestamptz NOT NULL,
      key_id text NOT NULL,
      jws text NOT NULL
    )`

  for (const table of ["audit_links", "audit_checkpoints", "audit_retirements"]) {
    yield* sql`
      CREATE TRIGGER ${sql(`${table}_append_only`)} BEFORE UPDATE OR DELETE ON ${sql(table)}
      FOR EACH ROW EXECUTE FUNCTION audit_refuse_change()`
    yield* sql`REVOKE UPDATE, DELETE, TRUNCATE ON ${sql(table)} FROM application_manager`
  }
  for (const table of ["audit_links", "audit_links_default", "audit_checkpoints", "audit_retirements"]) {
    yield* sql`
      CREATE TRIGGER ${sql(`${table}_no_truncate`)} BEFORE TRUNCATE ON ${sql(table)}
      FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()`
  }
})
