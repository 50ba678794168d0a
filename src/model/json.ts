import { z } from 'zod';

/** Any JSON value. */
export const Json = z.json();
export type Json = z.infer<typeof Json>;
