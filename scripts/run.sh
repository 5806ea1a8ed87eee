#!/usr/bin/env bash
# Shows the engine at work on real input ("make run"), in a minute or two:
#
#   1. builds the command
#   2. reads and verifies a copy of a directory that Apache Kafka wrote, and
#      compares what it finds with what Kafka's own consumer found
#   3. appends to it, and is killed with kill -9 while it does
#   4. recovers, verifies, and looks for every acknowledged record
#   5. goes on: nothing that is sent again is stored twice, open transactions
#      are aborted
#   6. measures it beside the limits of this machine, in short rounds
#
# Status 1 if anything does not add up. All files are in a temporary directory
# that is removed at the end; KEEP=1 leaves it and says where it is. SECONDS_OF_WORK
# (2) is how long it appends.
set -euo pipefail

cd "$(dirname "$0")/.."
go=${GO:-go}
work_seconds=${SECONDS_OF_WORK:-2}
scenario=testdata/kafka-4.1.2/txn
topic=orders   # of Kafka's, in that directory
partitions=3
work=$(mktemp -d "${TMPDIR:-/tmp}/oncelog-run.XXXXXX")
data=$work/data
acks=$work/acknowledged
oncelog=bin/oncelog
demo=$work/demo
writer=

clean_up() {
	[[ -z $writer ]] || kill -9 "$writer" 2>/dev/null || true
	if [[ -n ${KEEP:-} ]]; then
		echo "files are in $work"
	else
		rm -rf "$work"
	fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

bold='' plain=''
if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; fi
step() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
run() { printf '%s$ %s%s\n' "$bold" "$*" "$plain"; }
fail() {
	echo "run: $*" >&2
	exit 1
}
indent() { sed 's/^/  /'; }
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# consume TOPIC PARTITION ISOLATION: the records, one a line.
consume() {
	"$oncelog" consume "$data" --topic "$1" --partition "$2" --from earliest --isolation "$3" -o json >"$work/consumed" ||
		fail "consume of $1-$2 at $3 failed"
	grep '"value' "$work/consumed" || true
}
count() { consume "$@" | wc -l; }

# same WHAT GOT WANT
same() { [[ $2 -eq $3 ]] || fail "$1: $2, want $3"; }

verify() {
	run oncelog verify DIR
	local status=0
	"$oncelog" verify "$data" >"$work/verified" 2>&1 || status=$?
	tail -n "$1" "$work/verified" | indent
	((status == 0)) || fail "verify ended with status $status: $(tail -n 20 "$work/verified")"
}

table() { printf '  %-12s %18s %18s   %s\n' "$@"; }

step "build"
run go build -o bin/oncelog ./cmd/oncelog
mkdir -p bin
"$go" build -o "$oncelog" ./cmd/oncelog
"$go" build -o "$demo" ./internal/demo
"$oncelog" version | indent

step "a directory that Apache Kafka 4.1.2 wrote ($scenario)"
mkdir "$data"
cp -a "$scenario/data/." "$data/"
chmod -R u+w "$data"
verify 12
run oncelog dump DIR/$topic-0/00000000000000000000.log
"$oncelog" dump "$data/$topic-0/00000000000000000000.log" >"$work/dumped"
cut -c 1-110 "$work/dumped" | head -n 8 | indent
echo "  … ($(wc -l <"$work/dumped") lines)"
run oncelog consume DIR --topic $topic --partition N --isolation ISOLATION
table partition read_uncommitted read_committed "Kafka's own consumer"
before=()
for ((p = 0; p < partitions; p++)); do
	truth=$scenario/truth/$topic-$p/records.jsonl
	want_all=$(wc -l <"$truth")
	want_committed=$(grep -c '"committed":true' "$truth" || true)
	all=$(count $topic "$p" read_uncommitted)
	committed=$(count $topic "$p" read_committed)
	table "$topic-$p" "$all" "$committed" "$want_all, $want_committed"
	same "$topic-$p at read_uncommitted" "$all" "$want_all"
	same "$topic-$p at read_committed" "$committed" "$want_committed"
	before+=("$all")
done

step "append for $work_seconds s at level fsync, then kill -9"
echo "  8 idempotent producers in demo-0, 4 transactional ones in demo-1, 2 more in Kafka's $topic-0;"
echo "  batches of 16 records of 1 KiB; each acknowledgement is written down when it comes"
"$demo" append -dir "$data" -acks "$acks" -foreign $topic >"$work/append.out" 2>&1 &
writer=$!
disown "$writer"
for ((i = 0; i < 200; i++)); do # until it appends
	[[ -s $acks ]] && break
	kill -0 "$writer" 2>/dev/null || fail "the writer ended: $(cat "$work/append.out")"
	sleep 0.05
done
sleep "$work_seconds"
kill -0 "$writer" 2>/dev/null || fail "the writer ended: $(cat "$work/append.out")"
kill -9 "$writer"
while kill -0 "$writer" 2>/dev/null; do sleep 0.01; done
writer=
echo "  killed; $(wc -l <"$acks") acknowledgements, $(du -sm "$data" | cut -f 1) MiB in the directory"

step "recover"
run oncelog recover DIR
start=$(milliseconds)
"$oncelog" recover "$data" >"$work/recovered" 2>&1 || fail "recover failed: $(cat "$work/recovered")"
recover_ms=$(($(milliseconds) - start))
tail -n 12 "$work/recovered" | indent
echo "  took $recover_ms ms"
[[ -e $data/.kafka_cleanshutdown ]] || fail "recover left no clean mark"
verify 3

step "is every acknowledged record there?"
"$demo" check -dir "$data" -acks "$acks" -foreign $topic | tee "$work/checked" || fail "something was lost, or shown that must not be"

step "go on after the crash"
"$demo" finish -dir "$data" -acks "$acks" -foreign $topic || fail "the writers could not go on"
"$demo" check -ended -dir "$data" -acks "$acks" -foreign $topic >"$work/ended" || fail "after the end: $(cat "$work/ended")"
verify 3

# figure NAME FIELD: a figure that check printed.
figure() { awk -v name="$1" -v field="$2" '$1 == name { print $field }' "$work/ended"; }
run oncelog consume DIR --topic TOPIC --partition N --isolation ISOLATION
table partition read_uncommitted read_committed "the library's own count"
for tp in demo-1 "$topic-0"; do
	all=$(count "${tp%-*}" "${tp##*-}" read_uncommitted)
	committed=$(count "${tp%-*}" "${tp##*-}" read_committed)
	table "$tp" "$all" "$committed" "$(figure "$tp" 2), $(figure "$tp" 3)"
	same "$tp at read_uncommitted" "$all" "$(figure "$tp" 2)"
	same "$tp at read_committed" "$committed" "$(figure "$tp" 3)"
done
((all > before[0])) || fail "nothing was appended to Kafka's topic"

step "figures"
awk '$1 ~ /^(acknowledged|found|lost|damaged|stored)$/' "$work/ended"
echo "  recovered in  $recover_ms ms (process start to end)"

step "beside the limits of this machine"
run oncelog bench suite quick --dir DIR
"$oncelog" bench suite quick --dir "$work" >"$work/suite" 2>"$work/suite.err" || fail "the suite failed: $(cat "$work/suite.err")"
indent <"$work/suite"
echo "  Short rounds, little data: RATIO tells whether things are about right. A goal that does not"
echo "  hold is no failure here; 'make bench-suite PROFILE=standard' gives figures to compare."
echo
echo "All adds up."
