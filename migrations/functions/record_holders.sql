-- Records who holds the principal of a new row: its creator, and of a rotated key the old key. Who rotates a key holds the
-- old one as well.
CREATE OR REPLACE FUNCTION record_holders() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  added jsonb := to_jsonb(NEW);
  kind text := CASE WHEN added->>'synthetic_kind' IS NULL THEN TG_ARGV[0] ELSE 'synthetic' END;
  made text := kind || ':' || (added->>TG_ARGV[1]);
  old text := kind || ':' || (added->>'rotated_from');
BEGIN
  INSERT INTO public.principal_holders (principal, holder)
  SELECT principal, holder
  FROM (VALUES (made, added->>'created_by'), (made, old), (old, added->>'created_by')) AS h (principal, holder)
  WHERE principal <> holder
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
