"""Hub of the daemon: sessions and their owner, the merged catalog, and the routing of requests and answers."""
