import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Who has had the secret of a principal, or may have: who created it, rotated its key, reset its password, registered a
-- key of it or was issued its credential. Rows outlive what they name, so that deleting an account hides nobody.
CREATE TABLE principal_holders (
  principal text NOT NULL,
  holder text NOT NULL,
  PRIMARY KEY (principal, holder),
  CHECK (principal <> holder)
);
REVOKE UPDATE, DELETE ON principal_holders FROM application_manager;

CREATE TRIGGER api_keys_holders AFTER INSERT OR UPDATE OF created_by ON api_keys
FOR EACH ROW EXECUTE FUNCTION record_holders('api-key', 'id');
CREATE TRIGGER accounts_holders AFTER INSERT OR UPDATE OF created_by ON accounts
FOR EACH ROW EXECUTE FUNCTION record_holders('account', 'id');
CREATE TRIGGER agents_holders AFTER INSERT OR UPDATE OF created_by ON agents
FOR EACH ROW EXECUTE FUNCTION record_holders('agent', 'id');
CREATE TRIGGER agent_keys_holders AFTER INSERT OR UPDATE OF created_by ON agent_keys
FOR EACH ROW EXECUTE FUNCTION record_holders('agent', 'agent_id');

INSERT INTO principal_holders (principal, holder)
SELECT 'api-key:' || id, created_by FROM api_keys
UNION SELECT 'api-key:' || id, 'api-key:' || rotated_from FROM api_keys WHERE rotated_from IS NOT NULL
UNION SELECT 'api-key:' || rotated_from, created_by FROM api_keys
  WHERE rotated_from IS NOT NULL AND created_by <> 'api-key:' || rotated_from
UNION SELECT 'account:' || id, created_by FROM accounts
UNION SELECT 'agent:' || id, created_by FROM agents
UNION SELECT 'agent:' || agent_id, created_by FROM agent_keys
UNION SELECT 'agent:' || agent_id, issued_by FROM agent_credentials WHERE issued_by <> 'agent:' || agent_id;
`,
  ["record_holders"]
)
