import { isIPv4, isIPv6 } from 'node:net';

/** The bytes of an address: 4 or 16; null when the text is no address. A zone (`%eth0`) is left out. */
export function addressBytes(address: string): Uint8Array | null {
  const text = address.replace(/%.*$/, '');
  if (isIPv4(text)) return Uint8Array.from(text.split('.'), Number);
  return isIPv6(text) ? ipv6Bytes(text) : null;
}

function ipv6Bytes(text: string): Uint8Array {
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text);
  if (dotted) {
    const [, head = '', ...parts] = dotted;
    const [a = 0, b = 0, c = 0, d = 0] = parts.map(Number);
    return ipv6Bytes(`${head}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`);
  }
  const [head = '', tail] = text.split('::');
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => 0);
  return Uint8Array.from([...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 0xff]));
}

function groups(text: string): number[] {
  return text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
}

/** A network such as `10.0.0.0/8`, ready to be asked. */
export interface Network {
  bytes: Uint8Array;
  bits: number;
}

export function network(text: string): Network {
  const [address = '', bits = ''] = text.split('/');
  const bytes = addressBytes(address);
  if (!bytes) throw new TypeError(`${text} is no network`);
  return { bytes, bits: Number(bits) };
}

export function isWithin(address: Uint8Array, { bytes, bits }: Network): boolean {
  if (address.length !== bytes.length) return false;
  return bytes.every((byte, index) => {
    const covered = Math.max(0, Math.min(8, bits - index * 8));
    const mask = (0xff << (8 - covered)) & 0xff;
    return ((address[index] as number) & mask) === (byte & mask);
  });
}
