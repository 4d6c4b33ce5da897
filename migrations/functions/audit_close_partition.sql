-- Policies, grants and TRUNCATE triggers of the table do not apply to a statement that names a partition.
CREATE OR REPLACE FUNCTION audit_close_partition(partition text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
BEGIN
  EXECUTE format('REVOKE ALL ON public.%I FROM application_manager', partition);
  EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', partition);
  EXECUTE format(
    'CREATE POLICY audit_entries_of_tenant ON public.%I USING (sees_tenant(tenant_id)) WITH CHECK (true)', partition);
  EXECUTE format(
    'CREATE TRIGGER audit_entries_no_truncate BEFORE TRUNCATE ON public.%I
     FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()', partition);
END
$$;
