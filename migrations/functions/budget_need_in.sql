-- What a request needs of a counter: of its amount in nano-dollars, of its tokens, or one request.
CREATE OR REPLACE FUNCTION budget_need_in(unit text, amount bigint, tokens bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE unit WHEN 'usd' THEN amount WHEN 'tokens' THEN tokens ELSE 1 END
$$;

REVOKE ALL ON FUNCTION budget_need_in FROM PUBLIC;
