#!/bin/bash
# One Kafka broker, controller included (KRaft, one node), on 127.0.0.1 only, all its files below one folder.
#
#   broker.sh start DIR PORT CONTROLLERPORT [name=value…]   format DIR if it is new, start, wait until it listens
#   broker.sh stop DIR                                      clean shutdown
#   broker.sh kill DIR                                      SIGKILL; no error if it does not run
#
# DIR/data is the log directory (what an engine opens), DIR/meta Kafka's metadata log (topics, their configuration and leader
# epochs), DIR/broker.log the output, DIR/pid the process. A name=value goes into server.properties behind the lines below.
# A stopped DIR may be copied, and the copy started. Environment: as kafka.sh.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '2,9p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
command=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
shift 2

# A number in a pid file may by now belong to another process: only one that runs this folder's broker counts.
ours() { tr '\0' ' ' 2>/dev/null < "/proc/$1/cmdline" | grep -qF "$dir/server.properties"; }
# A process counts as gone when its last thread is, or only a zombie is left that nobody collects: its locks are free then.
ended() { [ ! -d "/proc/$1" ] || { grep -q '^State:.Z' "/proc/$1/status" && [ "$(ls "/proc/$1/task" | wc -l)" -le 1 ]; } 2>/dev/null; }
gone() { for _ in $(seq 600); do ended "$1" && return 0; sleep 0.1; done; return 1; }

case $command in
start)
  [ $# -ge 2 ] || usage
  port=$1 controller=$2
  shift 2
  if [ -f "$dir/pid" ] && ours "$(cat "$dir/pid")"; then echo "broker.sh: $dir: already running" >&2; exit 1; fi
  cat > "$dir/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$dir/data
metadata.log.dir=$dir/meta
num.network.threads=1
num.io.threads=4
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.ms=-1
log.cleaner.dedupe.buffer.size=2097152
transaction.max.timeout.ms=2147483646
P
  for line in "$@"; do echo "$line" >> "$dir/server.properties"; done
  if [ ! -f "$dir/meta/meta.properties" ]; then
    "$here/kafka.sh" kafka.tools.StorageTool format -t b25jZWxvZy1pbnRlcm9wMQ -c "$dir/server.properties" > "$dir/format.log" 2>&1 ||
      { cat "$dir/format.log" >&2; exit 1; }
  fi
  # Its own session: Ctrl-C at the terminal reaches whoever started the broker, who stops it in order.
  LOG_LEVEL=${LOG_LEVEL:-warn} setsid nohup "$here/kafka.sh" kafka.Kafka "$dir/server.properties" >> "$dir/broker.log" 2>&1 < /dev/null &
  pid=$!
  echo $pid > "$dir/pid"
  for _ in $(seq 900); do
    kill -0 $pid 2>/dev/null || break
    if (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null; then exit 0; fi
    sleep 0.1
  done
  echo "broker.sh: $dir: the broker did not start; the end of broker.log:" >&2
  tail -20 "$dir/broker.log" >&2
  kill $pid 2>/dev/null || true
  exit 1 ;;
stop|kill)
  if [ ! -f "$dir/pid" ]; then
    [ $command = kill ] && exit 0
    echo "broker.sh: $dir: not running (no pid file)" >&2; exit 1
  fi
  pid=$(cat "$dir/pid")
  signal=TERM; [ $command = kill ] && signal=KILL
  if ours "$pid"; then
    kill -$signal "$pid" 2>/dev/null || true
    gone "$pid" || { echo "broker.sh: $dir: process $pid is still running" >&2; exit 1; }
  fi
  rm -f "$dir/pid" ;;
*) usage ;;
esac
