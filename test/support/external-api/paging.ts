import { Refusal, type Exchange } from './exchange.ts';
import { ordersJson, type Order, type OrderBook } from './orders.ts';
import type { Routes } from './router.ts';

const MAX_PAGE_SIZE = 1000;

/** The ways in which APIs hand out long lists. Each takes `?status=` as a filter. */
export function pagingRoutes(book: OrderBook): Routes {
  const orders = ({ query }: Exchange) => book.all({ status: query.get('status') });
  return {
    'GET /orders': (exchange) => byPage(exchange, orders(exchange)),
    'GET /orders/by-page': (exchange) => byPage(exchange, orders(exchange)),
    'GET /orders/by-offset': (exchange) => byOffset(exchange, orders(exchange)),
    'GET /orders/by-cursor': (exchange) => byCursor(exchange, orders(exchange)),
    'GET /orders/by-link': (exchange) => byLink(exchange, orders(exchange)),
    'GET /orders/by-next': (exchange) => byNext(exchange, orders(exchange)),
    'GET /orders/until-empty': (exchange) => answer(exchange, pageOf(exchange, orders(exchange)).items),
    'GET /orders/:id': (exchange, id) => {
      const order = book.get(Number(id));
      if (!order) throw new Refusal(404, 'unknown_order', `there is no order ${id}`);
      answer(exchange, order);
    },
    'GET /customers': (exchange) => byPage(exchange, book.customers),
    'GET /customers/:id': (exchange, id) => exchange.json(200, customer(book, id)),
    'GET /customers/:id/orders': (exchange, id) =>
      byPage(exchange, book.all({ customerId: customer(book, id).id })),
    'GET /repeat': (exchange) =>
      answer(exchange, { items: book.all().slice(0, 10), next: exchange.link({}).replace(/\?$/, '') }),
  };
}

function answer(exchange: Exchange, value: unknown, headers: Record<string, string> = {}): void {
  exchange.send(200, ordersJson(value), { 'content-type': 'application/json; charset=utf-8', ...headers });
}

function customer(book: OrderBook, id: string | undefined) {
  const found = book.customers.find((each) => String(each.id) === id);
  if (!found) throw new Refusal(404, 'unknown_customer', `there is no customer ${id}`);
  return found;
}

function pageOf<T>(exchange: Exchange, all: T[]) {
  const page = exchange.number('page', 1, { min: 1 });
  const size = exchange.number('size', 100, { min: 1, max: MAX_PAGE_SIZE });
  const pages = Math.max(1, Math.ceil(all.length / size));
  return { items: all.slice((page - 1) * size, page * size), page, pages, total: all.length };
}

function byPage(exchange: Exchange, all: unknown[]): void {
  answer(exchange, pageOf(exchange, all));
}

function byOffset(exchange: Exchange, all: Order[]): void {
  const offset = exchange.number('offset', 0);
  const limit = exchange.number('limit', 100, { min: 1, max: MAX_PAGE_SIZE });
  answer(exchange, { data: all.slice(offset, offset + limit), offset, limit, total: all.length });
}

/** The cursor is the last id, wrapped so that nobody counts on it. */
function byCursor(exchange: Exchange, all: Order[]): void {
  const size = exchange.number('size', 100, { min: 1, max: MAX_PAGE_SIZE });
  const cursor = exchange.query.get('cursor');
  const after = cursor ? Number(Buffer.from(cursor, 'base64url').toString()) : 0;
  if (!Number.isSafeInteger(after))
    throw new Refusal(400, 'bad_cursor', 'this cursor was not given out here');
  const rest = all.filter(({ id }) => id > after);
  const items = rest.slice(0, size);
  const last = items.at(-1);
  const next = last && rest.length > size ? Buffer.from(String(last.id)).toString('base64url') : null;
  answer(exchange, { items, next_cursor: next });
}

function byLink(exchange: Exchange, all: Order[]): void {
  const { items, page, pages } = pageOf(exchange, all);
  const links = [`<${exchange.link({ page: 1 })}>; rel="first"`];
  if (page > 1) links.push(`<${exchange.link({ page: page - 1 })}>; rel="prev"`);
  if (page < pages) links.push(`<${exchange.link({ page: page + 1 })}>; rel="next"`);
  links.push(`<${exchange.link({ page: pages })}>; rel="last"`);
  answer(exchange, items, { link: links.join(', ') });
}

function byNext(exchange: Exchange, all: Order[]): void {
  const form = exchange.query.get('form') ?? 'absolute';
  if (form !== 'absolute' && form !== 'relative') {
    throw new Refusal(400, 'bad_parameter', `form must be absolute or relative, not ${form}`);
  }
  const { items, page, pages } = pageOf(exchange, all);
  const next = form === 'absolute' ? exchange.link({ page: page + 1 }) : exchange.target({ page: page + 1 });
  answer(exchange, { items, next: page < pages ? next : null });
}
