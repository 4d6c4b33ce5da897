import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- When the installation signed which payload (its SHA-256 digest): a statement is judged at that time.
CREATE TABLE attestation_statements (
  digest bytea NOT NULL CHECK (octet_length(digest) = 32),
  key_id text NOT NULL REFERENCES attestation_keys (key_id),
  signed_at timestamptz NOT NULL,
  PRIMARY KEY (digest, key_id)
);
REVOKE UPDATE, DELETE ON attestation_statements FROM application_manager;

INSERT INTO attestation_statements (digest, key_id, signed_at)
SELECT sha256(decode(envelope->>'payload', 'base64')), envelope->'signatures'->0->>'keyid', min(created_at)
FROM billing_statements GROUP BY 1, 2;
`
)
