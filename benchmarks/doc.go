// Package benchmarks measures what a lock costs over the bare calls at its store, in one run: machines are noisy, so only
// ratios within a run mean something.
//
//	go test -run '^$' -bench . -benchmem ./benchmarks
package benchmarks
