// Package segment is one segment of a partition: Kafka's .log file and the
// three indexes beside it.
//
// It knows the names of the files and Kafka's rules about unfinished swaps
// (List), walks batches in a file (Scanner), appends to the active segment,
// seals it, and rebuilds indexes from the batches. It promises that the bytes
// below Segment.Size are whole batches, and that what is handed out by
// Acquire stays readable until Release, also when the segment is deleted
// meanwhile. It leaves to package log: which offsets come next, what is
// durable, what producers did, and when anything happens.
//
// One writer appends to, seals and truncates a segment (package log's append
// lock); any number of readers acquire it at the same time, without a lock
// unless a file has to be opened.
package segment
