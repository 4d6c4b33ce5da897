import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Where events are delivered: webhooks of integrations and sinks of subscriptions. Without a tenant it gets those of all.
CREATE TABLE event_targets (
  id uuid PRIMARY KEY,
  tenant_id uuid CONSTRAINT event_targets_tenant REFERENCES tenants (id),
  kind text NOT NULL CHECK (kind IN ('webhook', 'slack', 'cloudevents', 'subscription')),
  name text NOT NULL,
  url text NOT NULL,
  event_types text[] NOT NULL,
  filters jsonb NOT NULL,
  config jsonb NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'refused', 'disabled')),
  sealed_secret bytea,
  sealed_previous_secret bytea,
  previous_secret_until timestamptz,
  -- The events up to this place of the audit log are older than the target, or than the last time it became active.
  after_sequence bigint NOT NULL,
  failing_since timestamptz,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  updated_at timestamptz NOT NULL
);
-- Those of a tenant are counted before it gets another one, while every dispatch waits.
CREATE INDEX event_targets_of_tenant_id ON event_targets (tenant_id, id);
ALTER TABLE event_targets ENABLE ROW LEVEL SECURITY;
CREATE POLICY event_targets_of_tenant ON event_targets
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- The place of the audit log up to which deliveries exist; the revision changes with every target.
CREATE TABLE event_dispatch (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  sequence bigint NOT NULL,
  revision bigint NOT NULL
);
INSERT INTO event_dispatch (sequence, revision) VALUES (0, 0);
REVOKE INSERT, DELETE, TRUNCATE ON event_dispatch FROM application_manager;

-- The queue of deliveries, and their history. A replica that takes one moves its due_at ahead; if it dies, another one takes
-- the delivery then.
CREATE TABLE event_deliveries (
  id uuid PRIMARY KEY DEFAULT new_id(),
  tenant_id uuid,
  target_id uuid NOT NULL REFERENCES event_targets (id) ON DELETE CASCADE,
  entry_id uuid NOT NULL,
  occurred_at timestamptz NOT NULL,
  sequence bigint NOT NULL,
  type text NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
  attempts jsonb NOT NULL DEFAULT '[]',
  due_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX event_deliveries_due ON event_deliveries (target_id, due_at) WHERE status = 'pending';
CREATE INDEX event_deliveries_target ON event_deliveries (target_id, id DESC);
CREATE INDEX event_deliveries_created ON event_deliveries USING brin (created_at);
ALTER TABLE event_deliveries ENABLE ROW LEVEL SECURITY;
CREATE POLICY event_deliveries_of_tenant ON event_deliveries
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- Events that came from outside, by a digest of their source and id: each is taken once.
CREATE TABLE received_events (
  tenant_id uuid,
  digest bytea NOT NULL CHECK (octet_length(digest) = 32),
  received_at timestamptz NOT NULL,
  CONSTRAINT received_events_once UNIQUE NULLS NOT DISTINCT (tenant_id, digest)
);
-- Retention finds what is old; new rows go to its end.
CREATE INDEX received_events_age ON received_events (received_at);
ALTER TABLE received_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY received_events_of_tenant ON received_events
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
`
)
