"""Commands that break shells and what drives them, one a line. For sandboxes only: not for this machine's own bash."""

import secrets
import shlex
import time

from hypothesis import strategies as st
from support.engines import Runs

from runner.sandbox.base import ExecResult

_NAMES = "eval read printf exec kill builtin command declare unset cd exit return set local export trap test echo ["
_OURS = "__endless_command __endless_nonce __endless_exit __endless_once __endless_jobs __endless_cwd __endless_status"

OVERRIDES = [f"{name}() {{ {body}; }}" for name in _NAMES.split() for body in (":", "return 1")]
OVERRIDES += [f'for name in {_NAMES}; do \\builtin eval "$name() {{ :; }}"; done', "command_not_found_handle() { :; }"]
OVERRIDES += ["shopt -s expand_aliases; alias echo=false builtin=false read=false printf=false eval=false '['=false"]
DISABLED = [f"enable -n {name}" for name in (*_NAMES.split(), _NAMES, ":", "pwd", "enable")]
OPTIONS = [f"set -{letter}" for letter in "abefhkmnprtuvxBCEHPT"]
OPTIONS += r"""
set -o posix
set -euxo pipefail
shopt -s $(shopt | cut -f1)
shopt -u $(shopt | cut -f1)
shopt -s extdebug
set -m; sleep 0.01 &
""".strip().splitlines()
VARIABLES = [
    f"{how} {name}" for name in _OURS.split() for how in ("readonly", "declare -i", "declare -u", "declare -A")
]
VARIABLES += [f"declare -n {name}=PATH" for name in _OURS.split()]
VARIABLES += r"""
readonly IFS PWD OLDPWD
IFS=0123456789abcdef
unset IFS
PATH=
PWD=/nope
unset PWD
POSIXLY_CORRECT=1
LC_ALL=xx_YY.nope
LC_ALL=C
export BASH_ENV=/proc/self/environ
PS4='$(exit 9)'; set -x
PROMPT_COMMAND='exit 4'
HISTFILE=/tmp/h; set -o history
unset $(compgen -v)
readonly $(compgen -v)
for name in $(compgen -v); do printf -v $name %s junk; done
unset -f $(compgen -A function)
PWD=$(head -c 200000 /dev/zero | tr '\0' x)
export BIG=$(head -c 3000000 /dev/zero | tr '\0' x)
""".strip().splitlines()
_WHAT = ("false", "exit 5", "echo hi", "return 2", "kill -9 $$", "echo $__endless_nonce")
TRAPS = [f"trap '{what}' {when}" for what in _WHAT for when in ("DEBUG", "ERR", "RETURN", "EXIT")]
TRAPS += [f"shopt -s extdebug; trap '{what}' DEBUG" for what in ("false", "return 2", "false; true")]
TRAPS += ["trap '' TERM INT HUP QUIT CHLD PIPE ALRM"]
_FDS = (0, 1, 2, 3, 9, 10, 11, 63, 200, 239, 240, 241, 242, 245, 255)
DESCRIPTORS = [f"exec {fd}{how}" for fd in _FDS for how in (">&-", "</dev/null", ">/tmp/fd")]
DESCRIPTORS += r"""
for fd in {0..255}; do eval "exec $fd>&-"; done
for fd in {3..255}; do eval "exec $fd</dev/null"; done
exec >/dev/full
exec 2>&1 1>/dev/null
cat <&240
echo x >&240
echo x >&241
coproc cat
exec {a}>&1
exec 240</dev/zero
exec 241>/tmp/out
read -r -d '' -u 240 n; printf '%s\0' "$n"
read -r -d '' -u 240 n; printf '%s junk\0' "$n"
read -r -d '' -u 240 n; printf '%s 0 1 ,, /\0' "$n"
read -r -d '' -u 240 n; printf '%s 0 1 ,, \xff\n\0' "$n"
read -r -d '' -u 240 n; printf '%s 999 1 ,, /\0' "$n"
read -r -d '' -u 240 n; printf '%s 0 99999999 ,, /\0' "$n"
read -r -d '' -u 240 n; printf '%s 0 1 ,1, /\0' "$n"
read -r -d '' -u 240 n; printf '%s 0 1 ,\xff, /\0' "$n"
read -r -d '' -u 240 n; printf %s "$n"; yes
read -r -d '' -u 240 n; printf '%s 0 1 ,, ' "$n"; head -c 300000 /dev/zero | tr '\0' x
""".strip().splitlines()
LIMITS = [f"ulimit -{limit}" for limit in ("n 3", "n 20", "n 0", "f 0", "v 10000", "v 1", "s 8", "d 0")] + ["umask 777"]
_SIGNALS = "KILL TERM INT HUP PIPE SEGV ABRT USR1 ALRM TSTP TTIN XCPU"
ENDINGS = [f"kill -{signal} $$" for signal in _SIGNALS.split()]
ENDINGS += r"""
exit
exit 3
exit -1
exec true
exec nosuch
exec cat
return 5
break
break 9
continue
continue 9
kill -9 -1
kill -9 $PPID
kill 0
kill -9 1
logout
suspend
. /dev/stdin
source <(echo exit 9)
${x:?}
set -eu; $y
""".strip().splitlines()
LATER = r"""
(sleep 0.05; kill -9 $$) &
(sleep 0.05; kill -TERM $$) & wait
sleep 60 & disown
setsid sleep 60 &
yes >/dev/null & kill %1
(echo late; printf '\0'; echo later) &
sleep 0.1 && echo late &
nohup sleep 60 >/dev/null 2>&1 &
""".strip().splitlines()
FOLDERS = r"""
mkdir -p /tmp/gone; cd /tmp/gone; rmdir /tmp/gone
cd /tmp; mkdir -p $'new\nline \t'; cd $'new\nline \t'
cd /tmp; mkdir -p $'bad\xff\xfe'; cd $'bad\xff\xfe'
mkdir -p /tmp/x; cd /tmp/x; chmod 000 .
chmod 000 ~
cd; chmod 700 .
cd ''
cd /tmp; for i in {1..30}; do d=$(printf 'd%.0s' {1..200}); mkdir -p $d; cd -P $d; done
cd /proc/$$/fd
cd /proc/$$/cwd
cd -
cd //
mkdir -p /tmp/-n; cd /tmp/-n
ln -sfn /tmp /tmp/link; cd /tmp/link
pushd /; popd
chroot /tmp /bin/true
unshare -r true
cd /tmp; CDPATH=/usr
cd /usr; PWD=/tmp
""".strip().splitlines()
BROKEN = r"""
'
"
`
$(
$((
((
{
(
if
case x in
[[
cat <<E
f() {
for
while :; do
\
&&
|
;;
}
)
fi
done
esac
!
<
2>&
<<<
|&
echo \
a=(
${
${x
$'
#
""".strip().splitlines()
BROKEN += [
    "",
    " ",
    "\n",
    "cat <<'E'\nx",
    "\x1b[2J\x07",
    "\r",
    "\x04\x03\x1a",
    "\t\v\f",
    "\udcff\udc80",
    "echo \udcff\u2028",
]
HUGE = [
    "echo " + "x" * 100_000 + " | wc -c",
    "#" * 200_000,
    "a=" + "y" * 100_000,
    ":;" * 5_000,
    "(" * 1_000,
    "$(" * 300,
]
HUGE += ["head -c 150000 /dev/urandom", "yes", "yes | head -c 199999"]

