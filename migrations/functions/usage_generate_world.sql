-- Tenants and agents for generated usage. For the owner of the database alone, as all of usage_generate_*.
CREATE OR REPLACE FUNCTION usage_generate_world(moment timestamptz) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
  INSERT INTO tenants (name, slug, status, created_at, updated_at)
  SELECT n.name, n.slug, 'active', moment, moment FROM (VALUES ('Northwind', 'northwind'), ('Contoso Health', 'contoso'),
    ('Globex Retail', 'globex'), ('Initech Labs', 'initech')) AS n(name, slug)
  ON CONFLICT (slug) DO NOTHING;
  INSERT INTO agents (tenant_id, name, description, scope_ceiling, max_credential_ttl_seconds, allowed_task_types,
    default_task_type, status, created_at, created_by, updated_at)
  SELECT t.id, n.name, 'Generated', '{llm:complete}', 3600, '{}', NULL, 'active', moment, 'system', moment
  FROM tenants t CROSS JOIN (VALUES ('research-desk'), ('support-triage'), ('invoice-reader'), ('code-reviewer'),
    ('release-notes'), ('lead-scorer'), ('contract-search'), ('log-analyst'), ('translator'), ('data-cleaner'),
    ('meeting-notes'), ('sql-writer')) AS n(name)
  WHERE t.slug IN ('northwind', 'contoso', 'globex', 'initech')
$$;

REVOKE ALL ON FUNCTION usage_generate_world FROM PUBLIC;
