//go:build !plant

package kill

// plantBug does nothing: there are no bugs in this build.
func plantBug(string) {}
