-- The oldest checks of forecasts that are not decided yet, at most `most`.
CREATE OR REPLACE FUNCTION budgets_forecast_checks(p json) RETURNS json
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT coalesce(json_agg(json_build_object('id', c.id, 'percents', c.percents, 'limit_amount', c.limit_amount::text,
    'spent', c.spent::text, 'period_start', budget_millis(c.period_start), 'period_end', budget_millis(c.period_end),
    'occurred_at', budget_millis(c.occurred_at))), '[]')
  FROM (SELECT * FROM budget_forecast_checks ORDER BY id LIMIT (p->>'most')::integer) c
$$;

REVOKE ALL ON FUNCTION budgets_forecast_checks FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_forecast_checks TO application_manager;
