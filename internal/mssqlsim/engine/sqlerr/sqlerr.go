package sqlerr

import "fmt"

// Scope is how much an error ends, when no TRY catches it and XACT_ABORT is off.
type Scope uint8

// The scopes, from the smallest.
const (
	// EndsStatement: the statement is rolled back, the batch goes on.
	EndsStatement Scope = iota
	// EndsBatch: the batch is over; an open transaction stays open.
	EndsBatch
	// EndsTransaction: the batch is over and the transaction is rolled back. Caught by a TRY, it leaves the
	// transaction open and doomed.
	EndsTransaction
	// EndsCompilation: like EndsBatch, but raised while a statement is compiled, which no TRY of the same batch
	// catches.
	EndsCompilation
	// EndsSession: the connection is closed after it. Nothing catches it.
	EndsSession
)

// Error is one error message of the server.
type Error struct {
	Number   int32
	Severity uint8
	State    uint8
	Text     string
	Scope    Scope
	Line     int32 // 1-based line of the batch, 0 before it is known
}

func (e *Error) Error() string {
	return fmt.Sprintf("Msg %d, Level %d, State %d, Line %d: %s", e.Number, e.Severity, e.State, e.Line, e.Text)
}

// Is makes two errors of one number the same to errors.Is.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Number == e.Number
}

// New returns an error of severity 16 and state 1 that ends its statement.
func New(number int32, format string, args ...any) *Error {
	return &Error{Number: number, Severity: 16, State: 1, Text: fmt.Sprintf(format, args...)}
}

// With returns a copy with another severity and state.
func (e Error) With(severity, state uint8) *Error {
	e.Severity, e.State = severity, state
	return &e
}

// Ends returns a copy with another scope.
func (e Error) Ends(scope Scope) *Error {
	e.Scope = scope
	return &e
}

// At returns a copy with a line, unless it has one.
func (e Error) At(line int) *Error {
	if e.Line == 0 {
		e.Line = int32(line) //nolint:gosec // a batch has fewer lines
	}
	return &e
}

// NumberUnsupported is the number of every refusal of something that SQL Server knows and the simulator does not. It
// is in the range of user errors, so no real error is mistaken for it.
const NumberUnsupported = 59001

// Unsupported refuses what the simulator does not know: always before anything of the batch has run, and past every
// TRY, so that no statement is half obeyed.
func Unsupported(format string, args ...any) *Error {
	return New(NumberUnsupported, "not supported by the simulator: "+format, args...).Ends(EndsCompilation)
}
