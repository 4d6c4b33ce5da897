import { Effect } from "effect"
import { SqlClient } from "effect/sql"

type Changes = ReadonlyArray<readonly [before: string, after: string]>

/** A function as it is, with some of its text replaced. Each text must be there, so that nothing is changed in silence. */
const amend = Effect.fnUntraced(function* (signature: string, changes: Changes) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly definition: string }>`
    SELECT pg_get_functiondef(${signature}::text::regprocedure) AS definition`
  let definition = rows[0]?.definition ?? ""
  for (const [before, after] of changes) {
    if (definition.split(before).length !== 2) {
      return yield* Effect.die(new Error(`${signature} says not once: ${before}`))
    }
    definition = definition.replace(before, () => after)
  }
  yield* sql.unsafe(definition)
})

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // What would be more than this holds fails by itself, and what is reserved can always be spent.
  yield* sql`ALTER TABLE budget_counters ADD CONSTRAINT budget_counters_hold CHECK (spent + reserved >= 0)`
  yield* sql`ALTER TABLE budget_grants ADD reservation_id uuid`
  yield* sql`
    CREATE INDEX budget_grants_reservation ON budget_grants (reservation_id) WHERE reservation_id IS NOT NULL`

  yield* amend("budgets_reserve_v2(json, json, json)", [
    // What is approved twice in one batch is approved once: the first takes it.
    [
      `WHERE q.kind <> 'reserve' AND b.origin <> 'plan' ORDER BY b.tenant_id, b.id FOR UPDATE OF b
        LOOP
          IF r.state = 'held' AND r.expires_at > moment THEN verdicts[r.place] := NULL; END IF;
        END LOOP;`,
      `WHERE q.kind <> 'reserve' AND b.origin <> 'plan' ORDER BY b.tenant_id, b.id, q.place FOR UPDATE OF b
        LOOP
          IF r.state = 'held' AND r.expires_at > moment AND NOT ids[r.place] = ANY (approved) THEN
            verdicts[r.place] := NULL;
            approved := approved || ids[r.place];
          END IF;
        END LOOP;`
    ],
    [
      `places integer[]; place_tenants`,
      `approved uuid[] := '{}'; uncounted boolean[]; places integer[]; place_tenants`
    ],
    // A plan holds on a cap by the key of whoever started it; its calls are on that cap then, whoever makes them.
    [
      `AND e.cap = counter_caps[k.counter] AND e.key = counter_keys[k.counter]) h ON true`,
      `AND e.cap = counter_caps[k.counter]) h ON true`
    ],
    // A cap that refuses nothing refuses nothing either when its counter can hold no more: it counts no further.
    [
      `            CONTINUE WHEN pair_holds[pair] IS NOT NULL;
            at := pair_counters[pair];
            need := CASE units[at] WHEN 'usd' THEN amounts[i] WHEN 'tokens' THEN tokens[i] ELSE 1 END;
            IF approving`,
      `            CONTINUE WHEN pair_holds[pair] IS NOT NULL;
            at := pair_counters[pair];
            need := CASE units[at] WHEN 'usd' THEN amounts[i] WHEN 'tokens' THEN tokens[i] ELSE 1 END;
            IF modes[at] = 'soft' AND spents[at]::numeric + reserveds[at] + need > 9223372036854775807 THEN
              uncounted[pair] := true;
              CONTINUE;
            END IF;
            IF approving`
    ],
    [
      `lists[i] := concat_ws(',', lists[i], counters[at]);`,
      `IF uncounted[pair] IS NULL THEN lists[i] := concat_ws(',', lists[i], counters[at]); END IF;`
    ],
    // Nor does an override raise a cap to what no counter holds.
    [
      `              fails := coalesce(fails, next);`,
      `              fails := coalesce(fails, next);
              IF spents[at]::numeric + reserveds[at] + need > 9223372036854775807 THEN
                hard_fails := coalesce(hard_fails, next);
              END IF;`
    ],
    // A grant that an override writes is known by its reservation.
    [
      `INSERT INTO budget_grants (tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
              SELECT counter_tenants[at]`,
      `INSERT INTO budget_grants (
                reservation_id, tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
              SELECT ids[i], counter_tenants[at]`
    ],
    // Who is refused leaves no counters behind, or anybody could fill the table with them.
    [
      `      IF counters IS NOT NULL THEN
        UPDATE budget_counters b SET reserved`,
      `      IF counters IS NOT NULL
        AND array_remove(array_remove(array_remove(verdicts, 'open'), 'held'), 'replay') <> '{}' THEN
        DELETE FROM budget_counters b
        WHERE b.tenant_id = ANY (counter_tenants) AND b.id = ANY (counters) AND b.created_at = moment
          AND b.xmin = pg_current_xact_id()::xid AND b.spent = 0 AND b.reserved = 0
          AND deltas[array_position(counters, b.id)] = 0
          AND NOT EXISTS (
            SELECT FROM unnest(verdicts, lists) AS v(verdict, list)
            WHERE v.verdict IN ('open', 'held') AND b.id = ANY (v.list::uuid[]));
      END IF;
      IF counters IS NOT NULL THEN
        UPDATE budget_counters b SET reserved`
    ]
  ])

  // A reservation that stands twice in a batch is closed once: what comes after is said to be the same, or another outcome.
  yield* amend("budgets_close_v1(json, json)", [
    [
      `        CONTINUE WHEN verdicts[r.place] = 'replay';
        verdict := CASE
          WHEN r.created_by`,
      `        CONTINUE WHEN verdicts[r.place] = 'replay';
        verdict := CASE
          WHEN ids[cardinality(ids)] = r.id THEN
            CASE WHEN done_kind = r.kind AND (r.kind = 'release' OR (amounts[cardinality(amounts)] = r.amount
              AND charged_tokens[cardinality(charged_tokens)] = coalesce(r.tokens, r.reserved_tokens)))
              THEN 'same' ELSE 'conflict' END
          WHEN r.created_by`
    ],
    [
      `          done := done || r.place;`,
      `          done := done || r.place;
          done_kind := r.kind;`
    ],
    [`is_rolling boolean;`, `is_rolling boolean; done_kind text;`],
    [
      `WHERE b.origin <> 'plan'
        ORDER BY b.tenant_id, b.id FOR UPDATE OF b`,
      `WHERE b.origin <> 'plan'
        ORDER BY b.tenant_id, b.id, q.place FOR UPDATE OF b`
    ]
  ])

  yield* amend("budgets_adopt_v1(json)", [
    [
      `unnest(l.held_caps, l.held_keys) AS h(cap, key) WHERE h.cap = c.cap AND h.key = c.key)`,
      `unnest(l.held_caps) AS h(cap) WHERE h.cap = c.cap)`
    ]
  ])

  // A cap that refuses nothing has no room for a plan either when its counter can hold no more.
  yield* amend("budget_plan_room(json, uuid[], bigint[], timestamptz)", [
    [
      `WHERE binds AND need > 0 AND spent::numeric + reserved + need > lim ORDER BY`,
      `WHERE need > 0 AND spent::numeric + reserved + need > CASE WHEN binds THEN lim ELSE 9223372036854775807 END
        ORDER BY`
    ]
  ])

  // What an override raised a cap by ends with its reservation, except for what was spent of it.
  yield* amend("budget_move(timestamptz, uuid[], uuid[], boolean[], bigint[], bigint[], integer[])", [
    [`      has_plans boolean;`, `      has_plans boolean; is_approved boolean;`],
    [
      `bool_or(b.plan_id IS NOT NULL) INTO counters, has_plans`,
      `bool_or(b.plan_id IS NOT NULL), bool_or(b.decided_at IS NOT NULL) INTO counters, has_plans, is_approved`
    ],
    [
      `      IF budget_has_thresholds(counters, owners)`,
      `      IF is_approved THEN
        WITH used AS (
          SELECT g.tenant_id, g.id, g.amount - greatest(
            CASE o.unit WHEN 'usd' THEN b.amount - r.amount WHEN 'tokens' THEN b.tokens - r.tokens ELSE 1 - r.counts END,
            0) AS rest
          FROM unnest(tenants, ids, holds, amounts, tokens, counts) AS r(tenant, id, holds, amount, tokens, counts)
          JOIN budget_grants g ON g.reservation_id = r.id
          JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id
          CROSS JOIN LATERAL unnest(b.counter_ids) AS e(counter)
          JOIN budget_counters o ON o.tenant_id = g.tenant_id AND o.id = e.counter
            AND o.cap_id = g.cap_id AND o.counter_key = g.counter_key
          WHERE r.holds AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment)
        ), ended AS (
          UPDATE budget_grants g SET ended_at = moment FROM used u
          WHERE g.tenant_id = u.tenant_id AND g.id = u.id AND u.rest < g.amount
          RETURNING g.*, u.rest
        )
        INSERT INTO budget_grants (
          reservation_id, tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
        SELECT reservation_id, tenant_id, cap_id, counter_key, rest, reason, expires_at, moment, created_by
        FROM ended WHERE rest > 0;
      END IF;
      IF budget_has_thresholds(counters, owners)`
    ]
  ])

  // As before, but each sum is made once and joined: looked up for each counter, they were read as often as there are
  // counters.
  yield* sql`
    CREATE OR REPLACE FUNCTION budgets_drift_v1()
    RETURNS TABLE (tenant_id uuid, cap_id uuid, counter_id uuid, counter_key text, spent bigint, spent_fold numeric,
      reserved bigint, reserved_fold numeric)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public SET work_mem = '64MB' AS $$
      WITH charged AS MATERIALIZED (
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
      ), spent AS (
        SELECT b.id, sum(CASE b.unit WHEN 'usd' THEN c.usd WHEN 'tokens' THEN c.tokens ELSE c.requests END) AS fold
        FROM budget_counters b JOIN charged c ON c.counter = b.id
        WHERE b.ring IS NULL OR c.bucket > b.ring_head - cardinality(b.ring) GROUP BY b.id
      ), slots AS (
        SELECT b.id, b.unit, g.amount, b.ring_head - cardinality(b.ring) + g.slot AS bucket
        FROM budget_counters b CROSS JOIN LATERAL unnest(b.ring) WITH ORDINALITY AS g(amount, slot) WHERE b.ring IS NOT NULL
      ), differing AS (
        SELECT DISTINCT s.id FROM slots s LEFT JOIN charged c ON c.counter = s.id AND c.bucket = s.bucket
        WHERE s.amount <> coalesce(CASE s.unit WHEN 'usd' THEN c.usd WHEN 'tokens' THEN c.tokens ELSE c.requests END, 0)
      ), folded AS (
        SELECT b.tenant_id, b.cap_id, b.id, b.counter_key, b.spent, coalesce(s.fold, 0) AS spent_fold, b.reserved,
          coalesce(CASE b.unit WHEN 'usd' THEN h.usd WHEN 'tokens' THEN h.tokens ELSE h.requests END, 0) AS reserved_fold,
          d.id IS NOT NULL AS ring_differs
        FROM budget_counters b
        LEFT JOIN spent s ON s.id = b.id
        LEFT JOIN held h ON h.counter = b.id
        LEFT JOIN differing d ON d.id = b.id
      )
      SELECT tenant_id, cap_id, id, counter_key, spent, spent_fold, reserved, reserved_fold FROM folded
      WHERE spent <> spent_fold OR reserved <> reserved_fold OR ring_differs
    $$`
})
