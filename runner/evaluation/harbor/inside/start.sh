# As the agent. $1: the tunnel's folder; then the shell's words. Starts the shell with its streams on the tunnel.
cd / || exit 1
name=$(id -un 2>/dev/null) && export USER=$name LOGNAME=$name
folder=$1
shift
set -m
$(command -v setsid) bash --norc --noprofile -c '
  folder=$1; shift
  trap : INT QUIT  # of the shell alone, whose code is to be told
  echo "$$" >"$folder/status"
  env -u SHLVL -u OLDPWD "$@" <>"$folder/in" >"$folder/from" 2>&1
  echo "$$ $?" >"$folder/status"
' bash "$folder" "$@" </dev/null >/dev/null 2>&1 &
