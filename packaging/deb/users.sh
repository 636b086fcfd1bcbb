# Reaching users from root's maintainer script: their service managers, their daemons, their MCP clients.
# debian/rules puts packaging/deb/users.sh into each script; postrm has no file of the package to read.

# Runs a command as one user, with its output on standard output. No user can hold dpkg up (timeout, which runs as root so that
# the user cannot stop it) or reach root's terminal (setsid, and no descriptor of it). setpriv and not `systemctl --machine=UID@`: no session of PAM's is opened and no message
# bus is needed. 125: there is no such user.
as_user() {
  uid=$1
  shift
  gid=$(id -g "$uid" 2>/dev/null) || return 125
  home=$(getent passwd "$uid" | cut -d: -f6)
  setsid --wait timeout --kill-after=5 60 setpriv --reuid="$uid" --regid="$gid" --clear-groups \
    env -i --chdir=/ PATH=/usr/bin:/bin LC_ALL=C.UTF-8 HOME="$home" XDG_RUNTIME_DIR="/run/user/$uid" \
    "$@" </dev/null 2>&1
}

# The uids of users with a folder of running things.
running_users() { find /run/user /run/mcp -mindepth 1 -maxdepth 1 -type d -printf '%f\n' 2>/dev/null | sort -u; }

# Runs a command as every such user, one after the other, and ignores its failure.
each_user() {
  for user in $(running_users); do
    as_user "$user" "$@" >/dev/null || true
  done
}

# The piece of shell that ends at once where no service manager of the user runs.
with_manager() { printf '[ -S "$XDG_RUNTIME_DIR/systemd/private" ] || exit 0; %s' "$1"; }

# Runs a piece of shell as every user whose service manager runs.
each_manager() { each_user sh -c "$(with_manager "$1")"; }

# What the administrator has said about starting services (invoke-rc.d(8)); 101 is no.
may_start() {
  command -v policy-rc.d >/dev/null || return 0
  policy-rc.d mcp.socket start || [ $? -ne 101 ]
}

systemd_runs() { [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; }
