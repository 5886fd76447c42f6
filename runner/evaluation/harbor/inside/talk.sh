# As root. Sends to the shell and waits for what it says.
# $1: the tunnel's folder; $2: the first number not read yet; $3: tenths of a second to wait; $4: the word that frames
# the answer; $5: what to send, in base64. The answer: WORD, the next number, whether the shell has ended and with which
# code (deaf: it had ended before, and nothing was sent), then the output in base64, then WORD.
for ((number = $2 - 1; number >= 0 && $2 - number < 64; number--)); do
  [[ -e $1/out/$number ]] || break
  rm -f "$1/out/$number"
done
read -r pid code <"$1/status"
if [[ $5 && ( $code || $pid && ! -d /proc/$pid ) ]]; then
  echo "$4 $2 deaf ${code:--}"; echo "$4"; exit
elif [[ $5 ]]; then
  printf '%s' "$5" | base64 -d >>"$1/send"
  mv "$1/send" "$1/sending"
  set -m
  (cat "$1/sending" >"$1/in") </dev/null >/dev/null 2>&1 &
  echo "$!" >"$1/writer"
  set +m
fi
number=$2 state=open code=- turns=0 quiet=0
while :; do
  heard=
  while [[ -e $1/out/$number ]] && ((number - $2 < 16)); do
    IFS= read -r -d '' _ <"$1/out/$number" && heard=mark  # every mark ends with a NUL
    number=$((number + 1)) quiet=0
  done
  [[ $heard ]] || ((number - $2 >= 16)) && break
  read -r pid code <"$1/status"
  if [[ $code ]]; then ended=1; else ended=; code=-; fi
  # A shell that was killed together with what watches it leaves no code.
  [[ $pid && ! -d /proc/$pid ]] && ended=1
  if [[ $ended ]] && ((++quiet > 5)); then
    ((number == $2)) && state=ended
    break
  fi
  ((turns >= 5 * $3 || turns >= 50 && turns >= 40 + $3)) && break
  if ((turns < 50)); then sleep 0.02; else sleep 0.1; fi
  turns=$((turns + 1))
done
echo "$4 $number $state $code"
for ((next = $2; next < number; next++)); do cat "$1/out/$next"; done | base64
echo "$4"
