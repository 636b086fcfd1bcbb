"""Parts of the agents' store: the file, its rows, and the thread that uses it. `agents.store` is in front of them."""
