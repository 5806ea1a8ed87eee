// Package bench measures oncelog on the machine where it runs, beside the
// limits of that machine.
//
// A workload is a Config; Run runs it and gives a Report. Suite runs the
// workloads behind the numbers that the project promises and holds what was
// reached against each goal. Compare holds two reports against each other.
//
// # How it measures
//
// What is compared is measured in one process, in turn, round by round: the
// engine, a reference, the engine again. A figure is the median of the rounds,
// with the smallest and the largest beside it; a ratio is the median of the
// ratios of neighbouring rounds. Before the first round every side warms up.
//
// Closed loop: each writer appends as fast as it is answered. Open loop
// (Config.Rate): appends are due at fixed times, and latency counts from then,
// not from when the writer came to it, so that a stall is felt by all appends
// that it delayed.
//
// References are bare code in this package, without the engine: the floor (copy
// and checksum into memory that is mapped and touched), the prototype (a ring
// in a mapped file, and a goroutine that moves it to files in writes of
// 256 KiB), a bare write and flush, a bare group commit, a bare read.
//
// # What it touches
//
// Everything is made in one directory of its own (Workspace), which it refuses
// to share and removes at the end. The engine is used through its public doors
// only. Nothing is printed; a Config says where progress goes.
//
// # Concurrency
//
// Run and Suite are to be called one at a time: two would measure each other.
package bench
