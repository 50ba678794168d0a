import type { Settings } from '../../settings.ts';
import { readOrCreateKeyFile, replaceKeyFile, type MasterKeys } from '../../system/master-key.ts';
import { Secrets } from '../../system/secrets.ts';
import { jsonOption, printResult, type Command } from '../command.ts';

export interface KeyParts {
  readMasterKeys(settings: Settings): Promise<MasterKeys>;
  masterKeyFile(settings: Settings): string;
}

/**
 * With a key file: adds a new key, seals all secrets anew, then drops the old keys from the file. With keys in a
 * setting: seals anew under the first of them; the person then drops the others.
 */
export function keyCommands({ readMasterKeys, masterKeyFile }: KeyParts): Command[] {
  const rotate: Command = {
    name: 'keys rotate',
    summary: 'Seal all stored secrets under a new master key; the service may be running',
    options: jsonOption,
    async run(call) {
      const settings = call.settings.values;
      const ownFile = settings.masterKey === '' ? masterKeyFile(settings) : null;
      const resealed = await call.withRecords(async ({ database }) => {
        const secrets = await Secrets.open(database, () => readMasterKeys(settings));
        if (ownFile) await replaceKeyFile(ownFile, (await readOrCreateKeyFile(ownFile)).withNewKey());
        return secrets.reseal();
      });
      const keys = await readMasterKeys(settings);
      if (ownFile) await replaceKeyFile(ownFile, keys.withoutOldKeys());
      printResult(call, { keyId: keys.current.id, secrets: resealed }, () => [
        `${resealed} secrets are sealed under the key ${keys.current.id}`,
        ...(ownFile || keys.count === 1 ? [] : ['the other keys of masterKey are not needed any more']),
      ]);
      if (!ownFile && keys.count === 1) {
        call.tell(
          'masterKey holds one key only: to change it, put a new key before it, separated by a comma',
        );
      }
    },
  };
  return [rotate];
}
