//go:build !race

package benchmarks

const racing = false
