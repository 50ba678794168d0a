import { HttpFailure } from './failure.ts';
import { addressBytes, isWithin, network } from './ip-address.ts';

/** Which addresses outgoing requests may reach. */
export interface EgressPolicy {
  /** Whether loopback and private addresses may be reached; metadata and link-local ones never. */
  allowPrivate: boolean;
}

interface Rule {
  networks: ReturnType<typeof network>[];
  what: string;
}

const rule = (what: string, ...networks: string[]): Rule => ({ what, networks: networks.map(network) });

const NEVER = [
  rule('the address of a cloud metadata service', '100.100.100.200/32', '168.63.129.16/32'),
  rule('the address of a cloud metadata service', 'fd00:ec2::/32', 'fd20:ce::254/128'),
  rule('a link-local address', '169.254.0.0/16', 'fe80::/10'),
  rule('an unspecified address', '0.0.0.0/8', '::/128'),
  rule('a multicast address', '224.0.0.0/4', 'ff00::/8'),
  rule('a reserved address', '192.0.0.0/24', '240.0.0.0/4', '64:ff9b:1::/48'),
];

const PRIVATE = [
  rule('a loopback address', '127.0.0.0/8', '::1/128'),
  rule(
    'a private address',
    '10.0.0.0/8',
    '172.16.0.0/12',
    '192.168.0.0/16',
    '100.64.0.0/10',
    '198.18.0.0/15',
  ),
  rule('a private address', 'fc00::/7', 'fec0::/10'),
];
const NOT_HERE = 'which is not allowed here (the setting privateAddresses can allow it)';

/** IPv6 networks that carry an IPv4 address, and where: what reaches it must be judged by that address. */
const EMBEDDING = [
  { within: network('::ffff:0:0/96'), at: 12, inverted: false },
  { within: network('::ffff:0:0:0/96'), at: 12, inverted: false },
  { within: network('64:ff9b::/96'), at: 12, inverted: false },
  { within: network('2002::/16'), at: 2, inverted: false },
  { within: network('2001::/32'), at: 4, inverted: false },
  { within: network('2001::/32'), at: 12, inverted: true },
  { within: network('::/96'), at: 12, inverted: false },
];
/** The interface identifiers of ISATAP, in front of an IPv4 address. */
const ISATAP = [
  [0x00, 0x00, 0x5e, 0xfe],
  [0x02, 0x00, 0x5e, 0xfe],
];

/** Why an address must not be reached; null when it may be. */
export function egressRefusal(address: string, policy: EgressPolicy): string | null {
  const bytes = addressBytes(address);
  return bytes ? refusalOf(bytes, policy) : 'no IP address';
}

function refusalOf(bytes: Uint8Array, policy: EgressPolicy): string | null {
  const never = matching(NEVER, bytes);
  if (never) return `${never}, which is never allowed`;
  const known = matching(PRIVATE, bytes);
  if (known) return policy.allowPrivate ? null : `${known}, ${NOT_HERE}`;
  for (const inner of embedded(bytes)) {
    const refusal = refusalOf(inner, policy);
    if (refusal) return refusal;
  }
  return null;
}

function matching(rules: readonly Rule[], bytes: Uint8Array): string | undefined {
  return rules.find(({ networks }) => networks.some((candidate) => isWithin(bytes, candidate)))?.what;
}

function embedded(bytes: Uint8Array): Uint8Array[] {
  if (bytes.length !== 16) return [];
  const found = EMBEDDING.filter(({ within }) => isWithin(bytes, within)).map(({ at, inverted }) =>
    bytes.slice(at, at + 4).map((byte) => (inverted ? byte ^ 0xff : byte)),
  );
  if (ISATAP.some((marker) => marker.every((byte, index) => bytes[8 + index] === byte)))
    found.push(bytes.slice(12));
  return found;
}

/** Checks what can be known of a host before it is resolved: a literal address, or a name that means this machine. */
export function checkHost(hostname: string, policy: EgressPolicy): void {
  const host = hostname.replace(/^\[|\]$/g, '').toLowerCase();
  if (addressBytes(host)) {
    checkAddress(host, host, policy);
  } else if (!policy.allowPrivate && /(?:^|\.)localhost\.?$/.test(host)) {
    throw new HttpFailure('egress', `${host} is a name of this machine, ${NOT_HERE}`);
  }
}

export function checkAddress(address: string, host: string, policy: EgressPolicy): void {
  const refusal = egressRefusal(address, policy);
  if (!refusal) return;
  const named = host === address ? address : `${host} (${address})`;
  throw new HttpFailure('egress', `${named} is ${refusal}`);
}
