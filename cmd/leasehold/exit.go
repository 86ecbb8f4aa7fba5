package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/aaravsoft/leasehold/store"
)

// The exit codes of the tool's own; the rest are the command's. Most have their meaning from sysexits.h.
const (
	codeNoMatch       = 1  // show, break: free, or another grant
	codeUsage         = 64 // EX_USAGE
	codeUnavailable   = 69 // EX_UNAVAILABLE
	codeSystem        = 71 // EX_OSERR
	codeHeld          = 75 // EX_TEMPFAIL
	codeMisconfigured = 78 // EX_CONFIG
	codeLost          = 79 // not taken by sysexits.h
	codeSignal        = 128
)

// exitError is an error that knows its exit code. Without a text, everything has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitWith ends the tool with a code, silently.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code}
}

func usagef(format string, args ...any) error {
	return &exitError{codeUsage, fmt.Errorf(format, args...)}
}

func misconfiguredf(format string, args ...any) error {
	return &exitError{codeMisconfigured, fmt.Errorf(format, args...)}
}

// interrupted is the code of a shell's command that was ended by a signal.
func interrupted(sig syscall.Signal) int { return codeSignal + int(sig) }

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	for _, c := range []struct {
		class error
		code  int
	}{
		{store.ErrNotFound, codeNoMatch},
		{store.ErrHeld, codeHeld},
		{store.ErrLost, codeLost},
		{store.ErrUnavailable, codeUnavailable},
		{store.ErrMisconfigured, codeMisconfigured},
	} {
		if errors.Is(err, c.class) {
			return c.code
		}
	}
	return codeUsage // bad input, and what the parser of the command line says
}
