-- Pairs the requests of a batch with the counters that govern them: one verdict for each, undecided but for those at the
-- places `replayed`. An approval is `gone` unless the reservation that it is for is found to be held.
CREATE OR REPLACE FUNCTION budget_pair_requests(needs budget_need[], requests budget_request[], replayed integer[])
RETURNS budget_verdict[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public AS $$
DECLARE
  -- A request that names no places is governed by all counters, in their order.
  all_of_batch budget_governing[] := ARRAY(
    SELECT ROW(place, NULL)::budget_governing FROM generate_series(1, cardinality(needs)) place);
BEGIN
  RETURN ARRAY(
    SELECT ROW(
      CASE WHEN q.ordinality = ANY (replayed) THEN 'replay' WHEN budget_is_approval(q.kind) THEN 'gone' END,
      CASE WHEN q.governing IS NULL THEN all_of_batch ELSE ARRAY(
        SELECT ROW(g.place, NULL)::budget_governing FROM unnest(q.governing) WITH ORDINALITY AS g(place, n) ORDER BY g.n) END,
      '{}', '{}', '{}', NULL, NULL)::budget_verdict
    FROM unnest(requests) WITH ORDINALITY q ORDER BY q.ordinality);
END
$$;

REVOKE ALL ON FUNCTION budget_pair_requests FROM PUBLIC;
