import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';

/** All of standard input without its last line end; from a terminal one line, which is not shown. */
export async function readPassword(prompt: string, tell: (line: string) => void): Promise<string> {
  if (!process.stdin.isTTY) return (await text(process.stdin)).replace(/\r?\n$/, '');
  tell(prompt);
  const invisible = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: process.stdin, output: invisible, terminal: true });
  try {
    return await terminal.question('');
  } finally {
    terminal.close();
  }
}
