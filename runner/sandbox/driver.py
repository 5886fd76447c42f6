"""The two bash programs of the persistent shell: the driver that runs inside it, and the helper that ends a command."""

CONTROL_IN, CONTROL_OUT, EMPTY = 240, 241, 242
"""The driver's own descriptors: the stream's two directions and /dev/null. No program that the agent starts gets them,
and every lower number is the agent's: scripts use low ones, and 200 is customary for ``flock``."""

LONGEST_CWD = 4096
"""Characters of a folder's name that are reported; no system call takes a longer one."""

_BASH = ["bash", "--norc", "--noprofile", "-c"]
_STREAMS = f"<&{EMPTY} >&{CONTROL_OUT} 2>&{CONTROL_OUT}"
_EVAL = f'builtin eval "$__endless_command" {_STREAMS}'
_REPORT = (
    r"""builtin printf '%s %s %s %s %s\0' "$__endless_nonce" "$__endless_exit" "$$" ",${__endless_jobs// /,},"""
    f'" "${{__endless_cwd:0:{LONGEST_CWD}}}" >&{CONTROL_OUT}'
)
_READ = f"LC_ALL=C IFS= builtin read -r -d '' -u {CONTROL_IN}"
"""By bytes: in a locale of UTF-8 the first byte of an unfinished character would swallow the NUL after it."""
_DIE = "[[ ${__endless_broken:?} ]]"
"""Ends the shell without a builtin, in case the agent has disabled or replaced those."""

# One line, so that bash counts a command's own lines from 1.
#
# The condition of the inner loop reports on the last command and reads the next one; its body is the next one and
# nothing else. So `eval` stands where `set -e` keeps its meaning (not in a condition), right after something that sets
# `$?`, and a stray `break` or `continue` leads to the condition as well. The driver's own streams are /dev/null, which
# swallows what `set -x` and `trap ... DEBUG` would say about the driver. The nonce is read only once the command is
# over.
#
# The group's redirections make bash put its originals of 3, 4 and 5 aside: above 239, where it closes them in programs
# that it starts and restores them when the agent's `exec` overwrites them. Bash has no other way to such descriptors.
#
# An agent may break the driver, which then must end, so that a new shell is opened at once rather than after the
# command's whole time: hence the many `|| die`. `until` ends where nothing is executed any more (`set -n`), and the
# words of a `for` are expanded even where the agent's DEBUG trap skips every command.
_DRIVER = " ".join(
    f"""
    exec 3<&0 4>&1 5</dev/null </dev/null >/dev/null 2>&1 {CONTROL_IN - 1}<&0;
    {{ exec 3<&- 4<&- 5<&- {CONTROL_IN - 1}<&-;
    {_READ} __endless_cwd; {_READ} __endless_home;
    builtin cd -- "$__endless_cwd" || builtin cd -- "$__endless_home" || builtin cd /;
    unset HISTFILE BASH_EXECUTION_STRING OLDPWD __endless_home;
    __endless_status() {{ return "$1"; }}; readonly -f __endless_status;
    until [[ '' ]]; do builtin :;
    until __endless_exit=$?;
    builtin unset -v __endless_command __endless_nonce && builtin eval {_STREAMS} || {_DIE};
    {_READ} __endless_nonce && [[ ${{#__endless_nonce}} == 32 ]] || {_DIE};
    __endless_jobs=; IFS= builtin read -r __endless_jobs </proc/$$/task/$$/children || builtin :;
    __endless_cwd=${{PWD-}}; [[ $__endless_cwd -ef . ]] ||
    __endless_cwd=$(builtin pwd -P) || __endless_cwd=${{PWD-}};
    for __endless_once in "${{__endless_nonce:?}}"; do {_REPORT}; done || {_DIE};
    builtin unset -v __endless_nonce __endless_once __endless_jobs __endless_cwd;
    {_READ} __endless_command || builtin exit || {_DIE}; [[ '' ]]; do
    if [[ $__endless_exit == 0 ]]; then {_EVAL}; else __endless_status "$__endless_exit" && [[ '' ]] || {_EVAL}; fi;
    done; done; }} 3<&{CONTROL_IN - 1} 4<&{CONTROL_IN - 1} 5<&{CONTROL_IN - 1}
    """.split()
)
# $1 signal, $2 the shell's pid, $3 the jobs to spare (",12,34,"), $4 "shell" to end the shell as well.
# Builtins only: it must work where the process limit is used up.
_LADDER = r"""
declare -A kids
for file in /proc/[0-9]*/stat; do
    IFS= read -r -d '' line <"$file" || [[ $line ]] || continue
    fields=(${line##*) }); pid=${file//[!0-9]/}
    [[ $pid == "$$" ]] || kids[${fields[1]}]+=" $pid"
done
queue=(${kids[$2]})
while ((${#queue[@]})); do
    pid=${queue[0]}; queue=("${queue[@]:1}")
    [[ $3 == *,$pid,* ]] && continue
    kill -s "$1" "$pid"; kill -s CONT "$pid"
    queue+=(${kids[$pid]})
done
[[ $4 == shell ]] && kill -s KILL "$2"
exit 0
"""


def driver_argv() -> list[str]:
    """The persistent shell. Its first two words on standard input, each ended by a NUL, are the folder to start in and
    the one to start in where that is gone (else it is ``/``)."""
    return [*_BASH, _DRIVER]


def ladder_argv(signal: str, pid: int, spared: str, *, shell: bool) -> list[str]:
    """Signal all descendants of the shell ``pid`` except the ``spared`` children (",12,34,") and theirs; with
    ``shell``, kill the shell too."""
    return [*_BASH, _LADDER, "bash", signal, str(pid), spared, "shell" if shell else ""]
