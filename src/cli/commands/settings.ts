import { settingDescriptions, shownValue } from '../../settings.ts';
import { jsonOption, printResult, table, type Command } from '../command.ts';

export const settings: Command = {
  name: 'settings',
  summary: 'Print all settings with their values and where they come from; secrets are masked',
  options: jsonOption,
  async run(call) {
    const { values, origins } = call.settings;
    const rows = settingDescriptions.map((setting) => ({
      name: setting.name,
      value: shownValue(setting, values[setting.name]),
      origin: origins[setting.name],
      unit: setting.unit ?? null,
      flag: `--${setting.flag}`,
      environment: setting.environment,
      description: setting.description,
    }));
    printResult(call, rows, () =>
      table([
        ['SETTING', 'VALUE', 'ORIGIN', 'MEANING'],
        ...rows.map(({ name, value, origin, unit, description }) => [
          name,
          value === '' ? '""' : value,
          origin,
          unit ? `${description} (${unit})` : description,
        ]),
      ]),
    );
  },
};
