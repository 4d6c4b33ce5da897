-- The level of a share of a limit, which an index has in its stead: a share changes with each charge, its level seldom. Levels
-- are 128ths of the limit, and below a 16th four to each halving; nothing that is not used has one.
CREATE OR REPLACE FUNCTION budget_use_level(share double precision) RETURNS smallint
-- Without a setting it is part of the statements that use it.
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN share >= 0.0625 THEN least(ceil(share * 128), 2048)
    WHEN share > 0 THEN 7 + ceil(ln(share * 16) * 4 / ln(2::double precision)) END::smallint
$$;

REVOKE ALL ON FUNCTION budget_use_level FROM PUBLIC;
