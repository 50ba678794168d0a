import fc from 'fast-check';
import type { ColumnType } from '../table-store.ts';

/** A value as it stands in the JSON of a page, and as it must be read back. */
export interface Arriving {
  text: string;
  read: unknown;
}

/** A page of them, in the column x. */
export function rowsText(values: Arriving[]): string {
  return `[${values.map(({ text }) => `{"x":${text}}`).join(',')}]`;
}

const same = (value: unknown): Arriving => ({ text: JSON.stringify(value), read: value });
const asNumberOrString = (digits: string, read: unknown) =>
  fc.boolean().map((quoted) => ({ text: quoted ? `"${digits}"` : digits, read }));

const characters = fc.oneof(
  fc.constantFrom('"', '\\', '\u2028', '\n', "'", '%'),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
);
const text = fc.string({ unit: characters, maxLength: 30 }).filter((value) => !value.includes('\0'));

const bigint = fc
  .oneof(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.bigInt({ min: 2n ** 53n - 3n, max: 2n ** 53n + 3n }),
  )
  .chain((value) => {
    const safe = Number.isSafeInteger(Number(value));
    return asNumberOrString(String(value), safe ? Number(value) : String(value));
  });

const digits = (least: number) => fc.stringMatching(new RegExp(`^[0-9]{${least},25}$`));
const decimal = fc
  .tuple(fc.boolean(), digits(1), digits(0))
  .map(([negative, whole, fraction]) => {
    const plain = whole.replace(/^0+(?=\d)/, '') + (fraction && `.${fraction}`);
    return (negative && /[1-9]/.test(plain) ? '-' : '') + plain;
  })
  .map((plain) => ({ text: `"${plain}"`, read: plain }));

const double = fc
  .double({ noNaN: true, noDefaultInfinity: true })
  .map((value) => value + 0 || 0)
  .map(same);

const day = fc.date({ min: new Date('0001-01-02'), max: new Date('9999-12-30'), noInvalidDate: true });

const timestamp = fc.tuple(day, fc.integer({ min: -14 * 60, max: 14 * 60 })).map(([instant, offset]) => {
  const shifted = new Date(instant.getTime() + offset * 60_000).toISOString().slice(0, -1);
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  const pad = (part: number) => String(part).padStart(2, '0');
  const zone = `${offset < 0 ? '-' : '+'}${pad(hours)}:${pad(minutes)}`;
  return { text: `"${shifted}${zone}"`, read: instant.toISOString().replace('.000Z', 'Z') };
});

const withoutNul = (value: unknown): boolean => !JSON.stringify(value).includes('\\u0000');

/** Values that every store must hold, by the type of their column. */
export const arriving: Record<ColumnType, fc.Arbitrary<Arriving>> = {
  string: text.map(same),
  integer: fc.maxSafeInteger().map(same),
  bigint,
  decimal,
  double,
  boolean: fc.boolean().map(same),
  date: day.map((value) => same(value.toISOString().slice(0, 10))),
  timestamp,
  json: fc
    .jsonValue({ maxDepth: 3 })
    .map((value) => same(JSON.parse(JSON.stringify(value))))
    .filter(({ read }) => read !== null && withoutNul(read)),
  binary: fc.uint8Array({ maxLength: 40 }).map((bytes) => same(Buffer.from(bytes).toString('base64'))),
};
