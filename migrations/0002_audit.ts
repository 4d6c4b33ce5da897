import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
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
  -- The chain finds new entries by the transaction that wrote them. There is no default: an entry that the service did
  -- not write is never linked, and verification reports it.
  transaction_id xid8,
  PRIMARY KEY (id, occurred_at)
) PARTITION BY RANGE (occurred_at);
CREATE INDEX audit_entries_time ON audit_entries (occurred_at DESC, id DESC);
CREATE INDEX audit_entries_action ON audit_entries (action_type, occurred_at DESC, id DESC);
CREATE INDEX audit_entries_entity_type ON audit_entries (entity_type, occurred_at DESC, id DESC);
CREATE INDEX audit_entries_entity_id ON audit_entries (entity_id, occurred_at DESC, id DESC);
CREATE INDEX audit_entries_user ON audit_entries (user_id, occurred_at DESC, id DESC);
CREATE INDEX audit_entries_tenant ON audit_entries (tenant_id, occurred_at DESC, id DESC);
CREATE INDEX audit_entries_refused ON audit_entries (outcome, occurred_at DESC, id DESC) WHERE outcome <> 'success';
CREATE INDEX audit_entries_refused_action ON audit_entries (action_type, tenant_id, occurred_at DESC, id DESC)
WHERE outcome <> 'success';
-- A search for an action reads those of the caller's tenant alone, however many others have.
CREATE INDEX audit_entries_tenant_action ON audit_entries (tenant_id, action_type, occurred_at DESC, id DESC);
-- A search finds the entries of a trace. What BRIN keeps of so many rows together is written when they are all there, so that
-- a new entry writes nothing to it.
CREATE INDEX audit_entries_trace ON audit_entries USING brin (trace_id text_bloom_ops) WITH (autosummarize = on);
CREATE INDEX audit_entries_transaction ON audit_entries (transaction_id, id);

CREATE TRIGGER audit_entries_append_only BEFORE UPDATE OR DELETE ON audit_entries
FOR EACH ROW EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_entries_no_truncate BEFORE TRUNCATE ON audit_entries
FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
REVOKE UPDATE, DELETE ON audit_entries FROM application_manager;
ALTER TABLE audit_entries ENABLE ROW LEVEL SECURITY;
CREATE POLICY audit_entries_of_tenant ON audit_entries
USING (sees_tenant(tenant_id)) WITH CHECK (true);

-- The default partition takes rows outside all months, so that no insert fails because a partition is missing.
CREATE TABLE audit_entries_default PARTITION OF audit_entries DEFAULT;
SELECT audit_close_partition('audit_entries_default');
SELECT audit_make_partitions(now(), 4);

CREATE TABLE audit_links (
  sequence bigint NOT NULL CHECK (sequence > 0),
  entry_id uuid NOT NULL,
  occurred_at timestamptz NOT NULL,
  previous_hash bytea NOT NULL CHECK (octet_length(previous_hash) = 32),
  hash bytea NOT NULL CHECK (octet_length(hash) = 32),
  PRIMARY KEY (entry_id, occurred_at),
  UNIQUE (sequence, occurred_at)
) PARTITION BY RANGE (occurred_at);

CREATE TABLE audit_links_default PARTITION OF audit_links DEFAULT;
REVOKE ALL ON audit_links_default FROM application_manager;
CREATE TRIGGER audit_links_default_no_truncate BEFORE TRUNCATE ON audit_links_default
FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
SELECT audit_make_link_partitions(now(), 4);

-- The progress of linking: the head, and a snapshot whose visible transactions are all linked. A pass over several
-- batches stores its own snapshot and its position.
CREATE TABLE audit_chain (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  sequence bigint NOT NULL,
  hash bytea NOT NULL CHECK (octet_length(hash) = 32),
  linked pg_snapshot NOT NULL,
  pass pg_snapshot,
  passed_transaction xid8,
  passed_entry uuid
) WITH (fillfactor = 50);
INSERT INTO audit_chain (sequence, hash, linked) VALUES (0, decode(repeat('00', 32), 'hex'), '3:3:');
REVOKE INSERT, DELETE, TRUNCATE ON audit_chain FROM application_manager;

CREATE TABLE audit_checkpoints (
  sequence bigint PRIMARY KEY,
  hash bytea NOT NULL CHECK (octet_length(hash) = 32),
  signed_at timestamptz NOT NULL,
  key_id text NOT NULL,
  jws text NOT NULL
);

-- The months that retention dropped. The JWS lists the ranges of sequences dropped with a month and the hashes around
-- each range, so that verification does not report them as gaps. A month has several ranges, since the chain is not in
-- the order of time.
CREATE TABLE audit_retirements (
  month text PRIMARY KEY,
  last_sequence bigint NOT NULL,
  retired_at timestamptz NOT NULL,
  key_id text NOT NULL,
  jws text NOT NULL
);

CREATE TRIGGER audit_links_append_only BEFORE UPDATE OR DELETE ON audit_links
FOR EACH ROW EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_links_no_truncate BEFORE TRUNCATE ON audit_links
FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_checkpoints_append_only BEFORE UPDATE OR DELETE ON audit_checkpoints
FOR EACH ROW EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_checkpoints_no_truncate BEFORE TRUNCATE ON audit_checkpoints
FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_retirements_append_only BEFORE UPDATE OR DELETE ON audit_retirements
FOR EACH ROW EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_retirements_no_truncate BEFORE TRUNCATE ON audit_retirements
FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
REVOKE UPDATE, DELETE, TRUNCATE ON audit_links, audit_checkpoints, audit_retirements FROM application_manager;

CREATE TABLE attestation_keys (
  id uuid PRIMARY KEY DEFAULT new_id(),
  key_id text NOT NULL CONSTRAINT attestation_keys_key_id UNIQUE,
  name text NOT NULL,
  purpose text NOT NULL CHECK (purpose IN ('sign-tokens', 'sign-statements', 'sign-assertions', 'verify')),
  algorithm text NOT NULL,
  public_key jsonb NOT NULL,
  sealed_private_key bytea,
  status text NOT NULL CHECK (status IN ('pending', 'active', 'retired', 'compromised')),
  valid_from timestamptz NOT NULL,
  valid_until timestamptz,
  created_at timestamptz NOT NULL,
  -- Rows of compromised keys are kept, so that no signature of theirs is accepted again.
  compromised_at timestamptz,
  CHECK (purpose = 'verify' OR sealed_private_key IS NOT NULL)
);
CREATE INDEX attestation_keys_purpose ON attestation_keys (purpose, status, valid_from);

-- When the installation signed which payload (its SHA-256 digest): a statement is judged at that time.
CREATE TABLE attestation_statements (
  digest bytea NOT NULL CHECK (octet_length(digest) = 32),
  key_id text NOT NULL REFERENCES attestation_keys (key_id),
  signed_at timestamptz NOT NULL,
  PRIMARY KEY (digest, key_id)
);
REVOKE UPDATE, DELETE ON attestation_statements FROM application_manager;
`,
  [
    "audit_refuse_change",
    "audit_close_partition",
    "make_month_partitions",
    "audit_make_partitions",
    "audit_make_link_partitions"
  ]
)
