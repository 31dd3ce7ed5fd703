#!/usr/bin/env bash
# What the program for Windows does under wine, beside the one for Linux:
#   bench/windows/run.sh WINDOWS.exe LINUX DATA.csv TARGET
# Needs wine, mingw-w64, curl and script (util-linux). Ends with 1 at the first thing that is not as it should be.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# = 4 ] || { sed -n 2,4p "$0"; exit 2; }
linux=$(realpath "$2")
work="$(mktemp -d)/landfall windows"
mkdir "$work"
trap 'rm -rf "${work%/*}"' EXIT
mkdir "$work/bin" "$work/l" "$work/w"
cp "$1" "$work/bin/landfall.exe"
x86_64-w64-mingw32-gcc -shared -O1 -s -o "$work/bin/bcryptprimitives.dll" "$here/bcryptprimitives.c" -ladvapi32
x86_64-w64-mingw32-gcc -O1 -s -o "$work/bin/interrupt.exe" "$here/interrupt.c"
cp "$3" "$work/d.csv"
cd "$work"
export WINEDEBUG=-all
windows() { wine bin/landfall.exe "$@"; }
fail() { echo "not as it should be: $*"; exit 1; }
same() { cmp "$1" "$2" || fail "$3"; echo "$3: the same bytes"; }
both() { (cd l && "$linux" "${@:2}") > "l/$1" 2> l/err; (cd w && wine ../bin/landfall.exe "${@:2}") > "w/$1" 2> w/err; }
common=(--device cpu --threads 1)

windows doctor | sed -n 1,2p
both trained train --data ../d.csv --target "$4" --horizon 12 --max-steps 60 "${common[@]}" --out run
both forecast.csv forecast run "${common[@]}"
same l/forecast.csv w/forecast.csv "forecast of a run"
# All but the header, which holds paths.
weights() { python3 -c 'import sys; b = sys.stdin.buffer.read(); sys.stdout.buffer.write(b[8 + int.from_bytes(b[:8], "little"):])'; }
for name in checkpoint best; do
    weights < "l/run/$name.safetensors" > "l/$name"
    weights < "w/run/$name.safetensors" > "w/$name"
    same "l/$name" "w/$name" "tensors of $name"
done
both pretrained.csv forecast --data ../d.csv --target "$4" --horizon 12 "${common[@]}"
same l/pretrained.csv w/pretrained.csv "forecast without a run"

python3 - <<'P'
text = open("d.csv", encoding="utf-8").read().replace("\n", "\r\n")
for name, lines, encoding in [
    ("crlf", text, "utf-8"), ("bom", text, "utf-8-sig"), ("utf16", "\ufeff" + text, "utf-16-le"),
    ("utf16be", "\ufeff" + text, "utf-16-be"), ("tabs", "\ufeff" + text.replace(",", "\t"), "utf-16-le"),
]:
    open(name + ".csv", "wb").write(lines.encode(encoding))
P
for name in crlf bom utf16 utf16be tabs; do
    windows forecast --data $name.csv --target "$4" --horizon 12 "${common[@]}" > w/$name.out 2> w/err
    same l/pretrained.csv w/$name.out "$name.csv"
done

mkdir -p "my data/sub dir"
cp crlf.csv "my data/sub dir/a b.csv"
windows train --data 'my data\sub dir\a b.csv' --target "$4" --horizon 12 --max-steps 5 "${common[@]}" --out 'my data\one run' > w/out 2>&1
windows report "$(winepath -w "$work/my data/one run")" --out 'my data\a report.html' > w/out
[ -s "my data/a report.html" ] || fail "no report"
echo "backslashes, spaces and a drive: a run and a report"

long=(train --data d.csv --target "$4" --preset patchtst-42 --context 24 --horizon 2 --max-steps 500000 --checkpoint-every 20 "${common[@]}")
for event in c:130; do
    code=0
    script -qec "wine bin/interrupt.exe ${event%:*} 8000 'bin\\landfall.exe ${long[*]} --out long-${event%:*}'" w/console < /dev/null > w/out || code=$?
    [ "$code" = "${event#*:}" ] || fail "Ctrl-${event%:*} ends with $code and not ${event#*:}"
    [ -s "long-${event%:*}/checkpoint.safetensors" ] || fail "no checkpoint after Ctrl-${event%:*}"
    echo "Ctrl-${event%:*}: a checkpoint, exit code $code"
done

wine bin/landfall.exe "${long[@]}" --out locked > w/out 2>&1 & first=$!
while kill -0 $first && ! [ -s locked/checkpoint.safetensors ]; do sleep 0.2; done
code=0
windows train --resume locked > w/out 2> w/err || code=$?
[ "$code" = 2 ] || fail "a second process on one run ends with $code"
grep -q "is in use" w/err || fail "what the second process says"
kill -KILL $first
wait $first || true
steps=$(grep -c '"loss"' locked/metrics.jsonl)
windows train --resume locked --max-steps $((steps + 100)) > w/out 2>&1
echo "two processes on one run: the second is refused; the first is killed, and its run goes on"

wine bin/landfall.exe serve w/run --port 0 "${common[@]}" > w/served 2>&1 & server=$!
while kill -0 $server && ! grep -q http:// w/served; do sleep 0.2; done
curl -sf -H 'Content-Type: text/csv' --data-binary @d.csv "$(grep -ao 'http://[0-9.:]*' w/served | head -1)/forecast" > w/answer.csv
kill $server
wait $server || true
same l/forecast.csv w/answer.csv "forecast of the server"
