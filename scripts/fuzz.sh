#!/usr/bin/env bash
# Runs every fuzz target of the given packages, one after the other.
#
#   scripts/fuzz.sh TAGS TIME PACKAGE...
#
# Status 1 if a target fails (go prints and keeps the input), or if there is
# none at all.
set -euo pipefail

cd "$(dirname "$0")/.."
go=${GO:-go}
tags=$1
time=$2
shift 2

n=0
failed=()
packages=$("$go" list "$@")
for package in $packages; do
	listed=$("$go" test -tags "$tags" -list '^Fuzz' "$package")
	for target in $(grep '^Fuzz' <<<"$listed" || true); do
		n=$((n + 1))
		echo "== $package $target ($time)"
		"$go" test -tags "$tags" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$package" || failed+=("$package $target")
	done
done

if ((n == 0)); then
	echo "no fuzz target found" >&2
	exit 1
fi
if ((${#failed[@]} > 0)); then
	printf 'failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
echo "$n fuzz targets, none failed"
