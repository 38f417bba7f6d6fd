// Publishes 25 messages as one fast batch and says how it ended, as one line of JSON.
//
// node publish.mjs nats://127.0.0.1:PORT
//
// The client is nats.js as it is published. Its fast ingest is reached through the entry point
// `@nats-io/jetstream/internal`, which is where version 3.4.0 exports it.

import { startFastIngest } from "@nats-io/jetstream/internal";
import { connect } from "@nats-io/transport-node";

const MESSAGES = 25;
const FLOW = 5;
const TIMEOUT_MS = 1000;

const url = process.argv[2];
if (!url) {
  console.error("usage: node publish.mjs nats://HOST:PORT");
  process.exit(2);
}

const connection = await connect({ servers: url });
const subject = "t.a";
const options = {
  ackInterval: FLOW,
  maxOutstandingAcks: 1,
  allowGaps: false,
  timeout: TIMEOUT_MS,
};
let sent = 0;
let acked = 0;
try {
  const batch = await startFastIngest(connection, subject, "1", options, TIMEOUT_MS);
  sent = 1;
  while (sent < MESSAGES - 1) {
    sent += 1;
    const progress = await batch.add(subject, String(sent), { timeout: TIMEOUT_MS });
    acked = progress.ackSeq;
  }
  const ack = await batch.last(subject, String(MESSAGES), { timeout: TIMEOUT_MS });
  console.log(JSON.stringify({ outcome: "committed", count: ack.count }));
} catch (error) {
  const outcome = error.name === "TimeoutError" ? "timed out" : String(error.message);
  console.log(JSON.stringify({ outcome, sent, acked }));
}
await connection.close();
