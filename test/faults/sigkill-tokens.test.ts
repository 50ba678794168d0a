import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { sqlitePlace } from '../support/databases.ts';
import { spawnService, type ServiceProcess } from '../support/service-process.ts';

const KILLS = 50;
const CALLERS = 8;

describe('SIGKILL while tokens are issued', () => {
  test(`${KILLS} times: no token that was answered is lost, the database is never corrupt`, async (t) => {
    const { data, remove } = await sqlitePlace();
    t.after(remove);
    let client: { client_id: string; client_secret: string } | undefined;
    let answered: string[] = [];
    let checked = 0;
    for (let kill = 0; kill < KILLS; kill += 1) {
      const service = await spawnService(t, { data });
      client ??= await service.client();
      for (const token of answered) {
        const response = await fetch(`${service.url}/api/v1/applications`, {
          headers: { authorization: `Bearer ${token}` },
        });
        assert.equal(response.status, 200, 'a token that was answered is valid after the kill');
        checked += 1;
      }
      answered = await issueUntilKilled(service, client);
      assertSound(join(data, 'millrace.sqlite'));
    }
    t.diagnostic(`${checked} answered tokens outlived the kills`);
    assert.ok(checked > KILLS, `only ${checked} tokens were answered in all`);
  });
});

/** The kill comes at a random moment while the callers go on without a pause. */
async function issueUntilKilled(
  { child, form }: ServiceProcess,
  client: { client_id: string; client_secret: string },
): Promise<string[]> {
  const body = new URLSearchParams({ grant_type: 'client_credentials', ...client }).toString();
  const answered: string[] = [];
  const exited = once(child, 'exit');
  const call = async () => {
    while (child.signalCode === null) {
      try {
        const response = await form(body);
        const { access_token } = (await response.json()) as { access_token: string };
        answered.push(access_token);
      } catch {
        return; // killed in mid-call: nothing was answered
      }
    }
  };
  const callers = Array.from({ length: CALLERS }, call);
  await delay(30 + Math.random() * 60);
  child.kill('SIGKILL');
  await exited;
  await Promise.all(callers);
  return answered.slice(-20);
}

function assertSound(file: string): void {
  const database = new DatabaseSync(file);
  try {
    assert.deepEqual({ ...database.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' });
    assert.deepEqual(database.prepare('PRAGMA foreign_key_check').all(), []);
  } finally {
    database.close();
  }
}
