CREATE OR REPLACE FUNCTION configuration_record_placement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO configuration_placements
    (node_id, application_id, parent_id, name, type, schema_id, live, valid_from)
  VALUES (NEW.id, NEW.application_id, NEW.parent_id, NEW.name, NEW.type, NEW.schema_id, NEW.deleted_at IS NULL,
    NEW.placed_at);
  RETURN NULL;
END
$$;
