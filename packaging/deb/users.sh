# Reaching the users whose service managers and daemons run, from root's maintainer script. packaging/deb/users.sh is put into
# each of them; postrm has no file of the package to read.

# Runs a command as every user with a folder of running things, one after the other. Nobody can hold an upgrade up (timeout)
# or reach root's terminal (setsid, and no descriptor of it). setpriv and not `systemctl --machine=UID@`: no session of PAM's
# is opened and no message bus is needed.
each_user() {
  for uid in $(find /run/user /run/mcp -mindepth 1 -maxdepth 1 -type d -printf '%f\n' 2>/dev/null | sort -u); do
    gid=$(id -g "$uid" 2>/dev/null) || continue
    home=$(getent passwd "$uid" | cut -d: -f6)
    setsid --wait setpriv --reuid="$uid" --regid="$gid" --clear-groups \
      env -i --chdir=/ PATH=/usr/bin:/bin LC_ALL=C.UTF-8 HOME="$home" XDG_RUNTIME_DIR="/run/user/$uid" \
      timeout --kill-after=5 60 "$@" </dev/null >/dev/null 2>&1 || true
  done
}

# The same with a piece of shell, for those whose service manager runs.
each_manager() {
  each_user sh -c "[ -S \"\$XDG_RUNTIME_DIR/systemd/private\" ] || exit 0; $1"
}

# What the administrator has said about starting services (invoke-rc.d(8)); 101 is no.
may_start() {
  command -v policy-rc.d >/dev/null || return 0
  policy-rc.d mcp.socket start || [ $? -ne 101 ]
}

systemd_runs() { [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; }
