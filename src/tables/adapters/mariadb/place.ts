import type { Connection, ConnectionConfig } from 'mariadb';
import { DatabaseRefusal, TableNameError } from '../../table-errors.ts';
import type { TableName } from '../../table-store.ts';
import { isSystemSpace } from './sql-names.ts';

export interface MariadbTablesOptions {
  /** mariadb://user:password@host:port/database, or mysql://…; ?ssl=true for TLS. */
  connectionString: string;
  /** Default: 10. */
  maxConnections?: number;
  /**
   * Stands before the name of every space to make the name of its database, that of the connection string included:
   * for a server where a user may only have databases of such names, and where several services share one.
   */
  databasePrefix?: string;
  /** As `tls.connect` takes it, such as { ca }. true: TLS with the certificates that Node.js trusts. */
  ssl?: ConnectionConfig['ssl'];
}

/** Which server, and which of its databases are spaces. */
export interface Place {
  connection: ConnectionConfig;
  /** The database that holds the bookkeeping: that of the connection string. */
  home: string;
  prefix: string;
}

const FORM = 'mariadb://user:password@host:port/database';

export function readPlace({ connectionString, databasePrefix = '', ssl }: MariadbTablesOptions): Place {
  const url = URL.parse(connectionString);
  if (!url || !['mariadb:', 'mysql:'].includes(url.protocol) || !url.hostname) {
    throw new TypeError(`the connection string of the tables must have the form ${FORM}`);
  }
  const home = decodeURIComponent(url.pathname.slice(1));
  if (!home)
    throw new TypeError(`the connection string of the tables names no database; its form is ${FORM}`);
  if (!home.startsWith(databasePrefix)) {
    throw new TypeError(`the database ${home} must begin with the prefix of databases, ${databasePrefix}`);
  }
  for (const [name, value] of url.searchParams) {
    if (name === 'ssl' && ['true', 'false'].includes(value)) continue;
    throw new TypeError(`the connection string of the tables takes only ssl=true or ssl=false, not ${name}`);
  }
  const secure = ssl ?? url.searchParams.get('ssl') === 'true';
  return {
    connection: {
      host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: url.port ? Number(url.port) : 3306,
      user: decodeURIComponent(url.username),
      password: decodeURIComponent(url.password),
      ssl: secure,
    },
    home,
    prefix: databasePrefix,
  };
}

export function databaseOf({ prefix }: Place, space: string): string {
  return prefix + space;
}

/** undefined: the database is no space. */
export function spaceOf({ prefix }: Place, database: string): string | undefined {
  return database.startsWith(prefix) && !isSystemSpace(database) ? database.slice(prefix.length) : undefined;
}

export interface ServerFacts {
  /** The largest statement, and so nearly the largest value. */
  packetBytes: number;
  /** The server writes names of tables in lower case (lower_case_table_names). */
  lowerCase: boolean;
}

const OLDEST = [10, 6] as const;

export async function readFacts(connection: Connection): Promise<ServerFacts> {
  const { info } = connection;
  // From 10.6 on a renaming of several tables survives a crash whole or not at all.
  if (!info?.isMariaDB() || !info.hasMinVersion(...OLDEST, 0)) {
    const problem = `tables need MariaDB ${OLDEST.join('.')} or newer; this server is ${info?.serverVersion.raw ?? ''}`;
    throw new DatabaseRefusal({ table: null, problem });
  }
  const [row] = await connection.query<{ packet: number; lower: number }[]>(
    'SELECT CAST(@@max_allowed_packet AS INT) AS packet, CAST(@@lower_case_table_names AS INT) AS lower',
  );
  return { packetBytes: Number(row?.packet), lowerCase: Number(row?.lower) === 1 };
}

export function checkCase({ lowerCase }: ServerFacts, name: TableName): void {
  if (!lowerCase || !/\p{Lu}/u.test(name.space + name.table)) return;
  const problem = 'it has capitals, which this server does not keep (its lower_case_table_names is 1)';
  throw new TableNameError({ table: name, problem });
}
