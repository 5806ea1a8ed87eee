// Kafka 4.4 moves the record classes from common.record to common.record.internal. The sources beside this folder import both
// packages whole, and this class makes the second exist in releases that lack it.
package org.apache.kafka.common.record.internal;

public final class Absent {
    private Absent() {}
}
