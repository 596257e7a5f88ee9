/** The handler of `count-primes`. It runs in a process of its own: it may block, and it may use up its memory. */
import { setTimeout as sleep } from "node:timers/promises";
import { handle } from "stint";
import { countPrimes } from "./jobs.ts";

export default handle(countPrimes, async ({ payload: { below, hoard }, progress }) => {
  const hoarded: Buffer[] = [];
  for (let n = 0; n < (hoard ? 100 : 0); n++) {
    hoarded.push(Buffer.alloc(8_000_000, 1));
    await sleep(10);
  }

  let primes = 0;
  for (let n = 2; n < below; n++) {
    let isPrime = true;
    for (let divisor = 2; divisor * divisor <= n && isPrime; divisor++) isPrime = n % divisor !== 0;
    if (isPrime) primes += 1;
    if (n % 50_000 === 0) progress(n / below, `${primes} primes`);
  }
  return { primes, pid: process.pid };
});
