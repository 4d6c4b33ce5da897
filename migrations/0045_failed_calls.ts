import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- What a row counts for in sums, of both kinds: synthetic rows are in no roll-up. A cache hit or a refund is no request, nor is
-- what was released; but a call that its providers failed is one, and an error.
CREATE OR REPLACE VIEW usage_counted WITH (security_invoker = true) AS
SELECT u.tenant_id, u.occurred_at, u.batch, u.agent_id, u.model, u.provider, u.task_type, u.application_id, u.plan_id,
  u.user_id, u.api_key_id, u.cost, u.saved,
  (u.method NOT IN ('refunded', 'cached'))::integer AS requests,
  (u.method IN ('unanswered', 'expired', 'released') OR (u.method NOT IN ('aborted', 'refunded', 'cached')
    AND coalesce(u.status >= 400, false)))::integer AS errors,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.input_tokens END, 0) AS input_tokens,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.output_tokens END, 0) AS output_tokens,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.cached_input_tokens END, 0) AS cached_input_tokens,
  CASE WHEN u.method <> 'cached' THEN usage_latency_bucket(u.latency_ms) END AS bucket, u.synthetic
FROM usage_rows u WHERE u.method <> 'released' OR u.attempts <> '[]';

-- Days whose sums did not have them.
DO $$
DECLARE
  day date;
BEGIN
  FOR day IN SELECT DISTINCT (u.occurred_at AT TIME ZONE 'UTC')::date FROM usage_rows u
    WHERE u.method = 'released' AND u.attempts <> '[]' AND NOT u.synthetic
  LOOP
    PERFORM usage_rebuild(day);
  END LOOP;
END
$$;
`
)
