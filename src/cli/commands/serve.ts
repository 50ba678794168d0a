import { once } from 'node:events';
import type { Settings } from '../../settings.ts';
import type { System } from '../../system/system.ts';
import type { Command, CommandCall } from '../command.ts';

export interface RunningService {
  url: string;
  system: System;
  stop(): Promise<void>;
}

export function serveCommand(
  version: string,
  start: (settings: Settings) => Promise<RunningService>,
): Command {
  return {
    name: 'serve',
    summary: 'Run the service',
    options: {},
    async run(call) {
      // From the first moment on, so that a stop during the start is not lost.
      const stopped = stopSignal();
      const service = await start(call.settings.values).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EADDRINUSE' && error.code !== 'EACCES') throw error;
        const { host, port } = call.settings.values;
        const why = error.code === 'EACCES' ? 'may not be used by this user' : 'is taken';
        throw Object.assign(new Error(`the port ${port} of ${host} ${why}; give another with --port`), {
          syscall: 'listen',
        });
      });
      call.print(`millrace ${version} listens on ${service.url}`);
      await sayWhatNext(call, service);
      const signal = await stopped;
      call.tell(`millrace: ${signal}: answering what is under way, then stopping`);
      await service.stop();
    },
  };
}

async function sayWhatNext(call: CommandCall, { system, url }: RunningService): Promise<void> {
  const { data, database } = call.settings.values;
  const { origins } = call.settings;
  const place = [
    ...(origins.data === 'default' ? [] : [`--data ${data}`]),
    ...(database === '' ? [] : ['--database "$MILLRACE_DATABASE"']),
  ];
  if ((await system.clients.count()) > 0) {
    call.print(`Next: take a token at ${url}/api/v1/oauth2/token (README.md, "A first token")`);
    return;
  }
  call.print('There is no client yet. Next, in another terminal:');
  call.print(`  npx millrace client create --name first ${place.join(' ')}`.trimEnd());
}

async function stopSignal(): Promise<string> {
  const aborter = new AbortController();
  const signals = ['SIGTERM', 'SIGINT'].map(async (name) => {
    await once(process, name, { signal: aborter.signal });
    return name;
  });
  const first = await Promise.race(signals);
  // A second signal finds no listener of ours any more, and ends the process at once.
  aborter.abort();
  await Promise.allSettled(signals);
  return first;
}
