-- The most that a cap lets through: one that refuses nothing counts up to what it can hold.
CREATE OR REPLACE FUNCTION budget_most(c budget_caps) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN c.mode = 'soft' OR c.status <> 'active' OR c.deleted_at IS NOT NULL THEN 9223372036854775807
    ELSE c.limit_amount END
$$;

REVOKE ALL ON FUNCTION budget_most FROM PUBLIC;
