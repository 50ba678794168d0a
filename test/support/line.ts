import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** Stands between the service and its database, and can go away and come back. */
export class Line {
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  #server = createServer();
  #port = 0;

  constructor(url: string) {
    this.#target = new URL(url);
  }

  async open(): Promise<void> {
    this.#server = createServer((from) => {
      const to = connect(Number(this.#target.port), this.#target.hostname);
      for (const [socket, other] of [
        [from, to],
        [to, from],
      ] as const) {
        this.#sockets.add(socket);
        socket.pipe(other);
        socket.on('error', () => other.destroy());
        socket.on('close', () => this.#sockets.delete(socket));
      }
    });
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
  }

  get url(): string {
    const url = new URL(this.#target);
    url.host = `127.0.0.1:${this.#port}`;
    return url.href;
  }
}
