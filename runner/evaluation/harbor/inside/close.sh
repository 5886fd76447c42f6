# As root. $1: the tunnel's folder; $2: "remove", once the shell is dead, or "drain" to leave everything alone and throw
# away what is still printed: jobs that the agent left running must not stumble over a closed pipe.
[[ -d $1 ]] || exit 0
if [[ $2 == drain ]]; then
  : >"$1/drain"
  rm -f "$1"/out/*
  exit 0
fi
for job in relay writer; do
  read -r pid <"$1/$job" && kill -KILL -- "-$pid"
done 2>/dev/null
rm -rf -- "$1"
exit 0
