import { Refusal, type Exchange } from './exchange.ts';
import type { Guard } from './router.ts';

/** What the protected endpoints take; tests and examples use the same values. */
export interface Credentials {
  username: string;
  password: string;
  bearer: string;
  /** The key of /key/, taken from the header X-Api-Key, the parameter api_key or the cookie api_key. */
  apiKey: string;
  clientId: string;
  clientSecret: string;
  accessKeyId: string;
  secretAccessKey: string;
}

export const defaultCredentials: Credentials = {
  username: 'ada',
  password: 'pass:wörd',
  bearer: 'bearer-token-1',
  apiKey: 'api-key-1',
  clientId: 'client-1',
  clientSecret: 'client-secret-1',
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
};

export function basicGuard({ username, password }: Credentials): Guard {
  const wanted = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  return ({ request }) => {
    if (request.headers.authorization === wanted) return true;
    throw new Refusal(401, 'unauthorized', 'wrong or missing user name and password', {
      'www-authenticate': 'Basic realm="orders", charset="UTF-8"',
    });
  };
}

export function bearerGuard({ bearer }: Credentials): Guard {
  return ({ request }) => {
    if (request.headers.authorization === `Bearer ${bearer}`) return true;
    throw new Refusal(401, 'unauthorized', 'wrong or missing token', { 'www-authenticate': 'Bearer' });
  };
}

/** `/key/header/…`, `/key/query/…` and `/key/cookie/…` take the key from there alone, `/key/…` from any of them. */
export function keyGuard({ apiKey }: Credentials): Guard {
  return (exchange) => {
    const places = {
      header: exchange.request.headers['x-api-key'],
      query: exchange.query.get('api_key'),
      cookie: cookie(exchange, 'api_key'),
    };
    const [, place] = /^\/(header|query|cookie)(?=\/|$)/.exec(exchange.path) ?? [];
    const given = place ? [places[place as keyof typeof places]] : Object.values(places);
    if (!given.includes(apiKey)) throw new Refusal(401, 'unauthorized', 'wrong or missing API key');
    if (place) {
      exchange.prefix += `/${place}`;
      exchange.path = exchange.path.slice(place.length + 1);
    }
    return true;
  };
}

function cookie({ request }: Exchange, name: string): string | undefined {
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim());
  return pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1);
}