KINDS = {
    "functions in place of builtins": OVERRIDES,
    "disabled builtins": DISABLED,
    "options": OPTIONS,
    "variables": VARIABLES,
    "traps": TRAPS,
    "descriptors": DESCRIPTORS,
    "limits": LIMITS,
    "ends of the shell": ENDINGS,
    "what comes later": LATER,
    "folders": FOLDERS,
    "broken syntax": BROKEN,
    "much of it": HUGE,
}
HOSTILE = [command for kind in KINDS.values() for command in kind]

SLACK = 30.0
"""Seconds that ending a command and opening another shell may take, on a machine that is busy."""
_GLUE = st.sampled_from([" ", ";", "\n", "&&", "||", "|", "& ", " > ", "", "; ! "])
_WORD = st.sampled_from([*_NAMES.split(), *_OURS.split(), *BROKEN, *OPTIONS, "$?", "$$", "-n", "-u", "~", "*", "x=1"])
_FD = st.integers(0, 255)
_REDIRECTION = st.builds("{}{}{}".format, _FD, st.sampled_from([">&", "<&", ">", "<", "<>"]), _FD | st.just("-"))
_BYTES = st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


def texts() -> st.SearchStrategy[str]:
    """Any bytes, and what looks a little more like a command."""
    parts = st.lists(st.tuples(_GLUE, _WORD | _REDIRECTION | _BYTES), max_size=8)
    return _BYTES | parts.map(lambda pairs: "".join(text for pair in pairs for text in pair))


def commands() -> st.SearchStrategy[str]:
    """Hostile commands, alone and in combinations, and any text."""
    known = st.integers(0, len(HOSTILE) - 1).map(lambda number: HOSTILE[number])  # a short repr, unlike sampled_from
    return known | st.builds("{}{}{}".format, known, _GLUE, known) | texts()


def assert_recovers(shell: Runs, attempts: int = 3) -> ExecResult:
    """The next commands work: one of the first few (a trap, say, may end a shell once more) prints what it should, and
    those before it say what became of them. Returns the result of that one."""
    for _ in range(attempts):
        token = secrets.token_hex(8)
        result = timed(shell, f"/bin/echo {token} || \\builtin echo {token}", 3.0)
        if f"{token}\n".encode() in result.output and result.exit_code == 0:
            return result
        told = result.restarted or result.timed_out or result.truncated or result.exit_code or result.output
        assert told, f"the command was lost without a word: {result}"
    raise AssertionError(f"the shell does not recover: {result}")


def assert_folder_is_true(shell: Runs, result: ExecResult) -> None:
    """The folder that a result reports is the one that the shell is in, unless it cannot be reached by any name."""
    name = shlex.quote(result.cwd)
    checked = shell.run(f"/usr/bin/test ! -e {name} -o ! -x . -o . -ef {name}", 3.0)
    assert checked.exit_code != 1 or checked.output, f"the shell is not in {result.cwd!r}"


def timed(shell: Runs, command: str, timeout: float) -> ExecResult:
    """A result that came in time, and is consistent."""
    began = time.monotonic()
    result = shell.run(command, timeout)
    assert time.monotonic() - began < timeout + SLACK, result
    if result.refused:
        assert (result.exit_code, result.output) == (None, b"")
    elif result.timed_out or result.truncated:
        assert result.exit_code is None
    else:
        assert result.exit_code is None or 0 <= result.exit_code <= 255
    return result
