import { setTimeout as delay } from 'node:timers/promises';
import { Refusal, type Exchange } from './exchange.ts';
import type { Guard, Router, Routes } from './router.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const BODY = JSON.stringify({ items: Array.from({ length: 100 }, (_, index) => ({ id: index + 1 })) });

/** Answers that come late, broken, elsewhere or not at all. */
export function addMisbehaviour(router: Router): void {
  router.add(misbehaviour);
  router.guard('flaky', flaky());
  router.guard('rate-limited', rateLimited());
  router.guard('latency', async (exchange) => {
    await pause(exchange);
    return true;
  });
  router.guard('slow-headers', async (exchange) => {
    await pause(exchange);
    return true;
  });
}

const misbehaviour: Routes = {
  '* /status/:code': (exchange, code) => {
    const status = Number(code);
    if (!(status >= 200 && status <= 599))
      throw new Refusal(400, 'bad_parameter', 'a status from 200 to 599');
    const headers = retryAfter(exchange);
    if (status === 204 || status === 304) exchange.send(status, '', headers);
    else
      exchange.json(status, { error: { code: `status_${status}`, message: `this is ${status}` } }, headers);
  },
  'GET /slow-body': async (exchange) => {
    const half = BODY.length >> 1;
    exchange.response.writeHead(200, { ...JSON_TYPE, 'content-length': BODY.length });
    exchange.response.write(BODY.slice(0, half));
    await pause(exchange);
    exchange.response.end(BODY.slice(half));
  },
  '* /reset': ({ response, query }) => {
    if (query.get('in') !== 'body') {
      response.socket?.resetAndDestroy();
      return;
    }
    response.writeHead(200, { ...JSON_TYPE, 'content-length': BODY.length });
    response.write(BODY.slice(0, BODY.length >> 1), () => response.socket?.resetAndDestroy());
  },
  'GET /truncated-chunks': ({ response }) => {
    response.writeHead(200, { ...JSON_TYPE, 'transfer-encoding': 'chunked' });
    response.write(BODY.slice(0, BODY.length >> 1), () => response.socket?.end());
  },
  'GET /short-length': ({ response }) => {
    response.writeHead(200, { ...JSON_TYPE, 'content-length': BODY.length + 100, connection: 'close' });
    response.write(BODY, () => response.socket?.end());
  },
  '* /redirect': (exchange) => {
    const location = exchange.query.get('to') ?? '/echo';
    const status = exchange.number('status', 302, { min: 300, max: 399 });
    exchange.send(status, `see ${location}`, { 'content-type': 'text/plain', location });
  },
  '* /redirect-loop': (exchange) => {
    const turn = exchange.number('turn', 0) + 1;
    exchange.send(302, '', { location: `/redirect-loop?turn=${turn}` });
  },
  '* /echo': (exchange) => echo(exchange),
};

function echo(exchange: Exchange): void {
  const { method, url, path, query, headers, rawHeaders, body } = exchange.request;
  const text = body.toString('utf8');
  const sent = body.equals(Buffer.from(text)) ? { body: text } : { bodyBase64: body.toString('base64') };
  exchange.json(200, { method, url, path, query: [...query], headers, rawHeaders, ...sent });
}

/** Waits `?ms=`; a client that leaves ends the wait. */
async function pause(exchange: Exchange): Promise<void> {
  const gone = new AbortController();
  exchange.response.once('close', () => gone.abort());
  await delay(exchange.number('ms', 0, { max: 3_600_000 }), undefined, { signal: gone.signal }).catch(
    (error: unknown) => {
      if (!gone.signal.aborted) throw error;
    },
  );
}

/** `?retry-after=` seconds, with `&form=date` as a date. */
function retryAfter({ query }: Exchange): Record<string, string> {
  const seconds = query.get('retry-after');
  if (seconds === null) return {};
  if (query.get('form') !== 'date') return { 'retry-after': seconds };
  return { 'retry-after': new Date(Date.now() + Number(seconds) * 1000).toUTCString() };
}

/** Each URL fails `?fails=` times (with `?status=`, default 500) before it is answered. */
function flaky(): Guard {
  const seen = new Map<string, number>();
  return (exchange) => {
    const key = `${exchange.request.method} ${exchange.request.url}`;
    const times = (seen.get(key) ?? 0) + 1;
    seen.set(key, times);
    if (times > exchange.number('fails', 2)) return true;
    const status = exchange.number('status', 500, { min: 400, max: 599 });
    throw new Refusal(status, 'flaky', `failure ${times}`, retryAfter(exchange));
  };
}

/** `?limit=` requests (default 1) in each window of `?window=` seconds (default 1), for all URLs with the same `?key=`. */
function rateLimited(): Guard {
  const windows = new Map<string, { endsMs: number; used: number }>();
  return (exchange) => {
    const limit = exchange.number('limit', 1);
    const windowSeconds = exchange.number('window', 1, { min: 1 });
    const key = exchange.query.get('key') ?? '';
    const now = performance.now();
    let window = windows.get(key);
    if (!window || window.endsMs <= now) {
      window = { endsMs: now + windowSeconds * 1000, used: 0 };
      windows.set(key, window);
    }
    window.used += 1;
    const seconds = Math.ceil((window.endsMs - now) / 1000);
    const remaining = Math.max(0, limit - window.used);
    const headers = {
      'ratelimit-limit': String(limit),
      'ratelimit-remaining': String(remaining),
      'ratelimit-reset': String(seconds),
      'ratelimit-policy': `"default";q=${limit};w=${windowSeconds}`,
      ratelimit: `"default";r=${remaining};t=${seconds}`,
    };
    if (window.used > limit) {
      throw new Refusal(429, 'rate_limited', `${limit} requests in ${windowSeconds} s are allowed`, {
        ...headers,
        'retry-after': String(seconds),
      });
    }
    for (const [name, value] of Object.entries(headers)) exchange.response.setHeader(name, value);
    return true;
  };
}
