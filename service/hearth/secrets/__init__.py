"""Secrets of this user: the vault, the keyring, references to them in the config, the token of the HTTP port."""
