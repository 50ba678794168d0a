import type { BenchOptions, Part, PartReport } from '../part.ts';
import { LoadGenerator } from '../measure/load.ts';
import { measureBearerCheck } from './bearer-check.ts';
import { measureGrant } from './client-credentials.ts';

export const tokens: Part = {
  name: 'tokens',
  description: 'the client_credentials grant beside oidc-provider, and a GET with a bearer token',
  async run(options: BenchOptions): Promise<PartReport> {
    await using load = new LoadGenerator();
    const grant = await measureGrant(load, options);
    const bearer = await measureBearerCheck(load, options);
    return {
      title: 'Tokens',
      sections: [...grant.sections, ...bearer.sections],
      measurements: { clientCredentials: grant.standings, bearerCheck: bearer.standings },
    };
  },
};
