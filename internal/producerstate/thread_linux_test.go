package producerstate

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the CPU time of this thread, which other processes on the
// machine do not stretch.
func threadTime() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
