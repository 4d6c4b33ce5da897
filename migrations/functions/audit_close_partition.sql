-- Policies, grants and TRUNCATE triggers of a table do not apply to a statement that names a partition: it gets its own,
-- the triggers where rows are never removed. The name is that under which the first migrations call it.
CREATE OR REPLACE FUNCTION audit_close_partition(partition text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
  parent text;
  policy record;
BEGIN
  SELECT c.relname INTO STRICT parent FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent
  WHERE i.inhrelid = to_regclass(format('public.%I', partition));
  EXECUTE format('REVOKE ALL ON public.%I FROM application_manager', partition);
  FOR policy IN SELECT p.policyname, p.qual, p.with_check FROM pg_policies p
    WHERE p.schemaname = 'public' AND p.tablename = parent
  LOOP
    EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', partition);
    EXECUTE format('CREATE POLICY %I ON public.%I USING (%s) WITH CHECK (%s)', policy.policyname, partition, policy.qual,
      coalesce(policy.with_check, policy.qual));
  END LOOP;
  IF parent LIKE 'audit\_%' THEN
    EXECUTE format(
      'CREATE TRIGGER %I BEFORE TRUNCATE ON public.%I
       FOR EACH STATEMENT EXECUTE FUNCTION public.audit_refuse_change()', parent || '_no_truncate', partition);
  END IF;
END
$$;

REVOKE ALL ON FUNCTION audit_close_partition FROM PUBLIC;
