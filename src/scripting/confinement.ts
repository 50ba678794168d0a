import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** How a sandbox process is shut in by the system, beyond what Node's permissions do. */
export interface Confinement {
  name: string;
  /** Put before the command; empty: nothing. */
  wrapper: readonly string[];
  /** Without a network of its own the process gets no optimizing compiler, where most holes of V8 are. */
  isTight: boolean;
}

const UNPRIVILEGED = '65534';
const SYSTEM_FOLDERS = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];

/** Tightest first; the first one with which a process starts is used. */
export function confinements(path: string = process.env['PATH'] ?? ''): Confinement[] {
  const folders = [...path.split(':').filter((folder) => folder.startsWith('/')), ...SYSTEM_FOLDERS];
  return confinementsIn(folders);
}

export function confinementsIn(folders: readonly string[]): Confinement[] {
  const find = (name: string) => folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
  const [unshare, setpriv, prlimit] = [find('unshare'), find('setpriv'), find('prlimit')];
  const found: Confinement[] = [];
  // The number of processes counts for all of the user's, so it is wide: it stops floods only.
  const limits = prlimit ? [prlimit, '--core=0', '--nofile=64', '--fsize=0', '--nproc=1024'] : [];
  const dropped = ['--no-new-privs', '--pdeathsig', 'KILL'];
  if (unshare && setpriv && process.getuid?.() === 0) {
    const nobody = [
      `--reuid=${UNPRIVILEGED}`,
      `--regid=${UNPRIVILEGED}`,
      '--clear-groups',
      '--bounding-set=-all',
    ];
    const wrapper = [unshare, '-n', '-i', setpriv, ...nobody, ...dropped, ...limits];
    found.push({ name: 'own network, unprivileged user', wrapper, isTight: true });
  }
  if (unshare && setpriv) {
    const wrapper = [unshare, '-U', '-r', '-n', '-i', setpriv, '--bounding-set=-all', ...dropped, ...limits];
    found.push({ name: 'own network in a user namespace', wrapper, isTight: true });
  }
  if (setpriv)
    found.push({ name: 'no new privileges', wrapper: [setpriv, ...dropped, ...limits], isTight: false });
  found.push({ name: 'none', wrapper: [], isTight: false });
  return found;
}

const runner = fileURLToPath(new URL('./runner/runner.mjs', import.meta.url));

/** The whole command line of a sandbox process. */
export function sandboxCommand({ wrapper, isTight }: Confinement): [string, ...string[]] {
  const addon = createRequire(import.meta.url).resolve('isolated-vm');
  const loader = createRequire(addon).resolve('node-gyp-build');
  const readable = [dirname(runner), dirname(addon), dirname(loader)].map((folder) => `${folder}/*`);
  // The loader of the addon looks whether this file exists, to tell musl from glibc.
  readable.push('/etc/alpine-release');
  const flags = [
    '--no-node-snapshot', // isolated-vm asks for it
    '--permission',
    '--allow-addons',
    ...readable.map((path) => `--allow-fs-read=${path}`),
    '--no-warnings',
    '--max-semi-space-size=8', // with 16 it is no faster, and 45 MiB larger
    '--v8-pool-size=1',
    ...(isTight ? [] : ['--no-turbofan', '--no-maglev']),
  ];
  const [first, ...others] = wrapper;
  const sandbox = [...flags, runner];
  return first === undefined
    ? [process.execPath, ...sandbox]
    : [first, ...others, process.execPath, ...sandbox];
}
