//go:build race

package benchmarks

// racing says that the race detector is on.
const racing = true
