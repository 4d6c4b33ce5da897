-- What the cached part of an input saved: the tokens at the difference of the prices, in nano-dollars.
CREATE OR REPLACE FUNCTION usage_saved(rates jsonb, cached_input_tokens bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN cached_input_tokens > 0 THEN greatest(0, floor(cached_input_tokens::numeric
    * (coalesce((rates->>'input')::numeric, 0) - coalesce((rates->>'cacheRead')::numeric, 0)) / 1000000))::bigint ELSE 0 END
$$;
