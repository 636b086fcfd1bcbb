"""Identity of agents: who acts on whom, tokens, and the directory that the hub asks."""
