"""One leader at a time: the others wait, and the next one takes over when the leader ends or is lost."""

import asyncio
import os

from rlock_client import AsyncClient, LockLost


async def member(client: AsyncClient, name: str) -> str:
    try:
        async with client.lock("example:leader", fenced=True) as held:
            # A loss cancels this work.
            await asyncio.sleep(0.05)
            return f"{name} led with token {held.token}"
    except LockLost as error:
        return f"{name} stopped: {error}"


async def main() -> None:
    async with AsyncClient(os.environ.get("REDIS_URL", "redis://localhost:6399"), lease=10) as client:
        for line in await asyncio.gather(*(member(client, name) for name in ("one", "two", "three"))):
            print(line)


asyncio.run(main())
