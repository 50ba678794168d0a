import { createHmac } from 'node:crypto';
import type { ExternalApi } from '../support/external-api.ts';

const SIGNING_KEY = 'the signing key';

/** The values of the references in the guides. */
export function secretsOf({ credentials, oauth }: ExternalApi): Record<string, string> {
  return {
    CRM_PASSWORD: credentials.password,
    CRM_API_KEY: credentials.apiKey,
    CRM_TOKEN: credentials.bearer,
    CRM_CLIENT_SECRET: credentials.clientSecret,
    CRM_REFRESH_TOKEN: oauth.issueRefreshToken(),
    CRM_ACCESS_KEY: credentials.secretAccessKey,
    CRM_SIGNING_KEY: SIGNING_KEY,
    WAREHOUSE_PASSWORD: credentials.password,
    SHOPDB_PASSWORD: credentials.password,
  };
}

/** /hmac/orders: as the guide's own signature wants it. */
export function addSignedOrders(api: ExternalApi): void {
  api.answer('GET /hmac/orders', (exchange) => {
    const { method, url, body, headers } = exchange.request;
    const timestamp = String(headers['x-timestamp']);
    const text = [method, exchange.origin + url, timestamp, body.toString()].join('\n');
    const wanted = createHmac('sha256', SIGNING_KEY).update(text).digest('base64');
    if (headers['x-signature'] !== wanted) exchange.json(401, { error: 'wrong signature' });
    else exchange.json(200, { items: api.orders.all() });
  });
}
