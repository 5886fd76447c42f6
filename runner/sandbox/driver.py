"""The two bash programs of the persistent shell: the driver that runs inside it, and the helper that ends a command."""

CONTROL_IN, CONTROL_OUT = 240, 241
"""The driver's own descriptors: not the low ones that scripts use, nor 200, which is customary for ``flock``."""

_BASH = ["bash", "--norc", "--noprofile", "-c"]

_EVAL = (
    f'builtin eval "$__endless_command" </dev/null >&{CONTROL_OUT} 2>&{CONTROL_OUT} {CONTROL_IN}<&- {CONTROL_OUT}>&-'
)
_REPORT = (
    r"""builtin printf '%s %s %s %s %s\0' "$__endless_nonce" "$__endless_exit" "$$" ",${__endless_jobs// /,}," """
    f'"${{PWD-}}" >&{CONTROL_OUT}'
)
# One line, so that bash counts a command's own lines from 1. `eval` stands where `set -e` keeps its meaning (the last
# of a list, no `if`), and right after something that sets `$?`; the `for` catches a stray `break` or `continue`. The
# driver's own streams are /dev/null, which swallows what `set -x` and `trap ... DEBUG` would say about the driver. The
# nonce is read only once the command is over.
_DRIVER = " ".join(
    f"""
    exec {CONTROL_IN}<&0 {CONTROL_OUT}>&1 </dev/null >/dev/null 2>&1; unset HISTFILE BASH_EXECUTION_STRING;
    builtin cd -- "$1" || builtin cd -- "$2" || builtin cd /; unset OLDPWD; set --;
    __endless_status() {{ return "$1"; }}; __endless_exit=0;
    while IFS= builtin read -r -d '' -u {CONTROL_IN} __endless_command; do
    __endless_last=0;
    for __endless_once in 1; do
    if [[ $__endless_exit == 0 ]]; then {_EVAL}; else __endless_status "$__endless_exit" || {_EVAL}; fi;
    __endless_last=$?; done; __endless_exit=$__endless_last;
    IFS= builtin read -r -d '' -u {CONTROL_IN} __endless_nonce || builtin exit 1;
    __endless_jobs=; IFS= builtin read -r __endless_jobs </proc/$$/task/$$/children || builtin :;
    {_REPORT};
    builtin unset __endless_nonce __endless_command __endless_jobs;
    done
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


def driver_argv(cwd: str, home: str) -> list[str]:
    """The persistent shell: starts in ``cwd``, or where that is gone in ``home``, or in ``/``."""
    return [*_BASH, _DRIVER, "bash", cwd, home]


def ladder_argv(signal: str, pid: int, spared: str, *, shell: bool) -> list[str]:
    """Signal all descendants of the shell ``pid`` except the ``spared`` children (",12,34,") and theirs; with
    ``shell``, kill the shell too."""
    return [*_BASH, _LADDER, "bash", signal, str(pid), spared, "shell" if shell else ""]
