"""Workers that share jobs: each job is done by one of them."""

import os
from concurrent.futures import ThreadPoolExecutor

from rlock_client import Client, Denied

client = Client(os.environ.get("REDIS_URL", "redis://localhost:6399"))
done: list[str] = []


def work(job: str) -> None:
    try:
        with client.lock(f"example:job:{job}").try_acquire() as held:
            if job in done:
                return
            held.check()  # before the step that must not happen twice
            done.append(job)
    except Denied:
        pass  # another worker has it


with client, ThreadPoolExecutor(4) as pool:
    list(pool.map(work, ["a", "b", "c"] * 4))
print(sorted(done))
