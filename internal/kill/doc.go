// Package kill ends a process that works on a real disk, with SIGKILL, at
// random, again and again, and looks from outside at what is left. It has no
// code of its own but its test.
//
// A child, the test binary started again, opens a directory of the machine's
// file system and lets many goroutines append to many partitions at both
// levels, in memory and journal or on the direct path, with files so small that
// everything happens that can: segments roll, halves of the journal fill and
// are freed, memory runs out, batches are too large for the journal, records
// are deleted. What each goroutine is about to do and what it was answered it
// writes into a file, a record at a time, which outlives it. The parent kills it
// while it appends, while it recovers, while it closes; then it reads the
// directory whole and holds it against that file and against all it saw there
// before. The next child goes on with the directory as it is.
//
// A life is a directory with some kills in a row, a clean stop at the end, and
// a verification of all files. What a life does follows from its seed; when the
// machine does what, does not.
package kill
