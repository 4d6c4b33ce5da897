-- Records who holds the principal of a new row: its creator, and of a rotated key the old key. Who rotates a key holds the
-- old one as well.
CREATE OR REPLACE FUNCTION record_holders() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  added jsonb := to_jsonb(NEW);
  made text := TG_ARGV[0] || ':' || (added->>TG_ARGV[1]);
  old text := TG_ARGV[0] || ':' || (added->>'rotated_from');
BEGIN
  INSERT INTO public.principal_holders (principal, holder)
  SELECT principal, holder
  FROM (VALUES (made, added->>'created_by'), (made, old), (old, added->>'created_by')) AS h (principal, holder)
  WHERE principal <> holder
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
