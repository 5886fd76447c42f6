#!/bin/bash
# Grades the final state, as root, after the agent. Needs no network: the image has python3 and pytest.
# 1 or 0 goes to the reward file. Without python3 or pytest there is no reward at all, which Harbor reports as an error.
reward=/logs/verifier/reward.txt
mkdir -p /logs/verifier
rm -f -- "$reward"

run() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/user LANG=C.UTF-8 \
    PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -I -B "$@"
}

cd /home/user 2>/dev/null || cd /
if ! run -c 'import pytest'; then
  echo "python3 with pytest is missing from this image" >&2
  exit 2
fi
if run /tests/verify.py /tests/test_final_state.py; then
  echo 1 > "$reward"
else
  echo 0 > "$reward"
fi
