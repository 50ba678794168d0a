import type { PageCommit, TableAsk, TableName, TableStore } from './table-store.ts';

/**
 * A part of a store, as if it were the whole: its spaces are those whose names begin with the prefix. So that
 * applications share a database, and see nothing of each other. Closing it leaves the store open.
 */
export function withSpacePrefix(store: TableStore, prefix: string): TableStore {
  const inside = <Name extends TableName>(name: Name): Name => ({ ...name, space: prefix + name.space });
  const ask = (name: TableAsk): TableAsk => inside(name);
  const loads = (commit: PageCommit) => commit.loads.map((load) => ({ ...load, table: inside(load.table) }));
  return {
    capabilities: store.capabilities,
    columns: (table) => store.columns(ask(table)),
    async tables() {
      const all = await store.tables();
      return all
        .filter(({ space }) => space.startsWith(prefix))
        .map((table) => ({ ...table, space: table.space.slice(prefix.length) }));
    },
    count: (table) => store.count(ask(table)),
    claim: (jobId, step, epoch) => store.claim(jobId, step, epoch),
    commitPage: (commit) => store.commitPage({ ...commit, loads: loads(commit) }),
    finish: (jobId, step, epoch) => store.finish(jobId, step, epoch),
    abandon: (jobId) => store.abandon(jobId),
    dropTemporary: (jobId) => store.dropTemporary(jobId),
    jobs: () => store.jobs(),
    read: (table, options) => store.read(ask(table), options),
    openSnapshot: (table, options) => store.openSnapshot(ask(table), options),
    writeRows: (write) => store.writeRows({ ...write, table: inside(write.table) }),
    dropTable: (table) => store.dropTable(inside(table)),
    close: async () => {},
  };
}
