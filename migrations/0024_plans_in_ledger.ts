import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // As before, and with plans in it: what a call gives back or is charged changes what its plan has left, and so what the
  // plan holds. A call of a plan that has moved to other periods since gives its rest back to its own period and no more to
  // the plan, whose budget is the less.
  yield* sql`
    CREATE OR REPLACE FUNCTION budget_move(
      moment timestamptz, tenants uuid[], ids uuid[], holds boolean[], amounts bigint[], tokens bigint[], counts integer[])
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      counters uuid[];
      owners uuid[] := tenants || '00000000-0000-0000-0000-000000000000'::uuid;
      has_plans boolean;
      plan_tenants uuid[]; plan_ids uuid[]; rests bigint[];
    BEGIN
      SELECT array_agg(DISTINCT c), bool_or(b.plan_id IS NOT NULL) INTO counters, has_plans
      FROM unnest(tenants, ids) AS r(tenant, id)
      JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id, unnest(b.counter_ids) c;
      IF counters IS NULL THEN RETURN false; END IF;
      IF has_plans THEN
        SELECT array_agg(p.tenant), array_agg(p.id) INTO plan_tenants, plan_ids
        FROM (
          SELECT DISTINCT b.tenant_id AS tenant, b.plan_id AS id FROM unnest(tenants, ids) AS r(tenant, id)
          JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id WHERE b.plan_id IS NOT NULL) p;
        PERFORM budget_lock_plans(plan_tenants, plan_ids);
        counters := counters || ARRAY(
          SELECT DISTINCT c FROM unnest(plan_tenants, plan_ids) AS p(tenant, id)
          JOIN budget_plans l ON l.tenant_id = p.tenant AND l.id = p.id, unnest(l.counter_ids) c);
      END IF;
      PERFORM budget_lock_counters(owners, counters, moment);
      IF has_plans THEN rests := budget_plan_rests(plan_tenants, plan_ids); END IF;
      UPDATE budget_counters c SET reserved = c.reserved - d.freed, spent = c.spent + d.charged,
        ring = CASE WHEN c.ring IS NULL THEN NULL
          ELSE c.ring[:cardinality(c.ring) - 1] || (c.ring[cardinality(c.ring)] + d.charged) END
      FROM (
        SELECT o.tenant_id, o.id,
          sum(CASE WHEN NOT r.holds THEN 0 WHEN o.unit = 'usd' THEN b.amount WHEN o.unit = 'tokens' THEN b.tokens ELSE 1 END)::bigint AS freed,
          sum(CASE o.unit WHEN 'usd' THEN r.amount WHEN 'tokens' THEN r.tokens ELSE r.counts END)::bigint AS charged
        FROM unnest(tenants, ids, holds, amounts, tokens, counts) AS r(tenant, id, holds, amount, tokens, counts)
        JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id
        CROSS JOIN LATERAL unnest(b.counter_ids) AS e(counter)
        JOIN budget_counters o ON o.id = e.counter
          AND o.tenant_id IN (r.tenant, '00000000-0000-0000-0000-000000000000')
        GROUP BY o.tenant_id, o.id
      ) d
      WHERE c.tenant_id = d.tenant_id AND c.id = d.id AND (d.freed <> 0 OR d.charged <> 0);
      IF has_plans THEN
        UPDATE budget_plans l SET budget = greatest(l.budget - d.lost, 0)
        FROM (
          SELECT o.tenant_id, o.id, sum(greatest(b.amount - r.amount, 0))::bigint AS lost
          FROM unnest(tenants, ids, holds, amounts) AS r(tenant, id, holds, amount)
          JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id
          JOIN budget_plans o ON o.tenant_id = b.tenant_id AND o.id = b.plan_id
          WHERE r.holds AND NOT b.counter_ids @> o.counter_ids
          GROUP BY o.tenant_id, o.id
        ) d
        WHERE l.tenant_id = d.tenant_id AND l.id = d.id AND d.lost > 0;
        PERFORM budget_plan_hold(plan_tenants, plan_ids, rests);
      END IF;
      IF budget_has_thresholds(counters, owners) THEN PERFORM budget_note_alerts(moment, counters); END IF;
      RETURN EXISTS (
        SELECT FROM budget_counters c WHERE c.tenant_id = ANY (owners) AND c.id = ANY (counters) AND c.ring IS NOT NULL);
    END
    $$`

  // As before, but a call of a plan that has ended settles late, and a plan's own reservation is nobody's to settle.
  yield* sql`
    CREATE OR REPLACE FUNCTION budgets_close_v1(p json, requests json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      verdicts text[]; taken integer[] := '{}'; at integer; verdict text; keyed boolean := (p->>'keyed')::boolean;
      done integer[] := '{}'; tenants uuid[] := '{}'; ids uuid[] := '{}';
      holds boolean[] := '{}'; amounts bigint[] := '{}'; charged_tokens bigint[] := '{}'; counts integer[] := '{}';
      place_tenants uuid[]; place_tokens bigint[]; lates boolean[]; is_rolling boolean;
      r record;
    BEGIN
      verdicts := array_fill('missing'::text, ARRAY[json_array_length(requests)]);
      place_tenants := array_fill(NULL::uuid, ARRAY[cardinality(verdicts)]);
      place_tokens := array_fill(NULL::bigint, ARRAY[cardinality(verdicts)]);
      lates := array_fill(false, ARRAY[cardinality(verdicts)]);
      IF keyed THEN taken := budget_claim_keys(requests, moment); END IF;
      FOREACH at IN ARRAY taken LOOP verdicts[at] := 'replay'; END LOOP;

      FOR r IN
        SELECT q.*, b.tenant_id, b.state, b.origin AS is_of, b.created_by, b.expires_at, b.amount AS reserved,
          b.tokens AS reserved_tokens, b.actual, b.actual_tokens,
          CASE WHEN b.plan_id IS NOT NULL THEN (
            SELECT budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment) NOT IN ('active', 'suspended')
            FROM budget_plans l WHERE l.tenant_id = b.tenant_id AND l.id = b.plan_id) ELSE false END AS is_after_plan
        FROM json_to_recordset(requests) AS q(place integer, id uuid, tenant uuid, kind text, origin text, principal text,
          unrestricted boolean, amount bigint, tokens bigint)
        JOIN budget_reservations b ON b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant)
        WHERE b.origin <> 'plan'
        ORDER BY b.tenant_id, b.id FOR UPDATE OF b
      LOOP
        CONTINUE WHEN verdicts[r.place] = 'replay';
        verdict := CASE
          WHEN r.created_by <> r.principal AND NOT r.unrestricted THEN 'foreign'
          WHEN r.is_of <> r.origin THEN 'managed'
          WHEN r.kind = 'settle' AND r.state = 'settled' THEN
            CASE WHEN r.actual = r.amount AND coalesce(r.tokens = r.actual_tokens, true) THEN 'same' ELSE 'conflict' END
          WHEN r.kind = 'settle' AND r.state IN ('held', 'denied') THEN 'unopened'
          WHEN r.kind = 'release' AND r.state = 'settled' THEN 'conflict'
          WHEN r.kind = 'release' AND r.state IN ('released', 'expired', 'denied') THEN 'same'
          ELSE 'done' END;
        verdicts[r.place] := verdict;
        IF verdict = 'done' THEN
          done := done || r.place;
          tenants := tenants || r.tenant_id;
          ids := ids || r.id;
          holds := holds || (r.state = 'open');
          amounts := amounts || CASE r.kind WHEN 'settle' THEN r.amount ELSE 0 END;
          charged_tokens := charged_tokens || CASE r.kind WHEN 'settle' THEN coalesce(r.tokens, r.reserved_tokens) ELSE 0 END;
          counts := counts || CASE r.kind WHEN 'settle' THEN 1 ELSE 0 END;
          place_tenants[r.place] := r.tenant_id;
          place_tokens[r.place] := coalesce(r.tokens, r.reserved_tokens);
          lates[r.place] := r.state <> 'open' OR r.expires_at <= moment OR r.is_after_plan;
        END IF;
      END LOOP;

      -- A plan's own is locked by the plan's functions alone, after the plan.
      IF 'missing' = ANY (verdicts) THEN
        FOR r IN
          SELECT q.place, b.created_by <> q.principal AND NOT q.unrestricted AS is_foreign
          FROM json_to_recordset(requests) AS q(place integer, id uuid, tenant uuid, principal text, unrestricted boolean)
          JOIN budget_reservations b ON b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant)
          WHERE b.origin = 'plan'
        LOOP
          CONTINUE WHEN verdicts[r.place] = 'replay';
          verdicts[r.place] := CASE WHEN r.is_foreign THEN 'foreign' ELSE 'managed-by-plan' END;
        END LOOP;
      END IF;

      IF cardinality(ids) > 0 THEN
        is_rolling := budget_move(moment, tenants, ids, holds, amounts, charged_tokens, counts);
        INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, overrun,
          late, usage, metadata, occurred_at, created_by, counter_ids, buckets)
        SELECT b.tenant_id, q.charge_id, b.id, 'charge', q.charge_id, q.amount, q.charged_tokens, 1,
          greatest(q.amount - b.amount, 0), q.late, q.usage, q.metadata, moment, q.principal, b.counter_ids,
          CASE WHEN is_rolling THEN budget_buckets(b.tenant_id, b.counter_ids) ELSE '{}' END
        FROM ROWS FROM (
          json_to_recordset(requests) AS (id uuid, kind text, amount bigint, charge_id uuid, usage jsonb, metadata jsonb,
            principal text),
          unnest(verdicts), unnest(place_tenants), unnest(place_tokens), unnest(lates)
        ) AS q(id, kind, amount, charge_id, usage, metadata, principal, verdict, tenant, charged_tokens, late)
        JOIN budget_reservations b ON b.tenant_id = q.tenant AND b.id = q.id
        WHERE q.verdict = 'done' AND q.kind = 'settle';
        UPDATE budget_reservations b SET
          state = CASE q.kind WHEN 'settle' THEN 'settled' ELSE 'released' END, closed_at = moment,
          charge_id = q.charge_id, late = q.late AND q.kind = 'settle',
          actual = CASE q.kind WHEN 'settle' THEN q.amount END,
          actual_tokens = CASE q.kind WHEN 'settle' THEN q.charged_tokens END
        FROM ROWS FROM (
          json_to_recordset(requests) AS (id uuid, kind text, amount bigint, charge_id uuid),
          unnest(verdicts), unnest(place_tenants), unnest(place_tokens), unnest(lates)
        ) AS q(id, kind, amount, charge_id, verdict, tenant, charged_tokens, late)
        WHERE b.tenant_id = q.tenant AND b.id = q.id AND q.verdict = 'done';
      END IF;

      IF keyed THEN
        PERFORM budget_free_keys(requests, ARRAY(
          SELECT place::integer FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place)
          WHERE v.verdict NOT IN ('done', 'same', 'replay')));
      END IF;
      RETURN json_build_object('verdicts', verdicts,
        'replays', CASE WHEN cardinality(taken) = 0 THEN '[]'::json ELSE budget_replays(requests, taken) END,
        'closed', (
          SELECT coalesce(json_agg(json_build_object('place', q.place, 'reservation', to_json(b),
            'charge', CASE WHEN e.id IS NOT NULL THEN to_json(e) END)), '[]')
          FROM ROWS FROM (json_to_recordset(requests) AS (place integer, id uuid, kind text), unnest(verdicts))
            AS q(place, id, kind, verdict)
          JOIN budget_reservations b ON b.id = q.id
          LEFT JOIN budget_entries e ON e.tenant_id = b.tenant_id AND e.id = b.charge_id
          WHERE q.kind = 'settle' AND q.verdict IN ('done', 'same', 'replay')));
    END
    $$`

  // As before, and what is refunded is the plan's again while it lasts.
  yield* sql`
    CREATE OR REPLACE FUNCTION budgets_refund_v1(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      given bigint := p->>'amount';
      c budget_entries;
      e budget_entries;
      refunded bigint;
      plan uuid;
      held uuid[] := '{}';
      rests bigint[];
    BEGIN
      SELECT * INTO c FROM budget_entries x
      WHERE x.id = (p->>'charge')::uuid AND x.kind = 'charge' AND (p->>'tenant' IS NULL OR x.tenant_id = (p->>'tenant')::uuid);
      IF NOT FOUND THEN RETURN json_build_object('verdict', 'missing'); END IF;
      SELECT r.plan_id INTO plan FROM budget_reservations r
      WHERE r.tenant_id = c.tenant_id AND r.id = c.reservation_id FOR UPDATE;
      IF c.created_by = p->>'principal' AND NOT (p->>'system')::boolean THEN RETURN json_build_object('verdict', 'own'); END IF;
      SELECT coalesce(-sum(x.amount), 0) INTO refunded FROM budget_entries x
      WHERE x.tenant_id = c.tenant_id AND x.charge_id = c.id AND x.kind = 'refund';
      IF refunded + given > c.amount THEN
        RETURN json_build_object('verdict', 'exceeds', 'refundable', (c.amount - refunded)::text);
      END IF;
      IF plan IS NOT NULL THEN
        PERFORM budget_lock_plans(ARRAY[c.tenant_id], ARRAY[plan]);
        SELECT l.counter_ids INTO held FROM budget_plans l WHERE l.tenant_id = c.tenant_id AND l.id = plan;
      END IF;
      PERFORM budget_lock_counters(
        ARRAY[c.tenant_id, '00000000-0000-0000-0000-000000000000'], c.counter_ids || held, moment);
      IF plan IS NOT NULL THEN rests := budget_plan_rests(ARRAY[c.tenant_id], ARRAY[plan]); END IF;
      UPDATE budget_counters k SET
        spent = k.spent - CASE WHEN k.ring IS NULL OR m.slot > 0 THEN given ELSE 0 END,
        ring = CASE WHEN m.slot > 0 THEN k.ring[:m.slot - 1] || (k.ring[m.slot] - given) || k.ring[m.slot + 1:] ELSE k.ring END
      FROM (
        SELECT o.tenant_id, o.id, (cardinality(o.ring) - (o.ring_head - t.bucket))::integer AS slot
        FROM unnest(c.counter_ids, c.buckets) AS t(counter, bucket)
        JOIN budget_counters o ON o.id = t.counter
          AND o.tenant_id IN (c.tenant_id, '00000000-0000-0000-0000-000000000000')
        WHERE o.unit = 'usd'
      ) m WHERE k.tenant_id = m.tenant_id AND k.id = m.id;
      IF plan IS NOT NULL THEN
        -- What comes back where the plan holds nothing any more is not the plan's again.
        UPDATE budget_plans l SET budget = greatest(l.budget - given, 0)
        WHERE l.tenant_id = c.tenant_id AND l.id = plan AND NOT c.counter_ids @> l.counter_ids;
        PERFORM budget_plan_hold(ARRAY[c.tenant_id], ARRAY[plan], rests);
      END IF;
      INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, reason,
        occurred_at, created_by, counter_ids, buckets)
      VALUES (c.tenant_id, (p->>'id')::uuid, c.reservation_id, 'refund', c.id, -given, 0, 0, p->>'reason', moment,
        p->>'principal', c.counter_ids, c.buckets)
      RETURNING * INTO e;
      PERFORM budget_audit(p->'entries', '{1}', ARRAY[c.tenant_id], moment);
      RETURN json_build_object('verdict', 'done', 'refund', to_json(e));
    END
    $$`

  // As before; what plans hold is what each has left.
  yield* sql`
    CREATE OR REPLACE FUNCTION budgets_drift_v1()
    RETURNS TABLE (tenant_id uuid, cap_id uuid, counter_id uuid, counter_key text, spent bigint, spent_fold numeric,
      reserved bigint, reserved_fold numeric)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      WITH charged AS (
        SELECT t.counter, t.bucket, sum(e.amount) AS usd, sum(e.tokens) AS tokens, sum(e.requests) AS requests
        FROM budget_entries e CROSS JOIN LATERAL unnest(e.counter_ids, e.buckets) AS t(counter, bucket) GROUP BY 1, 2
      ), plan_spent AS (
        SELECT r.tenant_id, r.plan_id, sum(e.amount) AS usd FROM budget_entries e
        JOIN budget_reservations r ON r.tenant_id = e.tenant_id AND r.id = e.reservation_id
        WHERE r.plan_id IS NOT NULL GROUP BY 1, 2
      ), plan_open AS (
        SELECT r.tenant_id, r.plan_id, sum(r.amount) AS usd FROM budget_reservations r
        WHERE r.plan_id IS NOT NULL AND r.origin <> 'plan' AND r.state = 'open' GROUP BY 1, 2
      ), single AS (
        SELECT r.counter_ids, r.amount::numeric AS usd, r.tokens::numeric AS tokens, 1::numeric AS requests
        FROM budget_reservations r WHERE r.state = 'open' AND r.origin <> 'plan'
        UNION ALL
        SELECT l.counter_ids, greatest(l.budget - coalesce(s.usd, 0) - coalesce(o.usd, 0), 0), 0, 0
        FROM budget_plans l
        LEFT JOIN plan_spent s ON s.tenant_id = l.tenant_id AND s.plan_id = l.id
        LEFT JOIN plan_open o ON o.tenant_id = l.tenant_id AND o.plan_id = l.id
        WHERE l.status IN ('active', 'suspended')
      ), held AS (
        SELECT c AS counter, sum(r.usd) AS usd, sum(r.tokens) AS tokens, sum(r.requests) AS requests
        FROM single r CROSS JOIN LATERAL unnest(r.counter_ids) AS c GROUP BY 1
      ), folded AS (
        SELECT b.*,
          coalesce((SELECT sum(CASE b.unit WHEN 'usd' THEN c.usd WHEN 'tokens' THEN c.tokens ELSE c.requests END)
            FROM charged c WHERE c.counter = b.id
              AND (b.ring IS NULL OR c.bucket > b.ring_head - cardinality(b.ring))), 0) AS spent_fold,
          coalesce((SELECT CASE b.unit WHEN 'usd' THEN h.usd WHEN 'tokens' THEN h.tokens ELSE h.requests END
            FROM held h WHERE h.counter = b.id), 0) AS reserved_fold,
          EXISTS (
            SELECT FROM unnest(b.ring) WITH ORDINALITY AS g(amount, slot) WHERE g.amount <> coalesce((
              SELECT CASE b.unit WHEN 'usd' THEN c.usd WHEN 'tokens' THEN c.tokens ELSE c.requests END FROM charged c
              WHERE c.counter = b.id AND c.bucket = b.ring_head - cardinality(b.ring) + g.slot), 0)) AS ring_differs
        FROM budget_counters b
      )
      SELECT tenant_id, cap_id, id, counter_key, spent, spent_fold, reserved, reserved_fold FROM folded
      WHERE spent <> spent_fold OR reserved <> reserved_fold OR ring_differs
    $$`
})
