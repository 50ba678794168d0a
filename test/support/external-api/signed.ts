import { Sha256 } from '@aws-crypto/sha256-js';
import { SignatureV4 } from '@smithy/signature-v4';
import type { Credentials } from './credentials.ts';
import { Refusal, type Exchange } from './exchange.ts';
import type { Guard } from './router.ts';

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/;

/** Signs the request once more with another implementation, over the headers that the caller signed. */
export function signedGuard(credentials: Credentials): Guard {
  return async (exchange) => {
    const { headers } = exchange.request;
    const deny = (message: string) => new Refusal(403, 'SignatureDoesNotMatch', message);
    const parts = AUTHORIZATION.exec(headers.authorization ?? '');
    if (!parts) throw deny('the Authorization header has not the form of AWS4-HMAC-SHA256');
    const [, accessKeyId, , region = '', service = '', signedHeaders = '', signature] = parts;
    if (accessKeyId !== credentials.accessKeyId) throw deny(`unknown access key ${accessKeyId}`);
    const names = signedHeaders.split(';');
    if (!names.includes('host')) throw deny('the header host is not signed');
    const date = headers['x-amz-date'];
    const instant = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(date));
    if (!instant || !names.includes('x-amz-date'))
      throw deny('x-amz-date is missing, malformed or not signed');
    const [, year, month, day, hour, minute, second] = instant;
    const digest = headers['x-amz-content-sha256'];
    if (digest && digest !== 'UNSIGNED-PAYLOAD' && digest !== exchange.request.bodySha256) {
      throw deny('x-amz-content-sha256 is not the digest of the body');
    }
    const signer = new SignatureV4({
      region,
      service,
      credentials: { accessKeyId, secretAccessKey: credentials.secretAccessKey },
      sha256: Sha256,
      applyChecksum: false,
      uriEscapePath: service !== 's3',
    });
    const again = await signer.sign(requestToSign(exchange, names), {
      signingDate: new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`),
      signableHeaders: new Set(names),
    });
    if (again.headers['authorization']?.endsWith(`Signature=${signature}`)) return true;
    throw deny(`the signature does not match; expected ${again.headers['authorization']}`);
  };
}

function requestToSign({ request, origin }: Exchange, names: string[]) {
  const record: Record<string, string> = {};
  for (const name of names) {
    const value = request.headers[name];
    if (value !== undefined) record[name] = Array.isArray(value) ? value.join(',') : value;
  }
  const query = Object.create(null) as Record<string, string[]>;
  const text = request.url.slice(request.path.length + 1);
  for (const pair of text === '' ? [] : text.split('&')) {
    const [name = '', ...value] = pair.split('=').map(decodeURIComponent);
    query[name] = [...(query[name] ?? []), value.join('=')];
  }
  return {
    method: request.method,
    protocol: 'http:',
    hostname: new URL(origin).hostname,
    path: request.path,
    headers: record,
    query,
    body: request.body,
  };
}
