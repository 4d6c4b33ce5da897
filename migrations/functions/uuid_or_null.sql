-- The id that a text holds; null for any other text.
CREATE OR REPLACE FUNCTION uuid_or_null(given text) RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN given ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN given::uuid END
$$;

REVOKE ALL ON FUNCTION uuid_or_null FROM PUBLIC;
GRANT EXECUTE ON FUNCTION uuid_or_null TO application_manager;
