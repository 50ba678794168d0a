import { Refusal } from './exchange.ts';

export interface Customer {
  id: number;
  name: string;
  city: string;
  email: string;
}

export interface Order {
  id: number;
  customer_id: number;
  customer: { name: string; city: string };
  /** Sent with two digits, like 12.50. */
  amount: number;
  currency: string;
  status: string;
  /** With a zone; three different ones take turns. */
  created_at: string;
  lines: { sku: string; qty: number }[];
}

const NAMES = ['Ada Lovelace', 'Søren Åberg', '李小龍', 'Zoë O’Neil', 'Иван Петров', 'Bob "Bobby" Tables'];
const CITIES = ['Köln', 'Paris', '東京', 'São Paulo', 'Oslo'];
const STATUSES = ['new', 'paid', 'shipped', 'cancelled'];
const ZONES = [
  { offset: 'Z', minutes: 0 },
  { offset: '+02:00', minutes: 120 },
  { offset: '-05:30', minutes: -330 },
];
const FIRST_ORDER_MS = Date.UTC(2025, 0, 1);

const pick = <T>(list: readonly T[], index: number): T => list[index % list.length] as T;

export function makeCustomer(id: number): Customer {
  return { id, name: pick(NAMES, id), city: pick(CITIES, id), email: `customer${id}@example.com` };
}

/** The same id always gives the same order. */
export function makeOrder(id: number, customers: number): Order {
  const customer = makeCustomer(((id - 1) % customers) + 1);
  return {
    id,
    customer_id: customer.id,
    customer: { name: customer.name, city: customer.city },
    amount: ((id * 7919) % 100_000) / 100,
    currency: id % 5 === 0 ? 'USD' : 'EUR',
    status: pick(STATUSES, id),
    created_at: createdAt(id),
    lines: Array.from({ length: (id % 3) + 1 }, (_, line) => ({
      sku: `SKU-${id % 50}-${line}`,
      qty: line + 1,
    })),
  };
}

/** One order each quarter of an hour. */
function createdAt(id: number): string {
  const { offset, minutes } = pick(ZONES, id);
  const local = new Date(FIRST_ORDER_MS + id * 900_000 + minutes * 60_000);
  return local.toISOString().replace('.000Z', offset);
}

const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };

/** JSON text in which amounts have their two digits, as APIs in other languages write them. */
export function ordersJson(value: unknown): string {
  return JSON.stringify(value, (key, inner: unknown) =>
    key === 'amount' && typeof inner === 'number' ? rawJSON(inner.toFixed(2)) : inner,
  );
}

/** The orders and customers that the API holds; writing endpoints change them. */
export class OrderBook {
  readonly customers: Customer[];
  readonly #orders = new Map<number, Order>();
  #lastId: number;

  constructor(orders: number, customers: number) {
    this.customers = Array.from({ length: customers }, (_, index) => makeCustomer(index + 1));
    for (let id = 1; id <= orders; id += 1) this.#orders.set(id, makeOrder(id, customers));
    this.#lastId = orders;
  }

  /** In order of their ids. */
  all({ status, customerId }: { status?: string | null; customerId?: number } = {}): Order[] {
    return [...this.#orders.values()].filter(
      (order) =>
        (!status || order.status === status) &&
        (customerId === undefined || order.customer_id === customerId),
    );
  }

  get(id: number): Order | undefined {
    return this.#orders.get(id);
  }

  create(input: unknown): Order {
    const fields = checkedFields(input);
    this.#lastId += 1;
    const id = this.#lastId;
    const order: Order = {
      id,
      customer_id: 1,
      customer: { name: '', city: '' },
      amount: 0,
      currency: 'EUR',
      status: 'new',
      created_at: createdAt(id),
      lines: [],
      ...fields,
    };
    order.id = id;
    this.#orders.set(id, order);
    return order;
  }

  change(id: number, input: unknown): Order {
    const order = this.#existing(id);
    Object.assign(order, checkedFields(input), { id });
    return order;
  }

  delete(id: number): void {
    this.#existing(id);
    this.#orders.delete(id);
  }

  #existing(id: number): Order {
    const order = this.#orders.get(id);
    if (!order) throw new Refusal(404, 'unknown_order', `there is no order ${id}`);
    return order;
  }
}

/** A record is bad when its amount is no number of at least 0, or its status is unknown. */
function checkedFields(input: unknown): Partial<Order> {
  const bad = (message: string) => new Refusal(422, 'bad_order', message);
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw bad('an order must be an object');
  }
  const { amount: given, ...others } = input as Omit<Partial<Order>, 'amount'> & { amount?: unknown };
  const fields: Partial<Order> = { ...others };
  if ('amount' in input) {
    const amount = Number(given ?? Number.NaN);
    if (!(amount >= 0)) throw bad(`amount must be a number of at least 0, not ${JSON.stringify(given)}`);
    fields.amount = amount;
  }
  if (fields.status !== undefined && !STATUSES.includes(fields.status)) {
    throw bad(`status must be one of ${STATUSES.join(', ')}, not ${JSON.stringify(fields.status)}`);
  }
  return fields;
}
