import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Whoever belongs to a tenant raises no cap over all tenants: to its override such a cap is a hard one. And an answer that
  // is given again says of the reservation what it was, not what somebody made of it since.
  yield* sql`
    DO $do$
    DECLARE
      definition text := pg_get_functiondef('budgets_reserve_v2(json, json, json)'::regprocedure);
      change text[];
    BEGIN
      FOREACH change SLICE 1 IN ARRAY ARRAY[
        ARRAY[$$IF modes[at] = 'hard' THEN$$,
          $$IF modes[at] = 'hard' OR (counter_tenants[at] = '00000000-0000-0000-0000-000000000000'
                AND (requests->(i - 1)->>'confined')::boolean) THEN$$],
        ARRAY[$$jsonb_build_object('state', q.verdict,$$,
          $$jsonb_build_object('state', q.verdict, 'amount', q.amount, 'tokens', q.tokens, 'ttl', q.ttl,$$]
      ] LOOP
        IF position(change[1] IN definition) = 0 THEN
          RAISE EXCEPTION 'budgets_reserve_v2 has no %', change[1];
        END IF;
        definition := replace(definition, change[1], change[2]);
      END LOOP;
      EXECUTE definition;
    END
    $do$`
})
