//go:build !linux && !darwin

package procgroup

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

var errUnsupported = fmt.Errorf("running a command under a lock is not supported on %s: %w",
	runtime.GOOS, errors.ErrUnsupported)

// Group cannot be had on this system.
type Group struct{}

// Main does nothing on this system.
func Main() {}

// Start returns an error that wraps [errors.ErrUnsupported].
func Start(time.Duration) (*Group, error) { return nil, errUnsupported }

// BootClock returns 0 on this system.
func BootClock() time.Duration { return 0 }

// Deadline is not supported on this system.
func (*Group) Deadline(time.Duration) error { return errUnsupported }

// Exec is not supported on this system.
func (*Group) Exec(_, _ []string, _ []uintptr) error { return errUnsupported }

// Signal is not supported on this system.
func (*Group) Signal(syscall.Signal) error { return errUnsupported }

// Kill does nothing on this system.
func (*Group) Kill() {}

// Events returns nil on this system.
func (*Group) Events() <-chan Event { return nil }

// Close does nothing on this system.
func (*Group) Close() {}

// Terminal cannot be had on this system.
type Terminal struct{}

// OpenTerminal is not supported on this system.
func OpenTerminal() (*Terminal, error) { return nil, errUnsupported }

// Close does nothing on this system.
func (*Terminal) Close() error { return nil }

// InFront is not supported on this system.
func (*Terminal) InFront() (bool, error) { return false, errUnsupported }

// Give is not supported on this system.
func (*Terminal) Give(*Group) error { return errUnsupported }

// TakeBack is not supported on this system.
func (*Terminal) TakeBack(*Group) error { return errUnsupported }

// StopSelf is not supported on this system.
func StopSelf(syscall.Signal) error { return errUnsupported }

// StopJob is not supported on this system.
func StopJob(syscall.Signal) error { return errUnsupported }
