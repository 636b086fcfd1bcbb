"""uvicorn's settings, for one protocol class of it: no server, no log and no headers of its own."""

import logging
from typing import Any

from uvicorn.config import Config

# The next request on a connection that is kept; clients open another without noticing.
KEEP_ALIVE_SECONDS = 75


def load(app: Any) -> Config:
    """What uvicorn needs to know, once for all connections."""
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
    # It has a line for whatever is no HTTP, and anybody who finds the port can send that.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return found
