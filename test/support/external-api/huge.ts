import { Refusal, type Exchange } from './exchange.ts';
import type { Routes } from './router.ts';

const ID_DIGITS = 10;
const NOTE =
  'The parcel was handed over to the carrier and will be with you soon, thank you for your order at our shop';

interface Template {
  /** Where the digits of each record's id end, counted in `records`. */
  idEnds: number[];
  records: Buffer;
}

const templates = new Map<number, Template>();

/**
 * `/huge?records=&size=&page=`: records of 10 columns and about 300 bytes, ids 1 to `records`. A page is a copy of one
 * prepared page in which only the ids' digits are written anew (right-aligned: JSON allows the spaces before a number).
 */
export const huge: Routes = {
  'GET /huge': (exchange) => {
    const records = exchange.number('records', 1_000_000);
    const size = exchange.number('size', 1000, { min: 1, max: 100_000 });
    const page = exchange.number('page', 1, { min: 1 });
    const pages = Math.max(1, Math.ceil(records / size));
    if (page > pages) throw new Refusal(404, 'no_such_page', `there are ${pages} pages`);
    const first = (page - 1) * size;
    const items = pageItems(first, Math.min(size, records - first));
    const next = page < pages ? JSON.stringify(nextTarget(exchange, records, size, page + 1)) : 'null';
    const tail = `],"page":${page},"pages":${pages},"total":${records},"next":${next}}`;
    const body = Buffer.concat([Buffer.from('{"items":['), items, Buffer.from(tail)]);
    exchange.send(200, body, { 'content-type': 'application/json' });
  },
};

function nextTarget({ prefix }: Exchange, records: number, size: number, page: number): string {
  return `${prefix}/huge?records=${records}&size=${size}&page=${page}`;
}

function pageItems(first: number, count: number): Buffer {
  if (count <= 0) return Buffer.alloc(0);
  const { records, idEnds } = template(count);
  const page = Buffer.from(records);
  for (let index = 0; index < count; index += 1) {
    let at = idEnds[index] as number;
    for (let id = first + index + 1; id > 0; id = Math.floor(id / 10)) {
      at -= 1;
      page[at] = 48 + (id % 10);
    }
  }
  return page;
}

function template(count: number): Template {
  let made = templates.get(count);
  if (!made) {
    made = makeTemplate(count);
    templates.set(count, made);
  }
  return made;
}

function makeTemplate(count: number): Template {
  const idEnds: number[] = [];
  const texts: Buffer[] = [];
  let at = 0;
  for (let index = 0; index < count; index += 1) {
    const head = Buffer.from(`${index === 0 ? '' : ','}{"id":${' '.repeat(ID_DIGITS)}`);
    const rest = Buffer.from(`,${JSON.stringify(columns(index)).slice(1)}`);
    idEnds.push(at + head.length);
    texts.push(head, rest);
    at += head.length + rest.length;
  }
  return { idEnds, records: Buffer.concat(texts) };
}

/** The nine columns beside the id. */
function columns(index: number) {
  return {
    customer: `Customer ${index % 997}`,
    email: `customer${index % 997}@example.com`,
    city: ['Köln', 'Paris', 'Oslo', 'Wien'][index % 4],
    amount: ((index * 7919) % 100_000) / 100,
    quantity: (index % 9) + 1,
    status: ['new', 'paid', 'shipped'][index % 3],
    paid: index % 2 === 0,
    created_at: new Date(Date.UTC(2025, 0, 1) + index * 60_000).toISOString(),
    note: NOTE,
  };
}
