import { sqlName, type TableRecord } from './catalog.ts';
import { rowsOf, type Client } from './connections.ts';
import { quote, quoteText } from './names.ts';

interface Right {
  /** NULL: everybody. */
  grantee: string | null;
  privilege: string;
  grantable: string;
  /** NULL: the whole table. */
  column: string | null;
}

const RIGHTS = `
  SELECT r.rolname AS grantee, a.privilege_type AS privilege, a.is_grantable AS grantable, x.column
  FROM pg_class c
  CROSS JOIN LATERAL (
    SELECT c.relacl AS acl, NULL AS column
    UNION ALL SELECT attacl, attname FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
  ) x
  CROSS JOIN LATERAL aclexplode(x.acl) a
  LEFT JOIN pg_roles r ON r.oid = a.grantee
  WHERE c.oid = $1 AND a.grantee <> c.relowner AND (a.grantee = 0 OR r.oid IS NOT NULL)`;

interface Carry {
  from: TableRecord;
  to: TableRecord;
}

/** The owner, and what others may do; those who may do nothing with the old table may do nothing with the new one. */
export async function carryRights(client: Client, { from, to }: Carry): Promise<void> {
  const target = sqlName(to);
  const grantees = new Set((await rightsOn(client, to)).map(granteeName));
  const statements = [...grantees].map((grantee) => `REVOKE ALL ON ${target} FROM ${grantee}`);
  for (const right of await rightsOn(client, from)) {
    const { privilege, grantable, column } = right;
    if (column !== null && !to.columns.some(({ name }) => name === column)) continue;
    const what = column === null ? privilege : `${privilege} (${quote(column)})`;
    const option = grantable === 't' ? ' WITH GRANT OPTION' : '';
    statements.push(`GRANT ${what} ON ${target} TO ${granteeName(right)}${option}`);
  }
  const owner = await foreignOwner(client, from);
  if (owner !== undefined) statements.push(`ALTER TABLE ${target} OWNER TO ${quote(owner)}`);
  if (statements.length > 0) await client.query(statements.join('; '));
}

async function rightsOn(client: Client, { oid }: TableRecord): Promise<Right[]> {
  return rowsOf<Right & Record<string, unknown>>(client, { text: RIGHTS }, [oid]);
}

function granteeName({ grantee }: Right): string {
  return grantee === null ? 'PUBLIC' : quote(grantee);
}

/** undefined: it is ours. */
async function foreignOwner(client: Client, { oid }: TableRecord): Promise<string | undefined> {
  const text = `SELECT r.rolname AS owner FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
    WHERE c.oid = $1 AND r.rolname <> current_user`;
  return (await rowsOf<{ owner: string }>(client, { text }, [oid]))[0]?.owner;
}

export async function carryComment(client: Client, { from, to }: Carry): Promise<void> {
  const text = "SELECT obj_description($1, 'pg_class') AS comment";
  const [row] = await rowsOf<{ comment: string | null }>(client, { text }, [from.oid]);
  if (!row || row.comment === null) return;
  await client.query(`COMMENT ON TABLE ${sqlName(to)} IS ${quoteText(row.comment)}`);
}
