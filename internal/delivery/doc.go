// Package delivery turns what was read from a partition into the records that a
// consumer gets, by the rules of Kafka's Java consumer: from a position on,
// without control records, and at read_committed without the batches of aborted
// transactions. It decides by the batches and the list of aborted transactions
// that came with them, and remembers nothing about transactions from one answer
// to the next.
package delivery
