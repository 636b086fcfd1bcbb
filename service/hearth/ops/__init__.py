"""Operations that the command line and other frontends share: import, connect, set up, edit the config."""
