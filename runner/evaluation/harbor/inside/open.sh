# As root. $1: the tunnel's folder; $2: talk.sh. Makes it, and starts the relay, which turns the shell's output into
# numbered files.
umask 022
mkdir -p "$1/out" && chmod 711 "$1" && chmod 700 "$1/out" || exit 1
mkfifo "$1/in" "$1/from" && : >"$1/status" && chmod 666 "$1/in" "$1/from" "$1/status" || exit 1
printf '%s' "$2" >"$1/talk" || exit 1
set -m  # jobs of their own process group, with an interrupt that is not ignored
(
  exec <"$1/from"  # until the shell has opened it
  number=0
  while dd bs=65536 count=1 of="$1/part" 2>/dev/null && [[ -s $1/part && ! -e $1/drain ]]; do
    mv "$1/part" "$1/out/$number"
    number=$((number + 1))
    # As a pipe would: who writes faster than is read has to wait.
    while set -- "$1" "$1"/out/*; (($# > 32)) && [[ ! -e $1/drain ]]; do sleep 0.05; done
  done
  [[ -e $1/drain ]] && exec cat >/dev/null
) </dev/null >/dev/null 2>&1 &
echo "$!" >"$1/relay"
