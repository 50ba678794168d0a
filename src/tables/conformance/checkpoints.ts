import assert from 'node:assert/strict';
import { FencedError, UnknownTable } from '../table-errors.ts';
import type { TableName } from '../table-store.ts';
import {
  beginStep,
  column,
  load,
  newJob,
  newTable,
  rowsOf,
  type Cases,
  valuesOf,
  type LoadOptions,
} from './place.ts';

const columns = [column('integer')];
const build = (table: TableName, ...values: number[]): LoadOptions => ({
  table,
  columns,
  mode: 'createThenAppend',
  rows: values.map((x) => ({ x })),
});

export const checkpointCases: Cases = {
  'a claim gives the place to go on, and shuts out whoever had it before': async ({ store }) => {
    const [table, jobId] = [newTable(), newJob()];
    assert.deepEqual(await store.claim(jobId, 's', 3), { page: 0, cursor: null });
    const commit = (epoch: number, page: number, x: number) =>
      store.commitPage({
        jobId,
        step: 's',
        epoch,
        page,
        cursor: `cursor ${page}`,
        loads: [load({ table, columns, rows: [{ x }] })],
      });
    assert.deepEqual(await commit(3, 0, 1), { outcome: 'committed', rowCounts: [1] });
    assert.equal(await store.claim(jobId, 's', 3), null);
    assert.equal(await store.claim(jobId, 's', 2), null);
    assert.deepEqual(await store.claim(jobId, 's', 4), { page: 1, cursor: 'cursor 0' });
    for (const page of [0, 1, 2]) await assert.rejects(commit(3, page, 99), FencedError);
    await assert.rejects(store.finish(jobId, 's', 3), FencedError);
    await assert.rejects(commit(4, 2, 99), FencedError, 'a page may not be left out');
    await commit(4, 1, 2);
    assert.deepEqual(await commit(4, 1, 2), { outcome: 'repeated', rowCounts: [1] });
    await assert.rejects(commit(4, 0, 99), FencedError);
    assert.deepEqual(await valuesOf(store, table), [1, 2]);
    assert.deepEqual(await store.claim(jobId, 'another step', 1), { page: 0, cursor: null });
  },

  'a failed page leaves the checkpoint where it was': async ({ store }) => {
    const [table, jobId] = [newTable(), newJob()];
    const step = await beginStep(store, jobId);
    await step.commit({ table, columns, rows: [{ x: 1 }] });
    await assert.rejects(step.commit({ table, columns, rows: [{ x: 2 }, { x: 'bad' }] }));
    assert.deepEqual(await store.claim(jobId, 'step', 2), { page: 1, cursor: 'after 0' });
    assert.deepEqual(await valuesOf(store, table), [1]);
  },

  'createThenAppend: the old table stands until the step is finished': async ({ store }) => {
    const table = newTable();
    await store.writeRows({
      table,
      columns: [column('string', 'old')],
      mode: 'append',
      rows: '[{"old":"o"}]',
    });
    const step = await beginStep(store);
    await step.commit(build(table, 1, 2));
    assert.deepEqual(await rowsOf(store, table), [{ old: 'o' }]);
    await step.commit(build(table, 3));
    await step.commit({ table, columns, mode: 'append', rows: [{ x: 4 }] });
    assert.deepEqual(await rowsOf(store, table), [{ old: 'o' }]);
    await step.finish();
    assert.deepEqual(await valuesOf(store, table), [1, 2, 3, 4]);
    await step.finish();
    assert.deepEqual(await valuesOf(store, table), [1, 2, 3, 4]);
    assert.deepEqual(await store.columns(table), columns);
  },

  'createThenAppend: a table that was not there appears when the step is finished': async ({ store }) => {
    const [one, two] = [newTable(), newTable()];
    const step = await beginStep(store);
    await step.commit(build(one, 1), build(two));
    assert.equal(await store.columns(one), null);
    assert.ok(!(await store.tables()).some(({ table }) => table === one.table));
    await step.finish();
    assert.deepEqual(await valuesOf(store, one), [1]);
    assert.deepEqual(await rowsOf(store, two), []);
  },

  'jobs that build the same table do not meet; the last to finish has it': async ({ store }) => {
    const table = newTable();
    const [one, two] = [await beginStep(store), await beginStep(store)];
    await one.commit(build(table, 1));
    await two.commit(build(table, 2));
    await one.commit(build(table, 1));
    await one.finish();
    assert.deepEqual(await valuesOf(store, table), [1, 1]);
    await two.finish();
    assert.deepEqual(await valuesOf(store, table), [2]);
  },

  'an abandoned job leaves the old table and nothing of its own': async ({ store }) => {
    const [table, jobId] = [newTable(), newJob()];
    await store.writeRows({ table, columns, mode: 'append', rows: '[{"x":0}]' });
    const step = await beginStep(store, jobId);
    await step.commit(build(table, 1));
    assert.ok((await store.jobs()).includes(jobId));
    await store.abandon(jobId);
    await store.abandon(jobId);
    assert.ok(!(await store.jobs()).includes(jobId));
    assert.deepEqual(await valuesOf(store, table), [0]);
    await assert.rejects(step.commit(build(table, 2)), FencedError);
    await assert.rejects(step.finish(), FencedError);
    assert.deepEqual(await store.claim(jobId, 'step', 2), { page: 0, cursor: null });
  },

  'a temporary table is seen by its job alone, and goes with it': async ({ store }) => {
    const table = newTable();
    await store.writeRows({ table, columns, mode: 'append', rows: '[{"x":0}]' });
    const jobs = [newJob(), newJob()] as const;
    for (const [at, jobId] of jobs.entries()) {
      const step = await beginStep(store, jobId);
      await step.commit({ table, columns, temporary: true, rows: [{ x: at + 10 }] });
      await step.commit({ table, columns, temporary: true, rows: [{ x: at + 20 }] });
    }
    assert.deepEqual(await valuesOf(store, { ...table, jobId: jobs[0] }), [10, 20]);
    assert.deepEqual(await valuesOf(store, { ...table, jobId: jobs[1] }), [11, 21]);
    assert.deepEqual(await valuesOf(store, table), [0]);
    await store.abandon(jobs[0]);
    assert.ok((await store.jobs()).includes(jobs[0]), 'its temporary table is still there');
    await store.dropTemporary(jobs[0]);
    assert.ok(!(await store.jobs()).includes(jobs[0]));
    assert.deepEqual(await valuesOf(store, { ...table, jobId: jobs[0] }), [0]);
    assert.deepEqual(await valuesOf(store, { ...table, jobId: jobs[1] }), [11, 21]);
    const only = newTable();
    await (
      await beginStep(store, jobs[1], 'other')
    ).commit({ table: only, columns, temporary: true, rows: [] });
    assert.equal(await store.columns(only), null);
    assert.deepEqual(await store.columns({ ...only, jobId: jobs[1] }), columns);
    await assert.rejects(store.read(only, { limit: 1 }), UnknownTable);
  },

  'a temporary table can be built anew': async ({ store }) => {
    const [table, jobId] = [newTable(), newJob()];
    for (const x of [1, 2]) {
      const step = await beginStep(store, jobId, `step ${x}`);
      await step.commit({ ...build(table, x), temporary: true });
      await step.finish();
      assert.deepEqual(await valuesOf(store, { ...table, jobId }), [x]);
    }
    await store.dropTemporary(jobId);
    assert.equal(await store.columns({ ...table, jobId }), null);
  },

  'all is there when the store is opened again': async ({ store, reopen }) => {
    const [table, jobId] = [newTable(), newJob()];
    await (
      await beginStep(store, jobId)
    ).commit(build(table, 1), { table: { ...table, table: 'again' }, columns, rows: [{ x: 5 }] });
    const other = await reopen();
    try {
      assert.deepEqual(await valuesOf(other, { ...table, table: 'again' }), [5]);
      const step = await beginStep(other, jobId, 'step', 2);
      assert.equal(step.page, 1);
      await step.commit(build(table, 2));
      await step.finish();
    } finally {
      await other.close();
    }
    assert.deepEqual(await valuesOf(store, table), [1, 2]);
  },
};
