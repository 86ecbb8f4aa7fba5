//go:build !linux && !darwin

package main

import (
	"context"
	"runtime"
)

// runOrder needs process groups, and what internal/procgroup makes of them.
func (a *app) runOrder(context.Context, order) error {
	return misconfiguredf("run is not supported on %s; list, show and break are, and so is the Go library", runtime.GOOS)
}
