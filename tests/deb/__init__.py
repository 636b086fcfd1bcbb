"""The Debian package: what is in it, and its life on a system. Run by `make deb-test`, which builds it first."""
