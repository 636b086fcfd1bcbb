#!/bin/bash
# boot.sh [--over FOLDERS] [FOLDER]: real systemd as PID 1, over a throw-away overlay of /, until standard input ends.
#
# --over takes other folders in the place of /, the upper ones first, with colons between them.
# Prints "ready PID" (PID is systemd's, as seen from outside) when the system is up; enter it with
#   nsenter -t PID -m -u -i -n -p -C -- COMMAND
# Whatever is changed inside is gone afterwards: processes, files, cgroups. FOLDER, if given, is removed as well, so that a
# caller that was killed leaves nothing behind either: its end of our standard input closes, and that is the signal.
#
# Needs root and the packages systemd, dbus-user-session and libpam-systemd.
set -eu

# Two cores that are busy with something else have needed four seconds.
BOOT_LIMIT_SECONDS=60

# Runs inside the new namespaces and becomes systemd.
become_systemd() {
  local work=$1 over=$2 root=$1/root
  mount -t tmpfs tmpfs "$work"
  mkdir "$work/upper" "$work/work" "$root"
  mount -t overlay overlay -o "lowerdir=$over,upperdir=$work/upper,workdir=$work/work" "$root"

  mount -t proc proc "$root/proc"
  # Read-only /sys, as container managers do it: systemd then leaves the host's devices alone.
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"

  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  # Nodes of its own: the host's are shared with everybody on it, and may be closed to the ordinary user of the tests.
  while read -r node major minor; do
    mknod -m 666 "$root/dev/$node" c "$major" "$minor"
  done <<'NODES'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
NODES
  mkdir "$root/dev/pts" "$root/dev/shm"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"

  # Nothing that this machine happens to have enabled, and nothing that wants hardware or a terminal.
  rm -f "$root"/etc/systemd/system/*.wants/* "$root"/etc/systemd/user/*.wants/*
  for unit in systemd-{udevd,udev-trigger,tmpfiles-setup-dev,modules-load,sysctl,remount-fs,timesyncd}.service \
    dev-{hugepages,mqueue}.mount sys-{kernel-{debug,tracing,config},fs-fuse-connections}.mount getty.target; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
  done
  # `journalctl --user` reads the persistent journal, which exists only where this folder does.
  mkdir -p "$root/var/log/journal" "$root/.old"

  cd "$root"
  pivot_root . .old
  cd /
  umount -l .old
  hostname hearth-test
  # `container` makes systemd skip what only bare metal needs.
  exec env -i container=unshare PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal --show-status=no
}

if [ "${1:-}" = --become-systemd ]; then
  become_systemd "$2" "$3"
fi

over=/
if [ "${1:-}" = --over ]; then
  over=$2
  shift 2
fi
folder=${1:-}
work=$(mktemp -d /tmp/hearth-boot.XXXXXX)
log=$work.log
cgroup=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)/$(basename "$work")
launcher= init=

clean_up() {
  trap '' HUP INT TERM
  # The death of its PID 1 is the death of every process in the namespace. (systemd ignores SIGTERM here, and so does unshare.)
  if [ -n "$init" ]; then kill -KILL "$init"; elif [ -n "$launcher" ]; then kill -KILL "$launcher"; fi 2>/dev/null || :
  [ -z "$launcher" ] || wait "$launcher" 2>/dev/null || :
  if [ -d "$cgroup" ]; then
    # The kernel counts a process out of its cgroup a little after it can be waited for.
    for _ in $(seq 200); do grep -q '^populated 0' "$cgroup/cgroup.events" && break; sleep 0.05; done
    find "$cgroup" -depth -type d -exec rmdir {} +
  fi
  rm -rf "$work" "$log"
  [ -z "$folder" ] || rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 129' HUP INT TERM

# A cgroup of its own, entered before the cgroup namespace is made, so that it is the root that systemd sees.
mkdir "$cgroup"
(
  echo "$BASHPID" >"$cgroup/cgroup.procs"
  # Should this script die by SIGKILL, the launcher goes too (pdeathsig), and with it the namespace (kill-child).
  exec setpriv --pdeathsig KILL \
    unshare --mount --pid --fork --cgroup --uts --ipc --net --kill-child --propagation private \
    bash "$0" --become-systemd "$work" "$over"
) </dev/null >"$log" 2>&1 &
launcher=$!

enter() {
  nsenter -t "$init" -m -u -i -n -p -C -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"
}

is_up() {
  [ -n "$init" ] || init=$(pgrep -P "$launcher") || return 1
  [ "$(cat "/proc/$init/comm")" = systemd ] || return 1
  # "degraded" means that some unit of this machine failed in here; the ones that the tests use are tested by using them.
  case $(enter systemctl is-system-running 2>/dev/null) in running | degraded) ;; *) return 1 ;; esac
}

deadline=$((SECONDS + BOOT_LIMIT_SECONDS))
until is_up; do
  if [ $SECONDS -ge $deadline ] || ! kill -0 "$launcher" 2>/dev/null; then
    echo "boot.sh: systemd did not come up:" >&2
    cat "$log" >&2
    exit 1
  fi
  sleep 0.05
done
echo "ready $init"
read -r _ || :
