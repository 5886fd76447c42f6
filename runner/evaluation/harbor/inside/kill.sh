# As the agent, since the agent may have written that file. $1: the tunnel's folder. Kills the shell and what watches it;
# the shell's background jobs live on.
read -r watcher _ <"$1/status" && [[ $watcher =~ ^[0-9]+$ ]] || exit 0
read -r shells <"/proc/$watcher/task/$watcher/children"
kill -KILL "$watcher" $shells
exit 0
