package procgroup

import (
	"errors"
	"syscall"
)

// The reasons for a group's end that [Gone] tells.
var (
	// ErrDeadline: the deadline passed, and the supervisor killed the group.
	ErrDeadline = errors.New("the deadline passed while the command's process group was alive")

	// ErrSupervisorDied: the supervisor was killed, and so was the group, because nothing guarded it any more.
	ErrSupervisorDied = errors.New("the supervisor of the command's process group died")
)

// Kind says what an [Event] is about.
type Kind uint8

const (
	// Exited says that the command has ended. Other processes of the group may still live. It comes once.
	Exited Kind = iota + 1

	// Stopped says that the command was stopped, by SIGTTIN, SIGTTOU, SIGTSTP or SIGSTOP.
	Stopped

	// Gone says that no process of the group is left. It is the last event; it comes once, after Exited if there was a command.
	Gone
)

// Event is something that happened to the group.
type Event struct {
	Kind   Kind
	Code   int            // Exited: the exit code, or 128 + the number of the signal that ended the command
	Signal syscall.Signal // Exited: the signal that ended the command, or 0; Stopped: the signal that stopped it
	Err    error          // Gone: ErrDeadline, ErrSupervisorDied, or nil if the group ended in another way
}

// The exit codes that shells give to a command that could not be started.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// ExecError says why a command could not be started.
type ExecError struct {
	Name string // as given
	Code int    // CodeNotFound or CodeNotExecutable
	Err  error
}

func (e *ExecError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns the reason, an errno as a rule.
func (e *ExecError) Unwrap() error { return e.Err }
