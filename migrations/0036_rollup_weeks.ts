import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- From now on the parts of a week that is not over have the day that they are of. Those that have its first day stay as they
-- are: merging leaves parts of level 9.
UPDATE usage_rollups SET level = 9 WHERE grain = 'w' AND level < 9;
COMMENT ON COLUMN usage_rollups.day IS
  'In UTC; of a week the first, counted from 1970 on, or while it is not over, the day that the part is of';
COMMENT ON COLUMN usage_rollups.level IS
  'How often parts were merged into this one; 9 for the parts of a day or a week that is over, 8 for a day of a week that is not';
`
)
