package topic

import "unicode/utf16"

// CoordinatorPartition is the partition, of n, in which Kafka keeps what belongs
// to an id: a group (of __consumer_offsets) or a transactional id (of
// __transaction_state).
func CoordinatorPartition(id string, n int) int {
	h := javaHash(id)
	if h == -1<<31 { // whose absolute value Kafka takes for 0
		return 0
	}
	return int(max(h, -h)) % n
}

// javaHash is String.hashCode: over UTF-16, with overflow.
func javaHash(s string) int32 {
	h := int32(0)
	for _, r := range s {
		if r < 0x10000 {
			h = 31*h + r
			continue
		}
		high, low := utf16.EncodeRune(r)
		h = 31*(31*h+high) + low
	}
	return h
}
