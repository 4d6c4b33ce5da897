import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Moves the counters of locked reservations: gives back what the open ones hold, and adds what is charged. A rolling
  // counter is charged in its newest bucket; answers whether there is any.
  yield* sql`
    CREATE FUNCTION budget_move(
      moment timestamptz, tenants uuid[], ids uuid[], holds boolean[], amounts bigint[], tokens bigint[], counts integer[])
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      counters uuid[];
      owners uuid[] := tenants || '00000000-0000-0000-0000-000000000000'::uuid;
    BEGIN
      SELECT array_agg(DISTINCT c) INTO counters
      FROM unnest(tenants, ids) AS r(tenant, id)
      JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id, unnest(b.counter_ids) c;
      IF counters IS NULL THEN RETURN false; END IF;
      PERFORM budget_lock_counters(owners, counters, moment);
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
      IF budget_has_thresholds(counters, owners) THEN PERFORM budget_note_alerts(moment, counters); END IF;
      RETURN EXISTS (
        SELECT FROM budget_counters c WHERE c.tenant_id = ANY (owners) AND c.id = ANY (counters) AND c.ring IS NOT NULL);
    END
    $$`

  // The buckets that charges of these counters go into, -1 where a counter has none.
  yield* sql`
    CREATE FUNCTION budget_buckets(tenant uuid, counters uuid[]) RETURNS bigint[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      SELECT coalesce(array_agg(coalesce(c.ring_head, -1) ORDER BY e.place), '{}')
      FROM unnest(counters) WITH ORDINALITY AS e(id, place)
      JOIN budget_counters c ON c.id = e.id AND c.tenant_id IN (tenant, '00000000-0000-0000-0000-000000000000')
    $$`

  // Settles and releases a batch of reservations, each named once, in one statement. Verdicts:
  //   done, same (it was done before, with the same outcome), conflict (it was done with another), missing, foreign (another
  //   principal's), managed (of another origin), unopened (held or denied), replay (its key was used)
  yield* sql`
    CREATE FUNCTION budgets_close_v1(p json, requests json) RETURNS json
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
          b.tokens AS reserved_tokens, b.actual, b.actual_tokens
        FROM json_to_recordset(requests) AS q(place integer, id uuid, tenant uuid, kind text, origin text, principal text,
          unrestricted boolean, amount bigint, tokens bigint)
        JOIN budget_reservations b ON b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant)
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
          lates[r.place] := r.state <> 'open' OR r.expires_at <= moment;
        END IF;
      END LOOP;

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

  // Ends what is due: the holds of an API reservation return; a gateway's call may have been made, so it is charged what it
  // reserved. With `waiting`, what others are at work on is waited for, and only one tenant's is looked at.
  yield* sql`
    CREATE FUNCTION budgets_sweep_v1(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      only_tenant uuid := p->>'tenant';
      most integer := p->>'most';
      tenants uuid[]; ids uuid[]; holds boolean[]; charges boolean[]; amounts bigint[]; charged_tokens bigint[]; counts integer[];
      charge_ids uuid[];
    BEGIN
      IF (p->>'waiting')::boolean THEN
        PERFORM FROM budget_reservations b
        WHERE (b.tenant_id, b.id) IN (
          SELECT d.tenant_id, d.id FROM budget_reservations d
          WHERE d.state IN ('open', 'held') AND d.origin <> 'plan' AND d.expires_at <= moment
            AND (only_tenant IS NULL OR d.tenant_id = only_tenant)
          ORDER BY d.expires_at LIMIT most)
        ORDER BY b.tenant_id, b.id FOR UPDATE;
      END IF;
      WITH due AS MATERIALIZED (
        SELECT d.tenant_id, d.id, d.state = 'open' AS holds, d.state = 'open' AND d.origin = 'gateway' AS charges,
          d.amount, d.tokens
        FROM budget_reservations d
        WHERE d.state IN ('open', 'held') AND d.origin <> 'plan' AND d.expires_at <= moment
          AND (only_tenant IS NULL OR d.tenant_id = only_tenant)
        ORDER BY d.expires_at LIMIT most FOR UPDATE SKIP LOCKED)
      SELECT array_agg(d.tenant_id), array_agg(d.id), array_agg(d.holds), array_agg(d.charges),
        array_agg(CASE WHEN d.charges THEN d.amount ELSE 0 END),
        array_agg(CASE WHEN d.charges THEN d.tokens ELSE 0 END),
        array_agg(CASE WHEN d.charges THEN 1 ELSE 0 END), array_agg(CASE WHEN d.charges THEN new_id() END)
      INTO tenants, ids, holds, charges, amounts, charged_tokens, counts, charge_ids FROM due d;
      IF ids IS NULL THEN RETURN json_build_object('swept', 0); END IF;
      PERFORM budget_move(moment, tenants, ids, holds, amounts, charged_tokens, counts);
      IF true = ANY (charges) THEN
        INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, reason,
          occurred_at, created_by, counter_ids, buckets)
        SELECT b.tenant_id, m.charge_id, b.id, 'charge', m.charge_id, b.amount, b.tokens, 1, 'abandoned', moment, 'system',
          b.counter_ids, budget_buckets(b.tenant_id, b.counter_ids)
        FROM unnest(tenants, ids, charge_ids) AS m(tenant, id, charge_id)
        JOIN budget_reservations b ON b.tenant_id = m.tenant AND b.id = m.id WHERE m.charge_id IS NOT NULL;
      END IF;
      UPDATE budget_reservations b SET state = CASE WHEN m.charge_id IS NULL THEN 'expired' ELSE 'settled' END,
        closed_at = moment, charge_id = m.charge_id,
        actual = CASE WHEN m.charge_id IS NOT NULL THEN b.amount END,
        actual_tokens = CASE WHEN m.charge_id IS NOT NULL THEN b.tokens END
      FROM unnest(tenants, ids, charge_ids) AS m(tenant, id, charge_id)
      WHERE b.tenant_id = m.tenant AND b.id = m.id;
      PERFORM budget_audit(json_agg(json_build_object('place', s.place, 'action_type', 'SpendReservationsExpired',
          'entity_type', 'Tenant', 'entity_id', s.tenant, 'user_id', 'system', 'actor_type', 'system',
          'changes', json_build_object('before', NULL,
            'after', json_build_object('expired', s.expired, 'charged', s.charged)))),
        array_agg(s.place::integer), array_agg(s.tenant), moment)
      FROM (
        SELECT tenant, row_number() OVER () AS place, count(*) FILTER (WHERE charge_id IS NULL) AS expired,
          count(*) FILTER (WHERE charge_id IS NOT NULL) AS charged
        FROM unnest(tenants, charge_ids) AS m(tenant, charge_id) GROUP BY tenant) s;
      RETURN json_build_object('swept', cardinality(ids));
    END
    $$`

  // Lets an open reservation live longer. Verdicts: done, missing, foreign, managed, unopened (no longer or not yet open).
  yield* sql`
    CREATE FUNCTION budgets_extend_v1(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      b budget_reservations;
      verdict text := 'done';
    BEGIN
      SELECT * INTO b FROM budget_reservations r
      WHERE r.id = (p->>'id')::uuid AND (p->>'tenant' IS NULL OR r.tenant_id = (p->>'tenant')::uuid) FOR UPDATE;
      IF NOT FOUND THEN RETURN json_build_object('verdict', 'missing'); END IF;
      IF b.created_by <> p->>'principal' AND NOT (p->>'unrestricted')::boolean THEN verdict := 'foreign';
      ELSIF b.origin <> p->>'origin' THEN verdict := 'managed';
      ELSIF b.state <> 'open' OR b.expires_at <= moment THEN verdict := 'unopened';
      ELSE
        UPDATE budget_reservations r SET expires_at = moment + make_interval(secs => (p->>'ttl')::integer)
        WHERE r.tenant_id = b.tenant_id AND r.id = b.id RETURNING * INTO b;
      END IF;
      RETURN json_build_object('verdict', verdict, 'reservation', to_json(b));
    END
    $$`

  // Refuses what is held. Verdicts: done, same (denied before), missing, gone (no longer held).
  yield* sql`
    CREATE FUNCTION budgets_deny_v1(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      b budget_reservations;
    BEGIN
      SELECT * INTO b FROM budget_reservations r
      WHERE r.id = (p->>'id')::uuid AND (p->>'tenant' IS NULL OR r.tenant_id = (p->>'tenant')::uuid) FOR UPDATE;
      IF NOT FOUND THEN RETURN json_build_object('verdict', 'missing'); END IF;
      IF b.state = 'denied' THEN
        RETURN json_build_object('verdict', 'same', 'reservation', to_json(b));
      END IF;
      IF b.state <> 'held' OR b.expires_at <= moment THEN
        RETURN json_build_object('verdict', 'gone', 'reservation', to_json(b));
      END IF;
      UPDATE budget_reservations r SET state = 'denied', decided_at = moment, decided_by = p->>'principal',
        decision_reason = p->>'reason', closed_at = moment
      WHERE r.tenant_id = b.tenant_id AND r.id = b.id RETURNING * INTO b;
      PERFORM budget_audit(p->'entries', '{1}', ARRAY[b.tenant_id], moment);
      RETURN json_build_object('verdict', 'done', 'reservation', to_json(b));
    END
    $$`

  // Gives back a part of a charge, on the rows that it was charged on; of a rolling one while its bucket is in the window.
  // Verdicts: done, missing, own (whoever made the charge refunds nothing of it), exceeds.
  yield* sql`
    CREATE FUNCTION budgets_refund_v1(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      given bigint := p->>'amount';
      c budget_entries;
      e budget_entries;
      refunded bigint;
    BEGIN
      SELECT * INTO c FROM budget_entries x
      WHERE x.id = (p->>'charge')::uuid AND x.kind = 'charge' AND (p->>'tenant' IS NULL OR x.tenant_id = (p->>'tenant')::uuid);
      IF NOT FOUND THEN RETURN json_build_object('verdict', 'missing'); END IF;
      PERFORM FROM budget_reservations r WHERE r.tenant_id = c.tenant_id AND r.id = c.reservation_id FOR UPDATE;
      IF c.created_by = p->>'principal' AND NOT (p->>'system')::boolean THEN RETURN json_build_object('verdict', 'own'); END IF;
      SELECT coalesce(-sum(x.amount), 0) INTO refunded FROM budget_entries x
      WHERE x.tenant_id = c.tenant_id AND x.charge_id = c.id AND x.kind = 'refund';
      IF refunded + given > c.amount THEN
        RETURN json_build_object('verdict', 'exceeds', 'refundable', (c.amount - refunded)::text);
      END IF;
      PERFORM budget_lock_counters(
        ARRAY[c.tenant_id, '00000000-0000-0000-0000-000000000000'], c.counter_ids, moment);
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
      INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, reason,
        occurred_at, created_by, counter_ids, buckets)
      VALUES (c.tenant_id, (p->>'id')::uuid, c.reservation_id, 'refund', c.id, -given, 0, 0, p->>'reason', moment,
        p->>'principal', c.counter_ids, c.buckets)
      RETURNING * INTO e;
      PERFORM budget_audit(p->'entries', '{1}', ARRAY[c.tenant_id], moment);
      RETURN json_build_object('verdict', 'done', 'refund', to_json(e));
    END
    $$`

  // Counters that are not the fold of what was written: of all entries what is spent, of all open reservations what is
  // reserved. None, when all is well.
  yield* sql`
    CREATE FUNCTION budgets_drift_v1()
    RETURNS TABLE (tenant_id uuid, cap_id uuid, counter_id uuid, counter_key text, spent bigint, spent_fold numeric,
      reserved bigint, reserved_fold numeric)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      WITH charged AS (
        SELECT t.counter, t.bucket, sum(e.amount) AS usd, sum(e.tokens) AS tokens, sum(e.requests) AS requests
        FROM budget_entries e CROSS JOIN LATERAL unnest(e.counter_ids, e.buckets) AS t(counter, bucket) GROUP BY 1, 2
      ), held AS (
        SELECT c AS counter, sum(r.amount) AS usd, sum(r.tokens) AS tokens, count(*) AS requests
        FROM budget_reservations r CROSS JOIN LATERAL unnest(r.counter_ids) AS c WHERE r.state = 'open' GROUP BY 1
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

  // Functions come with leave for everybody; the inner ones move money and are for these alone.
  yield* sql`
    DO $$
    DECLARE
      f regprocedure;
    BEGIN
      FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'budget%' LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
      END LOOP;
      FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
        AND (p.proname LIKE 'budgets_%' OR p.proname IN ('budget_limit', 'budget_forecast', 'budget_period',
          'budget_local_moment', 'budget_day_of_month', 'budget_ring_at', 'budget_ring_sum', 'budget_bucket')) LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO application_manager', f);
      END LOOP;
    END
    $$`
})
