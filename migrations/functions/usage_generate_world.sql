-- Tenants and agents for generated usage. For the owner of the database alone, as all of usage_generate_*.
CREATE OR REPLACE FUNCTION usage_generate_world(moment timestamptz) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
  INSERT INTO tenants (name, slug, status, created_at, updated_at)
  SELECT n.name, n.slug, 'active', moment, moment FROM (VALUES ('Northwind', 'northwind'), ('Contoso Health', 'contoso'),
    ('Globex Retail', 'globex'), ('Initech Labs', 'initech')) AS n(name, slug)
  ON CONFLICT (slug) DO NOTHING;
  -- The newest agent of the last tenant has no owner, so that there is one to find.
  INSERT INTO agents (tenant_id, name, description, owner_user_id, scope_ceiling, max_credential_ttl_seconds,
    allowed_task_types, default_task_type, status, created_at, created_by, updated_at)
  SELECT t.id, n.name, 'Generated', CASE WHEN t.slug <> 'initech' OR n.name <> 'sql-writer' THEN n.owner || '@' || t.slug || '.example' END,
    n.scopes::text[], 3600, '{}', NULL, 'active', moment, 'system', moment
  FROM tenants t CROSS JOIN (VALUES ('research-desk', 'grace.hopper', '{llm:complete,llm:read}'),
    ('support-triage', 'annie.easley', '{llm:complete}'), ('invoice-reader', 'katherine.johnson', '{llm:complete,plans:write}'),
    ('code-reviewer', 'grace.hopper', '{llm:complete}'), ('release-notes', 'grace.hopper', '{llm:complete}'),
    ('lead-scorer', 'mary.jackson', '{llm:complete,llm:embed}'), ('contract-search', 'mary.jackson', '{llm:complete,llm:embed}'),
    ('log-analyst', 'annie.easley', '{llm:complete}'), ('translator', 'dorothy.vaughan', '{llm:complete}'),
    ('data-cleaner', 'dorothy.vaughan', '{llm:complete}'), ('meeting-notes', 'katherine.johnson', '{llm:complete}'),
    ('sql-writer', 'annie.easley', '{llm:complete,llm:read}')) AS n(name, owner, scopes)
  WHERE t.slug IN ('northwind', 'contoso', 'globex', 'initech')
$$;

REVOKE ALL ON FUNCTION usage_generate_world FROM PUBLIC;
