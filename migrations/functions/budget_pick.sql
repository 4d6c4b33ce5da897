-- The elements of a list at these places.
CREATE OR REPLACE FUNCTION budget_pick(list uuid[], places integer[]) RETURNS uuid[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN ARRAY(SELECT list[p] FROM unnest(places) p);
END
$$;

REVOKE ALL ON FUNCTION budget_pick FROM PUBLIC;
