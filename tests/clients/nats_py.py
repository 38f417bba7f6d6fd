"""What a program on nats-py does first, against the server whose URL is the argument.

Prints one line of JSON with what it saw.
"""

import asyncio
import json
import sys

import nats
from nats.errors import NoRespondersError
from nats.js.errors import APIError, NotFoundError


async def main(url: str) -> dict:
    client = await nats.connect(url, connect_timeout=5, allow_reconnect=False)
    seen = {"version": client.connected_server_version.major}

    async def answer(message):
        await message.respond(b"pong " + message.data)

    await client.subscribe("service", cb=answer)
    reply = await client.request("service", b"1", timeout=5)
    seen["reply"] = reply.data.decode()
    try:
        await client.request("nobody", b"", timeout=5)
    except NoRespondersError:
        seen["nobody"] = True

    jetstream = client.jetstream(timeout=5)
    created = await jetstream.add_stream(name="PY", subjects=["py.>"], allow_direct=True)
    seen["created"] = created.config.name
    first = await jetstream.publish("py.a", b"one", headers={"Nats-Msg-Id": "1"})
    again = await jetstream.publish("py.a", b"one", headers={"Nats-Msg-Id": "1"})
    second = await jetstream.publish("py.b", b"two")
    seen["acks"] = [first.seq, again.seq, again.duplicate, second.seq]
    info = await jetstream.stream_info("PY")
    seen["messages"] = info.state.messages
    stored = await jetstream.get_msg("PY", 2)
    direct = await jetstream.get_last_msg("PY", "py.a", direct=True)
    seen["stored"] = [stored.data.decode(), direct.data.decode()]
    try:
        await jetstream.subscribe("py.>")
    except APIError as error:
        seen["consumer"] = error.err_code
    seen["deleted"] = await jetstream.delete_stream("PY")
    try:
        await jetstream.stream_info("PY")
    except NotFoundError as error:
        seen["gone"] = error.err_code
    await client.drain()
    return seen


print(json.dumps(asyncio.run(main(sys.argv[1]))))
