#!/bin/bash
# Judges the engine with a real Apache Kafka: "make interop-kafka". About two minutes, more the first time (Maven fetches 55 MB).
#
# Needs a JDK 17 or newer, Maven (the first time, and a way to its repository), bash, flock, setsid.
# Environment: KAFKA_VERSION (4.1.2), KAFKA_CACHE and the programs as kafka/kafka.sh says; ONCELOG_INTEROP_KEEP=1 leaves the files
# of the run and says where they are; INTEROP_TIMEOUT (15m). Arguments go to the test binary, e.g. -test.run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"

fail() { echo "interop: $*" >&2; exit 1; }
need() { command -v "$1" > /dev/null || fail "$1 is missing: install $2"; }
java=${JAVA:-java} javac=${JAVAC:-javac} mvn=${MVN:-mvn}
need "$java" "a JDK, 17 or newer (Debian: default-jdk-headless)"
need "$javac" "a JDK, 17 or newer (Debian: default-jdk-headless); a JRE is not enough"
need flock "util-linux"
need setsid "util-linux"
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1)
[ "${version:-0}" -ge 17 ] || fail "$java is version ${version:-unknown}: Apache Kafka needs 17 or newer; set JAVA and JAVAC"
cache=${KAFKA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/oncelog-kafka}/${KAFKA_VERSION:-4.1.2}
[ -e "$cache/complete" ] || need "$mvn" "Maven (Debian: maven), which fetches the jars of Kafka into $cache"
kafka/kafka.sh --classpath > /dev/null || fail "Maven could not resolve the jars of Kafka ${KAFKA_VERSION:-4.1.2}"

ONCELOG_INTEROP_WORK=$(mktemp -d "${TMPDIR:-/tmp}/oncelog-interop.XXXXXX")
export ONCELOG_INTEROP_WORK
# The test cleans up behind itself. This is for when it could not: it was killed, ran out of time, or panicked.
clean_up() {
  [ -d "$ONCELOG_INTEROP_WORK" ] || return 0
  find "$ONCELOG_INTEROP_WORK" -maxdepth 2 -name pid 2> /dev/null | while read -r pid; do kafka/broker.sh kill "$(dirname "$pid")" || true; done
  [ -n "${ONCELOG_INTEROP_KEEP:-}" ] || rm -rf "$ONCELOG_INTEROP_WORK"
}
trap clean_up EXIT
go test -c -tags "interop invariants" -o "$ONCELOG_INTEROP_WORK/interop.test" .
# In the background, so that a signal is answered at once; it is passed on, and the end of the test waited for.
"$ONCELOG_INTEROP_WORK/interop.test" -test.v -test.timeout "${INTEROP_TIMEOUT:-15m}" "$@" &
test=$!
trap 'kill -TERM $test 2> /dev/null || true' INT TERM HUP
status=0
wait $test || status=$?
while kill -0 $test 2> /dev/null; do wait $test || status=$?; done
exit $status
