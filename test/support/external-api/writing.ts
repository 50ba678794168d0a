import { Refusal, type Exchange } from './exchange.ts';
import { ordersJson, type OrderBook } from './orders.ts';
import type { Routes } from './router.ts';

/** Endpoints that change orders. */
export function writingRoutes(book: OrderBook): Routes {
  return {
    'POST /orders': (exchange) => {
      const order = book.create(exchange.jsonBody());
      send(exchange, 201, order, { location: `${exchange.origin}${exchange.prefix}/orders/${order.id}` });
    },
    'POST /orders/bulk': (exchange) => bulk(exchange, book),
    'PATCH /orders/:id': (exchange, id) => send(exchange, 200, book.change(Number(id), exchange.jsonBody())),
    'DELETE /orders/:id': (exchange, id) => {
      book.delete(Number(id));
      exchange.send(204, '');
    },
  };
}

type RecordResult =
  { index: number; id: number } | { index: number; error: { code: string; message: string } };

/** 200 with one result a record; with `?refuse=batch` a batch that holds a bad record is 422 and changes nothing. */
function bulk(exchange: Exchange, book: OrderBook): void {
  const records = exchange.jsonBody();
  if (!Array.isArray(records)) throw new Refusal(400, 'bad_batch', 'the body must be an array of orders');
  const results = records.map((record, index) => create(book, record, index));
  const bad = results.filter((result) => 'error' in result);
  if (bad.length > 0 && exchange.query.get('refuse') === 'batch') {
    for (const result of results) if ('id' in result) book.delete(result.id);
    exchange.json(422, {
      error: {
        code: 'bad_batch',
        message: `${bad.length} of ${records.length} orders are bad`,
        records: bad,
      },
    });
    return;
  }
  exchange.json(200, { results, created: results.length - bad.length, failed: bad.length });
}

function create(book: OrderBook, record: unknown, index: number): RecordResult {
  try {
    return { index, id: book.create(record).id };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { index, error: { code: error.code, message: error.message } };
  }
}

function send(
  exchange: Exchange,
  status: number,
  order: unknown,
  headers: Record<string, string> = {},
): void {
  exchange.send(status, ordersJson(order), { 'content-type': 'application/json', ...headers });
}
