#!/bin/bash
# Build the Debian package from what git tracks here (or, without git, from what lies here), put it into dist/ and have lintian
# look at it.
#
#   packaging/deb/build.sh
#
# Needs the packages dpkg-dev, debhelper, python3, python3-venv and lintian, and pip's way to its packages. The checkout stays as
# it is.
set -euo pipefail
cd "$(dirname "$0")/../.."

for program in dpkg-buildpackage dh lintian; do
  if ! command -v $program >/dev/null; then
    echo "build.sh: $program is missing: apt-get install dpkg-dev debhelper python3-venv lintian" >&2
    exit 1
  fi
done

# The mask and the locale of whoever builds must not show in the package.
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$work/mcp-hearth
mkdir -p "$source" dist
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  # New files that are not ignored count: a change is built before it is committed.
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' path; do
    if [ -e "$path" ] || [ -L "$path" ]; then printf '%s\0' "$path"; fi
  done | tar --create --null --files-from=- | tar --extract --directory="$source"
else
  tar --create --exclude=./dist --exclude=./.venv . | tar --extract --directory="$source"
fi

(cd "$source" && LC_ALL=C.UTF-8 dpkg-buildpackage --build=binary --no-sign)
rm -f dist/mcp-hearth_*
mv "$work"/mcp-hearth_* dist/
# Errors and warnings end it; each override has its reason in debian/mcp-hearth.lintian-overrides. As root it may run in CI.
lintian --allow-root --fail-on error,warning dist/mcp-hearth_*.changes
ls dist/mcp-hearth_*.deb
