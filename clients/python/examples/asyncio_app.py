"""asyncio: IDs in request handlers, without a blocked loop. With FastAPI:

from contextlib import asynccontextmanager
from fastapi import Depends, FastAPI

@asynccontextmanager
async def lifespan(app):
    yield
    await asyncio.to_thread(client.close)

app = FastAPI(lifespan=lifespan)

@app.post("/orders")
async def create(id: int = Depends(next_order)):
    return {"id": str(id)}     # JavaScript reads integers above 2^53 wrong.
"""

import asyncio

from getid import Client

client = Client()
orders = client.sequence("orders")


async def next_order() -> int:
    """Returns the number of a new order."""
    return await orders.anext()


async def main() -> None:
    print(sorted(await asyncio.gather(*[next_order() for _ in range(5)])))
    print("released:", await asyncio.to_thread(client.close))


if __name__ == "__main__":
    asyncio.run(main())
