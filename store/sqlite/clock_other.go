//go:build !linux && !darwin

package sqlite

// Elsewhere the wall clock decides alone.

func sinceBoot() int64 { return 0 }

func bootID() string { return "" }
