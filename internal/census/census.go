// Package census counts goroutines, for tests that look for one too many.
package census

import (
	"bytes"
	"regexp"
	"runtime"
)

// inBubble is how the header of a goroutine's trace ends if the goroutine is in a bubble.
var inBubble = regexp.MustCompile(`synctest bubble \d+\]:\n`)

// Bubble returns how many goroutines are in the caller's bubble of testing/synctest, itself included; zero if it is in none.
// [runtime.NumGoroutine] counts those of the runtime and of other tests as well, which come and go.
func Bubble() int {
	traces := make([]byte, 1<<16)
	n := runtime.Stack(traces, true)
	for n == len(traces) {
		traces = make([]byte, 2*n)
		n = runtime.Stack(traces, true)
	}
	own, _, _ := bytes.Cut(traces[:n], []byte("\n")) // the caller's comes first
	end := inBubble.Find(append(bytes.Clone(own), '\n'))
	if end == nil {
		return 0
	}
	return bytes.Count(traces[:n], end)
}
