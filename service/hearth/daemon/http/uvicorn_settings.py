"""Settings of uvicorn, of which only the protocol class is used: no server, no log and no headers of its own."""

import logging
from typing import Any

from uvicorn.config import Config

# How long a connection waits for its next request; clients open another one transparently.
KEEP_ALIVE_SECONDS = 75


def load(app: Any) -> Config:
    """Return uvicorn's config, which all connections share."""
    found = Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    found.load()
    # uvicorn logs a line for all data that is not HTTP, which any process that finds the port can send.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return found
