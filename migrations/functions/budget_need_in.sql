-- What something needs of a counter: of its amount in nano-dollars, of its tokens, or of its requests, mostly one. Without
-- settings of its own it is inlined.
CREATE OR REPLACE FUNCTION budget_need_in(unit text, amount bigint, tokens bigint, requests bigint DEFAULT 1)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE unit WHEN 'usd' THEN amount WHEN 'tokens' THEN tokens ELSE requests END
$$;

REVOKE ALL ON FUNCTION budget_need_in FROM PUBLIC;
