#!/bin/bash
# Runs a class against the jars of a real Apache Kafka.
#
#   kafka.sh CLASS [argument…]   run it, in place of this shell
#   kafka.sh --classpath         print the class path; the jars are resolved first
#   kafka.sh --compile DIR       compile src/ into DIR
#
# Environment (all optional):
#   KAFKA_VERSION   release, 4.1.2
#   KAFKA_CACHE     where the jars are kept, ${XDG_CACHE_HOME:-~/.cache}/oncelog-kafka; about 55 MB a release
#   CLASSES         a folder put in front of the class path
#   HEAP            -Xmx512m
#   JOPTS           more options for java
#   LOG_LEVEL       trace, debug, info, warn, error: error
#   JAVA JAVAC MVN  the programs
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=${KAFKA_VERSION:-4.1.2}
cache=${KAFKA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/oncelog-kafka}
home=$cache/$version

# One process resolves, the others wait for it; "complete" is the last thing made.
if [ ! -e "$home/complete" ]; then
  mkdir -p "$home"
  exec 9> "$home/lock"
  flock 9
  if [ ! -e "$home/complete" ]; then
    echo "kafka.sh: Maven resolves the jars of Apache Kafka $version into $home (once)" >&2
    rm -rf "$home/libs"
    cp "$here/pom.xml" "$home/pom.xml"
    (cd "$home" && "${MVN:-mvn}" -q -B -f pom.xml dependency:copy-dependencies \
      -Dkafka.version="$version" -DincludeScope=runtime -DoutputDirectory="$home/libs") >&2
    touch "$home/complete"
  fi
  exec 9>&-
fi
classpath="${CLASSES:+$CLASSES:}$home/libs/*"

case ${1:-} in
'') sed -n '2,15p' "$0" >&2; exit 2 ;;
--classpath) echo "$classpath" ;;
--compile)
  mkdir -p "$2"
  exec "${JAVAC:-javac}" -J-Xmx256m -J-XX:+UseSerialGC -nowarn -Xlint:none -cp "$classpath" -d "$2" "$here"/src/*.java "$here"/src/shim/*.java ;;
*)
  exec "${JAVA:-java}" ${HEAP:--Xmx512m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true \
    -Dorg.slf4j.simpleLogger.defaultLogLevel="${LOG_LEVEL:-error}" ${JOPTS:-} -cp "$classpath" "$@" ;;
esac
