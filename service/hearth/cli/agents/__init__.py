"""Verbs about agents: `hearth agents` lists them, `hearth agent` starts, prompts, follows and ends them."""
