import { numberedName } from '../../files/file-names.ts';
import type { FileStore, FileWriter } from '../../files/file-store.ts';
import type { HttpResponse } from '../../http/http-client.ts';
import type { Exchange, Exchanged } from './exchange.ts';
import type { PreparedRequest } from './interceptors/interceptor.ts';

/** What an error's beginning of the body is cut from. */
const BEGINNING_BYTES = 8_192;

export interface SavedResponse {
  statusCode: number;
  statusMessage: string;
  headers: HttpResponse['headers'];
  bytes: number;
  /** Of a response that is no success. */
  beginning: Uint8Array;
  file: { space: string; name: string } | null;
}

/** Gives each file of a job its name: with a source table, a number from the second one on. */
export class FileSaver {
  readonly files: { space: string; name: string; bytes: number }[] = [];
  readonly #store: FileStore;
  readonly #space: string;
  readonly #name: string;

  constructor(store: FileStore, space: string, name: string) {
    this.#store = store;
    this.#space = space;
    this.#name = name;
  }

  /** Goes on behind the files that a worker before this one has saved. */
  restore(files: readonly { space: string; name: string; bytes: number }[]): void {
    this.files.splice(0, this.files.length, ...files);
  }

  get nextName(): { space: string; name: string } {
    const number = this.files.length + 1;
    return { space: this.#space, name: number === 1 ? this.#name : numberedName(this.#name, number) };
  }

  create(): Promise<FileWriter> {
    return this.#store.create(this.nextName);
  }

  saved(bytes: number): { space: string; name: string } {
    const file = this.nextName;
    this.files.push({ ...file, bytes });
    return file;
  }
}

/** Streams the body of a success into the file, with constant memory; of another response it reads the beginning. */
export async function saveToFile(
  saver: FileSaver,
  exchange: Exchange,
  request: PreparedRequest,
  withCredentials: boolean,
): Promise<Exchanged<SavedResponse>> {
  return exchange.receive(request, withCredentials, async (response) => {
    const { statusCode, statusMessage, headers } = response;
    const head = { statusCode, statusMessage, headers };
    if (statusCode < 200 || statusCode >= 300) {
      const beginning = await readBeginning(response);
      return { ...head, bytes: beginning.byteLength, beginning, file: null };
    }
    const writer = await saver.create();
    try {
      for await (const chunk of response.body) await writer.write(chunk);
      const { bytes } = await writer.commit();
      return { ...head, bytes, beginning: new Uint8Array(), file: saver.saved(bytes) };
    } catch (error) {
      await writer.abort();
      throw error;
    }
  });
}

async function readBeginning(response: HttpResponse): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body) {
    chunks.push(chunk);
    bytes += chunk.byteLength;
    if (bytes >= BEGINNING_BYTES) break;
  }
  return Buffer.concat(chunks).subarray(0, BEGINNING_BYTES);
}
