// Package interop judges the engine with a real Apache Kafka. It is tests
// only, behind the build tag "interop", and has nothing to import: run.sh (the
// target "make interop-kafka") starts them.
//
// A broker of Apache Kafka (one node, on 127.0.0.1, in a temporary directory)
// writes a log directory with Kafka's own clients and with raw requests; the
// engine reads a copy, appends to it and hands it back; Kafka's
// DumpLogSegments reads the files; the broker starts on them and serves every
// record, old and new. Then the same with the engine killed in the middle of
// appending. What is compared is counted, and a count of 0 fails.
//
//	kafka/kafka.sh    runs a class against the jars, which Maven resolves once
//	kafka/broker.sh   starts, stops and kills a broker
//	kafka/src         Produce  fills topics
//	                  Tell     writes down what broker and consumer say: the truth
//	                  Continue goes on where Produce stopped, as the same producers
//	                  Dump     runs DumpLogSegments over every file
//
// The format of the truth is that of testdata/kafka-4.1.2/README.md. What the
// environment may say (release, cache, programs) stands in kafka/kafka.sh and
// run.sh.
package interop
