#!/usr/bin/env bash
# Runs tests for arm64, in the user-mode emulation of qemu, or as they are on an
# arm64 machine ("make test-arm64"): those of the packages that know bytes and
# atomics but no disk, and 1000 fixed and HISTORIES (500) random histories of the
# crash model.
#
#   scripts/arm64.sh TAGS
#
# Where the emulator is missing it is installed, if we are root on a system with
# apt; else the script says what to install, and ends with status 2. What
# emulation does not show: memory order weaker than that of the machine it runs
# on, and what another kernel makes of files and mappings.
set -euo pipefail

cd "$(dirname "$0")/.."
go=${GO:-go}
tags=$1
histories=${HISTORIES:-500}
packages=(batch index internal/checkpoint internal/journal internal/overlay internal/producerstate internal/tail internal/topic)

# find_emulator prints the path of the emulator.
find_emulator() { command -v qemu-aarch64-static || command -v qemu-aarch64; }

install_emulator() {
	if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
		echo "arm64: qemu-aarch64 is missing: install the package qemu-user-static (Debian, Ubuntu, Fedora) or qemu-user" >&2
		exit 2
	fi
	echo "== install qemu-user-static"
	apt-get -qq update
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends qemu-user-static >/dev/null
}

exec_flags=()
if [[ $("$go" env GOHOSTARCH) != arm64 ]]; then
	find_emulator >/dev/null || install_emulator
	exec_flags=(-exec "$(find_emulator)")
fi
export GOARCH=arm64 CGO_ENABLED=0

run() { "$go" test -count=1 -tags "$tags" -timeout 20m "${exec_flags[@]}" "$@"; }

echo "== packages"
run "${packages[@]/#/./}"
echo "== the crash model"
run -v -run '^TestHistories$' ./internal/sim -sim.histories="$histories"
