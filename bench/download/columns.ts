/** Of the records that the fake external API serves at /huge: 10 columns, about 300 bytes a record. */
export const columns = [
  { name: 'id', type: 'integer' },
  { name: 'customer', type: 'string' },
  { name: 'email', type: 'string' },
  { name: 'city', type: 'string' },
  { name: 'amount', type: 'double' },
  { name: 'quantity', type: 'integer' },
  { name: 'status', type: 'string' },
  { name: 'paid', type: 'boolean' },
  { name: 'created_at', type: 'timestamp' },
  { name: 'note', type: 'string' },
] as const;
