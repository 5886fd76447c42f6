#!/bin/bash
# Starts the task's services as the agent's user, then becomes the container's own command.
(cd /home/user && bash /etc/endless/start.sh </dev/null >/dev/null 2>&1) &
exec "$@"
